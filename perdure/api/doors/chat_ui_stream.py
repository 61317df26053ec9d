"""A UI message stream on the wire: server-sent events without names, `[DONE]` last. Source: AI SDK 7, UI message stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from perdure.api.patience import Patience
from perdure.api.sse import HEADERS
from perdure.api.telling import StreamedBody, StreamedResponse
from perdure.protocols.threadprotocol.to_stream import STREAM_HEADERS
from perdure.upp.json_value import JSONObject, dumps

_ALIVE = b": alive\n\n"
_DONE = b"data: [DONE]\n\n"


class ChatStreamResponse(StreamedResponse):
    """Tells a client the chunks of a run; the last one is `[DONE]`."""

    def __init__(
        self,
        chunks: AsyncGenerator[list[JSONObject]],
        patience: Patience,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Respond with chunks, several at once where they are there; closed when the client leaves."""
        super().__init__(patience, {**HEADERS, **STREAM_HEADERS, **(headers or {})})
        self._chunks = chunks

    async def tell(self, body: StreamedBody) -> None:
        async with aclosing(self._chunks), aclosing(body.follow(self._chunks)) as pages:
            async for page in pages:
                await (body.write(_ALIVE) if page is None else body.write_all(frame(chunk) for chunk in page))
        await body.write(_DONE)
        self.is_told = True


def frame(chunk: JSONObject) -> bytes:
    """One chunk on the wire; a lone surrogate, which UTF-8 has not, as JSON's escape of it."""
    text = dumps(chunk).decode("utf-8", "surrogatepass").encode("utf-8", "backslashreplace")
    return b"data: " + text + b"\n\n"
