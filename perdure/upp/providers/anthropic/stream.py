"""The vendor's event stream: each event as UPP's, and all together folded into the message that a whole answer is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.providers._answer import cut_stream
from perdure.upp.providers._http import VendorRequest, error_in_stream, linger, stream_events
from perdure.upp.providers._tool_calls import read_arguments
from perdure.upp.providers.anthropic.content import executed_code, invalid_response
from perdure.upp.providers.anthropic.json_answer import ANSWER_TOOL
from perdure.upp.providers.anthropic.response import read_response
from perdure.upp.providers.anthropic.schema import PROVIDER
from perdure.upp.stream import (
    StreamEvent,
    content_block_start,
    content_block_stop,
    message_start,
    message_stop,
    reasoning_delta,
    text_delta,
    tool_call_delta,
)

_KNOWN = ("message_start", "message_delta", "content_block_start", "content_block_delta", "content_block_stop")
_APPENDED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


async def read_stream(
    vendor: VendorRequest, request: LLMRequest, *, by_tool: bool
) -> AsyncGenerator[StreamEvent | LLMResponse, None]:
    """Yields the events of an answer as they come, and last the response; see `read_response`.

    Raises:
        UPPError: as `read_response`; NETWORK_ERROR if the stream ended before `message_stop`; what the vendor says in
            an error event.
    """
    fold = MessageFold(by_tool=by_tool)
    async with aclosing(stream_events(vendor)) as events:
        async for event in events:
            if event.data.get("type") == "error":
                raise error_in_stream(vendor, event.data)
            for made in fold.take(event.data):
                yield made
            if fold.ended:
                await linger(events)
    if not fold.ended:
        raise cut_stream(PROVIDER)
    yield read_response(request, fold.message(), by_tool=by_tool)


class MessageFold:
    """Puts a message together from its events.

    Attributes:
        ended: whether the last event has come.
    """

    def __init__(self, *, by_tool: bool) -> None:
        """See `read_response`: calls of the answer's tool are text."""
        self.ended = False
        self._by_tool = by_tool
        self._message: JSONObject = {}
        self._blocks: dict[int, JSONObject] = {}
        self._inputs: dict[int, str] = {}

    def message(self) -> JSONObject:
        """Returns the whole message; a call's input that is no JSON stays text."""
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}

    def take(self, event: JSONObject) -> Iterator[StreamEvent]:
        """Yields what an event means to UPP; kinds that are not known mean nothing, as the vendor asks.

        Raises:
            UPPError: INVALID_RESPONSE if an event of a known kind is not what the vendor documents.
        """
        match event:
            case {"type": "message_start", "message": dict() as message}:
                yield from self._open(message)
            case {"type": "content_block_start", "index": int(index), "content_block": dict() as block}:
                yield from self._start(index, block)
            case {"type": "content_block_delta", "index": int(index), "delta": {"type": str(kind), **delta}}:
                yield from self._add(index, kind, delta)
            case {"type": "content_block_stop", "index": int(index)}:
                yield from self._stop(index)
            case {"type": "message_delta", "delta": dict() as delta}:
                self._message |= delta
                self._count(event.get("usage"))
            case {"type": "message_stop"}:
                self.ended = True
                yield message_stop()
            case {"type": str(kind)} if kind in _KNOWN:
                raise invalid_response(f"a {kind} event lacks its fields")
            case _:
                return

    def _open(self, message: JSONObject) -> Iterator[StreamEvent]:
        if self._message:
            return  # some gateways say it twice
        self._message = {name: value for name, value in message.items() if name != "content"}
        yield message_start()
        begun = message.get("content")
        for index, block in enumerate(begun if isinstance(begun, list) else ()):
            if isinstance(block, dict):
                yield from self._start(index, block)
                yield from self._stop(index)

    def _start(self, index: int, block: JSONObject) -> Iterator[StreamEvent]:
        self._blocks[index] = block
        self._inputs[index] = ""
        yield content_block_start(index)
        match block:
            case {"type": "text", "text": str(text)} if text:
                yield text_delta(text, index)
            case {"type": "thinking", "thinking": str(text)} if text:
                yield reasoning_delta(text, index)
            case _:
                yield from (text_delta(text, index) for text in executed_code(block))

    def _add(self, index: int, kind: str, delta: JSONObject) -> Iterator[StreamEvent]:
        block = self._blocks.get(index)
        if block is None:
            raise invalid_response(f"a {kind} came for block {index}, which was not started")
        match kind, delta:
            case "input_json_delta", {"partial_json": str(piece)}:
                self._inputs[index] += piece
                yield from self._input_event(index, block, piece)
            case "citations_delta", {"citation": citation}:
                before = block.get("citations")
                citations: list[JSONValue] = [*before, citation] if isinstance(before, list) else [citation]
                block = {**block}
                block["citations"] = citations
            case (("text_delta" | "thinking_delta" | "signature_delta"), _):
                field = _APPENDED[kind]
                piece, before = delta.get(field), block.get(field)
                if not isinstance(piece, str):
                    raise invalid_response(f"a {kind} has no {field}")
                block = {**block, field: (before if isinstance(before, str) else "") + piece}
                yield from _delta_event(kind, piece, index)
            case _:
                return
        self._blocks[index] = block

    def _stop(self, index: int) -> Iterator[StreamEvent]:
        block, text = self._blocks.get(index), self._inputs.get(index, "")
        if block is None:
            raise invalid_response(f"block {index} stopped and was not started")
        if text.strip():
            self._blocks[index] = {**block, "input": read_arguments(text)}
        elif "input" in block:
            yield from self._input_event(index, block, _text(block["input"]))
        yield content_block_stop(index)

    def _input_event(self, index: int, block: JSONObject, piece: str) -> Iterator[StreamEvent]:
        if not piece:
            return
        match block:
            case {"type": "tool_use", "name": str(name)} if self._by_tool and name == ANSWER_TOOL:
                yield text_delta(piece, index)
            case {"type": "tool_use", "name": str(name)}:
                yield tool_call_delta(str(block.get("id") or ""), name, piece, index)
            case _:
                return

    def _count(self, usage: JSONValue) -> None:
        """Takes the counts of the end: they are for the whole message, and stand over those of its start."""
        before = self._message.get("usage")
        late = {name: count for name, count in usage.items() if count is not None} if isinstance(usage, dict) else {}
        self._message["usage"] = {**(before if isinstance(before, dict) else {}), **late}


def _delta_event(kind: str, piece: str, index: int) -> Iterator[StreamEvent]:
    if piece and kind == "text_delta":
        yield text_delta(piece, index)
    elif piece and kind == "thinking_delta":
        yield reasoning_delta(piece, index)


def _text(value: JSONValue) -> str:
    return dumps({} if value is None else value).decode("utf-8", "surrogatepass")
