"""Delta frames: read, built, and the payloads that have a form. Source: UAMP envelope 1.0, section 5 and appendix A.2."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal, cast

from perdure.protocols.uamp_envelope.body import decode_base64
from perdure.protocols.uamp_envelope.canonical import canonical_json
from perdure.protocols.uamp_envelope.error import UAMPError, malformed, read_error
from perdure.protocols.uamp_envelope.identifier import check_stream_id
from perdure.protocols.uamp_envelope.schema import check_schema
from perdure.protocols.uamp_envelope.strict_json import MAX_ENVELOPE_BYTES, MAX_SAFE_INTEGER, parse_object
from perdure.protocols.uamp_envelope.timestamp import read_time, write_time
from perdure.upp.json_value import JSONObject, JSONValue


class DeltaType(StrEnum):
    """What a delta is."""

    PATCH = "patch"
    CHUNK = "chunk"
    PROGRESS = "progress"
    DONE = "done"
    CANCEL = "cancel"
    ERROR = "error"

    @property
    def is_terminal(self) -> bool:
        """Whether its stream ends with it."""
        return self in (DeltaType.DONE, DeltaType.CANCEL, DeltaType.ERROR)


@dataclass(frozen=True, slots=True)
class Delta:
    """A frame of a stream.

    Attributes:
        seq: its place in the stream, from 0 without a gap; a terminal frame has one too.
        stream_id: whose frame it is.
        sent_at: its `ts`.
        type: what it is.
        payload: an object; empty if the frame has none.
    """

    seq: int
    stream_id: str
    sent_at: datetime
    type: DeltaType
    payload: JSONObject = field(default_factory=dict[str, JSONValue], repr=False)

    def to_json(self) -> JSONObject:
        """The frame as it is sent."""
        return {
            "delta_seq": self.seq,
            "stream_id": self.stream_id,
            "ts": write_time(self.sent_at),
            "type": self.type.value,
            "payload": self.payload,
        }

    def to_bytes(self) -> bytes:
        """The frame as it is sent: one line of canonical JSON.

        Raises:
            UAMPError: 4.00 if the payload holds what JSON of one reading cannot.
        """
        return canonical_json(self.to_json())


def read_delta(data: bytes, *, max_bytes: int = MAX_ENVELOPE_BYTES) -> Delta:
    """Reads a frame.

    Raises:
        UAMPError: 4.13 if it is too large, 4.00 if it is no delta.
    """
    return delta_of(parse_object(data, max_bytes=max_bytes))


def delta_of(value: JSONObject, *, stream_id: str | None = None, received_at: datetime | None = None) -> Delta:
    """The frame of a JSON value.

    Args:
        value: from `parse_object`.
        stream_id: fills a missing `stream_id`: older senders leave it to the stream's URL. None to be strict.
        received_at: fills a missing `ts` likewise.

    Raises:
        UAMPError: 4.00.
    """
    filled = dict(value)
    if stream_id is not None:
        filled.setdefault("stream_id", stream_id)
    if received_at is not None:
        filled.setdefault("ts", write_time(received_at))
    check_schema("delta", filled)
    seq = int(cast(int, filled["delta_seq"]))
    if seq > MAX_SAFE_INTEGER:
        raise malformed("the delta_seq is too great")
    return Delta(
        seq=seq,
        stream_id=check_stream_id(cast(str, filled["stream_id"])),
        sent_at=read_time(cast(str, filled["ts"])),
        type=DeltaType(cast(str, filled["type"])),
        payload=cast(JSONObject, filled.get("payload", {})),
    )


def text_chunk(text: str) -> JSONObject:
    """The payload of a chunk of text."""
    return {"text": text}


def bytes_chunk(data: bytes) -> JSONObject:
    """The payload of a chunk of bytes."""
    return {"chunk_b64": b64encode(data).decode("ascii")}


def chunk_data(delta: Delta) -> bytes:
    """What a chunk carries: its bytes, or its text in UTF-8.

    Raises:
        UAMPError: 4.00 if it carries neither.
    """
    text, encoded = delta.payload.get("text"), delta.payload.get("chunk_b64")
    if isinstance(text, str):
        return text.encode("utf-8")
    if isinstance(encoded, str):
        return decode_base64(encoded, is_url="-" in encoded or "_" in encoded)
    raise malformed("a chunk carries 'text' or 'chunk_b64'")


def patch_payload(format: Literal["json-patch", "merge-patch"], patch: JSONValue) -> JSONObject:
    """The payload of a patch: operations of RFC 6902 under `ops`, or a document of RFC 7396 under `patch`."""
    return {"format": format, "ops" if format == "json-patch" else "patch": patch}


def delta_error(delta: Delta) -> UAMPError:
    """The error that an error frame tells of.

    Raises:
        UAMPError: 4.00 if its payload is no error object.
    """
    return read_error(delta.payload)
