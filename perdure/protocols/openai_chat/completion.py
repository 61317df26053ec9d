"""Bodies of replies: completions, chunks, models. Source: OpenAI API reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from perdure.protocols.uamp_events.content_items import ContentItem
from perdure.protocols.uamp_events.server_events import ToolCallEvent
from perdure.protocols.uamp_events.usage import UsageStats
from perdure.upp.json_value import JSONObject, JSONValue

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]


@dataclass(frozen=True, slots=True)
class CompletionHead:
    """What a completion and all its chunks have in common; `created` is seconds since the epoch."""

    id: str
    model: str
    created: int


def completion(
    head: CompletionHead,
    text: str,
    calls: Iterable[ToolCallEvent],
    reason: FinishReason,
    usage: UsageStats,
    media: Sequence[ContentItem] = (),
) -> JSONObject:
    """A whole completion. A message with tool calls and no text has null content; one without calls has no list."""
    asked: list[JSONValue] = [_call(call) for call in calls]
    message: JSONObject = {"role": "assistant", "content": text if text or not asked else None, "refusal": None}
    message |= media_member(media)
    if asked:
        message["tool_calls"] = asked
    choice: JSONObject = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    return {**_top(head, "chat.completion"), "choices": [choice], "usage": usage_body(usage)}


def media_member(media: Sequence[ContentItem]) -> JSONObject:
    """The member of a message or a delta that has what the agent shows beside its text; an addition, as UAMP has it."""
    return {"content_items": [item.to_json() for item in media]} if media else {}


def chunk(head: CompletionHead, delta: JSONObject, reason: FinishReason | None = None) -> JSONObject:
    """A chunk of a stream."""
    choice: JSONObject = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return {**_top(head, "chat.completion.chunk"), "choices": [choice]}


def usage_chunk(head: CompletionHead, usage: UsageStats) -> JSONObject:
    """The chunk without choices that tells the usage, last of all."""
    return {**_top(head, "chat.completion.chunk"), "choices": [], "usage": usage_body(usage)}


def call_delta(index: int, call: ToolCallEvent) -> JSONObject:
    """The delta of a tool call, whole; each call has its own index."""
    return {"tool_calls": [{"index": index, **_call(call)}]}


def usage_body(usage: UsageStats) -> JSONObject:
    """Usage in OpenAI's words."""
    spent, made = usage.input_tokens or 0, usage.output_tokens or 0
    body: JSONObject = {"prompt_tokens": spent, "completion_tokens": made, "total_tokens": spent + made}
    if usage.cached_tokens:
        body["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return body


def model_body(agent: str, *, created: int, owned_by: str = "perdure") -> JSONObject:
    """An agent as a model; `created` is seconds since the epoch."""
    return {"id": agent, "object": "model", "created": created, "owned_by": owned_by}


def _call(call: ToolCallEvent) -> JSONObject:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _top(head: CompletionHead, kind: str) -> JSONObject:
    return {"id": head.id, "object": kind, "created": head.created, "model": head.model}
