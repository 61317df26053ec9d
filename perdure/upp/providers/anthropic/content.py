"""The vendor's content blocks of an assistant message, read into UPP's content and written back as they came.

A UPP message holds reasoning, then text, and its calls apart. Where the vendor's own list holds more than that or
another order (thinking between calls, server tools and their results, citations), the message's
`metadata.anthropic.content` keeps it. It is sent back as long as reading it still gives the message's content and
calls; a message that was edited since is sent as its content says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.upp.content import AssistantContent, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONObject, JSONValue, sha256_hex
from perdure.upp.messages import AssistantMessage
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._tool_calls import arguments_object, sent_name, with_own_ids
from perdure.upp.providers.anthropic.schema import PROVIDER
from perdure.upp.tool_call import ToolCall

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THINKING = ("thinking", "redacted_thinking")
_EXECUTED = ("code_execution_tool_result", "bash_code_execution_tool_result")


@dataclass(frozen=True, slots=True)
class ReadContent:
    """What a list of the vendor's blocks says.

    Attributes:
        content: reasoning, then text; neighbouring text blocks are one, as citations cut sentences.
        signatures: one per reasoning block; empty where the vendor gave none.
    """

    content: list[AssistantContent]
    calls: list[ToolCall]
    signatures: list[str]


def read_content(blocks: Sequence[JSONObject]) -> ReadContent:
    """Returns what blocks say; kinds that UPP has no place for are left to `metadata`.

    Raises:
        UPPError: INVALID_RESPONSE if a block of a known kind is not what the vendor documents.
    """
    reasoning: list[tuple[ReasoningBlock, str]] = []
    texts: list[str] = []
    calls: list[ToolCall] = []
    before = ""
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                texts = [*texts[:-1], texts[-1] + text] if before == "text" else [*texts, text]
            case {"type": "thinking", "thinking": str(text)}:
                signature = block.get("signature")
                reasoning += [(ReasoningBlock(text), signature if isinstance(signature, str) else "")] if text else []
            case {"type": "tool_use", "name": str(name)}:
                id_, given = block.get("id"), block.get("input")
                calls.append(ToolCall(id_ if isinstance(id_, str) else "", name, {} if given is None else given))
            case {"type": "text" | "thinking" | "tool_use"}:
                raise invalid_response(f"a {block['type']} block lacks its fields")
            case {"type": str()}:
                texts += executed_code(block)
            case _:
                raise invalid_response("a content block has no type")
        before = str(block["type"])
    content: list[AssistantContent] = [item for item, _ in reasoning]
    content += [TextBlock(text) for text in texts if text]
    return ReadContent(content, with_own_ids(calls, PROVIDER), [signature for _, signature in reasoning])


def executed_code(block: JSONObject) -> list[str]:
    """Returns what code printed that the vendor ran, fenced; nothing for any other block."""
    match block:
        case {"type": str(kind), "content": {"stdout": str(printed)}} if kind in _EXECUTED and printed.strip():
            return [f"```\n{printed.rstrip()}\n```"]
        case _:
            return []


def tidy(block: JSONObject) -> JSONObject:
    """Returns a block without what says nothing: null fields, and that the model itself made a call."""
    return {
        name: value for name, value in block.items() if value is not None and (name, value) != ("caller", _BY_MODEL)
    }


def write_content(
    content: Sequence[AssistantContent], calls: Sequence[ToolCall], signatures: Sequence[str]
) -> list[JSONObject]:
    """Returns UPP's content as the vendor's blocks; reasoning without a signature cannot be sent and is left out."""
    reasoning = [block for block in content if isinstance(block, ReasoningBlock)]
    signed = zip(reasoning, signatures, strict=True) if len(reasoning) == len(signatures) else ()
    thinking = [_thinking_block(block.text, signature) for block, signature in signed if signature]
    texts = [text_block(block.text) for block in content if isinstance(block, TextBlock)]
    return [*thinking, *texts, *(_call_block(call) for call in calls)]


def text_block(text: str) -> JSONObject:
    """Returns the vendor's block of text."""
    return {"type": "text", "text": text}


