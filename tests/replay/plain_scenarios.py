"""What happens to runs of plain agents: tools, pauses, cancelling, failing, waiting, and executions that follow each other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from perdure.activities.contracts import CANCEL, PAUSE, SESSION, WAKE, SessionInput
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.waits import open_waits
from perdure.uap.options import RunOptions
from tests.integration.stack import Stack, eventually
from tests.integration.test_kills import finish, settle_waits, spec, submit
from tests.integration.test_short import APP as SHORT
from tests.replay.playing import ENDED_BY_HAND, act, call, until_event, worker, workflow

GARBAGE: list[Any] = [7, "text", [1], {"id": 1}, {"run": []}, b"\x00\xff", "\ud800"]


async def one_answer(stack: Stack, sessions: Sessions) -> RunHandle:
    """A run of one model call."""
    async with worker(stack):
        handle = await submit(sessions, spec(steps=0))
        assert await finish(sessions, handle) == "completed"
    return handle


async def tools_and_barriers(stack: Stack, sessions: Sessions) -> RunHandle:
    """Parallel tools with barriers among them, an unknown tool, a tool that raises, long results."""
    batch = [call(tool, f"{place:02}") for place, tool in enumerate(["none", "none", "barrier", "idempotent", "none"])]
    odd = [{"tool": "no_such_tool"}, {"tool": "failing", "arguments": {"text": "x"}}]
    long = [{"tool": "huge", "arguments": {"size": 9000}}, {"tool": "huge", "arguments": [1]}]
    async with worker(stack):
        handle = await act(sessions, [batch, odd, long, "done"])
        assert await finish(sessions, handle) == "completed"
    return handle


async def short_calls(stack: Stack, sessions: Sessions) -> RunHandle:
    """Short tools of a short model: called with its answers."""
    return await _short_run(stack, sessions, "worker", "at_most_once", "none")


async def short_tools(stack: Stack, sessions: Sessions) -> RunHandle:
    """Short tools of a model that is not short: likewise."""
    return await _short_run(stack, sessions, "halfway", "at_most_once", "none")


async def short_calls_apart(stack: Stack, sessions: Sessions) -> RunHandle:
    """Short tools of a short model that are called one by one: once all were, now those that run alone."""
    return await _short_run(stack, sessions, "worker", "barrier")


async def short_tools_apart(stack: Stack, sessions: Sessions) -> RunHandle:
    """Short tools of a model that is not short, likewise."""
    return await _short_run(stack, sessions, "halfway", "barrier")


async def _short_run(stack: Stack, sessions: Sessions, agent: str, *tools: str) -> RunHandle:
    async with worker(stack, SHORT):
        handle: RunHandle | None = None
        for tool in tools:
            session = handle.session if handle is not None else None
            handle = await sessions.submit(agent, json.dumps(spec(steps=2, calls=2, tool=tool)), session=session)
            assert await finish(sessions, handle) == "completed"
        assert handle is not None
    return handle


async def paused_and_resumed(stack: Stack, sessions: Sessions) -> RunHandle:
    """Paused and resumed twice, each time during a model call, so that the tool call after it is held."""
    values = spec(steps=3, latency=0.4)
    async with worker(stack):
        handle = await submit(sessions, values)
        for place in (1, 3):
            await stack.until_entries(values["name"], "model", place)
            assert (await sessions.pause(handle.session)).state == "paused"

            async def parked(run: RunHandle = handle) -> bool:
                return (await run.status()).status == "parked"

            await eventually(parked)
            assert (await sessions.resume(handle.session)).state == "resumed"
        assert await finish(sessions, handle) == "completed"
    return handle


async def cancelled_during_a_tool(stack: Stack, sessions: Sessions) -> RunHandle:
    """Two tools are running when the run is cancelled; a cancel of another run comes before."""
    values = spec(steps=1, calls=2, seconds=60)
    async with worker(stack):
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool", 2)
        await workflow(sessions, handle).signal(CANCEL, {"id": "a", "run": "another run"})
        assert (await sessions.cancel(handle.session)).state == "cancelled"
    return handle


async def cancelled_during_an_answer(stack: Stack, sessions: Sessions) -> RunHandle:
    """An answer is streaming when the run is cancelled."""
    async with worker(stack):
        handle = await sessions.submit("talker", "talk")
        await until_event(handle, "text_delta")
        assert (await sessions.cancel(handle.session)).state == "cancelled"
    return handle


async def cancelled_by_temporal(stack: Stack, sessions: Sessions) -> RunHandle:
    """The execution itself is cancelled."""
    values = spec(steps=1, tool="none", seconds=60)
    async with worker(stack):
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        await workflow(sessions, handle).cancel()
        assert await finish(sessions, handle) == "cancelled"
    return handle


async def failed(stack: Stack, sessions: Sessions) -> RunHandle:
    """The model refuses after a step."""
    async with worker(stack):
        handle = await act(sessions, [[call("none", "0")], {"error": "INVALID_REQUEST"}])
        assert await finish(sessions, handle) == "failed"
    return handle


async def over_its_limit(stack: Stack, sessions: Sessions) -> RunHandle:
    """The run takes more steps than its options allow."""
    async with worker(stack):
        handle = await act(sessions, [[call("none", "0")]] * 4, RunOptions(max_steps=2))
        assert await finish(sessions, handle) == "failed"
    return handle


async def continues_as_new(stack: Stack, sessions: Sessions) -> RunHandle:
    """A run over several executions, paused and resumed on the way."""
    values = spec(steps=16, calls=2)
    async with worker(stack, PERDURE_CONTINUE_AS_NEW_EVENTS="100"):
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model", 10)
        assert (await sessions.pause(handle.session)).state == "paused"
        assert (await sessions.resume(handle.session)).state == "resumed"
        assert await finish(sessions, handle) == "completed"
    return handle


async def continues_as_new_while_parked(stack: Stack, sessions: Sessions) -> RunHandle:
    """A run that waits for its client gets more signals than one execution may hold, then its answer."""
    options = RunOptions(client_tools=[{"name": "pick_colour"}])
    async with worker(stack, PERDURE_CONTINUE_AS_NEW_EVENTS="100"):
        handle = await act(sessions, [[{"tool": "pick_colour"}, call("none", "1")], "thanks"], options)
        await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        target = workflow(sessions, handle)
        first = (await target.describe()).run_id

        async def left() -> bool:
            await target.signal(WAKE)
            return (await target.describe()).run_id != first

        await eventually(left)
        await until_event(handle, "run.parked", 2)
        assert await finish(sessions, handle, {"result": "blue"}) == "completed"
    return handle


async def parked_and_answered(stack: Stack, sessions: Sessions) -> RunHandle:
    """A worker dies after its `once` tool ran; the run parks until somebody says what came of it."""
    mark = str(stack.folder / "parked_and_answered")
    async with worker(stack, PERDURE_CRASH_AT="call_tool.ran", PERDURE_CRASH_ONCE=mark) as first:
        handle = await submit(sessions, spec(steps=1, calls=2, tool="once"))
        await asyncio.to_thread(first.wait_dead)
    async with worker(stack):
        await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        await settle_waits(sessions, handle.session, {"outcome": "happened", "result": "seen by a person"})
        assert await finish(sessions, handle, {"outcome": "not_run"}) == "completed"
    return handle


async def client_tool_answered(stack: Stack, sessions: Sessions) -> RunHandle:
    """A tool of the client's: the run parks until its result comes."""
    options = RunOptions(client_tools=[{"name": "pick_colour"}])
    async with worker(stack):
        handle = await act(sessions, [[{"tool": "pick_colour"}, call("none", "1")], "thanks"], options)
        await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        assert await finish(sessions, handle, {"result": "blue"}) == "completed"
    return handle


