"""What a client finds out before it opens a session: what an agent can do, and the keys that verify what it says.

Sources: UAMP 1.0, sections 6.7 and 9.2; RFC 7517.
"""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Query, Request

from perdure.api.access import Reader
from perdure.api.answers import Answer
from perdure.api.backend import Backend
from perdure.api.doors.uamp.desk import Desk
from perdure.api.doors.uamp.http_errors import CAPABILITIES, KEYS
from perdure.api.doors.uamp.http_shapes import ERRORS, KeySet
from perdure.protocols.uamp_events.capabilities import Capabilities

_KEYS_AGE_S = 60

router = APIRouter(tags=["uamp"])


@router.get(
    CAPABILITIES,
    operation_id="getCapabilities",
    response_model=Capabilities,
    response_model_exclude_none=True,
    responses=ERRORS,
)
async def capabilities(
    request: Request,
    caller: Reader,
    agent: Annotated[str | None, Query(description="Of which agent; of the default one if none is named.")] = None,
) -> Answer:
    """Tell what an agent can do: its model's part, its tools, and the ways to reach it."""
    desk = cast(Desk, request.app.state.uamp)
    return Answer((await desk.capabilities(caller.tenant, agent)).to_json())


@router.get(KEYS, operation_id="getSigningKeys", response_model=KeySet)
async def keys(request: Request) -> Answer:
    """Publish the keys that verify the signatures of responses, newest first. Anyone may have them."""
    backend = cast(Backend, request.app.state.backend)
    return Answer(await backend.signer.key_set(), headers={"Cache-Control": f"public, max-age={_KEYS_AGE_S}"})
