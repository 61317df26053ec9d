"""A server that answers an ask as it is told to: truly, unsigned, signed by another, or with frames that were changed.

Its frames are made and signed by jwcrypto and rfc8785, not by our code.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import hypercorn.asyncio
import rfc8785
from hypercorn.config import Config

from tests.conformance.envelope_certificates import Certificate
from tests.conformance.envelope_peer import Peer, utc_text

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class ForgingServer:
    """One agent's server. What an ask says is how it is answered.

    Attributes:
        peer: the agent.
        other: another agent, whose key signs what is forged.
        asks: the envelopes that came, in order.
    """

    def __init__(self, peer: Peer, other: Peer) -> None:
        self.peer, self.other = peer, other
        self.asks: list[dict[str, Any]] = []

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await _lifespan(receive, send)
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        if scope["method"] == "POST":
            return await self._take(json.loads(body), send)
        await self._tell(scope["path"].rpartition("/")[2], send)
        return None

    async def _take(self, envelope: dict[str, Any], send: Send) -> None:
        self.asks.append(envelope)
        headers = []
        if envelope["intent"] == "ask":
            headers = [(b"location", f"/v1/stream/{envelope['stream_id']}".encode())]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def _tell(self, stream_id: str, send: Send) -> None:
        ask = next(item for item in self.asks if item.get("stream_id") == stream_id)
        frames = [_frame(stream_id, 0, "chunk", {"text": "the "}), _frame(stream_id, 1, "chunk", {"text": "truth"})]
        end = _frame(stream_id, 2, "done", {"text": "the truth"})
        frames.append(end | {"payload": self._end(ask["body"]["content"], [*frames, end])})
        await send({
            "type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")],
        })  # fmt: skip
        for frame in frames:
            line = f"id: {frame['delta_seq']}\ndata: {json.dumps(frame)}\n\n".encode()
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _end(self, how: str, frames: list[dict[str, Any]]) -> dict[str, Any]:
        """The payload of the last frame. What is "changed", or "another text", was something else when it was signed."""
        if how == "unsigned":
            return {"text": "the truth"}
        signed = [dict(frame) for frame in frames]
        if how == "changed":
            signed[1]["payload"] = {"text": "lie"}
        sha256 = hashlib.sha256(b"".join(rfc8785.dumps(frame) + b"\n" for frame in signed)).hexdigest()
        payload = f'{{"sha256":"{sha256}"}}'.encode()
        key = self.other.key if how == "forged" else None
        transcript = {"sha256": sha256, "jws": self.peer.signature(payload, key=key)}
        return {"text": "something else" if how == "another text" else "the truth", "transcript": transcript}


def _frame(stream_id: str, seq: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "delta_seq": seq, "stream_id": stream_id, "ts": utc_text(datetime.now(UTC)), "type": kind, "payload": payload,
    }  # fmt: skip


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return


@contextmanager
def forging(server: ForgingServer, port: int, certificate: Certificate) -> Generator[ForgingServer]:
    """The server at a port, while the context lasts, on a thread of its own."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.certfile, config.keyfile = str(certificate.cert), str(certificate.key)
    config.alpn_protocols = ["h2"]
    config.errorlog = None
    stop, loops = threading.Event(), asyncio.new_event_loop()

    async def run() -> None:
        async def stopped() -> None:
            await asyncio.to_thread(stop.wait)

        await cast(Any, hypercorn.asyncio).serve(server, config, shutdown_trigger=stopped)

    thread = threading.Thread(target=lambda: loops.run_until_complete(run()), name="forging server", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        thread.join(20)
        loops.close()
