"""Messages as a workflow sees them: real UPP messages whose long parts are a preview and a reference.

So history grows by a constant per step whatever is said. The whole part is found in the store under its sha256.
Parts are text, tool arguments and results. What was cut is listed in `metadata["perdure"]["cut"]`: one entry per part,
{"part": "content/0" | "toolCalls/1" | "results/0", "sha256", "size" in bytes of its JSON}.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast, get_args

from perdure.uap.delegated import AGENT
from perdure.upp.content import AssistantContent, ContentBlock, ReasoningBlock, TextBlock, UserContent
from perdure.upp.json_value import JSONObject, JSONValue, dumps, sha256_hex
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult

_ASSISTANT_BLOCKS = get_args(AssistantContent)
_USER_BLOCKS = get_args(UserContent)

WHOLE_BYTES = 1024
PREVIEW_BYTES = 128
MOST_BLOCKS = 8
LONGEST_NAME = 128
NAMESPACE = "perdure"


def preview(value: JSONValue) -> str:
    """The beginning of a value: of the text itself for a string, else of its JSON.

    At most `PREVIEW_BYTES` in a history, where each character counts as JSON writes it.
    """
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else dumps(value)
    text = raw[:PREVIEW_BYTES].decode("utf-8", "ignore")
    size = 0
    for place, character in enumerate(text):
        size += max(len(character.encode("utf-8")), len(json.dumps(character)) - 2 if character < " " else 1)
        size += character in '"\\'
        if size > PREVIEW_BYTES:
            return text[:place]
    return text


def cut_value(value: JSONValue) -> tuple[JSONValue, JSONObject | None]:
    """A value as it is if its JSON is at most `WHOLE_BYTES`, else its preview and what was cut."""
    raw = dumps(value)
    if len(raw) <= WHOLE_BYTES:
        return value, None
    return preview(value), {"sha256": sha256_hex(raw), "size": len(raw)}


def cut_answer(message: AssistantMessage) -> AssistantMessage:
    """An assistant message as the workflow may hold it: a few KB at most for a few calls."""
    cuts: list[JSONValue] = []
    content = _cut_blocks(message.content, cuts)
    calls = [_cut_call(call, f"toolCalls/{index}", cuts) for index, call in enumerate(message.tool_calls or [])]
    kept = [cast(AssistantContent, block) for block in content if isinstance(block, _ASSISTANT_BLOCKS)]
    return AssistantMessage(
        kept, calls or None, id=message.id[:LONGEST_NAME], timestamp=message.timestamp, metadata=_metadata(cuts)
    )


def cut_input(message: Message) -> UserMessage:
    """A user's message as the workflow may hold it; images and other media are left out but for their mark."""
    assert isinstance(message, UserMessage), "an input is a user's message"
    cuts: list[JSONValue] = []
    content = _cut_blocks(message.content, cuts)
    kept = [cast(UserContent, block) for block in content if isinstance(block, _USER_BLOCKS)]
    return UserMessage(kept, id=message.id[:LONGEST_NAME], timestamp=message.timestamp, metadata=_metadata(cuts))


def cut_message(message: Message) -> Message:
    """Any message as the workflow may hold it."""
    if isinstance(message, AssistantMessage):
        return cut_answer(message)
    if not isinstance(message, ToolResultMessage):
        return cut_input(message)
    cuts: list[JSONValue] = []
    results: list[ToolResult] = []
    for index, result in enumerate(message.results):
        value, cut = cut_value(result.result)
        if cut is not None:
            cuts.append({"part": f"results/{index}", **cut})
        results.append(ToolResult(result.tool_call_id, value, result.is_error))
    return ToolResultMessage(
        results, id=message.id[:LONGEST_NAME], timestamp=message.timestamp, metadata=_metadata(cuts)
    )


def _metadata(cuts: list[JSONValue]) -> dict[str, JSONObject] | None:
    return {NAMESPACE: {"cut": cuts}} if cuts else None


def _cut_blocks(content: Sequence[ContentBlock], cuts: list[JSONValue]) -> list[ContentBlock | None]:
    """The first blocks, cut; many small ones may not add up to much either."""
    if len(content) > MOST_BLOCKS:
        rest = dumps([block.to_json() for block in content[MOST_BLOCKS:]])
        cuts.append({"part": f"content/{MOST_BLOCKS}-", "sha256": sha256_hex(rest), "size": len(rest)})
    return [_cut_block(block, f"content/{index}", cuts) for index, block in enumerate(content[:MOST_BLOCKS])]


def _cut_block(block: ContentBlock, part: str, cuts: list[JSONValue]) -> ContentBlock | None:
    if isinstance(block, TextBlock | ReasoningBlock):
        text, cut = cut_value(block.text)
        if cut is None:
            return block
        cuts.append({"part": part, **cut})
        return type(block)(str(text))
    raw = dumps(block.to_json())
    if len(raw) <= WHOLE_BYTES:
        return block
    cuts.append({"part": part, "sha256": sha256_hex(raw), "size": len(raw)})
    return None


def _cut_call(call: ToolCall, part: str, cuts: list[JSONValue]) -> ToolCall:
    ident, name = call.tool_call_id[:LONGEST_NAME], call.tool_name[:LONGEST_NAME]
    arguments, cut = cut_value(call.arguments)
    if cut is None:
        return ToolCall(ident, name, arguments)
    cuts.append({"part": part, **cut})
    return ToolCall(ident, name, {"preview": arguments, **_delegated(call)})


def _delegated(call: ToolCall) -> JSONObject:
    """The agent that a call hands its task to, if it names one: the workflow finds it by that."""
    label = call.arguments.get(AGENT) if isinstance(call.arguments, dict) else None
    return {AGENT: label} if isinstance(label, str) and len(label) <= LONGEST_NAME else {}
