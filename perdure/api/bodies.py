"""The body of a request, bounded as it comes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from perdure.api.json_bounds import JSONBounds, RefusedJSON
from perdure.api.problems import Refused

_DRAINED_BYTES = 4 * 1024 * 1024
_DRAINED_SECONDS = 2.0
NEVER_JSON = ("multipart/", "application/octet-stream")
"""Beginnings of the types of bodies whose JSON is not counted: they have none."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one request may have.

    Attributes:
        max_bytes: of a body.
        max_depth: levels of its JSON.
        max_items: values of its JSON.
        is_read: whether the body is read as JSON; else nothing of it is counted but bytes.
        setting: the variable that says how many bytes it may have.
    """

    max_bytes: int
    max_depth: int
    max_items: int
    is_read: bool = True
    setting: str = "PERDURE_MAX_REQUEST_BYTES"


class BoundedBody:
    """`receive` and `send` of one HTTP request, with a body that ends at its bounds.

    Before an answer begins, what was not read of the body is read and dropped: hypercorn ends a whole HTTP/2 connection
    if data comes for a request that has been answered.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, bounds: Bounds) -> None:
        headers = Headers(scope=scope)
        kind = headers.get("content-type", "").lower()
        self._receive = receive
        self._send = send
        self._bounds = bounds
        self._length = headers.get("content-length")
        self._json = None
        if bounds.is_read and not kind.startswith(NEVER_JSON):
            self._json = JSONBounds(max_depth=bounds.max_depth, max_items=bounds.max_items)
        self._size = 0
        self._is_read = False

    def check_length(self) -> None:
        """Refuse a body by the length that its header tells.

        Raises:
            Refused: it is too large.
        """
        if self._length is not None and self._length.isdecimal() and int(self._length) > self._bounds.max_bytes:
            raise Refused(413, "too_large", self._too_large)

    async def receive(self) -> Message:
        """The next message.

        Raises:
            HTTPException: a bound is passed; FastAPI lets it through, and it becomes a problem.
        """
        message = await self._receive()
        if message["type"] != "http.request":
            self._is_read = True
            return message
        chunk: bytes = message.get("body", b"")
        self._is_read = not message.get("more_body", False)
        self._size += len(chunk)
        if self._size > self._bounds.max_bytes:
            raise HTTPException(413, self._too_large)
        if self._json is not None:
            try:
                self._json.feed(chunk)
            except RefusedJSON as error:
                self._json = None  # the rest is only dropped
                raise HTTPException(422, str(error)) from None
        return message

    async def send(self, message: Message) -> None:
        """Hand on a message of the answer."""
        if message["type"] == "http.response.start" and not self._is_read:
            await self._drain()
        await self._send(message)

    @property
    def _too_large(self) -> str:
        return f"the body of a request may have {self._bounds.max_bytes} bytes ({self._bounds.setting})"

    async def _drain(self) -> None:
        left = _DRAINED_BYTES
        try:
            async with asyncio.timeout(_DRAINED_SECONDS):
                while not self._is_read and left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    self._is_read = message["type"] != "http.request" or not message.get("more_body", False)
        except TimeoutError:
            return  # a client that sends slowly has its answer all the same
