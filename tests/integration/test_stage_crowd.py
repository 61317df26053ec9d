"""1,000 sessions at once, each in a stage of its own, never touch each other."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from perdure.runtime.stages import Stages
from perdure.store.stages.accepting import accept_action
from perdure.uaip.action import Action, ActionKind
from perdure.uap.ids import new_id
from tests.integration.api_server import checked
from tests.integration.stack import Stack, eventually
from tests.integration.uaip_clients import AT_ONCE, Door, Visit, visitors
from tests.integration.uaip_processes import stage_processes
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")

SESSIONS = scaled(1000)
SHOP = "crowd_shop"
STUCK = 101
STAGES = ["browse", "cart", "checkout", "done"]
_logger = logging.getLogger(__name__)


@dataclass
class Shopper:
    """One of the crowd, and what its session must be.

    Attributes:
        number: its own; what it writes has it.
        last: the stage that it stays in.
        turn: so many actions are under way at once as there are connections; what is measured is not the wait for one.
        state: what it has written.
        took_s: seconds of each action.
    """

    number: int
    last: str
    turn: asyncio.Semaphore
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    took_s: list[float] = field(default_factory=list[float])

    async def shop(self, door: Door) -> Visit:
        """Go to its stage, and leave its mark in each on the way."""
        visit = await door.open(SHOP, self.number)
        for stage in STAGES[: STAGES.index(self.last) + 1]:
            if stage != "browse":
                moved = await self.act(visit, "stage_transition", stage=stage)
                assert (moved["from_stage"], moved["to_stage"]) == (STAGES[STAGES.index(stage) - 1], stage)
            await getattr(self, f"in_{stage}")(visit)
        return visit

    async def act(self, visit: Visit, action: str, **members: Any) -> dict[str, Any]:
        async with self.turn:
            began = time.monotonic()
            reply = checked(await visit.settle(action, at=self.number + len(self.took_s), wait_s=30, **members))
            self.took_s.append(time.monotonic() - began)
        assert reply["status"] == "ok", reply
        assert reply["session_id"] == visit.id
        return reply

    async def call(self, visit: Visit, task: str, **args: Any) -> Any:
        return (await self.act(visit, "method_call", task=task, args=args))["result"]

    async def put(self, visit: Visit, key: str, value: Any) -> None:
        await self.act(visit, "state_input", state_updates={key: value})
        self.state[key] = value

    async def in_browse(self, visit: Visit) -> None:
        assert await self.call(visit, "search", words=f"pen {self.number}") == f"pen {self.number}-1"
        await self.put(visit, "mark", self.number)

    async def in_cart(self, visit: Visit) -> None:
        self.state["cart.items"] = [f"sku {self.number}", f"ink {self.number}"]
        for count, sku in enumerate(self.state["cart.items"], 1):
            assert await self.call(visit, "add", sku=sku) == count
        await self.put(visit, "user.email", f"{self.number}@shop.example")

    async def in_checkout(self, visit: Visit) -> None:
        assert await self.call(visit, "pay") == "paid"
        self.state["receipt"] = f"for {self.number}@shop.example"

    async def in_done(self, visit: Visit) -> None:
        self.state = {"receipt": self.state["receipt"]}
        assert await self.call(visit, "receipt") == self.state["receipt"]


@dataclass(frozen=True)
class Crowd:
    """All of them have shopped.

    Attributes:
        door: that they came through.
        shoppers: each with its session.
    """

    door: Door
    shoppers: list[tuple[Shopper, Visit]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowd(stack: Stack) -> AsyncGenerator[Crowd, None]:
    """All at once, over one worker and two API processes."""
    app = "tests.integration.uaip_shops:app"
    async with (
        stage_processes(stack, app, queue=SHOP, apis=2, PERDURE_TEST_SHOP=SHOP) as running,
        visitors(lambda: running.urls) as door,
    ):
        turn = asyncio.Semaphore(AT_ONCE)
        shoppers = [Shopper(number, STAGES[number % len(STAGES)], turn) for number in range(SESSIONS)]
        began = time.monotonic()
        visits = await asyncio.gather(*(one.shop(door) for one in shoppers))
        whole_s = time.monotonic() - began
        took = sorted(seconds * 1000 for one in shoppers for seconds in one.took_s)
        p50, p95 = took[len(took) // 2], took[len(took) * 95 // 100]
        text = "%d sessions, %d actions in %.1f s; one took %.0f ms at p50, %.0f ms at p95"
        _logger.info(text, SESSIONS, len(took), whole_s, p50, p95)
        yield Crowd(door, list(zip(shoppers, visits, strict=True)))


async def test_each_session_has_its_own_stage_and_state(stack: Stack, crowd: Crowd) -> None:
    """Exactly what its own client wrote, and each effect was had once, by the session that asked for it.

    A task that is tried again with its key, as when a worker stood still, has one effect.
    """
    assert len({visit.id for _, visit in crowd.shoppers}) == SESSIONS
    for one, visit in crowd.shoppers:
        shown = await visit.shown()
        assert (shown["stage"], shown["state"], shown["actions"]) == (one.last, one.state, len(one.took_s))
        done = dict.fromkeys((entry["key"], entry["task"]) for entry in stack.entries(visit.id, "done"))
        assert [task for _, task in done] == ["search", "add", "add", "pay"][: [1, 3, 4, 4][STAGES.index(one.last)]]


@pytest.mark.parametrize("stage", STAGES)
async def test_a_session_is_listed_in_its_stage_only(crowd: Crowd, stage: str) -> None:
    """Page by page each is there once."""
    found = await crowd.door.listed("/api/stage-sessions", "stage_sessions", workflow=SHOP, stage=stage, limit=10)
    assert {row["stage"] for row in found} == {stage}
    listed = sorted(row["session"] for row in found)
    assert listed == sorted(visit.id for one, visit in crowd.shoppers if one.last == stage)


async def test_sessions_that_nobody_serves_hold_up_no_other(stack: Stack, crowd: Crowd) -> None:
    """More of them than the sweep looks at in a round: an action that nobody was told of is done all the same."""
    app, name = "tests.integration.uaip_shops:app", "gone_shop"
    async with stack.connect() as sessions, stage_processes(stack, app, queue=name, PERDURE_TEST_SHOP=name) as gone:
        gone.worker.kill()
        stuck = await asyncio.gather(*(crowd.door.open(name) for _ in range(STUCK)))
        await asyncio.gather(*(visit.send("handshake", wait_s=0) for visit in stuck))
        stages = Stages(sessions.client, sessions.database, sessions.tenant)
        row = await stages.initialize(SHOP, id=f"ffffffff{new_id()[8:]}")  # behind all the others
        await accept_action(sessions.database, row.key, Action(ActionKind.METHOD_CALL, "search", {"words": "pen"}))
        await stages.close()
        visit = Visit(crowd.door, SHOP, row.key.session)

        async def is_done() -> bool:
            return (await visit.shown())["actions"] == 1

        try:
            await eventually(is_done, what="an action that nobody was told of")
        finally:
            await gone.replace_worker()
        await asyncio.gather(*(visit.settle("handshake") for visit in stuck))
