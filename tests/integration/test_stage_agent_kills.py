"""Workers and servers that are lost while a task of a stage session, an agent's run, is under way."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.runtime.session_servers import address_of
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import wake
from perdure.store.runs import list_runs
from perdure.store.sessions import find_address
from tests.integration.agents import HELD
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.stage_crew import give, note
from tests.integration.test_stage_agents import APP, PING, Crew, until_closed

POINTS = [
    "ask_agent.storing",
    "ask_agent.stored",
    "begin_run.stored",  # the agent's
    "end_run.stored",
    "ask_agent.ended",  # and the action has no answer
    "ask_agent.settling",
    "ask_agent.settled",
]


@pytest.fixture
def other(stack: Stack) -> Iterator[WorkerProcess]:
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


@pytest.mark.parametrize("point", POINTS)
async def test_a_death_begins_no_run_twice(stack: Stack, tmp_path: Path, point: str) -> None:
    """One session, one run, one reply; whichever execution had the run, and whoever comes after."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    async with stack.connect() as sessions:
        crew = await Crew.open(sessions)
        handed = await crew.submit(give("explore", name, note(name, "x"), "gold"))
        behind = await crew.submit(PING)
        async with first.replaced_when_dead():
            assert (await crew.reply(handed))["result"] == "gold"
            assert (await crew.reply(behind))["result"] == "pong"
            await until_closed(crew)
        await _check(stack, crew)
    assert len(stack.entries(name, "tool_done")) == 1


async def test_a_death_in_the_agents_tool(stack: Stack) -> None:
    """SIGKILL while it is in its tool, which may run twice: the run goes on, and the task's answer is its."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP).wait_ready()
    async with stack.connect() as sessions:
        crew = await Crew.open(sessions)
        handed = await crew.submit(give("explore", name, note(name, "x", HELD), "gold"))
        await stack.until_entries(name, "tool")
        first.kill()
        stack.release({"name": name})
        async with first.replaced_when_dead():
            assert (await crew.reply(handed))["result"] == "gold"
            await until_closed(crew)
        await _check(stack, crew)
    assert len(stack.entries(name, "tool")) >= 2
    assert len(stack.entries(name, "tool_done")) == 1


@pytest.mark.parametrize("server", ["temporal", "postgres"])
async def test_a_server_dies_in_the_agents_tool(stack: Stack, other: WorkerProcess, server: str) -> None:
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        crew = await Crew.open(sessions)
        await crew.submit(give("explore", name, note(name, "x", HELD), "gold"))
        await stack.until_entries(name, "tool")
    stack.kill(server)
    async with stack.reconnect() as sessions:
        stack.release({"name": name})
        crew = Crew(sessions, crew.id)
        (row,) = await sessions.stages.history(crew.id)
        assert (await crew.reply(await sessions.stages.action(crew.id, row.id)))["result"] == "gold"
        await until_closed(crew)
        await _check(stack, crew)


async def test_a_terminated_session_leaves_no_run_though_its_worker_died(stack: Stack) -> None:
    """The run is cancelled as soon as there is a worker again, also if its session was terminated in between."""
    name = uuid.uuid4().hex
    first = WorkerProcess(stack, APP).wait_ready()
    async with stack.connect() as sessions:
        crew = await Crew.open(sessions)
        handed = await crew.submit(give("explore", name, note(name, "x", HELD), "never"))
        await stack.until_entries(name, "tool")
        first.kill()
        assert (await sessions.stages.terminate(crew.id, wait_s=0)).state == "recorded"
        async with first.replaced_when_dead():
            await crew.until_run("cancelled")
            assert (await handed.reply()).body.get("detail") == "Session not found"
            await until_closed(crew)
    assert stack.entries(name, "tool_done") == []


async def test_a_run_in_an_execution_of_its_own_is_waited_for(stack: Stack, tmp_path: Path) -> None:
    """Its worker died when the input was stored, and the agent's session was woken before its parent came back.

    The stage session asks how it stands, over executions of its own: it must not grow with the time that this takes.
    """
    name = uuid.uuid4().hex
    point = {"PERDURE_CRASH_AT": "ask_agent.stored", "PERDURE_CRASH_ONCE": str(tmp_path / "c")}
    short = {"PERDURE_CONTINUE_AS_NEW_EVENTS": "100"}
    first = WorkerProcess(stack, APP, **point, **short).wait_ready()
    async with stack.connect() as sessions:
        crew = await Crew.open(sessions)
        handed = await crew.submit(give("explore", name, note(name, "x", HELD), "gold"))
        await asyncio.to_thread(first.wait_dead)
        elsewhere = await _wake(sessions, crew.child().session)
        second = WorkerProcess(stack, APP, **short).wait_ready()
        row = await sessions.stages.find(crew.id)
        try:
            for _ in range(90):  # each is an event of the history
                await sessions.stages.wake(row)
            await eventually(lambda: _goes_on(crew), what="another execution")
            stack.release({"name": name})
            assert (await crew.reply(handed))["result"] == "gold"
            await until_closed(crew)
        finally:
            second.kill()
        (run,) = await list_runs(sessions.database, crew.child())
        await _check(stack, crew)
    assert run.temporal_run_id == elsewhere


async def _goes_on(crew: Crew) -> bool:
    """Whether the stage session has continued as new."""
    last = await crew.sessions.client.get_workflow_handle(crew.key.stage_workflow_id).fetch_history()
    return bool(last.events[0].workflow_execution_started_event_attributes.continued_execution_run_id)


async def _wake(sessions: Sessions, session: str) -> str:
    """Wake an agent's session as the sweep does; the id of its execution, which is nobody's child."""
    key = sessions.key_of(session)
    await wake(sessions.client, address_of(key, await find_address(sessions.database, key)))
    described = await sessions.client.get_workflow_handle(key.workflow_id).describe()
    assert described.parent_id is None
    return str(described.run_id)


async def _check(stack: Stack, crew: Crew) -> None:
    """What must hold whatever was killed."""
    assert await crew.runs() == ["completed"]
    assert (await crew.state())["found"] == "gold"
    events = await crew.events()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    settled = Counter(str(event.data["action_id"]) for event in events if event.type == "stage.action_settled")
    assert set(settled.values()) == {1}
    await check_session(stack, crew.child().session)
