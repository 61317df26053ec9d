"""What many clients do to one session at once is done one after the other: nothing is lost, nothing counts twice."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.integration.api_server import checked
from tests.integration.stack import Stack
from tests.integration.uaip_clients import Door, Visit, visitors
from tests.integration.uaip_processes import stage_processes

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = 50
APIS = 2


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(stack: Stack) -> AsyncGenerator[Door, None]:
    """One worker, two API processes."""
    app = "tests.integration.uaip_counters:app"
    async with (
        stage_processes(stack, app, queue="counters", apis=APIS) as running,
        visitors(lambda: running.urls) as made,
    ):
        yield made


async def increment(visit: Visit, place: int, key: str | None = None) -> dict[str, Any]:
    return checked(await visit.send("method_call", task="increment", args={}, key=key, at=place))


async def test_50_parallel_increments_lose_none(door: Door) -> None:
    """L02: Each of them saw what the one before it wrote; the history has them in that order."""
    visit = await door.open("counter")
    replies = await asyncio.gather(*(increment(visit, place) for place in range(COUNT)))
    assert {reply["status"] for reply in replies} == {"ok"}
    counted = {reply["action_id"]: reply["result"] for reply in replies}
    assert sorted(counted.values()) == list(range(1, COUNT + 1))
    history = await visit.history()
    assert [entry["ordinal"] for entry in history] == list(range(1, COUNT + 1))
    assert [counted[entry["action_id"]] for entry in history] == list(range(1, COUNT + 1))
    settled = [entry["settled_at"] for entry in history]
    assert settled == sorted(settled)
    shown = await visit.shown()
    assert (shown["state"], shown["actions"], shown["open_actions"]) == ({"count": COUNT}, COUNT, 0)


async def test_each_of_50_keys_sent_3_times_counts_once(door: Door) -> None:
    """Over two API processes at once; each of the three is given the same reply."""
    visit = await door.open("counter")
    keys = [uuid.uuid4().hex for _ in range(COUNT)]
    sent = [(key, number) for number in range(3) for key in keys]
    replies = await asyncio.gather(*(increment(visit, place // 2, key) for place, (key, _) in enumerate(sent)))
    by_key = {key: [reply for (one, _), reply in zip(sent, replies, strict=True) if one == key] for key in keys}
    assert all(three[0] == three[1] == three[2] for three in by_key.values())
    assert sorted(three[0]["result"] for three in by_key.values()) == list(range(1, COUNT + 1))
    assert len(await visit.history()) == COUNT
    assert (await visit.shown())["state"] == {"count": COUNT}


async def test_one_of_many_transitions_wins(door: Door) -> None:
    """The others are told where the session is by then, which is where the graph ends."""
    visit = await door.open("fork")
    sent = ["left", "right"] * 10
    answers = await asyncio.gather(
        *(visit.send("stage_transition", stage=stage, at=place) for place, stage in enumerate(sent))
    )
    ((won, reply),) = [(stage, answer.json()) for stage, answer in zip(sent, answers, strict=True) if won_by(answer)]
    assert (reply["from_stage"], reply["to_stage"], reply["terminal"]) == ("fork", won, True)
    lost = [checked(answer, 422) for answer in answers if not won_by(answer)]
    assert len(lost) == len(sent) - 1
    assert {body["current_stage"] for body in lost} == {won}
    assert {body["detail"].split(" to ")[0] for body in lost} == {f"Cannot transition from '{won}'"}
    history = await visit.history()
    moved = [entry["to_stage"] for entry in history if entry["http"] == 200]
    assert moved == [won]
    assert (await visit.shown())["stage"] == won


def won_by(answer: httpx.Response) -> bool:
    return answer.status_code == 200


async def test_a_count_and_its_end_at_once(door: Door) -> None:
    """Increments that come before the transition count, those behind it are refused: one order decides for both."""
    visit = await door.open("counter")
    answers = await asyncio.gather(
        *(visit.send("method_call", task="increment", at=place) for place in range(10)),
        visit.send("stage_transition", stage="counted", at=1),
        *(visit.send("method_call", task="increment", at=place) for place in range(10)),
    )
    history = await visit.history()
    (end,) = [entry["ordinal"] for entry in history if entry["action"] == "stage_transition"]
    assert [entry["http"] for entry in history] == [200] * end + [422] * (len(history) - end)
    assert sorted(answer.status_code for answer in answers) == [200] * end + [422] * (len(history) - end)
    assert await visit.result("total") == end - 1
