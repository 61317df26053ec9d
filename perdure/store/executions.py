"""What became of tool calls, as UPP's records of them."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.store.database import Database
from perdure.store.messages import StoredMessage
from perdure.store.payloads import read_payloads
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import loads
from perdure.upp.messages import AssistantMessage
from perdure.upp.tool_call import ToolExecution

_BODIES = ("result_sha256", "used_sha256")


async def read_executions(
    database: Database, key: SessionKey, run: str, messages: Sequence[StoredMessage]
) -> list[ToolExecution]:
    """The records of the tool calls that these messages of a run asked for, in call order; of those that were run."""
    found = await executions_by_message(database, key, run, messages)
    return [execution for executions in found.values() for execution in executions]


async def executions_by_message(
    database: Database, key: SessionKey, run: str, messages: Sequence[StoredMessage]
) -> dict[str, list[ToolExecution]]:
    """The same by the row id of the message that asked: a vendor's call id may come again in a later one."""
    asked = {
        item.id: item.message.tool_calls
        for item in messages
        if isinstance(item.message, AssistantMessage) and item.message.tool_calls
    }
    if not asked:
        return {}
    sql = (
        "select message_id, index, is_error, result_sha256, duration_ms, approved, used_sha256 from perdure.tool_calls "
        "where tenant_id = $1 and session_id = $2 and message_id = any($3::text[]) and run_id = $4 "
        "and state = 'done' and duration_ms is not null"
    )
    async with database.driver(key) as connection:
        rows = await connection.fetch(sql, key.tenant, key.session, list(asked), run)
    results = await read_payloads(database, key, [row[name] for row in rows for name in _BODIES if row[name]])
    known = {(row["message_id"], row["index"]): row for row in rows}
    found: dict[str, list[ToolExecution]] = {}
    for message, calls in asked.items():
        for index, call in enumerate(calls):
            row = known.get((message, index))
            if row is not None:
                result = loads(results[row["result_sha256"]])
                used = loads(results[row["used_sha256"]]) if row["used_sha256"] else call.arguments
                found.setdefault(message, []).append(
                    ToolExecution(
                        call.tool_name, call.tool_call_id, used, result, row["is_error"], row["duration_ms"],
                        row["approved"],
                    )
                )  # fmt: skip
    return found
