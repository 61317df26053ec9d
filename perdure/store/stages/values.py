"""The values of a session's shared state: one row a key."""

from __future__ import annotations

from typing import cast

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.sealing import seal_in
from perdure.store.tables import stage_values
from perdure.uaip.state import StateDiff
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, dumps, loads


async def read_values(connection: AsyncConnection, key: SessionKey) -> JSONObject:
    """All values by key, in the keys' order."""
    query = select(stage_values.c.key, stage_values.c.value).where(
        stage_values.c.tenant_id == key.tenant, stage_values.c.session_id == key.session
    )
    rows = (await connection.execute(query.order_by(stage_values.c.key))).all()
    return {row.key: loads(cast(bytes, row.value)) for row in rows}


async def write_values(connection: AsyncConnection, key: SessionKey, diff: StateDiff) -> None:
    """Write what has changed, and nothing else."""
    own = {"tenant_id": key.tenant, "session_id": key.session}
    seal = seal_in(connection, key)
    if diff.deleted:
        await connection.execute(
            delete(stage_values).where(
                stage_values.c.tenant_id == key.tenant, stage_values.c.session_id == key.session,
                stage_values.c.key.in_(diff.deleted),
            )
        )  # fmt: skip
    if diff.values:
        rows = [{**own, "key": name, "value": seal.body(dumps(value))} for name, value in diff.values.items()]
        statement = upsert(stage_values)
        await connection.execute(
            statement.on_conflict_do_update(
                index_elements=["tenant_id", "session_id", "key"], set_={"value": statement.excluded.value}
            ),
            rows,
        )
