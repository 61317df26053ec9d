"""A stage session whose head row is locked: nobody else reads or changes it until the transaction ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import FromClause, Row, Select, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.inputs import emit
from perdure.store.opening import lock_head
from perdure.store.sealing import seal_in
from perdure.store.stages.definitions import definition_of
from perdure.store.stages.rows import StageSessionRow, at_ms, session_of
from perdure.store.tables import session_heads, stage_sessions, stage_workflows
from perdure.uaip.definition import WorkflowDefinition
from perdure.uaip.session import SessionStatus, StageSession, expires_at_ms
from perdure.uap.ids import is_uuid4
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue

EXPIRED = "stage.expired"


@dataclass(slots=True)
class HeldSession:
    """A session within the transaction that holds it.

    Attributes:
        connection: of the transaction.
        key: the session.
        row: as it was when it was locked.
        next_ordinal: that the next action gets.
        definition: what it is pinned to.
        session: as it is after what was done so far.
        now: the store's clock, when it was locked.
        open_actions: how many are not settled, likewise.
        events: what happened so far, oldest first, to be written by `keep`.
    """

    connection: AsyncConnection
    key: SessionKey
    row: StageSessionRow
    next_ordinal: int
    definition: WorkflowDefinition
    session: StageSession
    now: datetime
    open_actions: int
    events: list[JSONValue] = field(default_factory=list[JSONValue])

    @property
    def now_ms(self) -> int:
        """The clock as the stage machine counts."""
        return at_ms(self.now)

    def tell(self, kind: str, data: JSONObject, *, note: str | None = None) -> None:
        """Have an event written with what is kept; one with a note is written once, so whoever repeats it finds it."""
        event: JSONObject = {"s": "stage", "t": kind, "d": data}
        self.events.append(event if note is None else {**event, "n": note})


async def hold(connection: AsyncConnection, key: SessionKey) -> HeldSession | None:
    """A session, locked until the transaction ends; None if there is none of that id.

    Raises:
        DamagedSession: the definition that it is pinned to is not stored.
    """
    if not is_uuid4(key.session):
        return None
    head = await lock_head(connection, key, stage=True)
    if head is None or head.deleting:
        return None
    found = (await connection.execute(sessions_of(key.tenant).where(stage_sessions.c.id == key.session))).first()
    if found is None:
        return None
    row = session_row(found)
    definition = await definition_of(connection, key.tenant, row.session.definition)
    return HeldSession(
        connection, key, row, head.next_ordinal, definition, row.session, found.now, found.open_actions
    )  # fmt: skip


async def keep(held: HeldSession, session: StageSession, *, reason: str = "") -> None:
    """Write what the session is now, and the events that were told.

    Args:
        held: the session; its `session`, `open_actions` and `events` are what was kept last.
        session: as it is to be.
        reason: why it was terminated, if it was.
    """
    values: dict[str, Any] = {
        "stage": session.stage, "status": session.status.value, "version": session.version, "taken": session.taken,
        "settled_at_ms": session.settled_at_ms, "open_actions": held.open_actions, "updated_at": held.now,
        "expires_at": expires_at(held.definition, session),
    }  # fmt: skip
    if session.sizes != held.row.session.sizes:
        values["sizes"] = session.sizes
    if session.has_ended and held.row.ended_at is None:
        values["ended_at"] = held.now
    if reason:
        values["ended_reason"] = seal_in(held.connection, held.key).value(reason)
    own = (stage_sessions.c.tenant_id == held.key.tenant, stage_sessions.c.id == held.key.session)
    await held.connection.execute(update(stage_sessions).where(*own).values(values))
    held.session = session
    await write_events(held)


async def write_events(held: HeldSession) -> None:
    """Write the events that were told, of what changed nothing of the session's own row."""
    if held.events:
        await emit(held.connection, held.key, None, held.events)
        held.events = []


async def let_expire(held: HeldSession) -> bool:
    """End a session whose time is over and of which nothing is open; whether it did."""
    if held.session.status is not SessionStatus.EXPIRED or held.row.ended_at is not None:
        return False
    held.tell(EXPIRED, {})
    await keep(held, held.session)
    return True


def sessions_of(tenant: str, page: FromClause = stage_sessions) -> Select[Any]:
    """A tenant's stage sessions with what belongs to their rows, and the clock.

    Args:
        tenant: whose.
        page: rows of `stage_sessions`, if only some are wanted.
    """
    heads = (session_heads.c.tenant_id == page.c.tenant_id) & (session_heads.c.session_id == page.c.id)
    served = (stage_workflows.c.tenant_id == page.c.tenant_id) & (stage_workflows.c.name == page.c.workflow)
    clock = func.clock_timestamp().label("now")
    joined = page.join(session_heads, heads).outerjoin(stage_workflows, served)
    columns = (*page.c, session_heads.c.last_seq, stage_workflows.c.task_queue, clock)
    return select(*columns).select_from(joined).where(page.c.tenant_id == tenant)


def session_row(row: Row[Any]) -> StageSessionRow:
    """What a row of `sessions_of` says. A session whose time is over and of which nothing is open has expired."""
    session = session_of(row)
    if row.expires_at is not None and row.expires_at <= row.now and not row.open_actions:
        session = replace(session, status=SessionStatus.EXPIRED)
    return StageSessionRow(
        key=SessionKey(row.tenant_id, row.id),
        session=session,
        task_queue=row.task_queue or "",
        created_at=row.created_at,
        updated_at=row.updated_at,
        expires_at=None if session.has_ended else row.expires_at,
        ended_at=row.ended_at,
        ended_reason=row.ended_reason or "",
        open_actions=row.open_actions,
        last_seq=row.last_seq,
    )


def expires_at(definition: WorkflowDefinition, session: StageSession) -> datetime | None:
    """When it ends if nothing is done until then, or None."""
    due = expires_at_ms(definition, session)
    return None if due is None else datetime.fromtimestamp(due / 1000, UTC)
