"""What tests of the gRPC binding share: how a stream is read to its end, and what a refusal must say."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from perdure.protocols.uamp_envelope.grpc import uamp_pb2
from tests.conformance.envelope_lines import TERMINAL, GrpcLine, delta_frame, delta_in
from tests.conformance.envelope_peer import Envelope, utc_text
from tests.conformance.envelope_server import EnvelopeServer


async def refused(calling: Any, code: str, status: grpc.StatusCode) -> uamp_pb2.Error:
    """The error object in the details of a call's status."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await calling
    return told_by(caught.value, code, status)


def told_by(error: grpc.aio.AioRpcError, code: str, status: grpc.StatusCode) -> uamp_pb2.Error:
    """The error object in the details of a status."""
    assert error.code() is status, error
    (details,) = [value for name, value in error.trailing_metadata() or () if name == "grpc-status-details-bin"]
    assert isinstance(details, bytes)
    told = Status.FromString(details)
    found = uamp_pb2.Error()
    assert told.details[0].Unpack(found)
    assert found.code == code, found
    assert found.message == error.details() == told.message
    assert "Traceback" not in str(error.details())
    if found.retry_after_ms:
        again = RetryInfo()
        assert told.details[1].Unpack(again)
        assert again.retry_delay.ToMilliseconds() == found.retry_after_ms
    return found


def ack(
    envelopes: EnvelopeServer, stream_id: str, acked: int, seq: int = 0, *, hints: dict[str, Any] | None = None
) -> uamp_pb2.Frame:
    """An ACK delta of a consumer, as its `seq`th."""
    delta = {
        "delta_seq": seq,
        "stream_id": stream_id,
        "ts": utc_text(envelopes.clock()),
        "type": "progress",
        "payload": {"ack": acked},
    }
    return delta_frame(delta, **(hints or {}))


async def followed(line: GrpcLine, sent: Envelope, stream_id: str, last: int | None = None) -> list[dict[str, Any]]:
    """All deltas of a stream by Stream, each ACKed by Send."""
    found: list[dict[str, Any]] = []
    async for frame in line.stream(stream_id, last):
        delta = delta_in(frame)
        found.append(delta)
        if delta["type"] not in TERMINAL:
            await line.send(line.peer.ack(sent, stream_id, delta["delta_seq"]))
    return found
