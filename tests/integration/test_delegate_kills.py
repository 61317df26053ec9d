"""Workers that die while tasks are handed to other agents."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.integration.delegating_agents import hand, told
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_delegate import APP, input_with_media
from tests.integration.test_sub_agents import children_of, is_closed, log_of

POINTS = ["open_child.storing", "open_child.stored", "begin_run.stored#2", "generate.stored#2", "child_outcome.found"]


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_that_dies_loses_no_task(stack: Stack, tmp_path: Path, point: str) -> None:
    """Each task has one session and one run, with its media, whoever goes on with it."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    calls = [hand("fine_viewer", "what is it?", "$0"), hand("researcher", told(name, "found"))]
    async with stack.connect() as sessions:
        handle = await sessions.submit("lead", input_with_media(name, calls, "done"))
        async with first.replaced_when_dead():
            turn = await handle.result()
            children = await children_of(sessions, handle.session)
            await eventually(lambda: is_closed(sessions, handle.session))
        log = await log_of(sessions, handle.session)
    assert [str(item.result).partition(";")[0] for item in turn.tool_executions] == ["what is it?", "found"]
    assert "; image " in str(turn.tool_executions[0].result)
    assert len({child["session"] for child in children}) == len(children) == 2
    assert [event.type for event in log].count("child.ended") == 2
    for session in (handle.session, *(child["session"] for child in children)):
        facts = await check_session(stack, session)
        assert list(facts.runs.values()) == ["completed"]
