"""The index of checkpoints. Temporal's history holds them first; nothing that runs reads them from here but by name."""

from __future__ import annotations

from typing import cast

from sqlalchemy import select

from perdure.store.database import Database
from perdure.store.tables import checkpoints
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


async def last_checkpoint(database: Database, key: SessionKey, run: str) -> JSONObject | None:
    """The record of a run's last checkpoint: only for a run whose execution's history is gone."""
    sql = (
        "select record from perdure.checkpoints where tenant_id = $1 and session_id = $2 and run_id = $3 "
        "order by step desc limit 1"
    )
    async with database.driver() as connection:
        record = await connection.fetchval(sql, key.tenant, key.session, run)
    return cast("JSONObject | None", record)


async def list_checkpoints(database: Database, key: SessionKey, run: str | None = None) -> list[JSONObject]:
    """The records of a session's checkpoints, or of one run's, oldest first."""
    query = select(checkpoints.c.record).where(
        checkpoints.c.tenant_id == key.tenant, checkpoints.c.session_id == key.session
    )
    if run is not None:
        query = query.where(checkpoints.c.run_id == run)
    async with database.transaction() as connection:
        rows = (await connection.execute(query.order_by(checkpoints.c.at, checkpoints.c.step))).all()
    return [cast(JSONObject, row.record) for row in rows]
