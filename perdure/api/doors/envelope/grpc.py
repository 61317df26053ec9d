"""The port of the gRPC binding: TLS 1.3 and HTTP/2 only, beside the server of HTTP, in the same process.

Source: UAMP envelope 1.0, sections 6.1 and 7.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

from fastapi import FastAPI
from grpclib.config import Configuration
from grpclib.server import Server

from perdure.api.backend import Backend
from perdure.api.doors.envelope.grpc_service import AgentService
from perdure.api.listener import bound
from perdure.api.patience import Patience
from perdure.config import Settings
from perdure.errors import InvalidInput

_ENDING = timedelta(seconds=2)


@asynccontextmanager
async def serving_grpc(
    app: FastAPI, settings: Settings, say: Callable[[str], None] = lambda line: None
) -> AsyncGenerator[None]:
    """Serve gRPC inside the block, if the settings have a port for it; who comes before the app has begun waits for it.

    Args:
        app: whose lifespan opens the door.
        settings: of the process.
        say: gets a line that says where.

    Raises:
        InvalidInput: there is no certificate, for nothing is served without TLS; or the port cannot be had.
    """
    if settings.uamp_grpc_port is None:
        yield
        return
    context = grpc_context(settings)
    with bound(settings.api_host, settings.uamp_grpc_port, setting="PERDURE_UAMP_GRPC_PORT") as listener:
        say(f"gRPC ready: {settings.api_host}:{listener.getsockname()[1]}")
        serving = asyncio.create_task(_serve(app, listener, context), name="serve gRPC")
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def _serve(app: FastAPI, listener: socket.socket, context: ssl.SSLContext) -> None:
    await cast(asyncio.Event, app.state.envelopes_opened).wait()
    service = AgentService(app)
    server = Server([service], config=_signs_of_life(cast(Backend, app.state.backend).patience))
    await server.start(sock=listener, ssl=context)
    try:
        await server.wait_closed()
    finally:
        await _within(_ENDING, service.finish())
        server.close()
        for connection in tuple(service.connections):
            connection.close()
        await _within(_ENDING, server.wait_closed())


async def _within(patience: timedelta, work: Coroutine[Any, Any, None]) -> None:
    """Do something, for so long at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience.total_seconds()):
            await work


def _signs_of_life(patience: Patience) -> Configuration:
    """Connections are pinged while they are silent, and let go of when no answer comes: a stream may wait for days."""
    return Configuration(
        _keepalive_time=patience.silence_s,
        _keepalive_timeout=patience.stalled_s,
        _keepalive_permit_without_calls=True,
        _http2_max_pings_without_data=0,
        _http2_min_sent_ping_interval_without_data=patience.silence_s,
    )


def grpc_context(settings: Settings) -> ssl.SSLContext:
    """How the port speaks TLS: 1.3 at least, and a client certificate if the client has one.

    Raises:
        InvalidInput: there is no certificate, or it or the authorities cannot be used.
    """
    cert, key = settings.api_tls_cert, settings.api_tls_key
    if cert is None or key is None:
        raise InvalidInput(
            "PERDURE_UAMP_GRPC_PORT needs TLS: give PERDURE_API_TLS_CERT and PERDURE_API_TLS_KEY, or `perdure serve --tls`"
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:
        raise InvalidInput(f"the certificate {cert} and the key {key} cannot be used: {error}") from error
    if settings.uamp_client_ca is not None:
        try:
            context.load_verify_locations(settings.uamp_client_ca)
        except OSError as error:
            raise InvalidInput(f"{settings.uamp_client_ca} (PERDURE_UAMP_CLIENT_CA) cannot be used: {error}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
