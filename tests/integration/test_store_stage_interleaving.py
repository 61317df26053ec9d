"""Clients, workers, zombies and operators at one stage session at once, in many orders: what holds, holds after all of them."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import replace

import pytest

from perdure.errors import WaitAnswered, WaitStale
from perdure.protocols.uaip.request import RequestRefused
from perdure.runtime.checks.check import Scope
from perdure.runtime.checks.examination import examine
from perdure.store.database import Database
from perdure.store.events import read_events
from perdure.store.stages.running import ask_wait
from perdure.store.stages.waits import answer_wait
from perdure.uaip.action import Action
from perdure.upp.json_value import JSONObject
from tests.integration.stack import eventually
from tests.integration.stage_story import StageStory, call, move, provide
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")

ACTIONS: list[Action] = [
    call("add", product="b"),
    call("order"),
    call("refund", amount=1),
    call("no"),
    provide(note="x"),
    move("cart"),
]
RUNS = max(2, scaled(40))
CLIENTS, EACH = 3, 4


class Crowd:
    """All who are at one session.

    Attributes:
        wins: how many tasks that count were settled by somebody.
        done: nobody hands anything in any more.
    """

    def __init__(self, story: StageStory, seed: int) -> None:
        self.story = story
        self.random = random.Random(seed)
        self.wins = 0
        self.done = False

    async def client(self, name: int) -> None:
        """Hands in actions, each perhaps twice."""
        for n in range(EACH):
            action = self.random.choice(ACTIONS)
            key = f"{name}.{n}" if self.random.random() < 0.5 else None
            first = await self.story.accept(action, key)
            if key is not None:
                assert (await self.story.accept(action, key)).row.id == first.row.id
            await asyncio.sleep(self.random.random() / 50)

    async def is_settled(self) -> bool:
        return not (await self.story.row()).open_actions

    async def is_under_way(self) -> bool:
        return len(await self.story.actions()) >= CLIENTS * EACH // 2

    async def worker(self, name: int) -> None:
        """Takes and runs, as one of several that each think to be alone; sometimes it forgets what it was doing."""
        idle = 0
        while not self.done or idle < 3:
            taken = await self.story.take()
            idle = idle + 1 if taken.kind in ("none", "paused") else 0
            if taken.kind == "task" and self.random.random() < 0.8:
                await self.run(taken.ordinal, f"{name}.{self.random.random()}")
            await asyncio.sleep(self.random.random() / 100)

    async def run(self, ordinal: int, try_id: str) -> None:
        """One try of a task that counts in the state."""
        story = self.story
        begun = await story.begin(ordinal, try_id)
        if begun.kind == "unasked":
            await ask_wait(story.database, story.key, ordinal, "approval")
        if begun.kind == "unknown":
            await ask_wait(story.database, story.key, ordinal, "outcome")
        if begun.kind == "denied":
            await story.fail(begun, "Denied")
        if begun.kind in ("begun", "done") and self.random.random() < 0.8:
            await asyncio.sleep(self.random.random() / 50)
            count = begun.values.get("count", 0)
            assert isinstance(count, int)
            value = {"add": 1, "order": "ordered", "refund": 1}[begun.row.action.name if begun.row else ""]
            settled = await story.settle(begun, value, count=count + 1)
            self.wins += settled.won

    async def person(self) -> None:
        """Answers what is asked, once."""
        while not self.done:
            for row in await self.story.actions():
                if row.wait is not None and row.state == "waiting":
                    yes: JSONObject = {"approved": self.random.random() < 0.7}
                    answer: JSONObject = yes if row.wait.kind == "approval" else {"outcome": "not_done"}
                    with suppress(WaitAnswered, WaitStale):  # a moment ago, or its action is settled
                        await answer_wait(self.story.database, self.story.key, row.id, answer, by="ann")
            await asyncio.sleep(0.1)

    async def operator(self) -> None:
        """Pauses and resumes."""
        while not self.done:
            await self.story.control("pause")
            await asyncio.sleep(self.random.random() / 50)
            await self.story.control("resume")
            await asyncio.sleep(self.random.random() / 20)


async def check(crowd: Crowd) -> None:
    """What must hold whoever did what."""
    story, rows, row = crowd.story, await crowd.story.actions(), await crowd.story.row()
    assert [one.ordinal for one in rows] == list(range(1, len(rows) + 1))
    events = await read_events(story.database, story.key, after=0)
    assert [event.seq for event in events] == list(range(1, len(events) + 1)), "no gap, no repeat"
    for kind, whole in (("stage.action_accepted", rows), ("stage.action_settled", [one for one in rows if one.reply])):
        told = Counter(event.data["ordinal"] for event in events if event.type == kind)
        assert told == Counter(one.ordinal for one in whole), kind
    tries = Counter(event.data["ordinal"] for event in events if event.type == "stage.task_started")
    assert {one.ordinal: one.attempt for one in rows if one.attempt} == tries
    assert row.open_actions == len([one for one in rows if one.state != "settled"])
    assert row.session.taken == len(rows) - row.open_actions
    assert (await story.state()).get("count", 0) == crowd.wins, "no count of a task that was settled is lost"
    wrong = [item async for item in examine(Scope(story.database, story.tenant), only=["stage_rows", "orphans"])]
    assert [item.findings for item in wrong] == [[], []]


@pytest.mark.parametrize("seed", range(RUNS))
async def test_whoever_is_at_a_session_nothing_is_lost_or_done_twice(database: Database, seed: int) -> None:
    """Every action gets one ordinal and one reply, each begun try is told of, and the state counts what was settled."""
    story = StageStory(database, f"tenant-{uuid.uuid4().hex}")
    await story.open()
    crowd = Crowd(story, seed)
    others = [
        asyncio.create_task(work) for work in (crowd.person(), crowd.operator(), crowd.worker(1), crowd.worker(2))
    ]
    await asyncio.gather(*(crowd.client(name) for name in range(CLIENTS)))
    await eventually(crowd.is_settled, what="every action is settled")
    crowd.done = True
    await asyncio.gather(*others)
    await check(crowd)
    assert len(await story.actions()) == CLIENTS * EACH


async def test_an_end_in_the_middle_of_it_answers_everybody(database: Database) -> None:
    """Who comes after the end is refused, all that was open is answered, and a settled action keeps its reply."""
    story = StageStory(database, f"tenant-{uuid.uuid4().hex}")
    await story.open()
    crowd = Crowd(story, 1)
    workers = [asyncio.create_task(crowd.worker(name)) for name in (1, 2)]
    clients = [asyncio.create_task(crowd.client(name)) for name in range(CLIENTS)]
    await eventually(crowd.is_under_way, what="some actions are there")
    before = {row.id: row.reply for row in await story.actions() if row.reply}
    await story.control("terminate")
    ended = await asyncio.gather(*clients, return_exceptions=True)
    crowd.done = True
    await asyncio.gather(*workers)
    assert {type(one) for one in ended} <= {RequestRefused, type(None)}
    rows = {row.id: row.reply for row in await story.actions()}
    assert {one: rows[one] for one in before} == before
    assert {reply.status for one, reply in rows.items() if one not in before and reply} <= {200, 404, 422}
    assert None not in rows.values()
    await check(crowd)
    assert (await replace(story).take()).kind == "none"
