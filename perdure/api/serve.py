"""Serving the app: HTTP/1.1 and HTTP/2, until the process is told to stop, and out within a deadline."""

from __future__ import annotations

import asyncio
import signal
import socket
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
from perdure.runtime.addresses import ServerAddresses
from perdure.worker.deadline import leave_after

_BEYOND_GRACE = timedelta(seconds=3)


async def serve(settings: Settings, addresses: ServerAddresses) -> int:
    """Serve the API until SIGTERM or SIGINT; what is being answered then may end within the grace time.

    Returns:
        The process's exit code.

    Raises:
        InvalidInput: the address cannot be bound, or would be open to others without authentication.
        ServerUnavailable: a server does not answer within 10 s.
        SchemaOutdated: the database needs `perdure migrate`.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    backend = Backend(addresses, namespace=settings.temporal_namespace)
    try:
        await backend.open()
        await make_authenticator(backend.database, settings, host=settings.api_host)  # refuses an open address
        with bound(settings.api_host, settings.api_port) as listener:
            _say(f"API ready: {url_of(listener)}/api")
            await serve_on(listener, backend, settings, stop)
    finally:
        await backend.close()
    return 0


async def serve_on(listener: socket.socket, backend: Backend, settings: Settings, stop: asyncio.Event) -> None:
    """Serve on a socket until `stop` is set; then the process ends by itself if this does not return in time.

    Args:
        listener: it listens; who gave it closes it.
        backend: the servers.
        settings: of the process.
        stop: ends it.
    """
    config = server_config(listener, settings)

    async def stopped() -> None:
        await stop.wait()
        leave_after(settings.shutdown_grace + _BEYOND_GRACE)
        backend.leaving.set()
        await backend.stream.close()  # its readers go on at another process

    await serve_asgi(cast(Any, create_app(backend, settings)), config, shutdown_trigger=stopped)


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
    return config


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
