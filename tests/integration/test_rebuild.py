"""The index of a session, made again from Temporal's histories: equal to the byte, or refused."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, delete, func, select, text, update
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError, RPCStatusCode

from perdure import App, agent
from perdure.activities.contracts import SESSION
from perdure.errors import DamagedSession, UnknownSession
from perdure.execution import loop
from perdure.runtime.rebuild import RebuildReport, rebuild_session
from perdure.runtime.session_document import session_json_bytes
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.temporal import SessionAddress, connect_temporal, wake
from perdure.store.database import Database
from perdure.store.tables import checkpoints, runs, sessions, thread_nodes, tool_calls
from perdure.uap.ids import new_id
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.upp import LLMRequest, ToolCall, tool
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.stack import Stack, WorkerProcess, eventually

INDEX = (runs, checkpoints, tool_calls, thread_nodes)
NAME = os.environ.get("PERDURE_TEST_AGENT", "rebuilt")
APP = "tests.integration.test_rebuild:app"
NOTHING = RebuildReport(runs=0, checkpoints=0, tool_calls=0, nodes=0)


# -- what runs: the input's JSON says what the model does ----------------------------------------------------------------


async def _model(request: LLMRequest) -> Answer:
    """Does what the input says.

    {"steps", "calls" a step, "size" of texts, "tool", "gate": a file that tools wait for, "held": {an answer's number: a
    file that the model waits for}, "broken": the number of the answer that fails}.
    """
    last = max(place for place, message in enumerate(request.messages) if message.type == "user")
    spec = json.loads(request.messages[last].text)
    given = sum(1 for message in request.messages[last:] if message.type == "assistant")
    await _wait_for(spec.get("held", {}).get(str(given), ""))
    if given == spec.get("broken"):
        raise UPPError("the model is out of order", ErrorCode.INVALID_REQUEST, "scripted")
    filler = "é" * spec.get("size", 0)
    if given >= spec.get("steps", 1):
        return Answer(text="done " + filler)
    arguments = {"filler": filler, "gate": spec.get("gate", "")}
    name = spec.get("tool", "work")
    return Answer(tool_calls=[ToolCall(f"c{n}", name, arguments) for n in range(spec.get("calls", 1))])


async def _wait_for(gate: str) -> None:
    """Wait until the file is there, or for a minute."""
    for _ in range(600):
        if not gate or os.access(gate, os.F_OK):
            return
        await asyncio.sleep(0.1)


@tool
async def work(filler: str, gate: str) -> str:
    """Returns what it got."""
    await _wait_for(gate)
    return filler + "\ud800\0"


@tool(effect="once")
async def once(filler: str, gate: str) -> str:
    """Never runs twice."""
    await _wait_for(gate)
    return filler


@tool(effect="idempotent")
def fail(filler: str, gate: str) -> str:
    """Raises."""
    raise ValueError(f"no {filler[:3]}")


app = App(
    agents=[agent(name=NAME, model=scripted(_model), tools=[work, once, fail], execution=loop(max_iterations=500))]
)


# -- helpers ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """Everything that a rebuild may touch, and the document."""

    rows: dict[str, list[dict[str, Any]]]
    session: dict[str, Any]
    document: bytes


async def take_snapshot(database: Database, key: SessionKey) -> Snapshot:
    async with database.transaction() as connection:
        rows: dict[str, list[dict[str, Any]]] = {}
        for table in INDEX:
            query = select(table).where(table.c.session_id == key.session).order_by(*table.primary_key)
            rows[table.name] = [dict(row) for row in (await connection.execute(query)).mappings()]
        query = select(sessions).where(sessions.c.id == key.session)
        session = dict((await connection.execute(query)).mappings().one())
    return Snapshot(rows, session, await session_json_bytes(database, key))


async def wipe(database: Database, key: SessionKey, *tables: Table) -> None:
    """Delete a session's rows, and with those of its runs what its own row holds of them."""
    async with database.transaction() as connection:
        for table in tables:
            await connection.execute(delete(table).where(table.c.session_id == key.session))
        if runs in tables:
            nothing: dict[str, Any] = {"current_node": None, "status": "?", "runs": 0, "steps": 0, "usage": {}}
            await connection.execute(
                update(sessions).where(sessions.c.id == key.session).values(**nothing, updated_at=sessions.c.created_at)
            )


async def submit(using: Sessions, name: str = NAME, session: str | None = None, **spec: Any) -> RunHandle:
    options = RunOptions(max_steps=spec.pop("max_steps", None))
    return await using.submit(name, json.dumps(spec), session=session, options=options)


