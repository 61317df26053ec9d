"""Deleting a session whose runs had sub-agents: theirs go with it, at any depth."""

from __future__ import annotations

import pytest

from perdure.errors import InvalidInput
from perdure.uap.ids import new_id
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.sub_agents import ask
from tests.integration.test_deleting import rows_of
from tests.integration.test_kills import finish
from tests.integration.test_sub_agents import children_of, lead


async def test_sub_agents_sessions_go_with_their_root(stack: Stack) -> None:
    """Two levels deep; a sub-agent's session alone is not deleted."""
    worker = WorkerProcess(stack, "tests.integration.sub_agents:app").wait_ready()
    name = new_id()
    try:
        async with stack.connect() as sessions:
            handle = await lead(sessions, name, [ask("explorer", name, [ask("digger", name, "deep")], "found")], "all")
            assert await finish(sessions, handle) == "completed"
            (child,) = await children_of(sessions, handle.session)
            (grandchild,) = await children_of(sessions, str(child["session"]))
            every = [handle.session, str(child["session"]), str(grandchild["session"])]
            with pytest.raises(InvalidInput, match=f"part of session {handle.session}"):
                await sessions.delete(every[2])
            deleted = await sessions.delete(handle.session)
            assert deleted.sessions == 3
            assert deleted.executions >= 3  # a sweep on a busy machine may have looked after one once more
            assert await rows_of(sessions, *every) == {}
    finally:
        worker.kill()
