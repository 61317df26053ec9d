"""Workers and executions that are lost while sub-agents run."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.activities.contracts import SESSION, SessionInput
from perdure.runtime.rebuild import rebuild_session
from perdure.runtime.session_document import session_json_bytes
from perdure.runtime.sessions import Sessions
from perdure.store.waits import open_waits
from perdure.uap.session_key import SessionKey
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.sub_agents import ask
from tests.integration.test_sub_agents import APP, asked, children_of, is_closed, lead, log_of, usage_row

POINTS = [
    "open_child.storing",
    "open_child.stored",
    "begin_run.stored#2",  # a child's
    "generate.stored#2",  # a child's answer
    "end_run.storing",  # a child's
    "end_run.stored",
    "child_outcome.found",  # ended, and its parent has no result
    "call_tool.stored",
    "end_run.storing#3",  # the parent's
]


@pytest.fixture
def other(stack: Stack) -> Iterator[WorkerProcess]:
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


@pytest.mark.parametrize("point", POINTS)
async def test_a_death_runs_no_sub_agent_twice(stack: Stack, tmp_path: Path, point: str) -> None:
    """Each child has one session and one run, and a stored answer is not bought again."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    async with stack.connect() as sessions:
        handle = await lead(sessions, name, [ask("explorer", name, "a"), ask("scout", name, "b")], "done")
        async with first.replaced_when_dead():
            turn = await handle.result()
            children = await children_of(sessions, handle.session)
            await eventually(lambda: is_closed(sessions, handle.session))
        log = await log_of(sessions, handle.session)
        _, by_agent = await usage_row(sessions, handle.session)
    assert [item.result for item in turn.tool_executions] == ["a", "b"]
    assert len({child["session"] for child in children}) == len(children) == 2
    assert Counter(event.type for event in log)["child.ended"] == 2
    assert sorted(by_agent) == ["chief", "chief/explorer", "chief/scout"]
    for session in (handle.session, *(child["session"] for child in children)):
        facts = await check_session(stack, session)
        assert list(facts.runs.values()) == ["completed"]
    bought = Counter(asked(stack, name))
    assert bought["chief"] + bought["explorer"] <= 5


async def test_a_grandchilds_question_is_answered_from_the_roots_list(stack: Stack, tmp_path: Path) -> None:
    """A `once` tool three levels deep whose worker died: its wait shows under the root, with its path."""
    name = uuid.uuid4().hex
    first = WorkerProcess(
        stack, APP, PERDURE_CRASH_AT="call_tool.running", PERDURE_CRASH_ONCE=str(tmp_path / "c")
    ).wait_ready()
    deed = [{"tool": "deed", "arguments": {"name": name, "key": "x"}}]
    async with stack.connect() as sessions:
        inner = ask("explorer", name, [ask("digger", name, deed, "dug")], "explored")
        handle = await lead(sessions, name, [inner], "done")
        async with first.replaced_when_dead():
            (wait,) = await eventually(lambda: open_waits(sessions.database, sessions.tenant, handle.session))
            assert (wait.root, wait.path) == (handle.session, "chief/explorer/digger")
            assert wait.key.session != handle.session
            await sessions.answer(wait.id, {"outcome": "happened", "result": "seen"}, by="test")
            assert (await handle.result()).response.text == "done"
        assert await open_waits(sessions.database, sessions.tenant, handle.session) == []
    assert asked(stack, name) == ["chief", "explorer", "digger", "digger", "explorer", "chief"]


async def test_a_lost_childs_execution_is_taken_up_again(stack: Stack, other: WorkerProcess) -> None:
    """Somebody terminates it: its parent has its session go on from its rows."""
    name = uuid.uuid4().hex
    rounds = [[{"tool": "note", "arguments": {"name": name, "key": str(n)}}] for n in range(3)]
    async with stack.connect() as sessions:
        handle = await lead(sessions, name, [ask("explorer", name, *rounds, "noted", held=1)], "done")
        await eventually(lambda: _asked(stack, name, "explorer", 2), what="the explorer's second call")
        (child,) = await children_of(sessions, handle.session)
        await sessions.client.get_workflow_handle(_id(child["session"])).terminate("by hand")
        stack.release({"name": name})
        turn = await handle.result()
    assert [item.result for item in turn.tool_executions] == ["noted"]
    facts = await check_session(stack, child["session"])
    assert list(facts.runs.values()) == ["completed"]
    assert len(stack.entries(name, "tool")) <= 4


async def test_a_lost_parents_execution_finds_its_children(stack: Stack, other: WorkerProcess) -> None:
    """The next one takes the result of a finished child from its rows; one that its end cancelled is an error result."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        calls = [ask("explorer", name, "here"), ask("scout", name, "never", held=0)]
        handle = await lead(sessions, name, calls, "done")
        await eventually(lambda: _ended(sessions, handle.session, 1))
        await sessions.client.get_workflow_handle(_id(handle.session)).terminate("by hand")
        await sessions.client.start_workflow(
            SESSION, SessionInput("default", handle.session, "chief"), id=_id(handle.session), task_queue="perdure",
            start_signal="wake",
        )  # fmt: skip
        turn = await handle.result()
        children = await children_of(sessions, handle.session)
    assert turn.tool_executions[0].result == "here"
    assert "was cancelled" in str(turn.tool_executions[1].result)
    assert len(children) == 2
    assert Counter(asked(stack, name)) == {"chief": 2, "explorer": 2}
    for session in (handle.session, *(child["session"] for child in children)):
        await check_session(stack, session)


async def test_a_parent_with_sub_agents_is_rebuilt(stack: Stack, other: WorkerProcess) -> None:
    """Its rows and its document are as before, and so are its sub-agents'."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        handle = await lead(sessions, name, [ask("explorer", name, "a")], [ask("scout", name, "b")], "done")
        await handle.result()
        children = await children_of(sessions, handle.session)
        for session in (handle.session, *(child["session"] for child in children)):
            await eventually(lambda session=session: is_closed(sessions, session))
            await _rebuilt(sessions, SessionKey(sessions.tenant, session))


async def _rebuilt(sessions: Sessions, key: SessionKey) -> None:
    before = await session_json_bytes(sessions.database, key), await _rows(sessions, key)
    async with sessions.database.driver() as connection:
        for table in ("runs", "checkpoints", "tool_calls", "thread_nodes"):
            await connection.execute(f"delete from perdure.{table} where session_id = $1", key.session)
        sql = "update perdure.sessions set usage = '{}', usage_by_agent = null, steps = 0 where id = $1"
        await connection.execute(sql, key.session)
    await rebuild_session(sessions.client, sessions.database, key)
    assert (await session_json_bytes(sessions.database, key), await _rows(sessions, key)) == before


async def _rows(sessions: Sessions, key: SessionKey) -> Any:
    async with sessions.database.driver() as connection:
        found = await connection.fetch("select * from perdure.runs where session_id = $1", key.session)
        session = await connection.fetchrow("select * from perdure.sessions where id = $1", key.session)
    assert session is not None
    return [dict(row) for row in found], dict(session)


def _id(session: str) -> str:
    return SessionKey("default", session).workflow_id


async def _asked(stack: Stack, name: str, who: str, count: int) -> bool:
    return asked(stack, name).count(who) >= count


async def _ended(sessions: Sessions, session: str, count: int) -> bool:
    kinds = [event.type for event in await log_of(sessions, session)]
    return kinds.count("child.ended") >= count and kinds.count("child.started") == 2