async def ended(handle: RunHandle) -> str:
    async def check() -> str | None:
        row = await handle.status()
        return row.status if row.ended_at is not None else None

    return await eventually(check, seconds=60, what=f"the end of run {handle.id}")


async def event(handle: RunHandle, kind: str, step: int) -> None:
    async for item in handle.events():
        if item.type == kind and item.step == step:
            return


async def rebuild(using: Sessions, key: SessionKey) -> RebuildReport:
    return await rebuild_session(using.client, using.database, key)


async def executions(using: Sessions, key: SessionKey) -> list[str]:
    """Temporal run ids, oldest first."""
    found = [item async for item in using.client.list_workflows(f"WorkflowId = '{key.workflow_id}'")]
    return [item.run_id for item in sorted(found, key=lambda item: item.start_time)]


async def delete_execution(using: Sessions, key: SessionKey, execution: str) -> None:
    """Ask Temporal to delete a closed execution; it does so within half a minute."""
    await using.client.get_workflow_handle(key.workflow_id, run_id=execution).result()
    request = DeleteWorkflowExecutionRequest(
        namespace=using.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=key.workflow_id, run_id=execution),
    )
    await using.client.workflow_service.delete_workflow_execution(request)


async def has_history(using: Sessions, key: SessionKey, execution: str) -> bool:
    try:
        await using.client.get_workflow_handle(key.workflow_id, run_id=execution).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


@pytest.fixture(scope="session")
def rebuilt_worker(stack: Stack) -> Iterator[WorkerProcess]:
    """A worker whose sessions continue as new every few steps."""
    environment = {"PERDURE_TASK_QUEUE": NAME, "PERDURE_CONTINUE_AS_NEW_EVENTS": "100"}
    process = WorkerProcess(stack, APP, **environment).wait_ready()
    yield process
    process.kill()


@dataclass(frozen=True)
class Forgotten:
    """A session of two runs, what its rows are, and the execution of the first run, which Temporal deletes."""

    key: SessionKey
    before: Snapshot
    first: str
    lost: str


@pytest.fixture(scope="session")
def forgotten(stack: Stack, rebuilt_worker: WorkerProcess) -> Forgotten:
    """The deletion is asked for early, for it takes half a minute, in which other tests run."""
    return asyncio.run(_make_forgotten(stack))


async def _make_forgotten(stack: Stack) -> Forgotten:
    async with stack.connect() as using:
        first = await submit(using, steps=2)
        assert await ended(first) == "completed"
        key = SessionKey(using.tenant, first.session)
        lost = str((await first.status()).temporal_run_id)
        await delete_execution(using, key, lost)
        assert await ended(await submit(using, session=first.session, steps=1)) == "completed"
        return Forgotten(key, await take_snapshot(using.database, key), first.id, lost)


@pytest.fixture(scope="session")
def eventful(stack: Stack, rebuilt_worker: WorkerProcess, forgotten: Forgotten) -> tuple[SessionKey, Snapshot]:
    """A closed session in which runs completed, failed and were cancelled, and what its rows are."""
    return asyncio.run(_make_eventful(stack))


async def _make_eventful(stack: Stack) -> tuple[SessionKey, Snapshot]:
    async with stack.connect() as using:
        first = await submit(using, steps=2, calls=3, size=100_000)
        session = first.session
        assert await ended(first) == "completed"
        assert await ended(await submit(using, session=session, steps=3, max_steps=1)) == "failed"
        assert await ended(await submit(using, session=session, steps=3, broken=2)) == "failed"
        in_tool = await submit(using, session=session, steps=2, calls=2, gate="/nowhere")
        await event(in_tool, "step_start", 1)
        await event(in_tool, "tool_execution_start", 1)
        assert (await using.cancel(session)).state == "cancelled"
        in_model = await submit(using, session=session, steps=2, held={1: "/nowhere"})
        await event(in_model, "observation", 1)
        await eventually(lambda: _scheduled(using, in_model, 3), what="the second model call")
        assert (await using.cancel(session)).state == "cancelled"
        assert await ended(await submit(using, session=session, steps=30)) == "completed"
        assert await ended(await submit(using, session=session, steps=1, tool="fail", calls=2)) == "completed"
        assert await ended(await submit(using, session=session, steps=1, tool="unknown")) == "completed"
        key = SessionKey(using.tenant, session)
        return key, await take_snapshot(using.database, key)


async def _scheduled(using: Sessions, handle: RunHandle, count: int) -> bool:
    """Whether the run's execution has scheduled so many activities."""
    return await _count(using, handle, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) >= count


