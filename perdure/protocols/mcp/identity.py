"""Who sends a call: the id of an MCP session, and the idempotency key of a call.

An MCP session lives as long as a client's connection, a stage session as long as its work. So the id of the former is
that of the latter and a part of its own: every process can read from it which stage session it is for, and no process
keeps anything. Source: MCP 2025-11-25, Transports, Session Management; Base Protocol, Requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from perdure.protocols.uaip.request import read_key
from perdure.upp.json_value import sha256_hex

KEY_MEMBER = "perdure/idempotencyKey"
"""The member of a call's `_meta` that has its idempotency key."""

_FORM = re.compile(r"([!-~]{1,200}?)(?:\.([0-9a-f]{16}))?")


@dataclass(frozen=True, slots=True)
class Seat:
    """What an MCP session's id says.

    Attributes:
        session: the stage session's id, as it came.
        connection: made anew for each connection, 16 hexadecimal digits; "" if the client named the stage session alone.
    """

    session: str
    connection: str = ""

    def __str__(self) -> str:
        """The id on the wire."""
        return f"{self.session}.{self.connection}" if self.connection else self.session


def read_seat(header: str) -> Seat | None:
    """What the header `Mcp-Session-Id` says; None if it cannot be an id."""
    found = _FORM.fullmatch(header.strip())
    return None if found is None else Seat(found[1], found[2] or "")


def call_key(
    seat: Seat, request_id: str | int | None, meta: Mapping[str, object] | None, header: str | None
) -> str | None:
    """The idempotency key of a call: the one that the client gave, else one of the request's identity, else None.

    A request's id is used once in an MCP session, so the same id again is the same request, sent anew after a broken
    connection. Without a connection's part of the session's id nothing tells that.

    Args:
        seat: of the MCP session.
        request_id: of JSON-RPC.
        meta: the request's `_meta`.
        header: `Idempotency-Key`, where there are headers.

    Raises:
        RequestRefused: the given key cannot be one.
    """
    given = (meta or {}).get(KEY_MEMBER, header)
    if given is not None:
        return read_key(given if isinstance(given, str) else "")
    if not seat.connection or request_id is None:
        return None
    return f"mcp:{seat.connection}:{sha256_hex(json.dumps(request_id).encode())[:32]}"
