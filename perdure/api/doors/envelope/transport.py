"""How an envelope may come: over TLS, by HTTP/2 or HTTP/3, from somebody who shows who it is. ALPN alone forbids nothing.

Source: UAMP envelope 1.0, sections 6.1, 6.2 and 7. Plain connections are refused on this machine too, and behind a proxy that
ends TLS.
"""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from starlette.requests import HTTPConnection

from perdure.api.doors.envelope.caller import peer_of
from perdure.api.doors.envelope.opening import Door
from perdure.api.problems import Refused
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.runtime.envelopes.callers import PeerCaller

_SECURE = ("https", "wss")
_NEWER = ("2", "3")


def door_of(connection: HTTPConnection) -> Door:
    """The door that a connection has come to."""
    return cast(Door, connection.app.state.envelope_door)


async def admitted(connection: HTTPConnection) -> PeerCaller:
    """Who sends a request or opens a socket, if the connection may carry envelopes.

    Raises:
        Refused: it may not (426).
        UAMPError: 4.01 it does not show who it is; 4.03 it may not send; 4.29 it sends too much.
    """
    door = door_of(connection)
    check_transport(connection, takes_http1=door.takes_http1)
    caller = await peer_of(connection)
    check_rate(door, caller)
    return caller


def check_rate(door: Door, caller: PeerCaller) -> None:
    """Count a request of a caller.

    Raises:
        UAMPError: 4.29: there are too many.
    """
    wait = 0 if door.rate is None else door.rate.take((door.parts.tenant, caller.name))
    if wait:
        raise UAMPError(
            Code.RATE_LIMITED, f"{caller.name} sends too many requests", retry_after=timedelta(seconds=wait)
        )


def check_transport(connection: HTTPConnection, *, takes_http1: bool) -> None:
    """Refuse a connection that may not carry envelopes.

    Args:
        connection: a request, or a WebSocket that is to be opened, which is an upgrade of HTTP/1.1.
        takes_http1: whether HTTP/1.1 over TLS will do for requests too.

    Raises:
        Refused: 426.
    """
    scope = connection.scope
    if scope["scheme"] not in _SECURE:
        raise Refused(
            426, "tls_needed", "envelopes are taken over TLS 1.3 only: https and wss", {"Upgrade": "TLS/1.3, HTTP/2.0"}
        )
    if scope["type"] == "http" and scope["http_version"] not in _NEWER and not takes_http1:
        raise Refused(
            426,
            "http_version",
            "envelopes are taken by HTTP/2 and HTTP/3 only, not by HTTP/1.1",
            {"Upgrade": "HTTP/2.0"},
        )
