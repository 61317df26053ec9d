"""How gRPC carries what the door says: deltas as frames, errors as a status with details.

Source: UAMP envelope 1.0, section 7; `protos/uamp.proto`.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from typing import Any, cast

from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from perdure.protocols.uamp_envelope.delta import Delta, delta_of
from perdure.protocols.uamp_envelope.error import UAMPError, malformed
from perdure.protocols.uamp_envelope.grpc.uamp_pb2 import DeltaFrame, EnvelopeFrame, Error, Frame
from perdure.protocols.uamp_envelope.media_type import check_content_type
from perdure.protocols.uamp_envelope.strict_json import parse_object
from perdure.upp.redaction import known_secrets

_MILLISECONDS = 1000


def transport_of(stream: Stream[Any, Any]) -> asyncio.Transport:
    """The connection of a call: grpclib tells of its certificate without the bytes, and closes it for nobody."""
    return cast(Any, stream.peer)._transport


def certificate_of(stream: Stream[Any, Any]) -> bytes | None:
    """The client's certificate in DER, which the handshake has verified; None if it showed none."""
    secured: ssl.SSLObject | None = transport_of(stream).get_extra_info("ssl_object")
    return None if secured is None else secured.getpeercert(binary_form=True)


def delta_frame(delta: Delta) -> Frame:
    """A delta as it is sent."""
    return Frame(delta=DeltaFrame(json=delta.to_bytes(), delta_seq=delta.seq, stream_id=delta.stream_id))


def checked_envelope(frame: EnvelopeFrame, max_bytes: int) -> bytes:
    """The JSON of an envelope that came in a frame of its own.

    Raises:
        UAMPError: 4.13 it is too large; 4.15 its media type is another; 4.00 it is none.
    """
    check_content_type(frame.media_type)
    if "intent" not in parse_object(frame.json, max_bytes=max_bytes):
        raise malformed("an envelope has an intent; a delta comes in a frame of its own")
    return frame.json


def checked_delta(frame: DeltaFrame, max_bytes: int) -> bytes:
    """The JSON of a delta that came, whose hints say what it says.

    Raises:
        UAMPError: 4.13 it is too large; 4.00 it is no delta, or a hint says something else.
    """
    delta = delta_of(parse_object(frame.json, max_bytes=max_bytes))
    if (frame.delta_seq, frame.stream_id) != (delta.seq, delta.stream_id):
        raise malformed("the hints delta_seq and stream_id must say what the delta's JSON says")
    return frame.json


def error_of(error: UAMPError) -> Error:
    """An error object as a message."""
    after = error.retry_after
    return Error(
        code=error.code,
        message=known_secrets.text(error.message),
        retryable=error.retryable,
        retry_after_ms=0 if after is None else math.ceil(after.total_seconds() * _MILLISECONDS),
        ref=error.ref or "",
    )


def status_of(error: UAMPError) -> GRPCError:
    """An error as the status that a call ends with; its details hold the error object, and when to come again."""
    told = error_of(error)
    details: list[Any] = [told]
    if error.retry_after is not None:
        delay = Duration()
        delay.FromTimedelta(error.retry_after)
        details.append(RetryInfo(retry_delay=delay))
    return GRPCError(Status[error.carriage.grpc_status], told.message, details)
