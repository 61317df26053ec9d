"""A Chat Completions stream, folded chunk by chunk into the answer that it would have been whole."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import suppress

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue, encode_base64
from perdure.upp.providers._answer import cut_stream
from perdure.upp.providers._shape import read_shape
from perdure.upp.providers.openai_completions.call_fold import CallFold
from perdure.upp.providers.openai_completions.details import merge_details
from perdure.upp.providers.openai_completions.response import data_url, reasoning_texts
from perdure.upp.providers.openai_completions.schema import Audio, Completion, Image, Message
from perdure.upp.stream import (
    EventDelta,
    StreamEvent,
    StreamEventType,
    message_start,
    reasoning_delta,
    text_delta,
)

_TEXTS = ("text", "thinking", "refusal", "reasoning_content", "reasoning")


class Fold:
    """The chunks of one stream, so far."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._head: JSONObject = {}
        self._texts: dict[str, list[str]] = {}
        self._details: list[JSONObject] = []
        self._images: list[JSONValue] = []
        self._annotations: list[JSONValue] = []
        self._audio = _AudioFold(provider)
        self._calls = CallFold(provider)
        self._finish_reason: str | None = None
        self._usage: JSONValue = None
        self._begun = False

    def add(self, raw: JSONObject) -> Iterator[StreamEvent]:
        """Yields the events of a chunk and keeps what it holds.

        Raises:
            UPPError: INVALID_RESPONSE if the chunk has another shape.
        """
        chunk = read_shape(Completion, raw, self._provider)
        if not self._begun:
            self._begun = True
            yield message_start()
        for name in ("id", "model", "system_fingerprint", "service_tier"):
            if raw.get(name):
                self._head[name] = raw[name]
        if chunk.any_usage is not None:
            self._usage = chunk.any_usage.model_dump()
        for choice in chunk.choices or ():
            if choice.index:
                continue  # a second answer of params.n; only the first is read
            self._finish_reason = choice.finish_reason or self._finish_reason
            delta = choice.delta or choice.message
            if delta is not None:
                yield from self._add_delta(delta)

    def answer(self) -> JSONObject:
        """Returns the whole answer.

        Raises:
            UPPError: NETWORK_ERROR if the stream ended before the model did.
        """
        if self._finish_reason is None:
            raise cut_stream(self._provider)
        message: JSONObject = {name: "".join(pieces) for name, pieces in self._texts.items()}
        message["content"] = [{"type": kind, kind: message.pop(kind, None)} for kind in ("thinking", "text")]
        message["tool_calls"] = self._calls.whole()
        message["reasoning_details"] = list[JSONValue](self._details)
        message["images"] = self._images
        message["annotations"] = self._annotations
        message["audio"] = self._audio.whole()
        tail: JSONObject = {
            "choices": [{"message": message, "finish_reason": self._finish_reason}],
            "usage": self._usage,
        }
        return self._head | tail

    def _add_delta(self, delta: Message) -> Iterator[StreamEvent]:
        for name in _TEXTS:
            piece = getattr(delta, name)
            if piece is not None:
                self._texts.setdefault(name, []).append(piece)
        merge_details(self._details, delta.reasoning_details or [])
        self._annotations.extend(delta.annotations or [])
        for text in reasoning_texts(delta):
            yield reasoning_delta(text)
        for text in (delta.text, delta.refusal):
            if text:
                yield text_delta(text)
        for image in delta.images or ():
            yield from self._add_image(image)
        if delta.audio is not None:
            yield from self._audio.add(delta.audio)
        for call in delta.tool_calls or ():
            yield self._calls.add(call)

    def _add_image(self, image: Image) -> Iterator[StreamEvent]:
        self._images.append({"image_url": {"url": image.image_url.url}})
        inline = data_url(image.image_url.url)
        with suppress(binascii.Error):
            if inline is not None:
                data = base64.b64decode(inline[1])
                yield StreamEvent(StreamEventType.IMAGE_DELTA, len(self._images) - 1, EventDelta(data=data))


class _AudioFold:
    """Sound that comes in pieces of base64, which need not end where a byte does."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._data = b""
        self._pending = ""
        self._transcript = ""

    def add(self, audio: Audio) -> Iterator[StreamEvent]:
        if audio.transcript:
            self._transcript += audio.transcript
            yield text_delta(audio.transcript)
        self._pending += audio.data or ""
        usable = len(self._pending) // 4 * 4
        piece, self._pending = self._pending[:usable], self._pending[usable:]
        try:
            data = base64.b64decode(piece, validate=True)
        except binascii.Error as error:
            raise UPPError("the answer's audio is no base64", ErrorCode.INVALID_RESPONSE, self._provider) from error
        if data:
            self._data += data
            yield StreamEvent(StreamEventType.AUDIO_DELTA, 0, EventDelta(data=data))

    def whole(self) -> JSONObject | None:
        if not self._data and not self._transcript:
            return None
        return {"data": encode_base64(self._data), "transcript": self._transcript}
