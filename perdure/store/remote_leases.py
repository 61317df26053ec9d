"""Following asks: who holds the lease of one writes what came of it, and answers its wait once.

The wait is answered and the ask ended in one transaction; frames are kept before they are ACKed. Whoever has lost the lease
writes nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import JSON, and_, delete, func, null, or_, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.inputs import emit
from perdure.store.json_text import escaped_json
from perdure.store.opening import lock_head
from perdure.store.remote_asks import AskRow, ask_row
from perdure.store.sealing import seal_in
from perdure.store.tables import remote_ask_frames, remote_asks, session_heads, waits
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue

_IS_DUE = "select exists (select 1 from perdure.remote_asks where tenant_id = $1 and ended_at is null and due_at <= $2)"
_ANSWER_WAIT = text(
    "select perdure.answer_wait_v1(:tenant, :wait, cast(:answer as json), cast(:by as json), 'result', null) as answer"
).columns(answer=JSON)


class LeaseLost(Exception):
    """Another process follows the ask now, or it has ended, or its session is deleted: nothing was written."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may follow which ask.

    Attributes:
        tenant: whose it is.
        ask: its id.
        holder: the process.
    """

    tenant: str
    ask: str
    holder: str


async def claim_asks(
    database: Database, tenant: str, holder: str, *, now: datetime, lease: timedelta, limit: int
) -> list[AskRow]:
    """Take asks that are due and that nobody follows, oldest first; they are this holder's for as long as `lease`.

    Args:
        database: the store.
        tenant: whose.
        holder: the process that will follow them.
        now: the time.
        lease: after which another may take them, unless it is renewed.
        limit: at most so many.
    """
    async with database.driver() as driver:  # mostly there is none, and this is asked twice a second
        if not await driver.fetchval(_IS_DUE, tenant, now):
            return []
    due = (
        select(remote_asks.c.tenant_id, remote_asks.c.id)
        .where(
            remote_asks.c.tenant_id == tenant, remote_asks.c.ended_at.is_(None), remote_asks.c.due_at <= now,
            or_(remote_asks.c.lease_until.is_(None), remote_asks.c.lease_until <= now),
        )
        .order_by(remote_asks.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("due")
    )  # fmt: skip
    statement = (
        update(remote_asks)
        .where(tuple_(remote_asks.c.tenant_id, remote_asks.c.id).in_(select(due.c.tenant_id, due.c.id)))
        .values(lease_by=holder, lease_until=now + lease)
        .returning(remote_asks)
    )
    async with database.transaction(tenant) as connection:
        return [ask_row(row) for row in (await connection.execute(statement)).all()]


async def renew_lease(database: Database, lease: Lease, *, now: datetime, until: datetime) -> bool:
    """Keep an ask for longer; whether its answer is still wanted.

    It is not if somebody has answered in the agent's place, the time is over, or the run has ended.

    Raises:
        LeaseLost: it is not the holder's any more.
    """
    statement = update(remote_asks).where(_held(lease)).values(lease_until=until).returning(remote_asks.c.wait_id)
    async with database.transaction(lease.tenant) as connection:
        wait = await connection.scalar(statement)
        if wait is None:
            raise LeaseLost(lease.ask)
        query = select(
            and_(
                waits.c.answered_at.is_(None),
                or_(waits.c.expires_at.is_(None), waits.c.expires_at > now),
                session_heads.c.active_run == waits.c.run_id,
                session_heads.c.deleting.is_(False),
            )
        ).join_from(
            waits,
            session_heads,
            and_(session_heads.c.tenant_id == waits.c.tenant_id, session_heads.c.session_id == waits.c.session_id),
        )
        own = (waits.c.tenant_id == lease.tenant, waits.c.id == wait)
        return bool(await connection.scalar(query.where(*own)))


async def keep_envelope(
    database: Database, lease: Lease, key: SessionKey, *, own: str, peer: str, envelope: bytes
) -> None:
    """Keep an ask's signed envelope, before it is sent for the first time. Raises LeaseLost."""
    await _write(database, lease, key, {"own": own, "peer": peer, "envelope": envelope})


async def note_accepted(database: Database, lease: Lease, key: SessionKey, *, stream_id: str) -> None:
    """The other side has the envelope, and its stream has this id there. Raises LeaseLost."""
    given = {"accepted": True, "stream_id": stream_id, "failures": 0, "problem": null()}
    async with database.transaction(key) as connection:
        await _hold(connection, lease, given)  # nothing of it is sealed


