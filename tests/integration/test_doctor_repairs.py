"""Repairs by `perdure doctor` where real workers have run: a session's history and its mended rows go together."""

from __future__ import annotations

import asyncio
import json
import uuid

import asyncpg
import pytest
from sqlalchemy import make_url, text

from perdure.migrations.migrate import migrate
from perdure.runtime.checks.check import Check, Scope
from perdure.runtime.checks.examination import NAMES, examine
from perdure.runtime.rebuild import rebuild_session
from perdure.runtime.sessions import Sessions
from perdure.store.database import Database
from perdure.store.invalid_indexes import find_invalid
from perdure.store.payloads import read_payloads
from perdure.store.schema_drift import find_drift
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import sha256_hex
from perdure.upp.messages import AssistantMessage, UserMessage
from perdure.upp.tool_call import ToolCall
from tests.integration.facts import check_session
from tests.integration.reconciling import execute
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit

OWN = "tenant_id = :tenant and session_id = :session"
HISTORY = [UserMessage("before"), AssistantMessage("wait", [ToolCall("lost", "none", {})]), UserMessage("after")]


async def made(sessions: Sessions, *names: str, repair: bool = False) -> dict[str, Check]:
    scope = Scope(sessions.database, sessions.tenant, sessions.client)
    return {check.name: check async for check in examine(scope, only=names or NAMES, repair=repair)}


def about(checks: dict[str, Check], session: str) -> dict[str, list[str]]:
    """What is found of one session, by check."""
    found = {
        name: [one.what for one in check.findings if one.key and one.key.session == session]
        for name, check in checks.items()
    }
    return {name: phrases for name, phrases in found.items() if phrases}


async def rows_of(sessions: Sessions, key: SessionKey) -> list[tuple[object, ...]]:
    """Where runs, checkpoints and branches of a session stand."""
    sql = (
        "select 'run', id, start_position, null from perdure.runs where tenant_id = :tenant and session_id = :session "
        "union all select 'checkpoint', id, position, record::text from perdure.checkpoints where tenant_id = :tenant "
        "and session_id = :session union all select 'node', id, fork_index, null from perdure.thread_nodes "
        "where tenant_id = :tenant and session_id = :session order by 1, 2"
    ).replace("record::text", "cast(record ->> 'position' as text)")
    async with sessions.database.transaction(key) as connection:
        return [tuple(row) for row in (await connection.execute(text(sql), key._asdict())).all()]


async def test_a_repair_and_a_rebuild_agree(stack: Stack, steady_worker: WorkerProcess) -> None:
    """L13: a history without a result is repaired behind a run and a branch; a rebuild from Temporal's history agrees."""
    values = spec(steps=2, tool="none")
    async with stack.connect() as sessions:
        handle = await sessions.submit("worker", json.dumps(values), history=HISTORY)
        assert await finish(sessions, handle) == "completed"
        key = handle.accepted.key
        (checkpoint, *_) = [row for row in await rows_of(sessions, key) if row[0] == "checkpoint"]
        await sessions.restore(handle.session, str(checkpoint[1]))
        following = await submit(sessions, spec(steps=0), session=handle.session)
        assert await finish(sessions, following) == "completed"
        before = await rows_of(sessions, key)
        assert list(about(await made(sessions, "threads"), handle.session)) == ["threads"]
        await made(sessions, "threads", repair=True)
        after = await rows_of(sessions, key)
        moved = [(row[1], old[2], row[2]) for old, row in zip(before, after, strict=True) if old != row]
        assert moved
        assert all(int(str(new)) == int(str(old)) + 1 for _, old, new in moved)
        assert about(await made(sessions), handle.session) == {}
        await execute(sessions, key, *(f"delete from perdure.{name} where {OWN}" for name in ("runs", "checkpoints")))
        await execute(sessions, key, f"delete from perdure.thread_nodes where {OWN} and parent_id is not null")
        report = await rebuild_session(sessions.client, sessions.database, key)
        assert (report.lost_executions, report.missing_checkpoints) == ([], [])
        assert await rows_of(sessions, key) == after
        again = await submit(sessions, spec(steps=1, tool="none"), session=handle.session)
        assert await finish(sessions, again) == "completed"
        assert about(await made(sessions), handle.session) == {}


async def test_results_that_are_gone_come_back_and_the_session_goes_on(
    stack: Stack, steady_worker: WorkerProcess
) -> None:
    """Rows of a real run are deleted by hand: what is found is mended, the turn is as it was, and the next run is sound."""
    values = spec(steps=2, calls=2, tool="none")
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        turn = await handle.result()
        key = handle.accepted.key
        await execute(
            sessions, key, f"delete from perdure.messages where {OWN} and type = 'tool_result' and step = 1",
            f"delete from perdure.events where {OWN} and type = 'step_end'",
        )  # fmt: skip
        found = about(await made(sessions), handle.session)
        assert {name: len(phrases) for name, phrases in found.items()} == {"events": 1, "threads": 1}
        await made(sessions, "events", "threads", repair=True)
        assert about(await made(sessions), handle.session) == {}
        again = await handle.result()
        assert again.tool_executions == turn.tool_executions
        assert [one.type for one in again.messages] == [one.type for one in turn.messages]
        following = await submit(sessions, spec(steps=1, tool="none"), session=handle.session)
        assert await finish(sessions, following) == "completed"
    await check_session(stack, handle.session)


