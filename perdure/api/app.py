"""The HTTP server's app: routes, errors, and what stands before them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from perdure.api import guard, problems
from perdure.api.answers import Answer
from perdure.api.authentication import make_authenticator
from perdure.api.backend import Backend, opened
from perdure.api.codec_origins import CodecOrigins
from perdure.api.metrics import CountRequests
from perdure.api.openapi import PROBLEMS, describe
from perdure.api.routes import (
    agents,
    codec,
    control,
    events,
    limits,
    operations,
    reads,
    runs,
    sessions,
    transfer,
    tree,
    waits,
)
from perdure.api.tracing import TakeTrace, request_telemetry
from perdure.config import Settings
from perdure.runtime.telemetry import Telemetry

DOCUMENT = "/api/openapi.json"
DOCS = "/api/docs"
PUBLIC = frozenset({DOCUMENT, DOCS})
"""Paths below /api that anyone may have."""

ROUTES = (agents, runs, transfer, sessions, reads, tree, control, waits, events, limits, codec)


def create_app(backend: Backend, settings: Settings, telemetry: Telemetry | None = None) -> FastAPI:
    """The app of one process. Its lifespan opens the backend and closes it.

    Args:
        backend: the servers; opened already, or not yet.
        settings: of the process.
        telemetry: sends a span of each request; None sends none.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with opened(backend):
            app.state.authenticator = await make_authenticator(backend.database, settings, host=settings.api_host)
            yield

    app = FastAPI(
        title="Perdure",
        summary="Agents that outlive their processes.",
        version=version("perdure"),
        openapi_url=DOCUMENT,
        docs_url=DOCS,
        redoc_url=None,
        default_response_class=Answer,
        lifespan=lifespan,
        telemetry=request_telemetry(telemetry),
        redirect_slashes=False,
    )
    app.state.backend = backend
    for module in ROUTES:
        app.include_router(module.router, responses=PROBLEMS)
    app.include_router(operations.router)
    problems.install(app)
    describe(app)
    guard.install(app, settings, public=PUBLIC)
    if settings.codec_origins:
        app.add_middleware(CodecOrigins, origins=settings.codec_origins)
    app.add_middleware(CountRequests, metrics=backend.metrics)
    app.add_middleware(TakeTrace)
    return app
