"""Scenarios of runs with a limit on their time."""

from __future__ import annotations

import json
from datetime import timedelta

from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.uap.options import RunOptions
from tests.integration.stack import Stack
from tests.integration.waiting import APP, asked, call, submit
from tests.replay.playing import RECORDER, executions, finish_all, worker


async def parked_in_its_time(stack: Stack, sessions: Sessions) -> RunHandle:
    """A run that may take a minute waits for a person meanwhile, and ends in time."""
    async with worker(stack, APP):
        options = RunOptions(max_duration=timedelta(minutes=1))
        handle = await submit(sessions, RECORDER, [call("pay", RECORDER)], "done", options=options)
        (wait,) = await asked(sessions, handle)
        await sessions.answer(wait.id, {"decision": "approve"}, by=RECORDER)
        await finish_all(sessions, handle)
    return handle


async def over_its_time(stack: Stack, sessions: Sessions) -> RunHandle:
    """The time of a run is over in the middle of two tool calls."""
    async with worker(stack):
        options = RunOptions(max_duration=timedelta(seconds=3))
        spec = {"name": RECORDER, "steps": 1, "calls": 2, "tool": "none", "seconds": 600}
        handle = await sessions.submit("worker", json.dumps(spec), options=options)
        await executions(sessions, handle.session)
    return handle
