"""What a session's rows say of its conversation beside its messages: who approved which call, and what its runs were frozen to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.tables import runs, sessions, tool_calls, waits
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject


@dataclass(frozen=True, slots=True)
class Grant:
    """A tool call that a person approved.

    Attributes:
        call: the call's id.
        tool: the tool's name.
        results: row id of the message that has its result.
        by: who approved it; None if nobody is named.
        at: when.
        edited: it was called with other arguments than the model's.
    """

    call: str
    tool: str
    results: str
    by: str | None
    at: datetime
    edited: bool


@dataclass(frozen=True, slots=True)
class FrozenRun:
    """A run with what its agent was frozen to.

    Attributes:
        spec: AgentSpec JSON.
        at: when it began.
    """

    id: str
    spec: JSONObject
    at: datetime


async def read_grants(connection: AsyncConnection, key: SessionKey) -> list[Grant]:
    """The approvals that a session's calls had, in the order in which they were given."""
    on = (
        (tool_calls.c.tenant_id == waits.c.tenant_id)
        & (tool_calls.c.session_id == waits.c.session_id)
        & (tool_calls.c.message_id == waits.c.message_id)
        & (tool_calls.c.index == waits.c.index)
    )
    query = (
        select(
            waits.c.answer, waits.c.answered_by, waits.c.answered_at, tool_calls.c.call_id, tool_calls.c.tool,
            tool_calls.c.results_id, tool_calls.c.used_sha256,
        )
        .join_from(waits, tool_calls, on)
        .where(waits.c.tenant_id == key.tenant, waits.c.session_id == key.session, waits.c.kind == "approval")
        .where(waits.c.answered_at.is_not(None), tool_calls.c.approved)
        .order_by(waits.c.answered_at, waits.c.id)
    )  # fmt: skip
    return [
        Grant(row.call_id, row.tool, row.results_id, row.answered_by, row.answered_at, row.used_sha256 is not None)
        for row in await connection.execute(query)
        if cast("dict[str, Any]", row.answer or {}).get("decision") == "approve"
    ]


async def read_frozen(connection: AsyncConnection, key: SessionKey) -> list[FrozenRun]:
    """A session's runs, first begun first."""
    query = select(runs.c.id, runs.c.spec, runs.c.started_at).where(
        runs.c.tenant_id == key.tenant, runs.c.session_id == key.session
    )
    rows = await connection.execute(query.order_by(runs.c.first_seq))
    return [FrozenRun(row.id, cast(JSONObject, row.spec), row.started_at) for row in rows]


async def read_calling_node(connection: AsyncConnection, key: SessionKey) -> str | None:
    """The thread node of the run that called a sub-agent's session; None if it is nobody's."""
    on = (
        (runs.c.tenant_id == sessions.c.tenant_id)
        & (runs.c.session_id == sessions.c.parent_session)
        & (runs.c.id == sessions.c.parent_run)
    )
    query = select(runs.c.node_id).join_from(sessions, runs, on)
    return await connection.scalar(query.where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session))
