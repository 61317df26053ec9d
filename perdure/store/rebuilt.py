"""What a rebuild of a session's index reads, and how it writes: under the lock of the head row, one transaction.

Kept as truth are the rows that nothing else can make: session, head, inputs, messages, payloads, events. What can be made
again from Temporal's histories are runs, checkpoints, tool calls, thread nodes and the session's totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias, cast

from sqlalchemy import JSON, Boolean, Column, Row, Table, bindparam, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import DamagedSession, SessionGone
from perdure.store.importing import IMPORTED
from perdure.store.inputs import CHANGED
from perdure.store.messages import read_body
from perdure.store.sealing import seal_in
from perdure.store.tables import checkpoints, events, inputs, runs, session_heads, sessions
from perdure.uap.session_key import SessionKey, unknown_session
from perdure.upp.json_value import JSONObject, sha256_hex

RowValues: TypeAlias = dict[str, Any]
Identity: TypeAlias = tuple[Any, ...]

_TOLD = (
    "run.started", "run.parked", "run.resumed", "run.adopted", "run.completed", "run.failed", "run.cancelled",
    "step_start", "checkpoint", "tool_execution_end",
)  # fmt: skip

_BODIES = """
select m.id, m.type, m.sha256 = encode(sha256(b.body), 'hex') as whole, m.sha256,
       case when m.type = 'tool_result' or perdure.is_sealed_v1(b.body) then b.body end as body
  from perdure.messages m
  left join perdure.payloads p on m.body is null and p.tenant_id = m.tenant_id and p.session_id = m.session_id
        and p.sha256 = m.sha256
 cross join lateral (select coalesce(m.body, p.bytes) as body) b
 where m.tenant_id = :tenant and m.session_id = :session
"""

_WHOLE = """
select sha256, case when perdure.is_sealed_v1(bytes) then bytes end as body from perdure.payloads
 where tenant_id = :tenant and session_id = :session and sha256 = any(:wanted)
   and (sha256 = encode(sha256(bytes), 'hex') or perdure.is_sealed_v1(bytes))
"""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the event log, as far as a rebuild asks."""

    seq: int
    run: str
    step: int | None
    attempt: int | None
    type: str
    data: JSONObject
    at: datetime


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A message's body. `refs` are the references of a tool-result message, in call order."""

    sha256: str
    whole: bool
    refs: list[JSONObject] | None


@dataclass(frozen=True, slots=True)
class Kept:
    """The rows of a session that are truth.

    Attributes:
        session: its row.
        active_run: the run that is open, or None.
        paused: the session's flag.
        ordinals: place of each run's input.
        bodies: of all messages, by id.
        log: the entries that say what was written when, in order.
        executions: Temporal run ids that rows name.
        changes: the entries that say what became of the thread tree, in order.
        resumed: of runs that went on from a checkpoint: their inputs' details, in order.
    """

    session: Row[Any]
    active_run: str | None
    paused: bool
    ordinals: dict[str, int]
    bodies: dict[str, StoredBody]
    log: list[LogEntry]
    executions: set[str]
    changes: list[LogEntry] = field(default_factory=list[LogEntry])
    resumed: dict[str, JSONObject] = field(default_factory=dict[str, JSONObject])


async def lock_and_read(connection: AsyncConnection, key: SessionKey) -> Kept:
    """Hold every writer of the session off until the transaction ends, and read what is truth.

    Raises:
        UnknownSession: there is no such session.
        SessionGone: it is being deleted.
    """
    query = select(session_heads).where(*_of(session_heads, key)).with_for_update()
    head = (await connection.execute(query)).first()
    session = (
        await connection.execute(
            select(sessions).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
        )
    ).first()
    if head is None or session is None:
        raise unknown_session(key.session)
    if head.deleting:
        raise SessionGone(f"session {key.session} is being deleted; nothing of it is rebuilt")
    columns = (inputs.c.run_id, inputs.c.ordinal, inputs.c.kind, inputs.c.state, inputs.c.detail)
    query = select(*columns).where(*_of(inputs, key)).order_by(inputs.c.ordinal)
    taken = (await connection.execute(query)).all()
    log = await _read_log(connection, key)
    return Kept(
        session=session,
        active_run=head.active_run,
        paused=head.paused,
        ordinals={row.run_id: row.ordinal for row in taken},
        bodies=await _read_bodies(connection, key),
        log=log,
        executions=await _named_executions(connection, key, log, head.note_execution),
        changes=await _read_changes(connection, key),
        resumed={row.run_id: row.detail for row in taken if row.kind == "resume" and row.state == "taken"},
    )


async def _read_log(connection: AsyncConnection, key: SessionKey) -> list[LogEntry]:
    query = select(events).where(*_of(events, key), events.c.type.in_(_TOLD), events.c.run_id.is_not(None))
    rows = (await connection.execute(query.order_by(events.c.seq))).all()
    return [LogEntry(row.seq, row.run_id, row.step, row.attempt, row.type, row.data, row.at) for row in rows]


