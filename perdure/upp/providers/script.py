"""The script of a scripted model: its answers, and what each of them is as a response and as stream events."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from perdure.upp.content import ReasoningBlock, TextBlock
from perdure.upp.json_value import JSONValue, dumps, loads
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.provider import LLMRequest, LLMResponse
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
from perdure.upp.tool_call import ToolCall
from perdure.upp.usage import TokenUsage

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer in full.

    Attributes:
        tool_calls: calls of `call()` get ids from their position; ids given by hand are kept.
        usage: None means counted from the text, one token per four characters.
        stop_reason: None means "tool_use" if there are calls, else "end_turn".
    """

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    reasoning: str | None = None
    usage: TokenUsage | None = None
    stop_reason: str | None = None


GivenAnswer: TypeAlias = str | AssistantMessage | ToolCall | Sequence[ToolCall] | Answer
ScriptedAnswer: TypeAlias = GivenAnswer | Exception
Script: TypeAlias = Sequence[ScriptedAnswer] | Callable[[LLMRequest], ScriptedAnswer | Awaitable[ScriptedAnswer]]


def call(tool_name: str, /, **arguments: JSONValue) -> ToolCall:
    """Returns a tool call whose id is made when it is given: from the answer's number and its own position."""
    return ToolCall("", tool_name, arguments)


def respond(request: LLMRequest, given: GivenAnswer, number: int) -> LLMResponse:
    """Returns answer number `number` as the response to a request; equal for equal input but for the timestamp."""
    answer = given if isinstance(given, Answer) else Answer()
    message = _named(_to_message(given), number)
    return LLMResponse(
        message=message,
        usage=answer.usage or count_usage(request, message),
        stop_reason=answer.stop_reason or ("tool_use" if message.has_tool_calls else "end_turn"),
        data=_parse_data(message.text) if request.structure is not None else None,
    )


def count_usage(request: LLMRequest, message: AssistantMessage) -> TokenUsage:
    """Returns one token per four characters of text, arguments and results, rounded up."""
    system = request.system if isinstance(request.system, str) else ""
    spent = _tokens(len(system) + sum(_characters(earlier) for earlier in request.messages))
    made = _tokens(_characters(message))
    return TokenUsage(spent, made, spent + made)


def to_events(message: AssistantMessage, chunk_size: int | None) -> Iterator[StreamEvent]:
    """Yields a message as a provider streams it: one block after another, calls last.

    Args:
        message: the whole message, every call with its id.
        chunk_size: characters per text or reasoning delta; None means each block in one.
    """
    yield message_start()
    index = 0
    for block in message.content:
        yield content_block_start(index)
        if isinstance(block, TextBlock | ReasoningBlock):
            delta = text_delta if isinstance(block, TextBlock) else reasoning_delta
            yield from (delta(chunk, index) for chunk in _chunks(block.text, chunk_size))
        yield content_block_stop(index)
        index += 1
    for call in message.tool_calls or ():
        yield content_block_start(index)
        yield tool_call_delta(call.tool_call_id, call.tool_name, _arguments_json(call), index)
        yield content_block_stop(index)
        index += 1
    yield message_stop()


def _named(message: AssistantMessage, number: int) -> AssistantMessage:
    calls = message.tool_calls and [
        call if call.tool_call_id else replace(call, tool_call_id=f"call_scripted_{number}_{index}")
        for index, call in enumerate(message.tool_calls)
    ]
    return replace(message, id=f"msg_scripted_{number}", tool_calls=calls)


def _to_message(given: GivenAnswer) -> AssistantMessage:
    match given:
        case AssistantMessage():
            return given
        case str():
            return AssistantMessage(given)
        case ToolCall():
            return AssistantMessage([], [given])
        case Answer():
            reasoning = [] if given.reasoning is None else [ReasoningBlock(given.reasoning)]
            text = [TextBlock(given.text)] if given.text else []
            return AssistantMessage([*reasoning, *text], list(given.tool_calls) or None)
        case _:
            return AssistantMessage([], given)


def _parse_data(text: str) -> JSONValue:
    try:
        return loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def _characters(message: Message) -> int:
    if isinstance(message, ToolResultMessage):
        return sum(len(result.text) for result in message.results)
    blocks = message.blocks()
    count = sum(len(block.text) for block in blocks if isinstance(block, TextBlock | ReasoningBlock))
    calls = message.tool_calls or () if isinstance(message, AssistantMessage) else ()
    return count + sum(len(call.tool_name) + len(_arguments_json(call)) for call in calls)


def _tokens(characters: int) -> int:
    return math.ceil(characters / _CHARACTERS_PER_TOKEN)


def _chunks(text: str, size: int | None) -> Iterator[str]:
    step = size or len(text) or 1
    return (text[start : start + step] for start in range(0, len(text), step))


def _arguments_json(call: ToolCall) -> str:
    """Returns the arguments as the text that a model would have written; a string is text that was no JSON."""
    if isinstance(call.arguments, str):
        return call.arguments
    return dumps(call.arguments).decode("utf-8", "surrogatepass")
