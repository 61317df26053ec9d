"""What envelopes may hold, and their content as a message to an agent."""

from __future__ import annotations

from perdure.protocols.uamp_envelope.body import Content, decode_body
from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.uap.ids import derive_id
from perdure.upp.content import ImageBlock
from perdure.upp.json_value import JSONObject, loads
from perdure.upp.media_source import BytesSource
from perdure.upp.messages import UserMessage

INTENTS = tuple(Intent)
"""The intents that our agents take: all. The manifest says so."""

BODY_TYPES = ("text/*", "application/json", "image/*")
"""What an agent can be told. The manifest says so."""

_JSON = "application/json"
_CHARSETS = (None, "utf-8", "us-ascii")


def check_body(envelope: Envelope, *, max_bytes: int) -> Content:
    """The content of an envelope's body, of a kind that its intent can have.

    Args:
        envelope: as read.
        max_bytes: the greatest size, decompressed.

    Raises:
        UAMPError: 4.15 for a type, encoding or compression that is not taken, 4.13 if it is too large, 4.00 if it is
            damaged, or empty where something must be said.
    """
    content = decode_body(envelope.body, max_bytes=max_bytes)
    if envelope.intent in (Intent.ASK, Intent.PROPOSE, Intent.INFORM, Intent.NOTIFY):
        kind, charset = _media_type(content.type)
        if (not kind.startswith(("text/", "image/")) and kind != _JSON) or charset not in _CHARSETS:
            raise UAMPError(
                Code.UNSUPPORTED, f"the body type {content.type[:60]!r} is not taken; send {', '.join(BODY_TYPES)}"
            )
        _check_said(kind, content)
    return content


def message_of(envelope: Envelope, *, max_bytes: int) -> UserMessage:
    """What an envelope says, as a message to its agent; the same each time.

    Raises:
        UAMPError: see `check_body`.
    """
    content = check_body(envelope, max_bytes=max_bytes)
    kind, _ = _media_type(content.type)
    said = ImageBlock(BytesSource(content.data), kind) if kind.startswith("image/") else content.text
    about: JSONObject = {"from": envelope.sender, "envelope": envelope.id_text, "intent": envelope.intent.value}
    return UserMessage(
        said,
        id=derive_id("uamp message", envelope.sender, str(envelope.id)),
        timestamp=envelope.sent_at,
        metadata={"uamp": about},
    )


def _media_type(text: str) -> tuple[str, str | None]:
    """A media type without parameters, and its charset if it says one."""
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    named = (parameter.partition("=") for parameter in parameters)
    return kind, next((value.strip().strip('"') for name, _, value in named if name.strip() == "charset"), None)


def _check_said(kind: str, content: Content) -> None:
    if not content.data:
        raise malformed("the body is empty")
    if not kind.startswith("image/") and not content.text.strip():
        raise malformed("the body has nothing but blanks")
    if kind == _JSON:
        try:
            loads(content.data)
        except ValueError as error:
            raise malformed("the body is not JSON, as its type says") from error
