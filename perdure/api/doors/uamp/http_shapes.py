"""What UAMP's routes over HTTP take and answer, for the OpenAPI document; `perdure.protocols.uamp_events` reads and makes it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_ID = "6e1f9c1a-0d55-4a76-8f0e-3b1d2c4a5e60"


class UampEvent(BaseModel):
    """One event of a client. Which members it has beside the first two depends on its type; all are in UAMP 1.0."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "session.create",
                    "event_id": _ID,
                    "uamp_version": "1.0",
                    "session": {"modalities": ["text"]},
                },
                {"type": "input.text", "event_id": _ID, "text": "Hello."},
                {"type": "response.create", "event_id": _ID},
                {"type": "tool.result", "event_id": _ID, "call_id": "call_1", "result": "22"},
            ]
        },
    )

    type: str = Field(description="which event")
    event_id: str = Field(default="", description="its id; the same id again in a session is the same event")


class AcceptedEvent(BaseModel):
    """An event that was taken. What follows from it comes on the session's stream."""

    event_id: str
    session_id: str | None = None


class UampErrorObject(BaseModel):
    """What is wrong."""

    type: str
    code: str
    message: str
    details: dict[str, Any] | None = None


class UampError(BaseModel):
    """A request that is refused; nothing of it was done."""

    error: UampErrorObject


class PublishedKey(BaseModel):
    """A public key. Source: RFC 7517."""

    kty: str
    n: str
    e: str
    kid: str
    alg: str
    use: str


class KeySet(BaseModel):
    """The keys that verify the signatures of responses; none if nothing is signed."""

    keys: list[PublishedKey]


BODIES: tuple[type[BaseModel], ...] = (UampEvent,)
"""Of requests whose routes read them by themselves."""

_MEANINGS = {
    400: "The request cannot be read, or the event cannot be used.",
    401: "The caller is not known.",
    403: "The caller lacks the scope, or the page is another server's.",
    404: "There is no such session or agent, or it is another's.",
    409: "It conflicts with what is there.",
    413: "The body is too large.",
    421: "The server does not answer for this host.",
    429: "Too many requests.",
    500: "The server failed.",
    503: "A server that is needed does not answer; try again.",
}

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": UampError, "description": meaning} for status, meaning in _MEANINGS.items()
}
"""What any of these routes may answer besides its own."""
