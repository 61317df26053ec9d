"""Histories of inputs that do something to the run that is active."""

from __future__ import annotations

from perdure.runtime.sessions import RunHandle, Sessions
from tests.integration.stack import Stack
from tests.integration.test_kills import finish, spec, submit
from tests.replay.playing import worker


async def steered_and_rolled_back(stack: Stack, sessions: Sessions) -> RunHandle:
    """An input joins a run; another one interrupts it, a third rolls that one back."""
    async with worker(stack):
        values = spec(steps=2, tool="none", seconds=1.0)
        first = await submit(sessions, values)
        await stack.until_entries(values["name"], "tool")
        steered = spec(steps=1, tool="none", seconds=60.0)
        await submit(sessions, steered, session=first.session, policy="steer")
        await stack.until_entries(steered["name"], "tool")
        urgent = spec(steps=1, tool="none", seconds=60.0)
        await submit(sessions, urgent, session=first.session, policy="interrupt")
        await stack.until_entries(urgent["name"], "tool")
        last = await submit(sessions, spec(steps=0), session=first.session, policy="rollback")
        assert await finish(sessions, last) == "completed"
    return first