async def _recorded(using: Sessions, handle: RunHandle, count: int) -> bool:
    """Whether so many local activities of the run's execution are in its history."""
    return await _count(using, handle, EventType.EVENT_TYPE_MARKER_RECORDED) >= count


async def _count(using: Sessions, handle: RunHandle, kind: EventType.ValueType) -> int:
    row = await handle.status()
    workflow = using.client.get_workflow_handle(row.key.workflow_id, run_id=row.temporal_run_id)
    return sum(1 for item in (await workflow.fetch_history()).events if item.event_type == kind)


# -- tests --------------------------------------------------------------------------------------------------------------


async def test_eventful_session_is_what_it_should_be(stack: Stack, eventful: tuple[SessionKey, Snapshot]) -> None:
    """The session under test has every kind of run, large bodies, and a run over several executions."""
    key, before = eventful
    rows = before.rows
    assert [row["status"] for row in sorted(rows["runs"], key=lambda row: row["ordinal"])] == [
        "completed", "failed", "failed", "cancelled", "cancelled", "completed", "completed", "completed",
    ]  # fmt: skip
    long = next(row["id"] for row in rows["runs"] if row["step"] == 31)
    assert len({row["temporal_run_id"] for row in rows["checkpoints"] if row["run_id"] == long}) >= 3
    assert len(before.document) > 1_000_000
    async with stack.connect() as using:
        assert len(await executions(using, key)) >= 5  # inputs that come close together share one


async def test_deleted_index_comes_back_to_the_byte(stack: Stack, eventful: tuple[SessionKey, Snapshot]) -> None:
    """Runs, checkpoints, tool calls, nodes and totals are what they were, and so is the session JSON."""
    key, before = eventful
    async with stack.connect() as using:
        await wipe(using.database, key, *INDEX)
        report = await rebuild(using, key)
        after = await take_snapshot(using.database, key)
        assert after.rows == before.rows
        assert after.session == before.session
        assert after.document == before.document
        counts = {name: len(rows) for name, rows in before.rows.items()}
        assert report == RebuildReport(
            runs=counts["runs"], checkpoints=counts["checkpoints"], tool_calls=counts["tool_calls"], nodes=1,
        )  # fmt: skip
        assert await rebuild(using, key) == NOTHING


@pytest.mark.parametrize("table", INDEX, ids=lambda table: table.name)
async def test_one_deleted_table_comes_back(stack: Stack, eventful: tuple[SessionKey, Snapshot], table: Table) -> None:
    """Each table alone is made again, with the others in place."""
    key, before = eventful
    async with stack.connect() as using:
        await wipe(using.database, key, table)
        await rebuild(using, key)
        assert await take_snapshot(using.database, key) == before


async def test_wrong_rows_are_corrected(stack: Stack, eventful: tuple[SessionKey, Snapshot]) -> None:
    """A row that says otherwise than history is made to agree; equal rows are not written."""
    key, before = eventful
    async with stack.connect() as using:
        async with using.database.transaction() as connection:
            for query in (
                update(runs).where(runs.c.ordinal == 2).values(status="completed", error=None),
                update(checkpoints).where(checkpoints.c.step == 3).values(position=0, record={"k": None}),
                update(tool_calls).where(tool_calls.c.index == 1).values(result_sha256="x", attempt=9, state="pending"),
                update(thread_nodes).values(name="twig"),
                update(sessions).where(sessions.c.id == key.session).values(steps=0),
            ):
                mine = query.table.c.get("session_id")
                await connection.execute(query if mine is None else query.where(mine == key.session))
        report = await rebuild(using, key)
        assert await take_snapshot(using.database, key) == before
        assert (report.runs, report.nodes) == (1, 1)


@pytest.mark.parametrize("damage", ["answer", "big answer", "results", "input", "missing message", "tool result"])
async def test_damaged_body_changes_nothing(stack: Stack, eventful: tuple[SessionKey, Snapshot], damage: str) -> None:
    """A body that is not the one history names is refused, and whatever index there is stays as it is."""
    key, before = eventful
    async with stack.connect() as using:
        await wipe(using.database, key, *INDEX)
        undo = await _damage(using.database, key, damage)
        with pytest.raises(DamagedSession):
            await rebuild(using, key)
        async with using.database.transaction() as connection:
            for table in INDEX:
                left = await connection.scalar(
                    select(func.count()).select_from(table).where(table.c.session_id == key.session)
                )
                assert left == 0
            await connection.execute(text(undo), key._asdict())
        await rebuild(using, key)
        assert await take_snapshot(using.database, key) == before


