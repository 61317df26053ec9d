"""How runs end: whatever ends one, and whenever, it has one terminal event, its thread is valid, and the session goes on."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from perdure.activities.contracts import CANCEL
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.runs import TERMINAL
from perdure.uap.options import RunOptions
from tests.integration.api_server import ApiProcess, checked
from tests.integration.facts import TERMINAL as ENDS
from tests.integration.facts import check_session
from tests.integration.stack import Stack, eventually
from tests.integration.test_kills import finish, spec, submit
from tests.scale import scaled
from tests.seeds import drawn

pytestmark = pytest.mark.usefixtures("steady_worker")

DEADLINE_S = 90


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    """A server that no test kills."""
    process = ApiProcess(stack).wait_ready()
    yield process
    process.kill()


def _storm_input(chance: random.Random) -> tuple[dict[str, Any], RunOptions]:
    """A run that calls models and tools of every effect, or waits for a person."""
    if chance.random() < 0.2:
        options = RunOptions(client_tools=[{"name": "pick_colour"}])
        return spec(steps=1, tool="pick_colour", latency=0.02), options
    tool = chance.choice(["none", "idempotent", "at_most_once", "once", "blocking"])
    return spec(steps=3, calls=2, tool=tool, latency=0.02, seconds=0.02), RunOptions()


async def _cancel(sessions: Sessions, client: httpx.AsyncClient, handle: RunHandle, way: int) -> str:
    """Cancel a run by one of the ways that there are; the state that was answered."""
    if way == 0:
        return (await sessions.cancel_session(handle.session, wait_s=60)).state
    if way == 1:
        return (await sessions.cancel(handle.session, run=handle.id, wait_s=60)).state
    path = f"/runs/{handle.id}/cancel" if way == 2 else f"/sessions/{handle.session}/cancel"
    answer = await client.post(path, params={"wait_s": 30})
    return str(checked(answer, answer.status_code if answer.is_success else 200)["state"])


async def _storm(stack: Stack, sessions: Sessions, client: httpx.AsyncClient, chance: random.Random, times: int) -> int:
    """One session, cancelled so often, each time in another run; how many runs were cancelled."""
    session: str | None = None
    cancelled = 0
    for _ in range(times):
        values, options = _storm_input(chance)
        handle = await submit(sessions, values, session=session, options=options)
        session = handle.session
        await asyncio.sleep(chance.uniform(0, 0.4))
        await _cancel(sessions, client, handle, chance.randrange(4))

        async def ended(handle: RunHandle = handle) -> str | None:
            status = (await handle.status()).status
            return status if status in TERMINAL else None

        cancelled += await eventually(ended, seconds=DEADLINE_S, what=f"the end of run {handle.id}") == "cancelled"
    last = await submit(sessions, spec(steps=1), session=session)
    assert await finish(sessions, last, seconds=DEADLINE_S) == "completed"
    facts = await check_session(stack, last.session)
    assert len(facts.runs) <= times + 1
    return cancelled


async def test_l12_l28_sessions_cancelled_at_random_moments_end(stack: Stack, api: ApiProcess) -> None:
    """L12, L28: 50 sessions, each cancelled 200 times, by run, by session, by library and over HTTP, whatever is going on.

    Each run reaches one terminal state with one event, no call is left without a result, and the next run completes.
    """
    chance = drawn("cancelled at random moments")
    count, times = max(5, scaled(50)), max(4, scaled(200))
    storms = [random.Random(chance.random()) for _ in range(count)]
    async with stack.connect() as sessions, api.client() as client:
        cancelled = await asyncio.gather(*(_storm(stack, sessions, client, one, times) for one in storms))
    assert sum(cancelled) > count, "hardly a cancel came in time"


async def _underway(stack: Stack, sessions: Sessions, kind: str = "tool", **values: Any) -> RunHandle:
    given = spec(**{"steps": 1, "tool": "none", "seconds": 60.0, **values})
    handle = await submit(sessions, given)
    await stack.until_entries(given["name"], kind)
    return handle


async def _act(sessions: Sessions, *script: Any, **options: Any) -> RunHandle:
    return await sessions.submit("actor", json.dumps(spec(script=[*script])), options=RunOptions(**options))


async def _completes(stack: Stack, sessions: Sessions) -> RunHandle:
    return await submit(sessions, spec(steps=1))


async def _meets_a_model_error(stack: Stack, sessions: Sessions) -> RunHandle:
    return await _act(sessions, {"error": "CONTENT_FILTERED"})


async def _meets_a_limit(stack: Stack, sessions: Sessions) -> RunHandle:
    return await submit(sessions, spec(steps=9, tool="none"), options=RunOptions(max_steps=2))


async def _is_cancelled_in_a_model_call(stack: Stack, sessions: Sessions) -> RunHandle:
    handle = await _underway(stack, sessions, "model", latency=60.0)
    await sessions.cancel(handle.session)
    return handle


async def _is_cancelled_in_a_tool(stack: Stack, sessions: Sessions) -> RunHandle:
    handle = await _underway(stack, sessions)
    await sessions.cancel(handle.session, run=handle.id)
    return handle


async def _is_cancelled_while_it_waits(stack: Stack, sessions: Sessions) -> RunHandle:
    handle = await _act(sessions, [{"tool": "pick_colour"}], client_tools=[{"name": "pick_colour"}])
    await eventually(lambda: sessions.waits(handle.session), what="the wait")
    await sessions.cancel(handle.session)
    return handle


async def _is_cancelled_while_it_is_paused(stack: Stack, sessions: Sessions) -> RunHandle:
    handle = await _underway(stack, sessions, "model", latency=1.0)
    await sessions.pause(handle.session)
    await sessions.cancel(handle.session)
    await sessions.resume(handle.session)
    return handle


async def _is_withdrawn(stack: Stack, sessions: Sessions) -> RunHandle:
    active = await _underway(stack, sessions)
    handle = await submit(sessions, spec(steps=0), session=active.session)
    await sessions.cancel_session(active.session)
    return handle


async def _is_interrupted(stack: Stack, sessions: Sessions) -> RunHandle:
    handle = await _underway(stack, sessions)
    await submit(sessions, spec(steps=0), session=handle.session, policy="interrupt")
    return handle


async def _is_rolled_back(stack: Stack, sessions: Sessions) -> RunHandle:
    handle = await _underway(stack, sessions)
    await submit(sessions, spec(steps=0), session=handle.session, policy="rollback")
    return handle


async def _joins_another(stack: Stack, sessions: Sessions) -> RunHandle:
    active = await _underway(stack, sessions, seconds=1.0, steps=5)
    return await submit(sessions, spec(steps=0), session=active.session, policy="steer")


async def _is_cancelled_by_temporal(stack: Stack, sessions: Sessions) -> RunHandle:
    handle = await _underway(stack, sessions)
    await sessions.client.get_workflow_handle(handle.accepted.key.workflow_id).cancel()
    return handle


async def _is_signalled_by_hand(stack: Stack, sessions: Sessions) -> RunHandle:
    handle = await _underway(stack, sessions)
    await sessions.client.get_workflow_handle(handle.accepted.key.workflow_id).signal(CANCEL)
    return handle


WAYS: dict[str, Callable[[Stack, Sessions], Awaitable[RunHandle]]] = {
    "completed": _completes,
    "failed: the model": _meets_a_model_error,
    "failed: a limit": _meets_a_limit,
    "cancelled: in a model call": _is_cancelled_in_a_model_call,
    "cancelled: in a tool": _is_cancelled_in_a_tool,
    "cancelled: while it waits": _is_cancelled_while_it_waits,
    "cancelled: while it is paused": _is_cancelled_while_it_is_paused,
    "cancelled: withdrawn": _is_withdrawn,
    "cancelled: interrupted": _is_interrupted,
    "cancelled: rolled back": _is_rolled_back,
    "completed: with another": _joins_another,
    "cancelled: by Temporal": _is_cancelled_by_temporal,
    "cancelled: by a signal": _is_signalled_by_hand,
}


async def test_l28_each_way_a_run_can_end_has_one_terminal_event(stack: Stack) -> None:
    """L28: whoever follows the run is told its end once, and by no other event; then its stream ends."""
    async with stack.connect() as sessions:

        async def one(name: str) -> tuple[str, list[str], str]:
            handle = await WAYS[name](stack, sessions)
            async with asyncio.timeout(DEADLINE_S):
                kinds = [event.type async for event in handle.events()]
            return name, [kind for kind in kinds if kind in ENDS], kinds[-1]

        for name, ends, last in await asyncio.gather(*(one(name) for name in WAYS)):
            assert ends == [last] == [f"run.{name.partition(':')[0]}"], name
