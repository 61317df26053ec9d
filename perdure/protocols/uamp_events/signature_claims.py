"""What the signature of a response says. Signing itself is done where the key is. Source: UAMP 1.0, section 6.7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import rfc8785

from perdure.protocols.uamp_events.content_items import ContentItem, TextItem, WireMessage
from perdure.upp.json_value import JSONObject, sha256_hex, well_formed

LIFETIME_S = 300
"""Seconds after which the token is expired; it is evidence for longer."""


def response_hash(output: Sequence[ContentItem]) -> str:
    """SHA-256 of the text of a response's output, as UTF-8: what anybody can compute who has the response."""
    text = "".join(item.text for item in output if isinstance(item, TextItem))
    return sha256_hex(text.encode("utf-8", "replace"))


def request_hash(messages: Sequence[WireMessage]) -> str:
    """SHA-256 of the RFC 8785 canonical JSON of the messages that were responded to."""
    told = [well_formed(message.to_json()) for message in messages]
    return sha256_hex(rfc8785.dumps(cast(Any, told)))


def signature_claims(
    output: Sequence[ContentItem],
    *,
    request: str,
    issuer: str,
    audience: str | None,
    issued_at: int,
    token_id: str,
) -> JSONObject:
    """The claims of the RS256 JWT of a response.done.

    Args:
        output: of the response.
        request: the `request_hash` of what was responded to.
        issuer: the agent's id.
        audience: who asked; None if nobody knows.
        issued_at: seconds since the epoch.
        token_id: a UUID.
    """
    claims: JSONObject = {
        "iss": issuer,
        "response_hash": response_hash(output),
        "request_hash": request,
        "iat": issued_at,
        "exp": issued_at + LIFETIME_S,
        "jti": token_id,
    }
    return claims if audience is None else {**claims, "aud": audience}