async def _damage(database: Database, key: SessionKey, what: str) -> str:
    """Damage a body; the SQL that undoes it."""
    copy = f"damaged_{new_id().replace('-', '')}"
    where = "tenant_id = :tenant and session_id = :session"
    table, column, condition = {
        "answer": ("messages", "body", "type = 'assistant' and body is not null"),
        "results": ("messages", "body", "type = 'tool_result' and body is not null"),
        "input": ("messages", "body", "type = 'user' and body is not null"),
        "missing message": ("messages", "body", "type = 'assistant' and body is not null"),
        "big answer": ("payloads", "bytes", "sha256 in (select sha256 from perdure.messages where body is null)"),
        "tool result": ("payloads", "bytes", "sha256 in (select result_sha256 from perdure.tool_calls)"),
    }[what]
    if what == "tool result":  # the index is gone already; results are the payloads that no message is
        condition = "sha256 not in (select sha256 from perdure.messages)"
    async with database.transaction() as connection:
        make = f"create table perdure.{copy} as select * from perdure.{table} where {where} and {condition} limit 1"
        await connection.execute(
            text(make.replace(":tenant", f"'{key.tenant}'").replace(":session", f"'{key.session}'"))
        )
        name = "id" if table == "messages" else "sha256"
        found = f"{where} and {name} in (select {name} from perdure.{copy})"
        if what == "missing message":
            await connection.execute(text(f"delete from perdure.{table} where {found}"), key._asdict())
            return f"insert into perdure.{table} select * from perdure.{copy}"
        sql = f"update perdure.{table} set {column} = {column} || '\\x20'::bytea where {found}"
        await connection.execute(text(sql), key._asdict())
    return f"update perdure.{table} t set {column} = c.{column} from perdure.{copy} c where t.{name} = c.{name}"


@pytest.mark.parametrize("name", ["work", "once"])
async def test_open_session_goes_on(stack: Stack, rebuilt_worker: WorkerProcess, tmp_path: Path, name: str) -> None:
    """In the middle of a tool call the index is made again as it stands, and the run goes on over it."""
    gate = tmp_path / "gate"
    async with stack.connect() as using:
        handle = await submit(using, steps=2, tool=name, calls=2, gate=str(gate))
        await event(handle, "tool_execution_start", 1)
        await eventually(lambda: _scheduled(using, handle, 3), what="the tool calls")
        key = SessionKey(using.tenant, handle.session)
        await eventually(lambda: _claimed(using, key, name), what="the tools' start")
        before = await take_snapshot(using.database, key)
        await wipe(using.database, key, *INDEX)
        await rebuild(using, key)
        assert await take_snapshot(using.database, key) == before
        gate.touch()
        assert await ended(handle) == "completed"
        assert await rebuild(using, key) == NOTHING


async def _claimed(using: Sessions, key: SessionKey, name: str) -> bool:
    query = select(func.count()).where(tool_calls.c.session_id == key.session, tool_calls.c.state == "running")
    async with using.database.transaction() as connection:
        return name != "once" or await connection.scalar(query) == 2


async def test_unknown_session(stack: Stack) -> None:
    """A session that is not there is the caller's mistake."""
    async with stack.connect() as using:
        with pytest.raises(UnknownSession, match="sessions list"):
            await rebuild(using, SessionKey(using.tenant, new_id()))


async def test_paused_session_stays_paused(stack: Stack, rebuilt_worker: WorkerProcess, tmp_path: Path) -> None:
    """A run that waits is made again as parked, and goes on when its session is resumed."""
    gate = tmp_path / "gate"
    async with stack.connect() as using:
        handle = await submit(using, steps=2, gate=str(gate))
        await event(handle, "tool_execution_start", 1)
        assert (await using.pause(handle.session)).state == "paused"
        gate.touch()
        key = SessionKey(using.tenant, handle.session)

        async def parked() -> bool:
            return (await handle.status()).status == "parked"

        await eventually(parked, what="the parking")
        before = await take_snapshot(using.database, key)
        await wipe(using.database, key, *INDEX)
        await rebuild(using, key)
        assert await take_snapshot(using.database, key) == before
        assert (await using.resume(handle.session)).state == "resumed"
        assert await ended(handle) == "completed"
        assert await rebuild(using, key) == NOTHING


