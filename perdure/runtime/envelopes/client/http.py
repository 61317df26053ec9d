"""The binding to HTTP: envelopes are posted, streams come as server-sent events. The same over HTTP/2 and HTTP/3.

Source: UAMP envelope 1.0, section 7.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import timedelta
from typing import cast
from urllib.parse import unquote, urlsplit

import httpx
from httpx_sse import EventSource, SSEError

from perdure.protocols.uamp_envelope.delta import Delta, delta_of
from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed, read_error
from perdure.protocols.uamp_envelope.identifier import (
    MESSAGES_PATH,
    STREAM_PATH_PREFIX,
    check_stream_id,
    stream_location,
)
from perdure.protocols.uamp_envelope.media_type import ENVELOPE_MEDIA_TYPE
from perdure.protocols.uamp_envelope.signature import envelope_bytes
from perdure.protocols.uamp_envelope.strict_json import MAX_ENVELOPE_BYTES, parse_object
from perdure.runtime.envelopes.client.connection import Delivered, Sent
from perdure.runtime.envelopes.client.errors import ConnectionBroken, UnsignedError, connection_error
from perdure.runtime.envelopes.client.patience import Patience
from perdure.upp.timestamp import now

_MAX_ANSWER_BYTES = 64 * 1024
_MAX_RETRY_AFTER_DIGITS = 6
_MAX_EVENT_BYTES = 2 * MAX_ENVELOPE_BYTES
_GATEWAY_STATUSES = (502, 504)  # of something in between: the server itself has not answered
_AS_IT_IS = {"Accept-Encoding": "identity"}


class HttpConnection:
    """Envelopes and streams over an HTTP client whose transport says which version of HTTP it is.

    Attributes:
        carries_acks: never: an ACK is an envelope here.
    """

    carries_acks = False

    def __init__(self, http: httpx.AsyncClient, patience: Patience) -> None:
        self._http = http
        self._answer_seconds = patience.answer.total_seconds()
        self._answer_timeout = httpx.Timeout(self._answer_seconds)
        self._stream_timeout = httpx.Timeout(patience.answer.total_seconds(), read=patience.silence.total_seconds())

    async def deliver(self, envelope: Envelope) -> Delivered:
        """Post an envelope; see `EnvelopeConnection`."""
        request = self._http.build_request(
            "POST",
            MESSAGES_PATH,
            content=envelope_bytes(envelope),
            headers={"Content-Type": ENVELOPE_MEDIA_TYPE, "Accept": "application/json", **_AS_IT_IS},
            timeout=self._answer_timeout,
        )
        try:
            async with asyncio.timeout(self._answer_seconds):
                response = await self._http.send(request, stream=True)
                try:
                    body = await _bounded(response)
                finally:
                    await response.aclose()
        except (httpx.HTTPError, TimeoutError) as error:
            raise connection_error(error, str(self._http.base_url)) from error
        if response.status_code != 202:
            raise refusal(response.status_code, response.headers.get("Retry-After", ""), body)
        if not envelope.intent.opens:
            return Delivered()
        location = response.headers.get("Location")
        return Delivered(_stream_id(location, envelope), location)

    async def stream(self, sent: Sent, *, after: int | None) -> AsyncGenerator[Delta, None]:
        """The frames of a stream as server-sent events; see `EnvelopeConnection`."""
        stream_id = check_stream_id(sent.stream_id or "")
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store", **_AS_IT_IS}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        try:
            async with self._http.stream(
                "GET", stream_location(stream_id), headers=headers, timeout=self._stream_timeout
            ) as response:
                if response.status_code == 204:
                    raise malformed(f"the stream has ended at the other side, and its end did not come after {after}")
                if response.status_code != 200:
                    async with asyncio.timeout(self._answer_seconds):
                        told = await _bounded(response)
                    raise refusal(response.status_code, response.headers.get("Retry-After", ""), told)
                body = _events(response)
                async with aclosing(EventSource(response).aiter_sse()) as events:
                    async for event in events:
                        body.size = 0
                        if event.data:
                            value = parse_object(event.data.encode("utf-8"))
                            yield delta_of(value, stream_id=stream_id, received_at=now())
        except SSEError as error:
            raise malformed(f"the stream is none of server-sent events: {error}") from error
        except (httpx.HTTPError, TimeoutError) as error:
            raise connection_error(error, str(self._http.base_url)) from error

    async def acknowledge(self, stream_id: str, seq: int) -> None:
        """Not over HTTP."""
        raise NotImplementedError("over HTTP an ACK is an envelope")

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class _Events(httpx.AsyncByteStream):
    """A body of events, none of which may be longer than a frame is: the library reads lines of any length, and any number.

    Attributes:
        size: of what has come since the last event.
    """

    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body
        self.size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._body:
            self.size += len(part)
            if self.size > _MAX_EVENT_BYTES:
                raise UAMPError(Code.TOO_LARGE, f"an event of the stream is longer than {_MAX_EVENT_BYTES:,} bytes")
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


def _events(response: httpx.Response) -> _Events:
    """The body of a response, as it is: what is compressed is not inflated.

    Raises:
        UAMPError: 4.15: it is compressed.
    """
    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise UAMPError(Code.UNSUPPORTED, "a compressed stream was not asked for")
    response.stream = body = _Events(cast(httpx.AsyncByteStream, response.stream))
    return body


async def _bounded(response: httpx.Response) -> bytes:
    """As much of a body as an answer may have; the rest is left."""
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > _MAX_ANSWER_BYTES:
            break

    return bytes(body[:_MAX_ANSWER_BYTES])


def refusal(status: int, retry_after: str, body: bytes) -> UnsignedError | ConnectionBroken:
    """What an answer other than the wanted one means; nobody has signed it.

    Args:
        status: of the answer.
        retry_after: its header of that name; empty for none.
        body: an error object, or anything.
    """
    is_number = retry_after.isascii() and retry_after.isdigit() and len(retry_after) <= _MAX_RETRY_AFTER_DIGITS
    waits = timedelta(seconds=int(retry_after)) if is_number else None
    try:
        error = UnsignedError.of(read_error(json.loads(body)))
    except (UAMPError, ValueError, RecursionError):
        if status in _GATEWAY_STATUSES:
            return ConnectionBroken(f"something before the other agent's server answered {status}")
        return UnsignedError.of_status(status, waits)
    if error.retry_after is None:
        error.retry_after = waits
    return error


def _stream_id(location: str | None, envelope: Envelope) -> str:
    if location is None:
        if envelope.stream_id is None:
            raise malformed("the other side took the envelope and does not say where its stream is")
        return envelope.stream_id
    path = urlsplit(location).path
    if not path.startswith(STREAM_PATH_PREFIX):
        raise malformed(f"the other side's Location {location[:80]!r} is no stream's")
    return check_stream_id(unquote(path.removeprefix(STREAM_PATH_PREFIX)))
