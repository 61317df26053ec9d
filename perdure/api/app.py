"""The HTTP server's app: routes, errors, and what stands before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from perdure.api import guard, problems
from perdure.api.answers import Answer
from perdure.api.authentication import make_authenticator
from perdure.api.backend import Backend, opened
from perdure.api.bodies import Bounds
from perdure.api.doors import chat_ui, mcp, mcp_errors, uaip, uaip_errors, uaip_shapes
from perdure.api.doors.envelope import discovery as envelope_discovery
from perdure.api.doors.envelope import errors as envelope_errors
from perdure.api.doors.envelope import http as envelope_http
from perdure.api.doors.envelope import shapes as envelope_shapes
from perdure.api.doors.envelope import socket as envelope_socket
from perdure.api.doors.envelope.opening import open_door
from perdure.api.doors.openai import errors as openai_errors
from perdure.api.doors.openai import routes as openai
from perdure.api.doors.openai import shapes as openai_shapes
from perdure.api.doors.uamp import discovery as uamp_discovery
from perdure.api.doors.uamp import http as uamp_http
from perdure.api.doors.uamp import http_errors as uamp_errors
from perdure.api.doors.uamp import http_shapes as uamp_shapes
from perdure.api.doors.uamp import socket as uamp_socket
from perdure.api.doors.uamp.desk import open_desk
from perdure.api.metrics import CountRequests
from perdure.api.openapi import PROBLEMS, describe
from perdure.api.page_origins import PageOrigins
from perdure.api.rate_limit import rate_limit_of
from perdure.api.routes import (
    agents,
    codec,
    content,
    control,
    events,
    limits,
    operations,
    payments,
    proposals,
    reads,
    runs,
    sessions,
    stage_actions,
    stage_sessions,
    threads,
    transfer,
    tree,
    waits,
)
from perdure.api.signed_content import is_signed
from perdure.api.tracing import TakeTrace, request_telemetry
from perdure.api.uploads import FORM_OVERHEAD_BYTES
from perdure.config import Settings
from perdure.protocols.uaip.request import SESSION_HEADER
from perdure.runtime.telemetry import Telemetry

DOCUMENT = "/api/openapi.json"
DOCS = "/api/docs"
PUBLIC = frozenset({DOCUMENT, DOCS})
"""Paths below /api that anyone may have."""

ROUTES = (
    agents, runs, transfer, threads, sessions, reads, tree, control, waits, payments, proposals, events, limits, stage_sessions, stage_actions, content, codec,
)  # fmt: skip


def create_app(
    backend: Backend, settings: Settings, telemetry: Telemetry | None = None, *, port: int | None = None
) -> FastAPI:
    """The app of one process. Its lifespan opens the backend and closes it.

    Args:
        backend: the servers; opened already, or not yet.
        settings: of the process.
        telemetry: sends a span of each request; None sends none.
        port: that it is served at; by default the settings'.
    """
    rate = rate_limit_of(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with opened(backend):
            app.state.authenticator = await make_authenticator(backend.database, settings, host=settings.api_host)
            async with (
                open_desk(backend, app.state.authenticator, rate, settings) as app.state.uamp,
                open_door(backend, settings, rate, port=port or settings.api_port) as door,
            ):
                app.state.envelope_door = door
                app.state.envelopes = door.desk
                app.state.envelope_documents = door.identity.documents
                app.state.envelopes_opened.set()
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
    app.state.max_content_bytes = settings.max_content_bytes
    app.state.envelope_tenant = settings.tenant
    app.state.envelopes_opened = asyncio.Event()
    for module in ROUTES:
        app.include_router(module.router, responses=PROBLEMS)
    app.include_router(chat_ui.router, responses=PROBLEMS)
    app.include_router(uaip.router, responses=uaip_shapes.ERRORS)
    app.include_router(openai.router, responses=openai_shapes.ERRORS)
    app.include_router(uamp_http.router)
    app.include_router(uamp_discovery.router)
    app.include_router(uamp_socket.router)
    app.include_router(envelope_http.router)
    app.include_router(envelope_socket.router)
    app.include_router(envelope_discovery.router)
    app.include_router(mcp.router)
    app.include_router(operations.router)
    problems.install(app, _shape_of)
    envelope_errors.install(app)
    describe(app, (*uaip_shapes.BODIES, *openai_shapes.BODIES, *uamp_shapes.BODIES, *envelope_shapes.BODIES))
    guarded = (*guard.GUARDED, *uaip_errors.PATHS, *openai_errors.GUARDED, *uamp_errors.GUARDED, mcp.PREFIX)
    upload = Bounds(settings.max_content_bytes + FORM_OVERHEAD_BYTES, 1, 1, False, "PERDURE_MAX_CONTENT_BYTES")
    envelope = Bounds(settings.uamp_max_envelope_bytes, 1, 1, False, "PERDURE_UAMP_MAX_ENVELOPE_BYTES")
    guard.install(
        app,
        settings,
        rate=rate,
        guarded=guarded,
        public=PUBLIC,
        asks_itself=_is_of_envelopes,
        open_to_strangers=uamp_errors.OPEN_TO_STRANGERS,
        is_signed=is_signed,
        own_bounds={content.PATH: upload, envelope_http.MESSAGES_PATH: envelope},
        shape_of=_shape_of,
    )
    _let_pages_in(app, settings)
    app.add_middleware(CountRequests, metrics=backend.metrics)
    app.add_middleware(TakeTrace)
    return app


def _is_of_envelopes(path: str) -> bool:
    """Whether a path is of the door of envelopes, though it may begin as those of another door do."""
    return envelope_errors.serves(path) or envelope_discovery.serves(path)


def _shape_of(path: str) -> problems.Shape:
    """How a fault of a path is told: in its door's words, else as the house does."""
    if _is_of_envelopes(path):
        return envelope_errors.error
    if openai_errors.serves(path):
        return openai_errors.error
    if uamp_errors.serves(path):
        return uamp_errors.error
    return mcp_errors.error if mcp_errors.serves(path) else uaip_errors.shape_of(path)


def _let_pages_in(app: FastAPI, settings: Settings) -> None:
    """Have pages of other servers reach what the settings say they may."""
    if settings.codec_origins:
        app.add_middleware(
            PageOrigins,
            origins=settings.codec_origins,
            serves=codec.PATHS.__contains__,
            methods=["POST"],
            headers=["authorization", "content-type", "x-namespace"],
        )
    if settings.uaip_origins:
        app.add_middleware(
            PageOrigins,
            origins=settings.uaip_origins,
            serves=uaip_errors.serves,
            methods=["GET", "POST"],
            headers=["authorization", "x-api-key", "content-type", "idempotency-key", SESSION_HEADER.lower()],
            exposed=[SESSION_HEADER, "Retry-After"],
        )
    if settings.uamp_origins:
        app.add_middleware(
            PageOrigins,
            origins=settings.uamp_origins,
            serves=uamp_errors.serves,
            methods=["GET", "POST"],
            headers=["authorization", "x-api-key", "content-type", "last-event-id", uamp_http.SESSION_HEADER.lower()],
            exposed=[uamp_http.SESSION_HEADER, "Retry-After"],
        )
    if settings.chat_origins:
        app.add_middleware(
            PageOrigins,
            origins=settings.chat_origins,
            serves=chat_ui.serves,
            methods=["GET", "POST"],
            headers=["authorization", "x-api-key", "content-type", "idempotency-key", "x-payment", "x-payment-token"],
            exposed=[chat_ui.SESSION_HEADER, chat_ui.RUN_HEADER, "Retry-After"],
        )