async def test_adopted_run_keeps_every_checkpoint(stack: Stack, rebuilt_worker: WorkerProcess, tmp_path: Path) -> None:
    """A boundary that only a terminated execution's history held is a row once its run is adopted."""
    gate = tmp_path / "gate"
    async with stack.connect() as using:
        handle = await submit(using, steps=2, held={1: str(gate)})
        await event(handle, "observation", 1)
        await eventually(lambda: _scheduled(using, handle, 3), what="the second model call")
        key = SessionKey(using.tenant, handle.session)
        await using.client.get_workflow_handle(key.workflow_id).terminate("by hand")
        await wake(using.client, SessionAddress(key, NAME, SESSION, NAME))
        async for item in handle.events():
            if item.type == "run.adopted":
                break
        gate.touch()
        assert await ended(handle) == "completed"
        before = await take_snapshot(using.database, key)
        assert sorted(row["step"] for row in before.rows["checkpoints"]) == [1, 2, 3]
        assert await rebuild(using, key) == NOTHING
        await wipe(using.database, key, *INDEX)
        await rebuild(using, key)
        assert await take_snapshot(using.database, key) == before


async def test_what_a_dead_worker_wrote_is_what_history_says(stack: Stack, tmp_path: Path) -> None:
    """Rows that were written before a worker died are not told otherwise when the work is done again."""
    points = ("begin_run.stored", "call_tool.stored", "record.stored#2", "end_run.stored")
    await asyncio.gather(*(_die_at(stack, tmp_path, point) for point in points))


async def _die_at(stack: Stack, folder: Path, point: str) -> None:
    name = point.replace("#", "-")
    gate = folder / f"gate-{name}"
    own = {"PERDURE_TASK_QUEUE": name, "PERDURE_TEST_AGENT": name}
    first = WorkerProcess(stack, APP, **own, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(folder / f"dead-{name}"))
    await asyncio.to_thread(first.wait_ready)
    async with stack.connect() as using:
        handle = await submit(using, name, steps=1, gate=str(gate))
        if name.startswith("record"):  # the second record parks the run, and takes the checkpoint along
            await event(handle, "tool_execution_start", 1)
            assert (await using.pause(handle.session)).state == "paused"
        gate.touch()
        await asyncio.to_thread(first.wait_dead)
        second = WorkerProcess(stack, APP, **own)
        await asyncio.to_thread(second.wait_ready)
        try:
            if name.startswith("record"):
                await eventually(lambda: _recorded(using, handle, 3), what="the second record, told")
                assert (await using.resume(handle.session, wait_s=20)).state == "resumed"
            assert await ended(handle) == "completed"
            key = SessionKey(using.tenant, handle.session)
            before = await take_snapshot(using.database, key)
            assert await rebuild(using, key) == NOTHING
            await wipe(using.database, key, *INDEX)
            await rebuild(using, key)
            assert await take_snapshot(using.database, key) == before
        finally:
            await asyncio.to_thread(second.kill)


async def test_session_without_any_history(stack: Stack, rebuilt_worker: WorkerProcess) -> None:
    """Its rows are the archive; the totals count a run also if nothing can bring its row back."""
    async with stack.connect() as using:
        handle = await submit(using, steps=2)
        assert await ended(handle) == "completed"
        key = SessionKey(using.tenant, handle.session)
        before = await take_snapshot(using.database, key)
        lost = [str((await handle.status()).temporal_run_id)]
        elsewhere = await connect_temporal(stack.addresses.temporal, "temporal-system")  # knows no session of ours
        assert await rebuild_session(elsewhere, using.database, key) == replace(NOTHING, lost_executions=lost)
        assert await take_snapshot(using.database, key) == before
        async with using.database.transaction() as connection:
            for table in (runs, checkpoints):
                await connection.execute(delete(table).where(table.c.session_id == key.session))
        report = await rebuild_session(elsewhere, using.database, key)
        missing = [row["id"] for row in sorted(before.rows["checkpoints"], key=lambda row: row["step"])]
        assert report == replace(NOTHING, lost_executions=lost, missing_checkpoints=missing)
        assert (await take_snapshot(using.database, key)).session == before.session


async def test_lost_history_takes_nothing_away(stack: Stack, forgotten: Forgotten) -> None:
    """What only a lost execution told stands as it is; what the others tell is made again."""
    key, before = forgotten.key, forgotten.before
    async with stack.connect() as using:

        async def gone() -> bool:
            return not await has_history(using, key, forgotten.lost)

        await eventually(gone, seconds=90, what="the end of the history")
        async with using.database.transaction() as connection:
            for table, run in (
                (runs, runs.c.id),
                (checkpoints, checkpoints.c.run_id),
                (tool_calls, tool_calls.c.run_id),
            ):
                mine = table.c.session_id == key.session
                await connection.execute(delete(table).where(mine, run != forgotten.first))
        report = await rebuild(using, key)
        assert report == RebuildReport(runs=1, checkpoints=2, tool_calls=1, nodes=0, lost_executions=[forgotten.lost])
        assert await take_snapshot(using.database, key) == before
