"""HTTP/3 as a transport of httpx: one QUIC connection to one server, made when it is needed and again when it broke.

QUIC numbers its streams itself; that a stream of UAMP is read on one of them is all that binds the two.
No client certificates: the servers' side of QUIC asks for none, so a bearer token shows who is asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx

from perdure.errors import ServerUnavailable
from perdure.runtime.envelopes.client.quic import Exchange, Headers, QuicClient, connect_quic

_HTTPS_PORT = 443
_NOT_SENT = ("host", "connection", "transfer-encoding", "keep-alive", "upgrade", "te")


class Http3Transport(httpx.AsyncBaseTransport):
    """Sends requests to one server over QUIC."""

    def __init__(self, authorities: bytes | None) -> None:
        """Connect to nothing yet.

        Args:
            authorities: whose certificates are taken besides the usual ones, as PEM; None for none.
        """
        self._authorities = authorities
        self._made: tuple[QuicClient, asyncio.BaseTransport] | None = None
        self._making = asyncio.Lock()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and wait for the response's headers.

        Raises:
            httpx.TransportError: there is no connection, or it broke; its cause says what it was.
        """
        body = await request.aread()
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        try:
            client = await self._connection(request.url)
            exchange = client.request(_request_headers(request), body)
        except ServerUnavailable as error:
            raise httpx.ConnectError(str(error), request=request) from error
        stream = _Body(client, exchange, request, timeout.get("read"))
        try:
            async with asyncio.timeout(timeout.get("read")):
                headers = await asyncio.shield(exchange.headers)
        except ServerUnavailable as error:
            raise httpx.ReadError(str(error), request=request) from error
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer came in time", request=request) from error
        finally:
            if not exchange.headers.done() or exchange.headers.cancelled() or exchange.headers.exception():
                await stream.aclose()
        status = next(int(value) for name, value in headers if name == b":status")
        shown = [(name, value) for name, value in headers if not name.startswith(b":")]
        return httpx.Response(
            status, headers=shown, stream=stream, request=request, extensions={"http_version": b"HTTP/3"}
        )

    async def aclose(self) -> None:
        """Close the connection."""
        if self._made is not None:
            client, transport = self._made
            self._made = None
            client.close()
            transport.close()

    async def _connection(self, url: httpx.URL) -> QuicClient:
        async with self._making:
            if self._made is not None and self._made[0].broken is None:
                return self._made[0]
            await self.aclose()
            self._made = await connect_quic(url.host, url.port or _HTTPS_PORT, self._authorities)
            return self._made[0]


class _Body(httpx.AsyncByteStream):
    """A response's body as it comes."""

    def __init__(self, client: QuicClient, exchange: Exchange, request: httpx.Request, seconds: float | None) -> None:
        self._client, self._exchange, self._request, self._seconds = client, exchange, request, seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self._seconds):
                    part = await self._exchange.part()
            except TimeoutError as error:
                raise httpx.ReadTimeout("nothing came for too long", request=self._request) from error
            if part is None:
                return
            if isinstance(part, ServerUnavailable):
                raise httpx.ReadError(str(part), request=self._request) from part
            yield part

    async def aclose(self) -> None:
        self._client.leave(self._exchange)


def _request_headers(request: httpx.Request) -> Headers:
    pseudo = [
        (b":method", request.method.encode("ascii")),
        (b":scheme", b"https"),
        (b":authority", request.url.netloc),
        (b":path", request.url.raw_path),
    ]
    sent = [(name.lower(), value) for name, value in request.headers.raw]
    return pseudo + [(name, value) for name, value in sent if name.decode("ascii") not in _NOT_SENT]
