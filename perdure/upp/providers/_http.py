"""One POST to a vendor: sent by httpx, answered whole, as server-sent events, or as lines; every failure a UPPError.

What a body means is the adapters' part; which failure becomes which code is `_errors`'; trying again is
`perdure.upp.retrying`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx
from httpx_sse import EventSource

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.providers._body import body_lines, json_object, read_body
from perdure.upp.providers._client import client_of
from perdure.upp.providers._errors import error_from_event, error_of_answer
from perdure.upp.providers._redaction import redact
from perdure.upp.providers._vendor_request import VendorRequest, body_of, headers_of

__all__ = [
    "VendorEvent",
    "VendorRequest",
    "endpoint",
    "error_in_stream",
    "linger",
    "post_json",
    "stream_events",
    "stream_lines",
]

_MAX_ANSWER_BYTES = 256 * 2**20
_MAX_ERROR_BYTES = 64 * 2**10
_SHOWN = 80
_LINGER_SECONDS = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VendorEvent:
    """One server-sent event.

    Attributes:
        name: what its `event:` field says; "message" if it has none.
        data: its data, read as JSON.
    """

    name: str
    data: JSONObject


async def post_json(request: VendorRequest) -> JSONObject:
    """Returns the answer's JSON object.

    Raises:
        UPPError: the vendor answered with an error, not at all, too late, or with something else.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(request.seconds), _answer(request, "application/json") as response:
            await read_body(response, _MAX_ANSWER_BYTES, body)
    except TimeoutError:
        raise _late(request) from None
    if len(body) > _MAX_ANSWER_BYTES:
        raise _unreadable(request, f"the answer is larger than {_MAX_ANSWER_BYTES} bytes")
    answer = json_object(body)
    if answer is None:
        raise _unreadable(request, f"the answer is no JSON object; {_beginning(request, body)}")
    return answer


async def stream_events(request: VendorRequest) -> AsyncGenerator[VendorEvent, None]:
    """Yields the server-sent events of an answer as they come; `[DONE]` ends them, data that is no object is skipped.

    A stream that just ends is no error here: the adapter knows whether its answer was whole. Closing the generator
    closes the connection.

    Raises:
        UPPError: as `post_json`; NETWORK_ERROR if the connection breaks, TIMEOUT if nothing comes for too long.
    """
    async with _answer(request, "text/event-stream") as response:
        await _expect_events(request, response)
        response.encoding = "utf-8-sig"  # the format has no other encoding, and may begin with a byte order mark
        async with aclosing(EventSource(response).aiter_sse()) as events:
            async for event in events:
                if event.data == "[DONE]":
                    await linger(events)
                    return
                data = json_object(event.data.encode("utf-8", "surrogatepass"))
                if data is not None:
                    yield VendorEvent(event.event or "message", data)
                elif event.data:
                    _log.warning("provider.malformed_event", extra={"provider": request.provider})


async def stream_lines(request: VendorRequest) -> AsyncGenerator[JSONObject, None]:
    """Yields the JSON objects of an answer in newline-delimited JSON, as they come.

    Raises:
        UPPError: as `stream_events`; INVALID_RESPONSE if a line is no JSON object.
    """
    async with _answer(request, "application/x-ndjson") as response, aclosing(body_lines(response)) as lines:
        async for line in lines:
            value = json_object(line)
            if value is None:
                raise _unreadable(request, f"a line of the stream is no JSON object; {_beginning(request, line)}")
            yield value


async def linger(events: AsyncIterator[object]) -> None:
    """Reads what little follows the last event of an answer, so that the connection can be used again."""
    with suppress(TimeoutError, UPPError, httpx.HTTPError, OSError):
        async with asyncio.timeout(_LINGER_SECONDS):
            async for _ in events:
                pass


def error_in_stream(request: VendorRequest, error: JSONValue) -> UPPError:
    """Returns the error that a vendor sent as an event of its stream, secrets masked."""
    return error_from_event(request.context(), error)


