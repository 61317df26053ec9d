"""Connections of a peer to the server under test, by each binding, made of what other people wrote: httpx, websockets, grpcio."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
import websockets
from httpx_sse import EventSource

from perdure.protocols.uamp_envelope.grpc import uamp_pb2
from tests.conformance.envelope_certificates import Certificate
from tests.conformance.envelope_peer import MEDIA_TYPE, Envelope, Peer, wire

TERMINAL = ("done", "cancel", "error")
Delta = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What became of an envelope that opens a stream."""

    envelope: Envelope
    stream_id: str
    location: str


class HttpLine:
    """A peer's connection by HTTP/2 and server-sent events.

    Attributes:
        peer: whose it is.
        http: the client, for what is not here.
    """

    def __init__(self, peer: Peer, http: httpx.AsyncClient) -> None:
        self.peer, self.http = peer, http

    async def post(self, sent: Envelope | bytes, **headers: str) -> httpx.Response:
        """POST an envelope; a header's name has `_` for `-`."""
        data = sent if isinstance(sent, bytes) else wire(sent)
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post("/v1/messages", content=data, headers={"content-type": MEDIA_TYPE, **said})

    async def send(self, sent: Envelope | bytes) -> httpx.Response:
        """POST an envelope that is accepted."""
        response = await self.post(sent)
        assert response.status_code == 202, f"{response.status_code}: {response.text[:2000]}"
        return response

    async def ask(self, content: str = "hello", **members: Any) -> Asked:
        """Send an ask, or another envelope that opens a stream."""
        return await self.opened(self.peer.signed(content, **members))

    async def opened(self, envelope: Envelope) -> Asked:
        """Send an envelope that opens a stream."""
        response = await self.send(envelope)
        body = response.json()
        return Asked(envelope, body["stream_id"], response.headers["location"])

    async def refused(self, sent: Envelope | bytes, code: str, status: int, **headers: str) -> dict[str, Any]:
        """The problem with which an envelope is refused."""
        response = await self.post(sent, **headers)
        return problem_of(response, code, status)

    @asynccontextmanager
    async def stream(self, location: str, last: int | None = None) -> AsyncGenerator[httpx.Response]:
        """The response to a GET of a stream."""
        headers = {"accept": "text/event-stream"} | ({} if last is None else {"last-event-id": str(last)})
        async with self.http.stream("GET", location, headers=headers) as response:
            yield response

    async def follow(self, location: str, last: int | None = None) -> AsyncGenerator[Delta]:
        """The deltas of a stream as they come; each event's id is its number."""
        async with self.stream(location, last) as response:
            assert response.status_code == 200, f"{response.status_code}: {(await response.aread()).decode()[:2000]}"
            assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
            async for event in EventSource(response).aiter_sse():
                if event.data:
                    delta = json.loads(event.data)
                    assert event.id == str(delta["delta_seq"])
                    assert event.event == "message"
                    yield delta

    async def deltas(self, asked: Asked, last: int | None = None, *, ack: bool = True) -> list[Delta]:
        """All deltas of a stream until its end, each ACKed at once unless said."""
        found: list[Delta] = []
        async with aclosing(self.follow(asked.location, last)) as coming:
            async for delta in coming:
                found.append(delta)
                if ack and delta["type"] not in TERMINAL:
                    await self.send(self.peer.ack(asked.envelope, asked.stream_id, delta["delta_seq"]))
        return found

    async def answer(self, content: str = "hello", **members: Any) -> str:
        """The text with which an ask is answered."""
        return text_of(await self.deltas(await self.ask(content, **members)))


class SocketLine:
    """A peer's connection by WebSocket: a length of four bytes before each envelope and delta."""

    def __init__(self, peer: Peer, socket: websockets.ClientConnection) -> None:
        self.peer, self.socket = peer, socket
        self._held = b""

    async def send(self, sent: Envelope | Delta | bytes) -> None:
        """Send one frame."""
        data = sent if isinstance(sent, bytes) else wire(sent)
        await self.socket.send(len(data).to_bytes(4, "big") + data)

    async def receive(self) -> dict[str, Any]:
        """The next envelope or delta that comes."""
        while len(self._held) < 4 or len(self._held) < 4 + int.from_bytes(self._held[:4], "big"):
            message = await self.socket.recv()
            assert isinstance(message, bytes), "frames come in binary messages"
            self._held += message
        size = 4 + int.from_bytes(self._held[:4], "big")
        frame, self._held = self._held[4:size], self._held[size:]
        return json.loads(frame)


