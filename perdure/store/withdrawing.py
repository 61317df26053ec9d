"""Taking inputs back that no run has begun of: until it is taken an input is its clients'."""

from __future__ import annotations

from typing import Any

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.inputs import REFUSED, RUNS, emit, outcome_note
from perdure.store.opening import lock_head
from perdure.store.tables import inputs
from perdure.uap.events import run_event
from perdure.uap.session_key import SessionKey, unknown_session
from perdure.upp.json_value import JSONObject


async def withdraw(database: Database, key: SessionKey, run: str) -> bool:
    """Take back an input that is still queued, with its run's terminal event; False if a run has begun of it."""
    async with database.transaction() as connection:
        if await lock_head(connection, key) is None:
            return False
        return bool(await _withdraw(connection, key, inputs.c.run_id == run))


async def withdraw_all(database: Database, key: SessionKey) -> tuple[list[str], str | None]:
    """Take back all that is queued, in one transaction.

    Returns:
        The run ids of what was taken back, in order; and the run that is active.

    Raises:
        UnknownSession: there is no such session.
    """
    async with database.transaction() as connection:
        head = await lock_head(connection, key)
        if head is None:
            raise unknown_session(key.session)
        return await _withdraw(connection, key), head.active_run


async def _withdraw(connection: AsyncConnection, key: SessionKey, *which: Any) -> list[str]:
    found = await connection.execute(
        update(inputs)
        .where(inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session, inputs.c.state == "queued", *which)
        .values(state="withdrawn")
        .returning(inputs.c.kind, inputs.c.ordinal, inputs.c.run_id)
    )
    rows = sorted(found.all(), key=lambda row: row.ordinal)
    for row in rows:
        await _tell(connection, key, row)
    return [row.run_id for row in rows]


async def _tell(connection: AsyncConnection, key: SessionKey, row: Any) -> None:
    if row.kind in RUNS:
        await emit(connection, key, row.run_id, [run_event("run.cancelled", {"withdrawn": True})])
        return
    error: JSONObject = {"type": "InvalidInput", "message": f"the {row.kind} was withdrawn"}
    data: JSONObject = {"input": row.ordinal, "kind": row.kind, "error": error, "withdrawn": True}
    await emit(connection, key, None, [{**run_event(REFUSED, data), "n": outcome_note(row.ordinal)}])