async def _read_changes(connection: AsyncConnection, key: SessionKey) -> list[LogEntry]:
    query = select(events).where(*_of(events, key), events.c.type.in_((CHANGED, IMPORTED)))
    rows = (await connection.execute(query.order_by(events.c.seq))).all()
    return [LogEntry(row.seq, row.run_id or "", row.step, row.attempt, row.type, row.data, row.at) for row in rows]


async def _read_bodies(connection: AsyncConnection, key: SessionKey) -> dict[str, StoredBody]:
    rows = (await connection.execute(text(_BODIES), key._asdict())).all()
    return {row.id: _stored(row) for row in rows}


def _stored(row: Row[Any]) -> StoredBody:
    """What is known of a body. The database cannot tell whether a sealed one is whole; it came here, opened."""
    is_whole = bool(row.whole) if row.body is None else sha256_hex(row.body) == row.sha256
    if row.type != "tool_result" or row.body is None or not is_whole:
        return StoredBody(row.sha256, is_whole, None)
    document = cast("dict[str, list[JSONObject]]", read_body("tool_result", row.body))
    return StoredBody(row.sha256, is_whole, document["results"])


async def _named_executions(
    connection: AsyncConnection, key: SessionKey, log: Iterable[LogEntry], noted: str | None
) -> set[str]:
    named = {str(entry.data["execution"]) for entry in log if entry.type == "run.started"}
    for table in (runs, checkpoints):
        named.update(await connection.scalars(select(table.c.temporal_run_id).where(*_of(table, key))))
    return named | ({noted} if noted else set())


async def check_payloads(connection: AsyncConnection, key: SessionKey, wanted: Iterable[str]) -> None:
    """See that each of these hashes has its body.

    Raises:
        DamagedSession: one is missing or has another hash.
    """
    names = sorted(set(wanted))
    rows = (await connection.execute(text(_WHOLE), {**key._asdict(), "wanted": names})).all()
    found = {row.sha256 for row in rows if row.body is None or sha256_hex(row.body) == row.sha256}
    for name in names:
        if name not in found:
            raise DamagedSession(f"the body {name} of session {key.session} is missing or has another hash")


async def read_rows(connection: AsyncConnection, table: Table, key: SessionKey) -> dict[Identity, RowValues]:
    """All rows of a session in one of its tables, by primary key."""
    found = (await connection.execute(select(table).where(*_of(table, key)))).mappings().all()
    rows = [{str(name): value for name, value in row.items()} for row in found]
    return {_identity(table, row): row for row in rows}


async def put_rows(
    connection: AsyncConnection, table: Table, existing: Mapping[Identity, RowValues], rows: Sequence[RowValues]
) -> int:
    """Insert the rows that are missing, correct those that differ, leave all others; how many were written.

    A column that a row does not name stays as it is.
    """
    whole = [_whole(table, existing.get(_identity(table, row)), row) for row in rows]
    fresh = [row for row in whole if _identity(table, row) not in existing]
    wrong = [row for row in whole if existing.get(_identity(table, row), row) != row]
    places = {column.name: bindparam(f"v_{column.name}", type_=_kind(column.type)) for column in table.columns}
    fresh, wrong = _sealed(connection, table, fresh), _sealed(connection, table, wrong)
    if fresh:
        await connection.execute(insert(table).values(places), [_bound(row) for row in fresh])
    if wrong:
        own = [table.c[column.name] == bindparam(f"v_{column.name}") for column in table.primary_key]
        others = {name: place for name, place in places.items() if name not in table.primary_key.columns}
        await connection.execute(update(table).where(*own).values(others), [_bound(row) for row in wrong])
    return len(fresh) + len(wrong)


async def put_totals(connection: AsyncConnection, key: SessionKey, kept: Kept, totals: RowValues) -> None:
    """Correct the session's row in these columns, where it says otherwise."""
    wrong = {name: value for name, value in totals.items() if getattr(kept.session, name) != value}
    if wrong:
        query = update(sessions).where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
        await connection.execute(query.values(seal_in(connection, key).row(sessions, wrong)))


def _sealed(connection: AsyncConnection, table: Table, rows: Sequence[RowValues]) -> list[RowValues]:
    """The rows as they are written; each says whose it is."""
    keys = [SessionKey(row["tenant_id"], row["session_id"]) for row in rows]
    return [seal_in(connection, key).row(table, row) for key, row in zip(keys, rows, strict=True)]


def _of(table: Table, key: SessionKey) -> tuple[Any, Any]:
    return table.c.tenant_id == key.tenant, table.c.session_id == key.session


def _identity(table: Table, row: RowValues) -> Identity:
    return tuple(row[column.name] for column in table.primary_key)


def _whole(table: Table, existing: RowValues | None, row: RowValues) -> RowValues:
    return {**{column.name: _empty(column) for column in table.columns}, **(existing or {}), **row}


def _empty(column: Column[Any]) -> object:
    """What a new row says where nothing makes it say anything: a flag is not set."""
    return False if isinstance(column.type, Boolean) and not column.nullable else None


def _kind(kind: Any) -> Any:
    return JSON(none_as_null=True) if isinstance(kind, JSON) else kind


def _bound(row: RowValues) -> RowValues:
    return {f"v_{name}": value for name, value in row.items()}
