"""What the routes of envelopes take and answer, for the OpenAPI document; `perdure.protocols.uamp_envelope` reads and makes it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from perdure.protocols.uamp_envelope.error import PROBLEM_MEDIA_TYPE
from perdure.protocols.uamp_envelope.media_type import ENVELOPE_MEDIA_TYPE

_ID = "urn:uuid:6e1f9c1a-0d55-4a76-8f0e-3b1d2c4a5e60"


_EXAMPLE: dict[str, Any] = {
    "id": _ID,
    "ts": "2026-01-10T13:37:05Z",
    "from": "did:web:client.example",
    "to": ["did:web:agents.example"],
    "intent": "ask",
    "delta_window": 64,
    "body": {"type": "text/plain", "content": "What is 2 + 2?"},
    "sig": "eyJhbGciOiJFUzI1NiIsImtpZCI6ImRpZDp3ZWI6Y2xpZW50LmV4YW1wbGUjazEifQ..c2lnbmF0dXJl",
}


class Envelope(BaseModel):
    """A signed message from one agent to another; all members are in UAMP's schema of it, which is what counts."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [_EXAMPLE]},
    )

    id: str = Field(description="urn:uuid: and a UUID; a resend has the same")
    ts: str = Field(description="when it was sent, in UTC")
    to: list[str] = Field(description="for whom it is: exactly one DID that is served here")
    intent: str = Field(description="what it is for")
    body: dict[str, Any] = Field(description="type and content, with encoding and compression if it has any")
    sig: str = Field(description="a detached JWS over the SHA-256 of all the rest")


class AcceptedEnvelope(BaseModel):
    """An envelope that was taken: it is stored, and what it asks for is done. Sent again it is not done again."""

    id: str
    stream_id: str | None = Field(default=None, description="of the stream that it opened, which `Location` names")


class EnvelopeProblem(BaseModel):
    """What is wrong. It is not signed: only what an agent signs is its word."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "this id was used for another envelope",
                    "status": 409,
                    "detail": "this id was used for another envelope",
                    "code": "4.22",
                    "message": "this id was used for another envelope",
                    "retryable": False,
                    "ref": _ID,
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    detail: str
    code: str = Field(description="UAMP's")
    message: str
    retryable: bool
    retry_after: int | None = Field(default=None, description="seconds")
    ref: str | None = Field(default=None, description="the id of the envelope that it is about")


BODIES: tuple[type[BaseModel], ...] = (Envelope, EnvelopeProblem)
"""That routes read and write by themselves."""

_MEANINGS = {
    400: "4.00: it is no envelope, or not one that can be used.",
    401: "4.01: the caller, the signature or the time is not accepted.",
    403: "4.03: not for the caller, or not for us.",
    404: "4.04: there is no such stream or exchange of the caller's.",
    409: "4.22: the id or the stream's id is taken.",
    413: "4.13: it is too large.",
    415: "4.15: the media type, encoding or compression is not taken.",
    421: "4.03: the server does not answer for this host.",
    426: "4.01: not over plain HTTP; 4.00: not by HTTP/1.1.",
    429: "4.29: the caller sends too much.",
    500: "5.00: the server failed.",
    503: "5.04: the server is busy; try again.",
}


def _told(meaning: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{EnvelopeProblem.__name__}"}
    return {"description": meaning, "content": {PROBLEM_MEDIA_TYPE: {"schema": schema}}}


ERRORS: dict[int | str, dict[str, Any]] = {status: _told(meaning) for status, meaning in _MEANINGS.items()}
"""What any of these routes may answer besides its own."""

AUTHENTICATED: dict[str, Any] = {"security": [{"bearer": []}]}
"""What the document says of the caller; a client certificate will do too."""

ENVELOPE_BODY: dict[str, Any] = {
    **AUTHENTICATED,
    "requestBody": {
        "required": True,
        "content": {
            ENVELOPE_MEDIA_TYPE: {
                "schema": {"$ref": f"#/components/schemas/{Envelope.__name__}"},
                "example": _EXAMPLE,
            }
        },
    },
}
