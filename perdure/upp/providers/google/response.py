"""Gemini's answers as messages: whole ones and streams are read by the same code, chunk by chunk."""

from __future__ import annotations

from perdure.upp.content import AudioBlock, ImageBlock, VideoBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue, dumps
from perdure.upp.media_source import BytesSource
from perdure.upp.messages import AssistantMessage
from perdure.upp.provider import LLMRequest, LLMResponse
from perdure.upp.providers._answer import structured_data
from perdure.upp.providers._tool_calls import new_call_id
from perdure.upp.providers.google.endpoint import PROVIDER
from perdure.upp.providers.google.finish import blocked_prompt, stop_reason
from perdure.upp.providers.google.layout import plain_parts
from perdure.upp.providers.google.pieces import Piece, content_of, layout_of, parts_to_send, read_piece
from perdure.upp.providers.google.wire import Answer, Candidate, FunctionCall, Usage, read_answer, read_part
from perdure.upp.stream import (
    EventDelta,
    StreamEvent,
    StreamEventType,
    message_start,
    reasoning_delta,
    text_delta,
    tool_call_delta,
)
from perdure.upp.tool_call import ToolCall
from perdure.upp.usage import TokenUsage

_KEPT = (
    "finishReason",
    "finishMessage",
    "safetyRatings",
    "citationMetadata",
    "groundingMetadata",
    "urlContextMetadata",
)
"""What of a candidate stays in the message's metadata; of a stream, as the last chunk that has it says."""


class AnswerReader:
    """One answer, read from one chunk or many.

    Text and reasoning have index 0 in events, media and calls the position among their kind.
    """

    def __init__(self) -> None:
        self._begun = False
        self._answered = False
        self._pieces: list[Piece] = []
        self._calls: list[ToolCall] = []
        self._usage = Usage()
        self._details: JSONObject = {}
        self._id: str | None = None

    @property
    def finished(self) -> bool:
        """Whether Gemini has said why it stopped."""
        return "finishReason" in self._details

    def read(self, value: JSONObject) -> list[StreamEvent]:
        """Takes a chunk and returns its events.

        Raises:
            UPPError: CONTENT_FILTERED if the prompt was blocked, INVALID_RESPONSE if the chunk has another shape.
        """
        answer = read_answer(value)
        blocked = blocked_prompt(answer.promptFeedback)
        if blocked is not None:
            raise blocked
        if answer.usageMetadata is not None:
            self._usage = self._usage.model_copy(update=answer.usageMetadata.model_dump(exclude_none=True))
        self._id = self._id or answer.responseId
        if answer.modelVersion is not None:
            self._details["model"] = answer.modelVersion
        begin = [] if self._begun else [message_start()]
        self._begun = True
        return [*begin, *(event for part in self._parts(answer) for event in self._read_part(part))]

    def response(self, request: LLMRequest) -> LLMResponse:
        """Returns the whole answer.

        Raises:
            UPPError: INVALID_RESPONSE if there is none or it is no JSON though a structure was asked for,
                CONTENT_FILTERED if such an answer was filtered, PROVIDER_ERROR if the model's call was unusable.
        """
        if not self._answered:
            raise UPPError("Gemini's answer has no candidates", ErrorCode.INVALID_RESPONSE, PROVIDER)
        reason, said = self._details.get("finishReason"), self._details.get("finishMessage")
        stop = stop_reason(_text_or_none(reason), _text_or_none(said), bool(self._calls))
        message = self._message()
        data = structured_data(request, message, stop, PROVIDER)
        return LLMResponse(message, _token_usage(self._usage), stop, data)

    def _parts(self, answer: Answer) -> list[JSONObject]:
        candidate = next((each for each in answer.candidates or () if not each.index), None)
        if candidate is None:
            return []
        self._answered = True
        self._details |= _details(candidate)
        return (candidate.content.parts if candidate.content else None) or []

    def _read_part(self, raw: JSONObject) -> list[StreamEvent]:
        part = read_part(raw)
        piece = read_piece(part, raw)
        if self._pieces and piece.continues(self._pieces[-1]):
            self._pieces[-1].texts.extend(piece.texts)
        else:
            self._pieces.append(piece)
        if part.functionCall is not None:
            return [self._read_call(part.functionCall)]
        if piece.media is not None:
            position = sum(each.media is not None for each in self._pieces) - 1
            return [_media_event(piece.media, position)]
        delta = reasoning_delta if piece.kind == "thought" else text_delta
        return [delta(piece.text)] if piece.text else []

    def _read_call(self, function: FunctionCall) -> StreamEvent:
        taken = {call.tool_call_id for call in self._calls}
        own = function.id if function.id and function.id not in taken else new_call_id(PROVIDER)
        arguments = {} if function.args is None else function.args
        self._calls.append(ToolCall(own, function.name, arguments))
        return tool_call_delta(own, function.name, dumps(arguments).decode(), len(self._calls) - 1)

    def _message(self) -> AssistantMessage:
        """Returns the message; its metadata says the parts' order only where the message itself does not."""
        details = dict(self._details)
        if self._calls:
            details["functionCallParts"] = [piece.part for piece in self._pieces if piece.kind == "call"]
        signatures = [piece.part["thoughtSignature"] for piece in self._pieces if piece.kind == "text" and piece.signed]
        if signatures:
            details["thoughtSignature"] = signatures[-1]
        message = self._message_with(details)
        if plain_parts(message) == parts_to_send(self._pieces):
            return message
        details["parts"] = [*layout_of(self._pieces)]
        return self._message_with(details, message.id)

    def _message_with(self, details: JSONObject, id_: str | None = None) -> AssistantMessage:
        metadata = {PROVIDER: details} if details else None
        return AssistantMessage(content_of(self._pieces), self._calls or None, id=id_ or self._id, metadata=metadata)


def _details(candidate: Candidate) -> JSONObject:
    values: dict[str, JSONValue] = {name: getattr(candidate, name) for name in _KEPT}
    return {name: value for name, value in values.items() if value is not None}


def _token_usage(usage: Usage) -> TokenUsage:
    spent = (usage.promptTokenCount or 0) + (usage.toolUsePromptTokenCount or 0)
    made = (usage.candidatesTokenCount or 0) + (usage.thoughtsTokenCount or 0)
    total = spent + made if usage.totalTokenCount is None else usage.totalTokenCount
    return TokenUsage(spent, made, total, usage.cachedContentTokenCount or 0)


def _media_event(block: ImageBlock | AudioBlock | VideoBlock, index: int) -> StreamEvent:
    match block:
        case ImageBlock(BytesSource(data)):
            return StreamEvent(StreamEventType.IMAGE_DELTA, index, EventDelta(data=data))
        case AudioBlock(data):
            return StreamEvent(StreamEventType.AUDIO_DELTA, index, EventDelta(data=data))
        case VideoBlock(data):
            return StreamEvent(StreamEventType.VIDEO_DELTA, index, EventDelta(data=data))
        case ImageBlock():
            raise AssertionError("media of an answer are bytes")


def _text_or_none(value: JSONValue) -> str | None:
    return value if isinstance(value, str) else None
