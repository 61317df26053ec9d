"""What operators' programs ask: does it live, is it ready, what has it counted."""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter, Request, Response

from perdure.api import shapes
from perdure.api.answers import Answer
from perdure.api.backend import Backend
from perdure.api.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"])

_NOT_READY: dict[int | str, dict[str, Any]] = {503: {"model": shapes.Readiness, "description": "One does not answer."}}


@router.get("/health", operation_id="getHealth", response_model=shapes.Health)
async def health() -> Answer:
    """Tell that the process lives."""
    return Answer({"status": "ok"})


@router.get("/ready", operation_id="getReadiness", response_model=shapes.Readiness, responses=_NOT_READY)
async def ready(request: Request) -> Answer:
    """Tell whether Temporal and PostgreSQL answer, and the schema is this version's."""
    found = await cast(Backend, request.app.state.backend).readiness()
    is_ready = set(found.values()) == {"ok"}
    return Answer({"ready": is_ready, **found}, 200 if is_ready else 503)


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus's text"}},
)
async def metrics(request: Request) -> Response:
    """Give what this process has counted and what is open in the store, for Prometheus."""
    backend = cast(Backend, request.app.state.backend)
    await backend.metrics.measure(backend.database)
    return Response(backend.metrics.text(), media_type=CONTENT_TYPE)
