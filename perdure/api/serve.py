"""Serving the app: HTTP/1.1 and HTTP/2, until the process is told to stop, and out within a deadline."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import sys
from datetime import timedelta
from typing import Any, cast

from hypercorn.asyncio import serve as serve_asgi  # pyright: ignore[reportUnknownVariableType]
from hypercorn.config import Config

from perdure.api.app import create_app
from perdure.api.authentication import make_authenticator
from perdure.api.backend import Backend
from perdure.api.event_socket import LARGEST_MESSAGE
from perdure.api.listener import bound, url_of
from perdure.config import Settings
from perdure.errors import InvalidInput
from perdure.runtime.addresses import ServerAddresses
from perdure.runtime.telemetry import Telemetry, start_telemetry
from perdure.worker.deadline import leave_after
from perdure.worker.registered import register_secrets

_BEYOND_GRACE = timedelta(seconds=3)


async def serve(settings: Settings, addresses: ServerAddresses) -> int:
    """Serve the API until SIGTERM or SIGINT; what is being answered then may end within the grace time.

    Returns:
        The process's exit code.

    Raises:
        InvalidInput: the address cannot be bound, or would be open to others without authentication; the certificate
            cannot be used; or a secret that the settings name is not there.
        ServerUnavailable: a server does not answer within 10 s.
        SchemaOutdated: the database needs `perdure migrate`.
    """
    register_secrets(settings, addresses.database_url)
    scheme = "https" if has_certificate(settings) else "http"
    telemetry = start_telemetry("perdure-api") if settings.otel else None
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    backend = Backend(addresses, namespace=settings.temporal_namespace)
    try:
        await backend.open()
        await make_authenticator(backend.database, settings, host=settings.api_host)  # refuses an open address
        with bound(settings.api_host, settings.api_port) as listener:
            _say(f"API ready: {url_of(listener, scheme)}/api")
            await serve_on(listener, backend, settings, stop, telemetry)
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
) -> None:
    """Serve on a socket until `stop` is set; then the process ends by itself if this does not return in time.

    Args:
        listener: it listens; who gave it closes it.
        backend: the servers.
        settings: of the process.
        stop: ends it.
        telemetry: sends a span of each request; None sends none.
    """
    config = server_config(listener, settings)

    async def stopped() -> None:
        await stop.wait()
        leave_after(settings.shutdown_grace + _BEYOND_GRACE)
        backend.leaving.set()
        await backend.stream.close()  # its readers go on at another process

    await serve_asgi(cast(Any, create_app(backend, settings, telemetry)), config, shutdown_trigger=stopped)


def server_config(listener: socket.socket, settings: Settings) -> Config:
    """How the server behaves at a socket.

    Args:
        listener: it listens; a copy of it is used.
        settings: of the process.
    """
    config = Config()
    config.bind = [f"fd://{listener.dup().detach()}"]
    config.graceful_timeout = settings.shutdown_grace.total_seconds()
    config.include_server_header = False
    config.accesslog = None
    config.websocket_ping_interval = 15.0
    config.websocket_max_message_size = LARGEST_MESSAGE
    if has_certificate(settings):
        config.certfile, config.keyfile = str(settings.api_tls_cert), str(settings.api_tls_key)
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


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
