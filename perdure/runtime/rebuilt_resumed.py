"""Tool calls of runs that went on from a checkpoint: no history tells of those that came with it, but their sources do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.activities.convert import converter
from perdure.errors import DamagedSession
from perdure.store.checkpoints import CheckpointRow, read_checkpoints
from perdure.store.resumed import Stretch, copy_calls, write_calls
from perdure.store.tables import messages, payloads, runs
from perdure.uap.checkpoint import CheckpointRecord
from perdure.uap.session_document import read_checkpoint
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, loads


async def write_resumed_calls(connection: AsyncConnection, key: SessionKey, resumed: Mapping[str, JSONObject]) -> int:
    """Write the rows that are missing, one run after the other, since one may have gone on from another.

    Args:
        connection: in the rebuild's transaction; all other rows are there.
        key: the session.
        resumed: the details of the runs' inputs, in order.

    Returns:
        How many were missing.
    """
    rows = {row.id: row for row in await read_checkpoints(connection, key)} if resumed else {}
    written = 0
    for run, detail in resumed.items():
        row = rows.get(str(detail["checkpoint"]))
        if row is not None:
            written += await _write(connection, key, run, cast("dict[str, Any]", detail), row)
    return written


async def _write(
    connection: AsyncConnection, key: SessionKey, run: str, detail: dict[str, Any], row: CheckpointRow
) -> int:
    begun = select(runs.c.start_position).where(
        runs.c.tenant_id == key.tenant, runs.c.session_id == key.session, runs.c.id == run
    )
    start = await connection.scalar(begun)
    if start is None:  # its history is gone, and so is its row
        return 0
    made = Stretch(detail["node"], start, detail["progress"]["position"])
    if row.imported_sha is None:
        record = converter.structure(row.record, CheckpointRecord)
        return await copy_calls(connection, key, run, Stretch(record.node, record.start, record.position), made)
    body = await connection.scalar(
        select(payloads.c.bytes).where(
            payloads.c.tenant_id == key.tenant,
            payloads.c.session_id == key.session,
            payloads.c.sha256 == row.imported_sha,
        )
    )
    if body is None:
        raise DamagedSession(f"session {key.session} lacks checkpoint {row.id} as it came; restore it from a backup")
    state = read_checkpoint(cast(JSONObject, loads(body))).state
    stands = select(messages.c.id).where(
        messages.c.tenant_id == key.tenant, messages.c.session_id == key.session, messages.c.node_id == made.node,
        messages.c.position >= made.start, messages.c.position < made.end,
    )  # fmt: skip
    ids = list(await connection.scalars(stands.order_by(messages.c.position)))
    pairs = list(zip(ids, state.messages, strict=True))
    return await write_calls(connection, key, run, state.step, pairs, state.tool_executions)