async def killed_worker(stack: Stack, sessions: Sessions) -> RunHandle:
    """Workers are killed during a model call and during tools; others go on."""
    values = spec(steps=2, calls=2, latency=0.5, seconds=0.5, tool="idempotent")
    async with worker(stack) as first:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        first.kill()
    async with worker(stack) as second:
        await stack.until_entries(values["name"], "tool")
        second.kill()
    async with worker(stack):
        assert await finish(sessions, handle) == "completed"
    return handle


async def garbage_signals(stack: Stack, sessions: Sessions) -> RunHandle:
    """Whatever can be signalled, on every name."""
    values = spec(steps=2, latency=0.5)
    async with worker(stack):
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        target = workflow(sessions, handle)
        for name in (PAUSE, CANCEL, "answer", "nonsense"):
            for value in GARBAGE:
                await target.signal(name, value)
        await target.signal(WAKE, args=[1, 2, 3])
        await target.signal("answer", {"wait": "no such wait"})
        assert await finish(sessions, handle) == "completed"
    return handle


async def several_inputs(stack: Stack, sessions: Sessions) -> RunHandle:
    """Three runs in one execution, the second of which fails."""
    values = spec(steps=1, latency=0.3)
    async with worker(stack):
        first = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        broken = await submit(sessions, {**spec(), "tool": 7, "steps": 1}, session=first.session)
        last = await submit(sessions, spec(steps=0), session=first.session)
        for handle in (first, broken, last):
            await finish(sessions, handle)
    return first


async def adopted(stack: Stack, sessions: Sessions) -> RunHandle:
    """An execution is terminated in the middle of a step; the next one adopts its run."""
    values = spec(steps=3, latency=0.3)
    async with worker(stack):
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model", 2)
        target = workflow(sessions, handle)
        await target.terminate(ENDED_BY_HAND)
        await sessions.client.start_workflow(
            SESSION,
            SessionInput(sessions.tenant, handle.session, "worker"),
            id=target.id,
            task_queue="perdure",
            start_signal=WAKE,
        )
        assert await finish(sessions, handle) == "completed"
    return handle
