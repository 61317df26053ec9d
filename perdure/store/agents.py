"""The agents that workers have registered: what a client must know to start a session of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.dialects.postgresql import insert as upsert

from perdure.errors import UnknownAgent
from perdure.store.database import Database
from perdure.store.tables import agents
from perdure.upp.json_value import JSONObject

PLACE = "place"
"""Of a row's spec: the agent's place in its app."""


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent as its last worker registered it."""

    name: str
    agent_id: str
    workflow_type: str
    task_queue: str
    spec: JSONObject
    seen_at: datetime | None = None


async def register_agents(database: Database, tenant: str, rows: Sequence[AgentRow]) -> None:
    """Write what this worker serves; the last writer of a name wins."""
    async with database.transaction() as connection:
        for row in rows:
            values: dict[str, Any] = {
                "agent_id": row.agent_id,
                "workflow_type": row.workflow_type,
                "task_queue": row.task_queue,
                "spec": row.spec,
                "seen_at": datetime.now(UTC),
            }
            statement = upsert(agents).values(tenant_id=tenant, name=row.name, **values)
            await connection.execute(statement.on_conflict_do_update(index_elements=["tenant_id", "name"], set_=values))


async def find_agent(database: Database, tenant: str, name: str) -> AgentRow:
    """The registered agent of that name.

    Raises:
        UnknownAgent: no worker has registered one; the message lists those there are.
    """
    query = select(agents).where(agents.c.tenant_id == tenant)
    async with database.reading() as connection:
        row = (await connection.execute(query.where(agents.c.name == name))).first()
        if row is not None:
            return agent_row(row)
        rows = (await connection.execute(query)).all()
    known = ", ".join(sorted(row.name for row in rows)) or "none; start one with `perdure worker MODULE:APP`"
    raise UnknownAgent(f"no agent is named {name!r}; registered are {known}")


def first_agent(rows: Sequence[AgentRow]) -> AgentRow:
    """The agent that answers where none is named: the first of its app, by name where workers serve several apps.

    Args:
        rows: of a tenant, at least one.
    """
    return min(rows, key=lambda row: (place if isinstance(place := row.spec.get(PLACE), int) else 0, row.name))


def agent_row(row: Row[Any]) -> AgentRow:
    """What a row of the table says."""
    return AgentRow(row.name, row.agent_id, row.workflow_type, row.task_queue, row.spec, row.seen_at)
