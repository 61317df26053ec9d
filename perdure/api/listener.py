"""The sockets that the server listens on, had before anything is served so that a taken port is said at once."""

from __future__ import annotations

import socket
from typing import cast

from perdure.errors import InvalidInput

_BACKLOG = 1024
_TAKES_NOTHING_MS = 60_000


def bound(host: str, port: int, *, setting: str = "--port, or PERDURE_API_PORT") -> socket.socket:
    """A socket that listens there.

    Args:
        host: a name or an address.
        port: 0 for a free one.
        setting: where the port is said.

    Raises:
        InvalidInput: it cannot.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # a peer that is there but takes nothing is let go of
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TAKES_NOTHING_MS)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise InvalidInput(
            f"the API cannot listen on {host} port {port}: {error.strerror or error}; give it a free one: {setting}"
        ) from error
    return listener


def bound_datagrams(listener: socket.socket) -> socket.socket:
    """A socket for datagrams at the port where another listens.

    Raises:
        InvalidInput: it is taken.
    """
    address = listener.getsockname()
    found = socket.socket(listener.family, socket.SOCK_DGRAM)
    try:
        found.bind(address)
    except OSError as error:
        found.close()
        raise InvalidInput(
            f"the API cannot take UDP port {address[1]} of {address[0]} for HTTP/3: {error.strerror or error}; give it a port "
            "that is free for both: --port, or PERDURE_API_PORT"
        ) from error
    return found


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """The address of a socket as a client writes it."""
    host, port = cast("tuple[str, int]", listener.getsockname()[:2])
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
