"""A stream of Ollama, put together line by line into the answer that it would have been whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.upp.json_value import dumps
from perdure.upp.media_source import BytesSource
from perdure.upp.providers._tool_calls import new_call_id
from perdure.upp.providers.ollama.request import PROVIDER
from perdure.upp.providers.ollama.response import Answer, AnsweredCall, AnsweredMessage, read_calls, read_images
from perdure.upp.stream import EventDelta, StreamEvent, StreamEventType, reasoning_delta, text_delta, tool_call_delta
from perdure.upp.tool_call import ToolCall


class AnswerSoFar:
    """What came of an answer.

    Attributes:
        empty: whether no line came yet.
    """

    def __init__(self) -> None:
        self.empty = True
        self._content: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[AnsweredCall] = []
        self._images: list[str] = []
        self._logprobs: list[Any] = []
        self._last = Answer()

    def add(self, piece: Answer) -> Iterator[StreamEvent]:
        """Takes the next line; yields the events of what it adds, reasoning before text."""
        self.empty = False
        self._last = piece
        self._logprobs += piece.logprobs or []
        said = piece.message or AnsweredMessage()
        if said.thinking:
            self._thinking.append(said.thinking)
            yield reasoning_delta(said.thinking)
        if said.content:
            self._content.append(said.content)
            yield text_delta(said.content)
        for image in read_images(said.images or []):
            if isinstance(image.source, BytesSource):
                yield StreamEvent(StreamEventType.IMAGE_DELTA, delta=EventDelta(data=image.source.data))
        self._images += said.images or []
        for call in said.tool_calls or ():
            yield self._add_call(call)

    def whole(self) -> Answer | None:
        """Returns the answer, or None if the last line did not say that it is done."""
        if not self._last.done:
            return None
        message = AnsweredMessage(
            content="".join(self._content),
            thinking="".join(self._thinking),
            tool_calls=self._calls,
            images=self._images,
        )
        return self._last.model_copy(update={"message": message, "logprobs": self._logprobs or None})

    def _add_call(self, call: AnsweredCall) -> StreamEvent:
        """Keeps a call, which always comes whole; its id is drawn here so that event and message have the same."""
        if call.id in {None, "", *(other.id for other in self._calls)}:
            call = call.model_copy(update={"id": new_call_id(PROVIDER)})
        self._calls.append(call)
        made = read_calls([call])[0]
        return tool_call_delta(made.tool_call_id, made.tool_name, _arguments_json(made), len(self._calls) - 1)


def _arguments_json(call: ToolCall) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    return dumps(call.arguments).decode("utf-8", "surrogatepass")
