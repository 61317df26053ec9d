"""What became of an input, and how one that was handed in before is answered by its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import KeyConflict
from perdure.store.database import Database
from perdure.store.policies import JOINED, STARTED, count_before, queued_action
from perdure.store.tables import inputs, runs, session_heads
from perdure.uap.session_key import SessionKey

_STATUS = {"withdrawn": "cancelled", "refused": "failed"}


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an input.

    Attributes:
        key: the session.
        run: the run that handles it.
        ordinal: its place in the session's order.
        status: "queued" or the run's status today.
        repeated: it was known before under its idempotency key.
        paused: the session is paused, so it waits.
        after_seq: number of the last event before this input's own.
        action: what it does: "started" (nothing stands before it), "queued", "interrupts", "rolls_back" or "steers" (the
            run in `target`), "joined" (the run in `target` took it), "withdrawn".
        target: the run that was active when it came, if its policy is about it.
        place: in the queue: 1 is taken next; 0 once it is not in the queue.
    """

    key: SessionKey
    run: str
    ordinal: int
    status: str
    repeated: bool
    paused: bool
    after_seq: int
    action: str = STARTED
    target: str | None = None
    place: int = 0


async def by_opening_key(connection: AsyncConnection, tenant: str, name: str) -> Row[Any] | None:
    """The input of an idempotency key that opened its session, or None."""
    query = select(inputs).where(inputs.c.tenant_id == tenant, inputs.c.key == name, inputs.c.opens_session)
    return (await connection.execute(query)).first()


async def by_key(connection: AsyncConnection, key: SessionKey, name: str) -> Row[Any] | None:
    """The session's input of an idempotency key, or None."""
    query = select(inputs).where(
        inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session, inputs.c.key == name
    )
    return (await connection.execute(query)).first()


async def find_accepted(database: Database, key: SessionKey, name: str) -> Accepted | None:
    """What became of the session's input of an idempotency key; None if there is none."""
    async with database.transaction(key) as connection:
        known = await by_key(connection, key, name)
        return None if known is None else await again(connection, known, known.body_sha256)


async def again(connection: AsyncConnection, known: Row[Any], body_sha256: str) -> Accepted:
    """The answer to an input that is known by its key, whatever its policy is now.

    Raises:
        KeyConflict: the key was used with another input.
    """
    if known.body_sha256 != body_sha256:
        raise KeyConflict(f"idempotency key {known.key!r} was used with another input; use a new key for a new input")
    key = SessionKey(known.tenant_id, known.session_id)
    joined = known.state == "joined"
    query = select(runs.c.status, runs.c.first_seq).where(
        runs.c.tenant_id == key.tenant,
        runs.c.session_id == key.session,
        runs.c.id == (known.target_run if joined else known.run_id),
    )
    run = (await connection.execute(query)).first()
    paused = await connection.scalar(
        select(session_heads.c.paused).where(
            session_heads.c.tenant_id == key.tenant, session_heads.c.session_id == key.session
        )
    )
    return Accepted(
        key=key,
        run=known.run_id,
        ordinal=known.ordinal,
        status=run.status if run else waiting_status(known.state),
        repeated=True,
        paused=bool(paused),
        after_seq=run.first_seq - 1 if run else 0,
        action=_action(known),
        target=known.target_run,
        place=await _place(connection, key, known),
    )


async def _place(connection: AsyncConnection, key: SessionKey, known: Row[Any]) -> int:
    if known.state != "queued":
        return 0
    return await count_before(connection, key, known.ordinal, known.policy, known.target_run) + 1


def _action(known: Row[Any]) -> str:
    if known.state == "queued":
        return queued_action(known.policy, known.target_run)
    return {"joined": JOINED, "withdrawn": "withdrawn"}.get(known.state, STARTED)


def waiting_status(state: str) -> str:
    """The status of a run that has not begun, by its input's state."""
    return _STATUS.get(state, state)
