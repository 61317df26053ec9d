"""Every control in every state, twice, with the worker killed in between: the state reached is answered, and holds."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest

from perdure.errors import RunCancelled
from perdure.runtime.sessions import Controlled, RunHandle, Sessions
from perdure.store.runs import TERMINAL
from perdure.store.sessions import read_session
from perdure.store.waits import open_waits
from perdure.uap.options import RunOptions
from tests.integration.agents import HELD
from tests.integration.facts import check_session, read_facts
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit

CONTROLS = ("pause", "resume", "cancel", "cancel_session")
BUSY = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "cancel_session": "cancelled"}
IDLE = {**BUSY, "cancel": "idle", "cancel_session": "idle"}
STATES = {"idle": IDLE, "model": BUSY, "tool": BUSY, "paused": BUSY, "waiting": BUSY}
STARTS = ("step_start", "action", "text_delta")
WAIT_S = 60
"""Longer than any worker takes to come to a control."""


@dataclass(frozen=True)
class Standing:
    """A run that stands still in a state until its calls are released."""

    handle: RunHandle
    values: dict[str, Any]

    @property
    def session(self) -> str:
        """Its session."""
        return self.handle.session


async def _in_state(stack: Stack, sessions: Sessions, state: str) -> Standing:
    """A session in a state; what it would do next is a model call or a tool call."""
    if state == "waiting":
        values = spec(script=[[{"tool": "pick_colour"}], "thanks"])
        options = RunOptions(client_tools=[{"name": "pick_colour"}])
        handle = await sessions.submit("actor", json.dumps(values), options=options)
        await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
        return Standing(handle, values)
    values = spec(steps=0) if state == "idle" else spec(steps=3, tool="none")
    if state != "idle":
        values["seconds" if state == "tool" else "latency"] = HELD
    handle = await submit(sessions, values)
    if state == "idle":
        await handle.result()
        return Standing(handle, values)
    await stack.until_entries(values["name"], "tool" if state == "tool" else "model")
    if state == "paused":
        assert (await sessions.pause(handle.session, wait_s=WAIT_S)).state == "paused"
    return Standing(handle, values)


async def _do(sessions: Sessions, control: str, session: str) -> Controlled:
    return await getattr(sessions, control)(session, wait_s=WAIT_S)


async def _quiet(sessions: Sessions, handle: RunHandle, control: str) -> int:
    """Number of the last event once nothing is in flight any more."""

    async def settled() -> bool:
        status = (await handle.status()).status
        return status in TERMINAL or status == "parked" or control == "resume"

    await eventually(settled, what=f"the rest after {control}")
    return (await read_session(sessions.database, handle.accepted.key)).last_seq


@pytest.mark.parametrize("state", STATES)
async def test_s43_controls_in_every_state(stack: Stack, state: str) -> None:
    """S43: A state that was answered holds over a restart: no model or tool call starts after it, and again is harmless."""
    expected = STATES[state]
    worker = WorkerProcess(stack).wait_ready()
    try:
        async with stack.connect() as sessions:
            handles = {control: await _in_state(stack, sessions, state) for control in CONTROLS}
            reached = await asyncio.gather(*(_do(sessions, name, one.session) for name, one in handles.items()))
            assert {name: one.state for name, one in zip(CONTROLS, reached, strict=True)} == expected
            for one in handles.values():
                stack.release(one.values)
            marks = {name: await _quiet(sessions, one.handle, name) for name, one in handles.items()}
        worker.kill()
        async with stack.connect() as sessions:
            assert (await sessions.pause(handles["pause"].session, wait_s=0.2)).state == "recorded"
            worker = WorkerProcess(stack).wait_ready()
            for name, one in handles.items():
                again = await _do(sessions, name, one.session)
                assert again.state in (expected[name], "idle"), name
                if name != "resume":
                    facts = await read_facts(sessions, one.session)
                    assert not [event for event in facts.events if event.seq > marks[name] and event.type in STARTS]
            assert (await _do(sessions, "resume", handles["pause"].session)).state == "resumed"
            for one in handles.values():
                await finish(sessions, RunHandle(sessions, one.handle.accepted), {"result": "blue"})
    finally:
        worker.kill()
    for one in handles.values():
        await check_session(stack, one.session)


async def test_pause_says_what_is_in_flight(stack: Stack) -> None:
    """The tool that runs is named by its step and its place; nothing else begins."""
    worker = WorkerProcess(stack).wait_ready()
    try:
        async with stack.connect() as sessions:
            held = await _in_state(stack, sessions, "tool")
            handle = held.handle
            reached = await sessions.pause(handle.session, wait_s=WAIT_S)
            assert list(reached.in_flight) == [{"kind": "tool", "step": 1, "index": 0}]
            assert reached.run == handle.id
            stack.release(held.values)
            await _quiet(sessions, handle, "pause")
            assert list((await sessions.pause(handle.session, wait_s=WAIT_S)).in_flight) == []
            await sessions.cancel(handle.session)
    finally:
        worker.kill()


async def test_cancelling_a_session_withdraws_its_queue(stack: Stack) -> None:
    """Also while it is paused: what is queued never begins, each run has its one terminal event."""
    worker = WorkerProcess(stack).wait_ready()
    try:
        async with stack.connect() as sessions:
            active = (await _in_state(stack, sessions, "paused")).handle
            queued = [await submit(sessions, spec(), session=active.session) for _ in range(3)]
            reached = await sessions.cancel_session(active.session, wait_s=WAIT_S)
            assert (reached.state, list(reached.withdrawn)) == ("cancelled", [handle.id for handle in queued])
            for handle in [active, *queued]:
                with pytest.raises(RunCancelled):
                    await handle.result()
            assert (await sessions.cancel_session(active.session)).state == "idle"
            assert (await sessions.resume(active.session, wait_s=WAIT_S)).state == "resumed"
            facts = await read_facts(sessions, active.session)
    finally:
        worker.kill()
    assert [event.type for event in facts.events if event.run != active.id and event.type == "run.started"] == []
    assert [event.type for event in facts.events].count("run.cancelled") == 4


async def test_l25_cancel_after_continuing_as_new(stack: Stack) -> None:
    """L25: A run over several executions, on the second attempt of its tool, heeds a cancel."""
    first = WorkerProcess(stack, PERDURE_CONTINUE_AS_NEW_EVENTS="100").wait_ready()
    values = spec(steps=4000, tool="none", calls=2, seconds=0.05)  # never done before it is cancelled
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)

        async def far() -> bool:
            return len(stack.entries(values["name"], "model")) > 15

        await eventually(far)
        first.kill()
        second = WorkerProcess(stack, PERDURE_CONTINUE_AS_NEW_EVENTS="100").wait_ready()
        try:
            assert (await sessions.cancel(handle.session, wait_s=WAIT_S)).state == "cancelled"
        finally:
            second.kill()
    facts = await check_session(stack, handle.session)
    assert facts.runs[handle.id] == "cancelled"
