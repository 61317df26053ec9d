"""Scenarios of waits: approvals, and outcomes that nobody knows."""

from __future__ import annotations

import asyncio

from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.upp.json_value import JSONObject
from tests.integration.stack import Stack
from tests.integration.waiting import APP, asked, call, submit
from tests.replay.playing import RECORDER, executions, finish_all, worker


async def approved(stack: Stack, sessions: Sessions) -> RunHandle:
    """A person approves a call, edits another one and rejects a third; a predicate lets a fourth run."""
    edit: JSONObject = call("pay", RECORDER, 20)["arguments"]
    answers: list[JSONObject] = [
        {"decision": "approve"},
        {"decision": "approve", "arguments": edit},
        {"decision": "reject"},
    ]
    async with worker(stack, APP):
        calls = [call("pay", RECORDER, amount) for amount in (1, 2, 3)]
        handle = await submit(sessions, RECORDER, [*calls, call("pay_small", RECORDER, 4)], "done")
        for wait, answer in zip(await asked(sessions, handle, 3), answers, strict=True):
            await sessions.answer(wait.id, answer, by=RECORDER)
        await finish_all(sessions, handle)
    return handle


async def approval_expired(stack: Stack, sessions: Sessions) -> RunHandle:
    """Nobody approves a call in time."""
    async with worker(stack, APP):
        handle = await submit(sessions, RECORDER, [call("pay_soon", RECORDER)], "done")
        await handle.result()
        await finish_all(sessions, handle)
    return handle


async def stopped_by_a_person(stack: Stack, sessions: Sessions) -> RunHandle:
    """Nobody knows whether a `once` tool had its effect, and somebody stops the run; another call waits meanwhile."""
    mark = str(stack.folder / "stopped_by_a_person")
    batch = [{"tool": "hang", "arguments": {"name": RECORDER}}, call("pay", RECORDER)]
    async with worker(stack, APP, PERDURE_CRASH_AT="call_tool.running", PERDURE_CRASH_ONCE=mark) as first:
        handle = await submit(sessions, RECORDER, batch, "never")
        await asyncio.to_thread(first.wait_dead)
    async with worker(stack, APP):
        (unknown,) = [wait for wait in await asked(sessions, handle, 2) if wait.kind == "outcome"]
        await sessions.answer(unknown.id, {"outcome": "stop"}, by=RECORDER)
        await executions(sessions, handle.session)
    return handle
