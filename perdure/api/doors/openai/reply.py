"""The answer to a request for a completion: whole, or as a stream of chunks. Source: OpenAI API reference, streaming."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing

from fastapi.sse import format_sse_event
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from perdure.api.answers import Answer
from perdure.api.backend import Backend
from perdure.api.doors.openai.completion import Completion
from perdure.api.doors.openai.errors import after_its_run, chat_fault, refusal
from perdure.api.problems import RETRY_AFTER, fault_of
from perdure.api.sse import HEADERS
from perdure.api.telling import ENDS, StreamedBody, tell_until_left
from perdure.errors import PerdureError, ServerError
from perdure.protocols.openai_chat.chat_flow import DONE
from perdure.protocols.openai_chat.faults import ChatFault
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.redaction import known_secrets

LONGEST_WAIT_SECONDS = 600.0
"""For so long a completion that is no stream is waited for, as OpenAI's clients do."""

_ALIVE = b": alive" + b" " * 2048 + b"\n\n"
"""As long as it is for proxies that hold back 2 KB."""

_SIGNATURE = "response_signature"

Sign = Callable[[Completion], Awaitable[str | None]]
"""Gives a completion's signature; None if there is no key."""


class Reply(Response):
    """What both forms have."""

    def __init__(self, backend: Backend, completion: Completion, sign: Sign, headers: Mapping[str, str]) -> None:
        """Answer with a completion.

        Args:
            backend: of this process.
            completion: not begun yet.
            sign: signs it.
            headers: of the response, in every case.
        """
        super().__init__(None)
        self.backend = backend
        self.completion = completion
        self.sign = sign
        self.given = dict(headers)

    def refused(self, error: PerdureError) -> Response:
        """What answers a run that failed, or that cannot be followed here any more."""
        if isinstance(error, ServerError) or self.backend.leaving.is_set():
            fault = ChatFault(
                "this server is leaving; the run goes on: ask again with the same Idempotency-Key for its answer",
                status=503,
                code="server_unavailable",
            )
            headers = {**self.given, **RETRY_AFTER}
            return refusal(fault, headers) if self.completion.part.has_key else after_its_run(fault, headers)
        if isinstance(error, ChatFault):
            return after_its_run(error, self.given)
        found = fault_of(error)
        return after_its_run(chat_fault(found), self.given, found.extra)


class WholeReply(Reply):
    """The completion as one body."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        made: list[Response] = []

        async def make() -> None:
            made.append(await self._made())

        await tell_until_left(make(), receive, ends=())
        if made:
            await made[0](scope, receive, send)

    async def _made(self) -> Response:
        working = asyncio.create_task(self._body(), name="wait for a completion")
        leaving = asyncio.create_task(self.backend.leaving.wait(), name="wait for the process's end")
        try:
            await asyncio.wait([working, leaving], timeout=LONGEST_WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)
        if not working.cancelled():
            error = working.exception()
            if error is None:
                return Answer(working.result(), 200, self.given)
            if not isinstance(error, PerdureError):
                raise error
            return self.refused(error)
        if self.backend.leaving.is_set():
            return self.refused(ServerError("leaving"))
        waited = f"the run has not ended in {LONGEST_WAIT_SECONDS:.0f} s; it goes on"
        fault = ChatFault(
            f"{waited}: ask again with the same Idempotency-Key, or with 'stream'", status=504, code="timeout"
        )
        return after_its_run(fault, self.given)

    async def _body(self) -> JSONObject:
        body = await self.completion.whole()
        signature = await self.sign(self.completion)
        return known_secrets.json(body if signature is None else {**body, "signature": signature})


class StreamReply(Reply):
    """The completion as server-sent events.

    It begins with the first chunk, so that what fails before it has its own status, or after a while of silence. In the
    middle a failure is one more event with an `error`. If this process leaves, the connection is broken off.
    """

    media_type = "text/event-stream"

    def __init__(
        self, backend: Backend, completion: Completion, sign: Sign, headers: Mapping[str, str], *, usage: bool
    ) -> None:
        """Answer with a stream; `usage`: whether it tells the usage."""
        super().__init__(backend, completion, sign, headers)
        self._usage = usage
        self._begun = False
        self._is_complete = False
        self._refusal: Response | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        body = StreamedBody(self._beginning(send), self.backend.patience)
        has_ended = await tell_until_left(self._tell(body), receive, ends=ENDS)
        if self._refusal is not None:
            await self._refusal(scope, receive, send)
        elif has_ended and self._begun and (self._is_complete or scope["http_version"] == "2"):
            await body.end()

    def _beginning(self, send: Send) -> Send:
        """Sends the response's beginning before the first piece of its body."""

        async def begin_and_send(message: Message) -> None:
            if not self._begun:
                self._begun = True
                self.headers.update({**HEADERS, **self.given})
                del self.headers["content-length"]
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send(message)

        return begin_and_send

    async def _tell(self, body: StreamedBody) -> None:
        try:
            async with aclosing(self.completion.chunks()) as chunks, aclosing(body.follow(chunks)) as pages:
                async for page in pages:
                    await (body.write(_ALIVE) if page is None else body.write_all(_data(chunk) for chunk in page))
            await self._tell_end(body)
        except PerdureError as error:
            if isinstance(error, ServerError) and self._begun:
                raise
            await self._fail(body, error)

    async def _tell_end(self, body: StreamedBody) -> None:
        usage = _data(self.completion.usage_chunk()) if self._usage else b""
        signature = await self.sign(self.completion)
        signed = b"" if signature is None else _data({"signature": signature}, _SIGNATURE)
        await body.write(usage + format_sse_event(data_str=DONE) + signed)
        self._is_complete = True

    async def _fail(self, body: StreamedBody, error: PerdureError) -> None:
        if not self._begun:
            self._refusal = self.refused(error)
            return
        fault = error if isinstance(error, ChatFault) else chat_fault(fault_of(error))
        await body.write(_data(fault.to_json()))
        self._is_complete = True


def _data(value: JSONObject, event: str | None = None) -> bytes:
    text = dumps(known_secrets.json(value)).decode("utf-8", "surrogatepass")
    return format_sse_event(data_str=text.encode("utf-8", "backslashreplace").decode(), event=event)