def endpoint(base_url: str | None, default: str, path: str) -> str:
    """Returns the whole address of an endpoint.

    Args:
        base_url: the configuration's; with the endpoint's path it is used as it is, else the path is appended. A
            query stays behind the path.
        default: the vendor's own base address, without the path.
        path: the endpoint's path, as "/chat/completions".
    """
    parts = urlsplit(base_url or default)
    base = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=base if base.endswith(path) else base + path))


@asynccontextmanager
async def _answer(request: VendorRequest, accept: str) -> AsyncGenerator[httpx.Response, None]:
    """Sends the request; gives its good answer with the body unread, and makes each failure a UPPError."""
    body, headers = body_of(request), headers_of(request, accept)
    client = await client_of(request.config.transport)
    try:
        sent = client.build_request("POST", request.url, content=body, headers=headers, timeout=request.seconds)
        response = await client.send(sent, stream=True)
        async with aclosing(response):
            if not response.is_success:
                raise await _refusal(request, response)
            yield response
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as problem:
        failure = _failure(request, problem)
        raise failure from failure.cause


async def _refusal(request: VendorRequest, response: httpx.Response) -> UPPError:
    """Returns the error of an answer other than 2xx."""
    status = response.status_code
    if 300 <= status < 400:
        host = urlsplit(urljoin(request.url, response.headers.get("location", ""))).hostname
        return UPPError(
            f"the address redirects (HTTP {status}) to the host {host}; set base_url to where the API itself is",
            ErrorCode.INVALID_REQUEST,
            request.provider,
            status_code=status,
        )
    body = bytearray()
    with suppress(httpx.HTTPError, OSError):  # what was read of it is enough, the status says the most
        await read_body(response, _MAX_ERROR_BYTES, body)
    return error_of_answer(request.context(), status, response.reason_phrase, response.headers, bytes(body))


def _failure(request: VendorRequest, problem: Exception) -> UPPError:
    """Returns the error for what went wrong below HTTP.

    The problem itself is not kept as the cause, only its text: httpx's errors hold the request, key included.
    """
    if isinstance(problem, httpx.RequestError):
        problem.request = httpx.Request("POST", "https://invalid/")  # whoever walks the context finds no key
    if isinstance(problem, httpx.TimeoutException | TimeoutError):
        return _late(request)
    if isinstance(problem, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.LocalProtocolError | UnicodeError):
        text = f"the request cannot be sent ({type(problem).__name__}); look at base_url and headers"
        return UPPError(text, ErrorCode.INVALID_REQUEST, request.provider)
    text = redact(f"{type(problem).__name__}: {problem}".removesuffix(": "), request.context().secrets)
    cause = ConnectionError(text)
    if isinstance(problem, httpx.DecodingError):
        return UPPError("the answer cannot be decoded", ErrorCode.INVALID_RESPONSE, request.provider, cause=cause)
    return UPPError(f"Network error: {text}", ErrorCode.NETWORK_ERROR, request.provider, cause=cause)


async def _expect_events(request: VendorRequest, response: httpx.Response) -> None:
    kind = response.headers.get("content-type", "").partition(";")[0]
    if "text/event-stream" in kind:
        return
    body = bytearray()
    await read_body(response, _MAX_ERROR_BYTES, body)
    answer = json_object(body)
    if answer is not None and answer.get("error"):
        raise error_in_stream(request, answer)
    problem = f"the answer is {kind or 'of no type'} and not text/event-stream; {_beginning(request, body)}"
    raise _unreadable(request, problem)


def _late(request: VendorRequest) -> UPPError:
    return UPPError(f"the vendor did not answer within {request.seconds:g} s", ErrorCode.TIMEOUT, request.provider)


def _unreadable(request: VendorRequest, problem: str) -> UPPError:
    return UPPError(problem, ErrorCode.INVALID_RESPONSE, request.provider)


def _beginning(request: VendorRequest, body: bytes | bytearray) -> str:
    whole = bytes(body[:_MAX_ERROR_BYTES]).decode("utf-8", "replace")
    text = redact(whole, request.context().secrets).strip()[:_SHOWN]  # cut last: a part of a key would stay
    return f"it begins with {text!r}" if text else "it is empty"
