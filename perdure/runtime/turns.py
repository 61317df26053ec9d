"""A run's turn, put together from what is stored."""

from __future__ import annotations

from perdure.activities.border import from_description
from perdure.errors import RunCancelled, RunError
from perdure.store.database import Database
from perdure.store.messages import StoredMessage, read_messages
from perdure.store.payloads import read_payloads
from perdure.store.runs import RunRow
from perdure.uap.cut import NAMESPACE
from perdure.upp.json_value import loads
from perdure.upp.messages import AssistantMessage, Message
from perdure.upp.tool_call import ToolExecution
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage, aggregate_usage


async def read_turn(database: Database, run: RunRow) -> Turn:
    """The turn of a completed run.

    Raises:
        PerdureError: what failed the run, with its own type.
        RunCancelled: the run was cancelled.
    """
    if run.status == "failed":
        raise from_description(run.error or {"type": "RunError", "message": "the run failed"})
    if run.status == "cancelled":
        raise RunCancelled("the run was cancelled", run_id=run.id)
    if run.node is None or run.start_position is None:
        raise RunError(f"the run is {run.status}; it has no turn yet", run_id=run.id)
    stored = await read_messages(database, run.key, run.node, first=run.start_position)
    own = [item for item in stored if item.run == run.id]
    return Turn(
        messages=[item.message for item in own if not _settled(item.message)],
        tool_executions=await _executions(database, run, own),
        usage=_usage(own),
        cycles=run.cycles,
    )


def _settled(message: Message) -> bool:
    """Whether a message only closes tool calls that were never run."""
    return bool((message.metadata or {}).get(NAMESPACE, {}).get("settled"))


def _usage(messages: list[StoredMessage]) -> TokenUsage:
    return aggregate_usage([TokenUsage.from_json(item.usage) for item in messages if item.usage])


async def _executions(database: Database, run: RunRow, messages: list[StoredMessage]) -> list[ToolExecution]:
    sql = (
        "select message_id, index, is_error, result_sha256, duration_ms from perdure.tool_calls "
        "where tenant_id = $1 and session_id = $2 and run_id = $3 and state = 'done' and duration_ms is not null"
    )
    async with database.driver() as connection:
        rows = await connection.fetch(sql, run.key.tenant, run.key.session, run.id)
    results = await read_payloads(database, run.key, [row["result_sha256"] for row in rows])
    known = {(row["message_id"], row["index"]): row for row in rows}
    executions: list[ToolExecution] = []
    for item in messages:
        calls = item.message.tool_calls if isinstance(item.message, AssistantMessage) else None
        for index, call in enumerate(calls or []):
            row = known.get((item.id, index))
            if row is not None:
                result = loads(results[row["result_sha256"]])
                executions.append(
                    ToolExecution(
                        call.tool_name, call.tool_call_id, call.arguments, result, row["is_error"], row["duration_ms"]
                    )
                )
    return executions
