"""The limits that all workers share, for who runs them."""

from __future__ import annotations

from fastapi import APIRouter

from perdure.api import shapes
from perdure.api.access import Administrator
from perdure.api.answers import Answer
from perdure.runtime.shown import limit_json
from perdure.store.limits import list_limits

router = APIRouter(prefix="/api/limits", tags=["limits"])


@router.get("", operation_id="listLimits", response_model=shapes.SharedLimits)
async def list_all(caller: Administrator) -> Answer:
    """List the limits that all workers share and what is left of each; of the permits only the caller's tenant's own."""
    rows = await list_limits(caller.database, caller.tenant)
    return Answer({"limits": [limit_json(row) for row in rows]})
