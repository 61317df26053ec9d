"""The rows of a run that goes on from a checkpoint: copies of what it had said, and its tool calls with their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from sqlalchemy import insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.inputs import emit
from perdure.store.message_rows import put_payloads
from perdure.store.tables import messages, runs, session_heads, sessions, tool_calls
from perdure.uap.events import run_event
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, dumps, sha256_hex
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.tool_call import ToolExecution

_COPY_CALLS = """
with pairs as (
    select s.id as source, t.id as made from (
        select id, row_number() over (order by position) as n from perdure.messages
         where tenant_id = :tenant and session_id = :session and node_id = :source_node
           and position >= :source_start and position < :source_end) as s
      join (
        select id, row_number() over (order by position) as n from perdure.messages
         where tenant_id = :tenant and session_id = :session and node_id = :node and position >= :start
           and position < :end) as t using (n)
)
insert into perdure.tool_calls (tenant_id, session_id, message_id, index, run_id, step, call_id, tool, args_sha256, effect,
                                state, attempt, is_error, result_sha256, result_bytes, duration_ms, approved,
                                used_sha256, results_id)
select c.tenant_id, c.session_id, p.made, c.index, :run, c.step, c.call_id, c.tool, c.args_sha256, c.effect, c.state,
       c.attempt, c.is_error, c.result_sha256, c.result_bytes, c.duration_ms, c.approved, c.used_sha256,
       coalesce(r.made, c.results_id)
  from pairs p
  join perdure.tool_calls c on c.tenant_id = :tenant and c.session_id = :session and c.message_id = p.source
       and c.state = 'done'
  left join pairs r on r.source = c.results_id
on conflict do nothing
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages of a node from one position up to, not including, another."""

    node: str
    start: int
    end: int


async def copy_calls(connection: AsyncConnection, key: SessionKey, run: str, source: Stretch, made: Stretch) -> int:
    """Copy the tool calls of copied messages; how many were missing."""
    values: dict[str, Any] = {
        "tenant": key.tenant, "session": key.session, "run": run, "source_node": source.node,
        "source_start": source.start, "source_end": source.end, "node": made.node, "start": made.start, "end": made.end,
    }  # fmt: skip
    return (await connection.execute(text(_COPY_CALLS), values)).rowcount


async def write_calls(
    connection: AsyncConnection,
    key: SessionKey,
    run: str,
    step: int,
    rows: Sequence[tuple[str, Message]],
    executions: Sequence[ToolExecution],
) -> int:
    """Write the tool calls of messages that came from elsewhere; how many were missing.

    Args:
        connection: in a transaction.
        key: the session.
        run: whose they are.
        step: of all of them: it is not known which.
        rows: row id and message, oldest first.
        executions: what is known of the calls, in call order.
    """
    known = iter(executions)
    values: list[dict[str, Any]] = []
    bodies: list[bytes] = []
    for (ident, answer), (results_id, results) in pairwise(rows):
        if not isinstance(answer, AssistantMessage) or not isinstance(results, ToolResultMessage):
            continue
        for index, (call, result) in enumerate(zip(answer.tool_calls or (), results.results, strict=False)):
            execution = next(known, None)
            body = dumps(result.result)
            bodies.append(body)
            values.append(
                {
                    "tenant_id": key.tenant,
                    "session_id": key.session,
                    "message_id": ident,
                    "index": index,
                    "run_id": run,
                    "step": step,
                    "call_id": call.tool_call_id,
                    "tool": call.tool_name,
                    "args_sha256": sha256_hex(dumps(call.arguments)),
                    "effect": "none",
                    "state": "done",
                    "attempt": 1,
                    "is_error": result.is_error,
                    "result_sha256": sha256_hex(body),
                    "result_bytes": len(body),
                    "duration_ms": 0 if execution is None else execution.duration_ms,
                    "results_id": results_id,
                }
            )
    if not values:
        return 0
    await put_payloads(connection, key, bodies)
    made = await connection.execute(upsert(tool_calls).on_conflict_do_nothing().returning(tool_calls.c.index), values)
    return len(made.all())


@dataclass(frozen=True, slots=True)
class ResumedRun:
    """A run that goes on.

    Attributes:
        id: its id.
        ordinal: its input's place.
        made: where its copied messages stand.
        checkpoint: that it goes on from.
        progress: where it stands, as Progress.
        execution: the Temporal execution that begins it.
        spec: its agent, frozen.
        now: the workflow's time.
    """

    id: str
    ordinal: int
    made: Stretch
    checkpoint: str
    progress: Mapping[str, Any]
    execution: str
    spec: JSONObject
    now: datetime


async def begin_resumed(connection: AsyncConnection, key: SessionKey, run: ResumedRun) -> tuple[str, str]:
    """Write that the run has begun; its messages are there. Returns row id and hash of its input."""
    first = (
        await connection.execute(
            select(messages.c.id, messages.c.sha256).where(
                messages.c.tenant_id == key.tenant, messages.c.session_id == key.session,
                messages.c.node_id == run.made.node, messages.c.position == run.made.start,
            )
        )
    ).one()  # fmt: skip
    step = int(run.progress.get("step", 0))
    resumed: JSONObject = {"checkpoint": run.checkpoint, "step": step}
    started: JSONObject = {
        "input": run.ordinal, "message": first.id, "execution": run.execution, "resumed": resumed,
    }  # fmt: skip
    seq = await emit(connection, key, run.id, [run_event("run.started", started)])
    await connection.execute(
        insert(runs).values(
            tenant_id=key.tenant, session_id=key.session, id=run.id, ordinal=run.ordinal, status="running",
            spec=run.spec, node_id=run.made.node, start_position=run.made.start, step=step, started_step=step,
            usage=run.progress.get("usage", {}), cycles=run.progress.get("cycles", 0), temporal_run_id=run.execution,
            first_seq=seq, started_at=run.now,
        )
    )  # fmt: skip
    await connection.execute(
        update(session_heads)
        .where(session_heads.c.tenant_id == key.tenant, session_heads.c.session_id == key.session)
        .values(active_run=run.id)
    )
    await connection.execute(
        update(sessions)
        .where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
        .values(status="running", runs=sessions.c.runs + 1)
    )
    return first.id, first.sha256