async def release_ask(
    database: Database, lease: Lease, key: SessionKey, *, due_at: datetime, problem: JSONObject | None
) -> None:
    """Let anybody follow an ask from a time on.

    Args:
        database: the store.
        lease: of the ask.
        key: its session.
        due_at: when.
        problem: what was in the way; None if nothing was.

    Raises:
        LeaseLost: it is not the holder's any more.
    """
    given: dict[str, Any] = {"due_at": due_at, "lease_by": None, "lease_until": None}
    if problem is not None:
        given |= {"problem": problem, "failures": remote_asks.c.failures + 1}
    await _write(database, lease, key, given)


async def answer_ask(database: Database, lease: Lease, row: AskRow, answer: JSONObject, *, by: str) -> bool:
    """End an ask by answering its wait; whether the answer was still wanted.

    Args:
        database: the store.
        lease: of the ask.
        row: the ask.
        answer: {"result", "isError"}.
        by: who answered.

    Raises:
        LeaseLost: it is not the holder's any more.
    """
    key = row.key
    async with database.transaction(key) as connection:  # the wait first: it locks the session's head
        given = {
            "tenant": key.tenant, "wait": row.wait, "by": escaped_json(by),
            "answer": escaped_json(seal_in(connection, key).answer(answer)),
        }  # fmt: skip
        made = cast(JSONObject, (await connection.execute(_ANSWER_WAIT, given)).scalar_one())
        won = made["kind"] == "won"
        outcome = "withdrawn" if not won else "failed" if answer.get("isError") else "answered"
        await _end(connection, lease, outcome)
    return won


async def withdraw_ask(database: Database, lease: Lease, key: SessionKey) -> None:
    """End an ask whose answer is not wanted any more. Raises LeaseLost."""
    async with database.transaction(key) as connection:
        await _end(connection, lease, "withdrawn")


async def keep_frames(
    database: Database,
    lease: Lease,
    key: SessionKey,
    frames: Sequence[tuple[int, bytes]],
    *,
    run: str,
    events: list[JSONValue],
) -> None:
    """Keep frames of an ask's stream, before they are ACKed.

    Args:
        database: the store.
        lease: of the ask.
        key: its session.
        frames: sequence number and bytes of each, in order.
        run: who asks.
        events: for the session's log.

    Raises:
        LeaseLost: it is not the holder's any more.
    """
    async with database.transaction(key) as connection:
        seal = seal_in(connection, key)
        if events:  # before the ask's row: whoever deletes a session has its head first
            if await lock_head(connection, key) is None:
                raise LeaseLost(lease.ask)
            await emit(connection, key, run, events)
        given = {"next_seq": frames[-1][0] + 1, "failures": 0, "problem": null()}
        await _hold(connection, lease, given)
        rows = [
            seal.row(
                remote_ask_frames,
                {"tenant_id": key.tenant, "session_id": key.session, "ask": lease.ask, "seq": seq, "frame": frame},
            )
            for seq, frame in frames
        ]
        await connection.execute(insert(remote_ask_frames).values(rows).on_conflict_do_nothing())


async def _write(database: Database, lease: Lease, key: SessionKey, values: dict[str, Any]) -> None:
    async with database.transaction(key) as connection:
        await _hold(connection, lease, seal_in(connection, key).row(remote_asks, values))


async def _hold(connection: AsyncConnection, lease: Lease, values: dict[str, Any]) -> None:
    written = await connection.execute(update(remote_asks).where(_held(lease)).values(**values))
    if not written.rowcount:
        raise LeaseLost(lease.ask)


async def _end(connection: AsyncConnection, lease: Lease, outcome: str) -> None:
    ended = {"outcome": outcome, "ended_at": func.clock_timestamp(), "lease_by": None, "lease_until": None}
    await _hold(connection, lease, ended)
    own = (remote_ask_frames.c.tenant_id == lease.tenant, remote_ask_frames.c.ask == lease.ask)
    await connection.execute(delete(remote_ask_frames).where(*own))


def _held(lease: Lease) -> Any:
    return and_(
        remote_asks.c.tenant_id == lease.tenant,
        remote_asks.c.id == lease.ask,
        remote_asks.c.lease_by == lease.holder,
        remote_asks.c.ended_at.is_(None),
    )
