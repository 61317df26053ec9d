"""Damage that rows alone show: each kind is one statement that finds it in a page of sessions, and what mends it.

A kind that has nothing to mend it says what does. Kinds themselves are in `head_faults`, `run_faults` and `tree_faults`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.opening import lock_head
from perdure.uap.session_key import SessionKey

Mend: TypeAlias = Callable[[AsyncConnection, SessionKey, str], Awaitable[None]]
REBUILD = "`perdure doctor --rebuild {session}` makes it again from the session's history"
MENDED, BUSY, GONE = "mended", "busy", "gone"


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of damage.

    Attributes:
        name: a stable word.
        what: what is wrong, with places for `{item}` and `{detail}`.
        find: SQL that gives session_id, item and detail; `:tenant` and `:sessions` are given.
        remedy: what mends it, with a place for `{session}`.
        mend: SQL for `:tenant`, `:session` and `:item`, or a function, in a transaction that holds the session; None if
            the rows do not say how.
        settle: instead, a function that makes its own transactions.
        while_active: it may be mended while the session has an active run.
        headless: the session has no head row, which is the damage.
        stage: of stage sessions; the others are of agents'.
    """

    name: str
    what: str
    find: str
    remedy: str
    mend: str | Mend | None = None
    settle: Callable[[Database, SessionKey, str], Awaitable[None]] | None = None
    while_active: bool = False
    headless: bool = False
    stage: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A fault that was found: in which session, and of which of its items."""

    fault: Fault
    key: SessionKey
    item: str
    detail: str

    @property
    def what(self) -> str:
        """What is wrong, in a phrase."""
        return self.fault.what.format(item=self.item, detail=self.detail)

    @property
    def remedy(self) -> str:
        """What mends it."""
        return self.fault.remedy.format(session=self.key.session)


async def find_faults(database: Database, tenant: str, sessions: Sequence[str], faults: Sequence[Fault]) -> list[Found]:
    """The faults of these kinds in these sessions, by kind and then by session.

    Args:
        database: the store.
        tenant: whose sessions they are.
        sessions: ids, a page of them: a statement looks at no others.
        faults: the kinds.
    """
    async with database.reading(tenant) as connection:
        return [found for fault in faults for found in await _find(connection, tenant, sessions, fault)]


async def mend_fault(database: Database, found: Found) -> str:
    """Mend a fault if it is still there. Safe to repeat, and while others do it too.

    Returns:
        `MENDED`; `BUSY` if the session has an active run which this might disturb; `GONE` if the fault, or the session,
        is there no more.
    """
    fault, key = found.fault, found.key
    async with database.transaction(key) as connection:
        head = await lock_head(connection, key, stage=fault.stage)
        if (head is None) != fault.headless or (head is not None and head.deleting):
            return GONE
        if head is not None and head.active_run is not None and not fault.while_active:
            return BUSY
        if found.item not in [one.item for one in await _find(connection, key.tenant, [key.session], fault)]:
            return GONE
        if isinstance(fault.mend, str):
            await connection.execute(text(fault.mend), {**key._asdict(), "item": found.item})
        elif fault.mend is not None:
            await fault.mend(connection, key, found.item)
    if fault.settle is not None:
        await fault.settle(database, key, found.item)
    return MENDED


async def _find(connection: AsyncConnection, tenant: str, sessions: Sequence[str], fault: Fault) -> list[Found]:
    values: dict[str, Any] = {"tenant": tenant, "sessions": list(sessions)}
    rows = (await connection.execute(text(fault.find), values)).all()
    return [Found(fault, SessionKey(tenant, row.session_id), str(row.item), str(row.detail)) for row in rows]
