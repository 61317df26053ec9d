"""The envelope: read strictly, and built.

Source: UAMP envelope 1.0, section 4 and appendix A.1. What is read is the received value and nothing more: no default is
put in, no text is written anew, because the signature covers what was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast
from uuid import UUID

from perdure.protocols.uamp_envelope.canonical import envelope_sha256
from perdure.protocols.uamp_envelope.error import UAMPError, malformed
from perdure.protocols.uamp_envelope.identifier import check_stream_id, read_id, write_id
from perdure.protocols.uamp_envelope.intent import Intent
from perdure.protocols.uamp_envelope.schema import check_schema
from perdure.protocols.uamp_envelope.strict_json import MAX_ENVELOPE_BYTES, parse_object
from perdure.protocols.uamp_envelope.timestamp import read_time, write_time
from perdure.upp.json_value import JSONObject

DEFAULT_WINDOW = 64
MAX_WINDOW = 1024
MAX_NAME_CHARS = 512
"""Of `from` and of each of `to`: names are keys of rows."""

MAX_ITEMS = 256
"""Of `to` and of `context`: each item costs more to check than to send."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An item of `context`.

    Attributes:
        id: of the envelope that is meant.
        hash: its `context_hash`; `admission.check_context` compares it.
    """

    id: UUID
    hash: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope that obeys the schema. Its signature is not verified by that.

    Attributes:
        json: all of it as received; to be read only.
        id: its own.
        sent_at: its `ts`.
        sender: its `from`.
        recipients: its `to`, at least one.
        intent: what it is for.
        reply_to: the envelope that it answers.
        stream_id: the stream that it opens or belongs to.
        window: how many deltas its sender takes without an ACK; 64 if it does not say, at most 1024.
        context: envelopes that it refers to.
        body: type, content and what else there is; `body.decode_body` gives the bytes.
        cap_token: a capability token, not verified.
        sig: its signature, not verified.
        ext: extensions.
        sha256: the hash that its signature must be over: 64 hexadecimal digits.
    """

    json: JSONObject = field(repr=False)
    id: UUID
    sent_at: datetime
    sender: str
    recipients: tuple[str, ...]
    intent: Intent
    reply_to: UUID | None
    stream_id: str | None
    window: int
    context: tuple[Reference, ...] = field(repr=False)
    body: JSONObject = field(repr=False)
    cap_token: str | None = field(repr=False)
    sig: str = field(repr=False)
    ext: JSONObject = field(repr=False)
    sha256: str

    @property
    def id_text(self) -> str:
        """Its id as its sender wrote it."""
        return cast(str, self.json["id"])

    @property
    def context_hash(self) -> str:
        """What `context[i].hash` of another envelope says of this one."""
        return f"sha256:{self.sha256}"


def read_envelope(data: bytes, *, max_bytes: int = MAX_ENVELOPE_BYTES, max_window: int = MAX_WINDOW) -> Envelope:
    """Reads an envelope.

    Args:
        data: its JSON as received.
        max_bytes: the greatest size of that.
        max_window: a greater `delta_window` counts as this one.

    Raises:
        UAMPError: 4.13 if it is too large, 4.00 if it is no envelope; names the envelope where its id can be read.
    """
    return envelope_of(parse_object(data, max_bytes=max_bytes), max_window=max_window)


def envelope_of(value: JSONObject, *, max_window: int = MAX_WINDOW) -> Envelope:
    """The envelope of a JSON value that `parse_object` or `build_envelope` made.

    Raises:
        UAMPError: 4.00.
    """
    try:
        _check_lengths(value)
        check_schema("envelope", value)
        return _envelope(value, max_window)
    except UAMPError as error:
        named = value.get("id")
        raise (error.about(named) if isinstance(named, str) and _is_id(named) else error) from error


def build_envelope(
    *,
    id: UUID,
    now: datetime,
    sender: str,
    to: Sequence[str],
    intent: Intent,
    body: JSONObject,
    reply_to: str | None = None,
    context: Sequence[Reference] = (),
    stream_id: str | None = None,
    delta_window: int | None = None,
    cap_token: str | None = None,
    ext: JSONObject | None = None,
) -> JSONObject:
    """An envelope without its signature; `signature.sign_envelope` checks and signs it.

    Args:
        id: drawn by the caller (`uuid4()`), the same for every resend.
        now: the time of sending.
        sender: a DID of ours.
        to: whom it is for.
        intent: what it is for.
        body: from `body.encode_body`.
        reply_to: the id of the envelope that it answers, in that envelope's spelling.
        context: envelopes that it refers to.
        stream_id: the stream that it opens or belongs to.
        delta_window: how many deltas we take without an ACK; unsaid means 64.
        cap_token: a capability token for the receiver.
        ext: extensions.
    """
    made: JSONObject = {
        "id": write_id(id),
        "ts": write_time(now),
        "from": sender,
        "to": [*to],
        "intent": intent.value,
        "body": body,
    }
    optional: JSONObject = {
        "reply_to": reply_to,
        "context": [{"id": write_id(item.id), "hash": item.hash} for item in context] or None,
        "stream_id": stream_id,
        "delta_window": delta_window,
        "cap_token": cap_token,
        "ext": ext,
    }
    return made | {name: value for name, value in optional.items() if value is not None}


def _envelope(value: JSONObject, max_window: int) -> Envelope:
    """The parts of a value that obeys the schema, so that their types are known."""
    sender, recipients = cast(str, value["from"]), tuple(cast("list[str]", value["to"]))
    for name in (sender, *recipients):
        if len(name) > MAX_NAME_CHARS:
            raise malformed(f"a name in 'from' or 'to' has at most {MAX_NAME_CHARS} characters")
    stream_id = cast("str | None", value.get("stream_id"))
    reply_to = cast("str | None", value.get("reply_to"))
    context = cast("list[dict[str, str]]", value.get("context", []))
    return Envelope(
        json=value,
        id=read_id(cast(str, value["id"])),
        sent_at=read_time(cast(str, value["ts"])),
        sender=sender,
        recipients=recipients,
        intent=Intent(cast(str, value["intent"])),
        reply_to=None if reply_to is None else read_id(reply_to),
        stream_id=None if stream_id is None else check_stream_id(stream_id),
        window=min(int(cast(int, value.get("delta_window", DEFAULT_WINDOW))), max_window),
        context=tuple(Reference(read_id(item["id"]), item["hash"]) for item in context),
        body=cast(JSONObject, value["body"]),
        cap_token=cast("str | None", value.get("cap_token")),
        sig=cast(str, value["sig"]),
        ext=cast(JSONObject, value.get("ext", {})),
        sha256=envelope_sha256(value),
    )


def _check_lengths(value: JSONObject) -> None:
    for name in ("to", "context"):
        items = value.get(name)
        if isinstance(items, list) and len(items) > MAX_ITEMS:
            raise malformed(f"{name!r} has at most {MAX_ITEMS} items")


def _is_id(text: str) -> bool:
    try:
        read_id(text)
    except UAMPError:
        return False
    return True
