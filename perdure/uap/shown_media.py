"""Media that a tool returned for the model to see: it stands behind the results in what the model is sent, and nowhere else.

A tool's result is JSON, in every vendor's form; so what there is to see comes as a user's message directly after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perdure.uap.content_refs import block_of, returned_media
from perdure.uap.ids import derive_id
from perdure.upp.content import BinaryBlock, TextBlock, UserContent
from perdure.upp.messages import Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMCapabilities
from perdure.upp.tool_media import SHOWN_TO_MODEL, ToolMedia


def media_to_show(messages: Iterable[Message]) -> list[str]:
    """The ids of what tools returned for the model to see, each once."""
    results = (message for message in messages if isinstance(message, ToolResultMessage))
    return list(dict.fromkeys(item.content_id or "" for message in results for item in _shown(message)))


def with_shown_media(
    messages: Sequence[Message], media: Mapping[str, ToolMedia], capabilities: LLMCapabilities
) -> list[Message]:
    """Messages in which the model sees what tools returned for it.

    Args:
        messages: of a request.
        media: with bytes, by id, what is there of `media_to_show`.
        capabilities: of the model; what it does not take is told in words.
    """
    told: list[Message] = []
    for message in messages:
        told.append(message)
        shown = _shown(message) if isinstance(message, ToolResultMessage) else []
        if shown:
            blocks = [block for item in shown for block in _blocks(item, media, capabilities)]
            told.append(UserMessage(blocks, id=derive_id(message.id, "media"), timestamp=message.timestamp))
    return told


def _shown(message: ToolResultMessage) -> list[ToolMedia]:
    return [
        item
        for result in message.results
        if isinstance(result.result, dict) and result.result.get(SHOWN_TO_MODEL) is True
        for item in returned_media(result.result)
    ]


def _blocks(item: ToolMedia, media: Mapping[str, ToolMedia], capabilities: LLMCapabilities) -> list[UserContent]:
    found = media.get(item.content_id or "")
    if found is None:
        return [TextBlock(f"[content {item.content_id} is not there any more]")]
    block = block_of(found)
    if isinstance(block, BinaryBlock) or not getattr(capabilities, f"{block.type.value}_input", False):
        return [TextBlock(f"[content {item.content_id} is {found.media_type}, which you cannot see]")]
    return [TextBlock(f"[content {item.content_id}]"), block]