async def test_a_body_that_nothing_names_is_deleted(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A body without a name goes; one that only Temporal's history names, as its external storage has it, stays."""
    body, claimed = b"left over", b"claimed"
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=0))
        await handle.result()
        key = handle.accepted.key
        names = {"body": sha256_hex(body), "claimed": sha256_hex(claimed)}

        async def is_closed() -> bool:
            described = await sessions.client.get_workflow_handle(key.workflow_id).describe()
            return described.close_time is not None

        await eventually(is_closed, seconds=90)
        await sessions.send_control(key, "resume", names["claimed"])  # a signal, so that history says the hash
        insert = "insert into perdure.payloads (tenant_id, session_id, sha256, bytes) values (:tenant, :session, :sha, :bytes)"
        await execute(sessions, key, insert, sha=names["body"], bytes=body)
        await execute(sessions, key, insert, sha=names["claimed"], bytes=claimed)
        await eventually(is_closed, seconds=90)
        await execute(
            sessions, key, f"update perdure.session_heads set touched_at = now() - interval '1 hour' where {OWN}"
        )
        (what,) = about(await made(sessions, "payloads"), handle.session)["payloads"]
        assert what == f"nothing names the body {names['body']} of 9 bytes"
        await made(sessions, "payloads", repair=True)
        assert about(await made(sessions, "payloads"), handle.session) == {}
        assert await read_payloads(sessions.database, key, [names["claimed"]]) == {names["claimed"]: claimed}
        assert await (await submit(sessions, spec(steps=0), session=handle.session)).result()


async def test_a_deletion_that_was_cut_off_is_finished(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A session that is marked as being deleted, with nobody at it for minutes, is named, and deleted to the end."""
    async with stack.connect() as sessions:
        handle = await submit(sessions, spec(steps=0))
        await handle.result()
        key = handle.accepted.key
        await execute(sessions, key, f"update perdure.session_heads set deleting = true where {OWN}")
        assert about(await made(sessions, "deletions"), handle.session) == {}
        old = f"update perdure.session_heads set touched_at = now() - interval '1 hour' where {OWN}"
        await execute(sessions, key, old)
        assert about(await made(sessions, "deletions"), handle.session) == {"deletions": ["its deletion was cut off"]}
        check = (await made(sessions, "deletions", repair=True))["deletions"]
        assert check.ok
        assert about(await made(sessions), handle.session) == {}


async def cut_off(stack: Stack, statement: str, name: str) -> None:
    """Begin to build an index concurrently, and kill the server's process that does it before it can end."""
    url = stack.addresses.database_url
    holder, builder, killer = [await asyncpg.connect(url) for _ in range(3)]
    try:
        holding = holder.transaction()
        await holding.start()
        await holder.execute("lock table perdure.runs in row exclusive mode")
        building = asyncio.create_task(builder.execute(statement))

        async def is_waiting() -> bool:
            return bool(
                await killer.fetchval("select count(*) from pg_stat_progress_create_index where lockers_total > 0")
                and await killer.fetchval("select to_regclass($1) is not null", f"perdure.{name}")
            )

        await eventually(is_waiting, seconds=90)
        await killer.execute("select pg_terminate_backend($1)", builder.get_server_pid())
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await building
        await holding.rollback()
    finally:
        for connection in (holder, builder, killer):
            await connection.close(timeout=60)


async def test_l102_an_index_build_that_died_is_found_and_mended(stack: Stack) -> None:
    """L102: a concurrent build is killed: the doctor reports what it left, a repair builds it or takes it away, for good."""
    await cut_off(stack, "create index concurrently runs_of_nobody on perdure.runs (status)", "runs_of_nobody")
    await cut_off(stack, "reindex index concurrently perdure.runs_by_id", "runs_by_id_ccnew")
    async with stack.connect() as sessions:
        async with sessions.database.driver() as connection:
            await connection.execute(
                "update pg_index set indisvalid = false where indexrelid = 'perdure.runs_open'::regclass"
            )
        found = (await made(sessions, "indexes"))["indexes"]
        names = ["perdure.runs_by_id_ccnew", "perdure.runs_of_nobody", "perdure.runs_open"]
        assert [one.what for one in found.findings] == [
            f"index {name} is invalid: its build was cut off" for name in names
        ]
        assert (await made(sessions, "indexes", repair=True))["indexes"].mended == 3
        assert (await made(sessions, "indexes"))["indexes"].ok
        assert await find_invalid(sessions.database) == []
        assert await find_drift(sessions.database) == []
        async with sessions.database.driver() as connection:
            left = await connection.fetchval("select count(*) from pg_indexes where indexname = any($1)", [
                "runs_open", "runs_by_id", "runs_by_id_ccnew", "runs_of_nobody"
            ])  # fmt: skip
        assert left == 2


DRIFTS = {
    "alter table perdure.runs alter column status drop not null": "column runs.status is text; it must be text not null",
    "alter table perdure.tenants add column x text": "column tenants.x is not ours",
    "alter table perdure.waits drop column used": "column waits.used is missing",
    "drop index perdure.runs_unfolded": "index runs_unfolded is missing",
    "drop function perdure.written_v1": "function written_v1 is missing",
}


async def test_a_schema_that_was_changed_by_hand_is_found(stack: Stack) -> None:
    """Columns, an index and a function that are not as the revisions made them are named; as they made them nothing is."""
    server, name = Database(stack.addresses.database_url), f"drifted_{uuid.uuid4().hex}"
    url = make_url(stack.addresses.database_url).set(database=name).render_as_string(hide_password=False)
    database = Database(url, pool_size=1)
    try:
        async with server.driver() as connection:
            await connection.execute(f"create database {name}")
        await migrate(database)
        assert await find_drift(database) == []
        async with database.driver() as connection:
            for statement in DRIFTS:
                await connection.execute(statement)
        assert await find_drift(database) == list(DRIFTS.values())
    finally:
        await database.close()
        async with server.driver() as connection:
            await connection.execute(f"drop database if exists {name} with (force)")
        await server.close()
