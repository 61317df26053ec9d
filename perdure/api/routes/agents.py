"""The agents that workers have registered."""

from __future__ import annotations

from fastapi import APIRouter

from perdure.api import shapes
from perdure.api.access import Reader
from perdure.api.answers import Answer
from perdure.runtime.shown import agent_json
from perdure.store.pages import list_agents

router = APIRouter(prefix="/api/agents", tags=["agents"])


@router.get("", operation_id="listAgents", response_model=shapes.Agents)
async def list_all(caller: Reader) -> Answer:
    """List the agents that workers have registered, by name."""
    rows = await list_agents(caller.database, caller.tenant)
    return Answer({"agents": [agent_json(row) for row in rows]})
