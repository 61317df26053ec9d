"""SIGKILL of anything, between any two actions and inside tasks: a purchase is completed, and each effect was had once."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.agents import HELD
from tests.integration.api_server import checked
from tests.integration.stack import Stack
from tests.integration.uaip_clients import Door, Visit, visitors
from tests.integration.uaip_processes import StageProcesses, stage_processes
from tests.integration.uaip_purchases import ACTIONS, EFFECTS, Purchase, effects_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "tests.integration.uaip_shops:app"
SHOP = "kill_shop"
VICTIMS = ["worker", "api", "temporal", "postgres"]
CROWD = 4
KILLS = 12


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(stack: Stack) -> AsyncGenerator[StageProcesses, None]:
    """A worker and an API process; tests kill them, and the servers."""
    async with stage_processes(stack, APP, queue=SHOP, PERDURE_TEST_SHOP=SHOP) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(running: StageProcesses) -> AsyncGenerator[Door, None]:
    async with visitors(lambda: running.urls) as made:
        yield made


@pytest.mark.parametrize("victim", VICTIMS)
async def test_purchases_are_completed_whoever_dies_between_any_two_actions(
    stack: Stack, running: StageProcesses, door: Door, victim: str
) -> None:
    """S58: One purchase stands before each of its actions; one process dies; then all go on at once."""
    purchases = [Purchase(stack, await door.open(SHOP)) for _ in ACTIONS]
    await asyncio.gather(*(one.advance(place) for place, one in enumerate(purchases)))
    await running.kill(victim)
    await asyncio.gather(*(one.advance() for one in purchases))
    for purchase in purchases:
        await purchase.check_untroubled()


async def shoppers_in_tasks(stack: Stack, door: Door) -> dict[str, tuple[Visit, asyncio.Task[Any]]]:
    """A session inside a task of each effect class, which takes until `release`, by the task's name."""
    found: dict[str, tuple[Visit, asyncio.Task[Any]]] = {}
    for task in EFFECTS:
        visit = await door.open(SHOP)
        if task != "search":
            await visit.go("cart")
        given: dict[str, Any] = {"search": {"words": "pen"}, "add": {"sku": "pen"}}.get(task, {})
        found[task] = (visit, asyncio.create_task(visit.call(task, seconds=HELD, **given)))
    for visit, _ in found.values():
        await stack.until_entries(visit.id, "effect")
    return found


def release(stack: Stack, inside: dict[str, tuple[Visit, asyncio.Task[Any]]]) -> None:
    """Let the tasks end, and those that are run again too."""
    for visit, _ in inside.values():
        stack.release({"name": visit.id})


@pytest.mark.parametrize("victim", ["api", "temporal", "postgres"])
async def test_a_task_that_outlives_a_server_counts_once(
    stack: Stack, running: StageProcesses, door: Door, victim: str
) -> None:
    """Its worker lives: whatever its effect class is, it is done once, and its client learns of it."""
    inside = await shoppers_in_tasks(stack, door)
    await running.kill(victim)
    release(stack, inside)
    for task, (visit, calling) in inside.items():
        assert checked(await calling)["status"] == "ok", task
        assert [entry["task"] for entry in stack.entries(visit.id, "done")] == [task]
        assert (await visit.shown())["actions"] == (1 if task == "search" else 2)


async def test_a_worker_that_dies_inside_tasks(stack: Stack, running: StageProcesses, door: Door) -> None:
    """L33: The effect class decides: done again, told that nobody knows, or a person is asked, by the route, once."""
    inside = await shoppers_in_tasks(stack, door)
    running.worker.kill()
    release(stack, inside)
    await running.replace_worker()
    asked, calling = inside["reserve"]
    wait = await asked.asks("outcome")
    assert checked(await asked.send("handshake", wait_s=0))["status"] == "running"
    answers = [await asked.answer(wait["action_id"], {"outcome": "done", "result": "seen"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 409]
    assert checked(await calling)["result"] == "seen"
    assert checked(await inside["search"][1])["result"] == "pen-1"
    assert checked(await inside["add"][1])["result"] == 1
    unknown = checked(await inside["order_sample"][1])
    assert (unknown["status"], unknown["error"]["type"]) == ("error", "OutcomeUnknown")
    assert (await inside["order_sample"][0].shown())["state"] == {}
    counts = [len(stack.entries(visit.id, "effect")) for visit, _ in inside.values()]
    assert dict(zip(EFFECTS, counts, strict=True)) == {"search": 2, "add": 2, "order_sample": 1, "reserve": 1}
    assert [len(effects_of(stack, visit)) for visit, _ in inside.values()] == [1, 1, 1, 1]


async def test_an_approval_is_not_forgotten(stack: Stack, running: StageProcesses, door: Door) -> None:
    """Everything is killed while a person is asked: the question is the same one, and the task runs once it is answered."""
    visit = await door.open(SHOP)
    for action, members in ACTIONS[:7]:
        checked(await visit.settle(action, **members))
    calling = asyncio.create_task(visit.call("confirm", limit=9))
    asked = await visit.asks("approval")
    for name in ("temporal", "postgres"):
        await running.kill_server(name)
    await asyncio.gather(running.kill("worker"), running.kill("api"))
    assert await visit.asks("approval") == asked
    assert stack.entries(visit.id, "effect")[-1]["task"] != "confirm"
    checked(await visit.answer(asked["action_id"], {"approved": True, "arguments": {"limit": 3}}))
    assert (await visit.answer(asked["action_id"], {"approved": False})).status_code == 409
    assert checked(await calling)["result"] == 3
    assert [entry.get("limit") for entry in stack.entries(visit.id, "effect") if entry["task"] == "confirm"] == [3]


async def test_purchases_among_kills_at_any_moment(stack: Stack, running: StageProcesses, door: Door) -> None:
    """Several at once: each is completed, and nothing that may not be was done twice."""
    purchases = [Purchase(stack, await door.open(SHOP), seconds=0.3) for _ in range(CROWD)]
    dice = random.Random(uuid.uuid4().hex)
    shopping = asyncio.gather(*(one.advance() for one in purchases))
    for _ in range(KILLS):
        await running.kill(dice.choice(VICTIMS))
    await shopping
    for purchase in purchases:
        await purchase.check()
