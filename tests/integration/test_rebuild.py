"""The index of a session, made again from Temporal's histories: equal to the byte, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Table, delete, func, select, text, update

from perdure.errors import DamagedSession, UnknownSession
from perdure.runtime.rebuild import RebuildReport, rebuild_session
from perdure.runtime.temporal import connect_temporal
from perdure.store.database import Database
from perdure.store.tables import checkpoints, runs, sessions, thread_nodes, tool_calls
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey
from tests.integration.facts import FORGETTING_S
from tests.integration.rebuilt_sessions import (
    INDEX,
    NOTHING,
    Forgotten,
    Snapshot,
    ended,
    executions,
    has_history,
    rebuild,
    submit,
    take_snapshot,
    wipe,
)
from tests.integration.stack import Stack, WorkerProcess, eventually


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

        async def listed() -> bool:
            return len(await executions(using, key)) >= 5  # inputs that come close together share one

        await eventually(listed, what="the executions listed")


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
        make = f"create table public.{copy} as select * from perdure.{table} where {where} and {condition} limit 1"
        await connection.execute(
            text(make.replace(":tenant", f"'{key.tenant}'").replace(":session", f"'{key.session}'"))
        )
        name = "id" if table == "messages" else "sha256"
        found = f"{where} and {name} in (select {name} from public.{copy})"
        if what == "missing message":
            await connection.execute(text(f"delete from perdure.{table} where {found}"), key._asdict())
            return f"insert into perdure.{table} select * from public.{copy}"
        sql = f"update perdure.{table} set {column} = {column} || '\\x20'::bytea where {found}"
        await connection.execute(text(sql), key._asdict())
    return f"update perdure.{table} t set {column} = c.{column} from public.{copy} c where t.{name} = c.{name}"


async def test_unknown_session(stack: Stack) -> None:
    """A session that is not there is the caller's mistake."""
    async with stack.connect() as using:
        with pytest.raises(UnknownSession, match="sessions list"):
            await rebuild(using, SessionKey(using.tenant, new_id()))


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

        await eventually(gone, seconds=FORGETTING_S, what="the end of the history")
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