class GrpcLine:
    """A peer's connection by gRPC, through grpcio. Messages are ours, made from `protos/uamp.proto`; stubs are not."""

    def __init__(self, peer: Peer, channel: grpc.aio.Channel, metadata: list[tuple[str, str]]) -> None:
        self.peer, self.channel, self.metadata = peer, channel, metadata

    async def send(self, sent: Envelope | bytes, media_type: str = MEDIA_TYPE) -> uamp_pb2.SendReply:
        """Call Send."""
        call = self.channel.unary_unary(
            "/uamp.v1.Agent/Send",
            request_serializer=uamp_pb2.EnvelopeFrame.SerializeToString,
            response_deserializer=uamp_pb2.SendReply.FromString,
        )
        return await call(envelope_frame(sent, media_type), metadata=self.metadata)

    def stream(self, stream_id: str, last: int | None = None, window: int | None = None) -> Any:
        """Call Stream: Frames to iterate over."""
        call = self.channel.unary_stream(
            "/uamp.v1.Agent/Stream",
            request_serializer=uamp_pb2.StreamRequest.SerializeToString,
            response_deserializer=uamp_pb2.Frame.FromString,
        )
        request = uamp_pb2.StreamRequest(stream_id=stream_id, last_delta_seq=last, delta_window=window)
        return call(request, metadata=self.metadata)

    def connect(self) -> Any:
        """Call Connect: `write` and `read` Frames."""
        call = self.channel.stream_stream(
            "/uamp.v1.Agent/Connect",
            request_serializer=uamp_pb2.Frame.SerializeToString,
            response_deserializer=uamp_pb2.Frame.FromString,
        )
        return call(metadata=self.metadata)

    async def manifest(self) -> str:
        """Call GetManifest."""
        call = self.channel.unary_unary(
            "/uamp.v1.Agent/GetManifest",
            request_serializer=uamp_pb2.ManifestRequest.SerializeToString,
            response_deserializer=uamp_pb2.SignedManifest.FromString,
        )
        return (await call(uamp_pb2.ManifestRequest(), metadata=self.metadata)).jws


def envelope_frame(sent: Envelope | bytes, media_type: str = MEDIA_TYPE) -> uamp_pb2.EnvelopeFrame:
    """An envelope as gRPC carries it."""
    return uamp_pb2.EnvelopeFrame(json=sent if isinstance(sent, bytes) else wire(sent), media_type=media_type)


def delta_frame(delta: Delta, **hints: Any) -> uamp_pb2.Frame:
    """A delta as gRPC carries it; hints as in the JSON unless they are said."""
    said = {"delta_seq": delta["delta_seq"], "stream_id": delta["stream_id"], **hints}
    return uamp_pb2.Frame(delta=uamp_pb2.DeltaFrame(json=wire(delta), **said))


def delta_in(frame: uamp_pb2.Frame) -> Delta:
    """The delta of a frame, whose hints must be what the JSON says."""
    assert frame.WhichOneof("frame") == "delta", frame
    delta = json.loads(frame.delta.json)
    assert (frame.delta.delta_seq, frame.delta.stream_id) == (delta["delta_seq"], delta["stream_id"])
    return delta


def text_of(deltas: list[Delta]) -> str:
    """The text of a stream's chunks; the stream is whole and has ended well."""
    assert [delta["delta_seq"] for delta in deltas] == list(range(len(deltas)))
    assert deltas[-1]["type"] == "done", deltas[-1]
    return "".join(delta["payload"]["text"] for delta in deltas if delta["type"] == "chunk")


def problem_of(response: httpx.Response, code: str, status: int) -> dict[str, Any]:
    """The problem of a refusal, which has all that it must have and nothing of our insides."""
    assert response.status_code == status, f"{response.status_code}: {response.text[:2000]}"
    assert response.headers["content-type"].partition(";")[0] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == code, problem
    assert problem["status"] == status
    assert isinstance(problem["message"], str)
    assert isinstance(problem["retryable"], bool)
    assert "Traceback" not in response.text
    return problem


def http_client(
    url: str, trust: ssl.SSLContext, bearer: str | None = None, *, http1: bool = False
) -> httpx.AsyncClient:
    """A client that speaks HTTP/2 only, or HTTP/1.1 only."""
    return httpx.AsyncClient(
        base_url=url,
        verify=trust,
        http1=http1,
        http2=not http1,
        timeout=httpx.Timeout(60, read=90),
        headers={} if bearer is None else {"authorization": f"Bearer {bearer}"},
    )


def grpc_channel(target: str, authority: bytes, client: Certificate | None = None) -> grpc.aio.Channel:
    """A channel over TLS that trusts one authority."""
    key, chain = (None, None) if client is None else (client.key.read_bytes(), client.cert.read_bytes())
    return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(authority, key, chain))
