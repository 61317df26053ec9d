"""Serving the app: HTTP/1.1, HTTP/2 and, over TLS, HTTP/3, until the process is told to stop, and out within a deadline."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import cast

from perdure.api.app import create_app
from perdure.api.authentication import make_authenticator
from perdure.api.backend import Backend
from perdure.api.doors.envelope.grpc import serving_grpc
from perdure.api.doors.uamp.line import LARGEST_FRAME
from perdure.api.listener import bound, bound_datagrams, url_of
from perdure.api.tls_server import ServerConfig, serve_asgi
from perdure.config import Settings
from perdure.errors import InvalidInput
from perdure.protocols.uamp_envelope.length_prefix import PREFIX_BYTES
from perdure.runtime.addresses import ServerAddresses
from perdure.runtime.heap import keep_heap
from perdure.runtime.telemetry import Telemetry, start_telemetry
from perdure.runtime.uamp.sweep import UampTimes
from perdure.uap.app import App
from perdure.worker.deadline import leave_after
from perdure.worker.registered import register_secrets

_BEYOND_GRACE = timedelta(seconds=3)
_ANY_NUMBER = 2**31
_IDLE_SECONDS = 75.0
"""Longer than clients keep a connection that they do not use: else one sends a request while it is closed, and has no answer."""


async def serve(settings: Settings, addresses: ServerAddresses, app: App | None = None) -> int:
    """Serve the API until SIGTERM or SIGINT; what is being answered then may end within the grace time.

    Args:
        settings: of the process.
        addresses: of the servers.
        app: what the workers serve, if the API needs what only it has: its gate of payments, or what takes calls.

    Returns:
        The process's exit code.

    Raises:
        InvalidInput: the address cannot be bound, or would be open to others without authentication; the certificate
            or the signing key cannot be used; or a secret that the settings name is not there.
        ServerUnavailable: a server does not answer within 10 s.
        SchemaOutdated: the database needs `perdure migrate`.
    """
    register_secrets(settings, addresses.database_url)
    has_certificate(settings)
    telemetry = start_telemetry("perdure-api") if settings.otel else None
    stop = asyncio.Event()

    def end() -> None:
        leave_after(settings.shutdown_grace + _BEYOND_GRACE)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    backend = Backend(
        addresses,
        namespace=settings.temporal_namespace,
        signing_key=settings.signing_key,
        uamp=UampTimes(settings.uamp_idle, settings.uamp_retention),
        gate=None if app is None else app.gate,
        voice=None if app is None else app.voice,
    )
    try:
        await backend.open()
        await make_authenticator(backend.database, settings, host=settings.api_host)  # refuses an open address
        with bound(settings.api_host, settings.api_port) as listener:
            await serve_on(listener, backend, settings, stop, telemetry, say=_say_ready)
    finally:
        await backend.close()
        if telemetry is not None:
            await telemetry.close()
    return 0


async def serve_on(
    listener: socket.socket,
    backend: Backend,
    settings: Settings,
    stop: asyncio.Event,
    telemetry: Telemetry | None = None,
    *,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Serve on a socket until `stop` is set; what is being answered then may end within the grace time.

    Args:
        listener: it listens; who gave it closes it.
        backend: the servers.
        settings: of the process.
        stop: ends it.
        telemetry: sends a span of each request; None sends none.
        say: gets a line for each port, saying where it is.

    Raises:
        InvalidInput: a port cannot be had, or certificates cannot be used.
    """
    config = server_config(listener, settings)

    async def stopped() -> None:
        say(f"API ready: {url_of(listener, 'https' if config.ssl_enabled else 'http')}/api")
        await stop.wait()
        backend.leaving.set()
        await backend.stream.close()  # its readers go on at another process

    app = create_app(backend, settings, telemetry, port=cast(int, listener.getsockname()[1]))
    async with serving_grpc(app, settings, say=say):
        await serve_asgi(app, config, stopped)


def server_config(listener: socket.socket, settings: Settings) -> ServerConfig:
    """How the server behaves at a socket.

    Args:
        listener: it listens; a copy of it is used.
        settings: of the process. With a certificate the same port is taken for HTTP/3, over UDP.

    Raises:
        InvalidInput: the certificate cannot be used, or the port is taken.
    """
    config = ServerConfig()
    config.bind = [f"fd://{listener.dup().detach()}"]
    config.graceful_timeout = settings.shutdown_grace.total_seconds()
    config.include_server_header = False
    config.accesslog = None
    config.keep_alive_timeout = _IDLE_SECONDS
    config.keep_alive_max_requests = _ANY_NUMBER  # or the 1,001st breaks off all that its connection carries
    config.websocket_ping_interval = 15.0
    config.websocket_max_message_size = max(LARGEST_FRAME, settings.uamp_max_envelope_bytes + PREFIX_BYTES)
    if has_certificate(settings):
        config.certfile, config.keyfile = str(settings.api_tls_cert), str(settings.api_tls_key)
        config.client_ca = _client_ca(settings)
        config.quic_bind = [f"fd://{bound_datagrams(listener).detach()}"]
    return config


def has_certificate(settings: Settings) -> bool:
    """Whether the server speaks TLS, by which a client finds out that it may speak HTTP/2; else it says so itself.

    Raises:
        InvalidInput: the certificate and its key cannot be used together.
    """
    cert, key = settings.api_tls_cert, settings.api_tls_key
    if cert is None and key is None:
        return False
    if cert is None or key is None:
        raise InvalidInput("give both PERDURE_API_TLS_CERT and PERDURE_API_TLS_KEY, or neither of them for plain HTTP")

    def password() -> str:
        raise InvalidInput(f"the key {key} has a password; PERDURE_API_TLS_KEY must name one without")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise InvalidInput(
            f"the certificate {cert} (PERDURE_API_TLS_CERT) and the key {key} (PERDURE_API_TLS_KEY) cannot be used: {error}"
        ) from error
    return True


def _client_ca(settings: Settings) -> Path | None:
    found = settings.uamp_client_ca
    try:
        if found is not None:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cafile=found)
    except OSError as error:
        raise InvalidInput(f"the authorities in {found} (PERDURE_UAMP_CLIENT_CA) cannot be used: {error}") from error
    return found


def _say_ready(line: str) -> None:
    """Tell whoever started the process that a port is served."""
    keep_heap()
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
