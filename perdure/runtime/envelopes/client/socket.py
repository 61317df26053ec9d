"""The binding to WebSocket: envelopes and deltas with a length before each, both ways on one connection.

What the server says of an envelope is an envelope too: `progress` if it was taken, `error` if not. The deltas of a stream
come without asking after the envelope that opened it; an ACK of a stream that does not come yet has it come from there,
and a `progress` delta without an ACK has it come from its beginning.
Source: UAMP envelope 1.0, section 7.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.error import Code
from perdure.protocols.uamp_envelope.length_prefix import SUBPROTOCOL, WEBSOCKET_PATH
from perdure.protocols.uamp_envelope.strict_json import MAX_ENVELOPE_BYTES
from perdure.runtime.envelopes.client.connection import Delivered, Sent
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UnsignedError, connection_error
from perdure.runtime.envelopes.client.http import refusal
from perdure.runtime.envelopes.client.patience import Patience
from perdure.runtime.envelopes.client.socket_frames import SocketFrames
from perdure.runtime.envelopes.client.tls import Trust


class _Connect(connect):
    """Goes where it was told to: whoever a redirect names would be shown the token, or the certificate."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow none."""
        return exc


class SocketConnection:
    """One WebSocket to one server, made when it is needed and again when it broke.

    Attributes:
        carries_acks: always: an ACK is a delta here.
    """

    carries_acks = True

    def __init__(self, url: httpx.URL, *, trust: Trust, bearer: str | None, patience: Patience) -> None:
        self._url = url
        self._context: ssl.SSLContext = trust.context(["http/1.1"])
        self._headers = {} if bearer is None else {"Authorization": f"Bearer {bearer}"}
        self._patience = patience
        self._frames: SocketFrames | None = None
        self._making = asyncio.Lock()

    async def deliver(self, envelope: Envelope) -> Delivered:
        """Send an envelope and wait until the server has said what it makes of it; see `EnvelopeConnection`."""
        frames = await self._connected()
        try:
            async with asyncio.timeout(self._patience.answer.total_seconds()):
                return await frames.deliver(envelope)
        except TimeoutError as error:
            raise ConnectionBroken(f"{self._url} did not say what it made of the envelope") from error

    async def stream(self, sent: Sent, *, after: int | None) -> AsyncGenerator[Delta, None]:
        """The frames of a stream; see `EnvelopeConnection`.

        To leave a stream that goes on closes the connection: nothing else stops the server from sending it.
        """
        stream_id = sent.stream_id or ""
        if self._frames is not None and self._frames.is_over(stream_id):
            await self.close()
        frames = await self._connected()
        if not frames.is_coming(stream_id):
            await frames.attach(stream_id, after)
        has_ended = has_begun = False
        try:
            try:
                async with aclosing(frames.incoming(stream_id)) as incoming:
                    async for delta in incoming:
                        has_begun, has_ended = True, delta.type.is_terminal
                        yield delta
            except UnsignedError as error:
                if error.code != Code.MALFORMED or has_begun or after is not None:
                    raise
                await self.deliver(sent.envelope)  # a server that takes no wish for frame 0 begins there by itself
                async with aclosing(frames.incoming(stream_id)) as incoming:
                    async for delta in incoming:
                        has_ended = delta.type.is_terminal
                        yield delta
        finally:
            if not has_ended:
                await frames.close()

    async def acknowledge(self, stream_id: str, seq: int) -> None:
        """Send an ACK delta."""
        await (await self._connected()).acknowledge(stream_id, seq)

    async def close(self) -> None:
        """Close the WebSocket."""
        if self._frames is not None:
            await self._frames.close()
            self._frames = None

    async def _connected(self) -> SocketFrames:
        async with self._making:
            if self._frames is None or self._frames.is_broken:
                await self.close()
                self._frames = SocketFrames(await self._connect())
            return self._frames

    async def _connect(self) -> ClientConnection:
        url = self._url.copy_with(scheme="wss", path=WEBSOCKET_PATH)
        try:
            return await _Connect(
                str(url),
                ssl=self._context,
                subprotocols=[Subprotocol(SUBPROTOCOL)],
                additional_headers=self._headers,
                compression=None,
                proxy=None,
                max_size=2 * MAX_ENVELOPE_BYTES,
                open_timeout=self._patience.answer.total_seconds(),
                ping_interval=self._patience.silence.total_seconds() / 2,
                ping_timeout=self._patience.silence.total_seconds() / 2,
            )
        except InvalidStatus as error:
            answer = error.response
            raise refusal(answer.status_code, answer.headers.get("Retry-After", ""), answer.body) from error
        except (OSError, TimeoutError, InvalidHandshake, EOFError) as error:
            raise connection_error(error, str(url)) from error