def _thinking_block(text: str, signature: str) -> JSONObject:
    """Returns the vendor's block of reasoning."""
    return {"type": "thinking", "thinking": text, "signature": signature}


def assistant_blocks(message: AssistantMessage) -> list[JSONObject]:
    """Returns what is sent for an assistant message; nothing if the vendor would refuse all of it.

    The vendor refuses blank text and thinking at the end, so both are left out.

    Raises:
        UPPError: INVALID_REQUEST if the message holds media: Claude takes them from users only.
    """
    for block in message.content:
        if not isinstance(block, TextBlock | ReasoningBlock):
            raise refuse(
                f"an assistant message holds {block.type}, which the vendor takes in user messages only; "
                "leave the block out of the history or put it into a user message",
                PROVIDER,
            )
    blocks = [_sendable(block) for block in _kept_or_written(message) if not is_blank(block)]
    while blocks and blocks[-1].get("type") in _THINKING:
        blocks.pop()
    return blocks


def own_metadata(message: AssistantMessage) -> JSONObject:
    """Returns what the message's metadata says for this provider; empty if nothing."""
    return (message.metadata or {}).get(PROVIDER, {})


def is_blank(block: JSONObject) -> bool:
    """Returns whether a block is text that the vendor refuses for holding nothing."""
    match block:
        case {"type": "text", "text": str(text)}:
            return not text.strip()
        case _:
            return False


def can_be_cached(block: JSONObject) -> bool:
    """Returns whether a block may carry `cache_control`."""
    return block.get("type") not in _THINKING


def sent_id(call_id: str) -> str:
    """Returns a call's id as the vendor accepts it: itself, or for another vendor's odd one a stable stand-in."""
    return (
        call_id if _CALL_ID.fullmatch(call_id) else f"toolu_{sha256_hex(call_id.encode('utf-8', 'surrogatepass'))[:24]}"
    )


def invalid_response(problem: str) -> UPPError:
    """Returns the error for an answer that is not what the vendor documents."""
    return UPPError(problem, ErrorCode.INVALID_RESPONSE, PROVIDER)


def _call_block(call: ToolCall) -> JSONObject:
    return {"type": "tool_use", "id": call.tool_call_id, "name": call.tool_name, "input": call.arguments}


def _kept_or_written(message: AssistantMessage) -> list[JSONObject]:
    metadata = own_metadata(message)
    match metadata.get("content"):
        case [*kept] if all(isinstance(block, dict) for block in kept):
            blocks = [block for block in kept if isinstance(block, dict)]
            if _says(blocks, message):
                return blocks
        case _:
            pass
    said: list[AssistantContent] = [block for block in message.content if isinstance(block, TextBlock | ReasoningBlock)]
    return write_content(said, message.tool_calls or (), _signatures(metadata))


def _says(blocks: Sequence[JSONObject], message: AssistantMessage) -> bool:
    try:
        read = read_content(blocks)
    except UPPError:
        return False
    return read.content == message.content and read.calls == (message.tool_calls or [])


def _signatures(metadata: JSONObject) -> list[str]:
    match metadata:
        case {"thinkingSignatures": [*several]}:
            return [signature if isinstance(signature, str) else "" for signature in several]
        case {"thinkingSignature": str(one)}:
            return [one]
        case _:
            return []


def _sendable(block: JSONObject) -> JSONObject:
    """Returns a block with the names, ids and inputs that the vendor accepts, also where another model wrote them."""
    match block:
        case {"type": "tool_use", "id": str(id_), "name": str(name)}:
            return {**block, "id": sent_id(id_), "name": sent_name(name), "input": arguments_object(block.get("input"))}
        case {"type": "server_tool_use", "input": given}:
            return {**block, "input": arguments_object(given)}
        case _:
            return block


_BY_MODEL: JSONValue = {"type": "direct"}
