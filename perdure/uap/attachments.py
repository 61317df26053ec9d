"""Media of a conversation that an agent hands on, by content id. Source: UAMP 1.0, section 8.5.4.

Each piece has an id: that of the stored content, else the one that the client gave, else one that follows from where it
stands. An agent that may hand media on is told the ids of what it sees; those of a tool's media stand in the tool's result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from perdure.errors import InvalidInput
from perdure.uap.content_refs import block_of, find_mention, reference_block, reference_of, returned_media
from perdure.uap.ids import derive_id
from perdure.uap.scaffold import scaffold_of
from perdure.upp.content import ContentBlock, ReasoningBlock, TextBlock, UserContent
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_media import ContentSource, ToolMedia, known_content, whole_content

MOST = 32
_WIRE = "uamp"


def told_ids(messages: Sequence[Message]) -> list[Message]:
    """The conversation as its model is sent it, with the ids of all media; messages without any are the very objects.

    They stand at the end of the message that holds it, or, of what the model made itself, of the user's next one.
    """
    told: list[Message] = []
    made: list[str] = []
    for message in messages:
        ids = [ident for ident, _ in _identified(message)]
        if isinstance(message, AssistantMessage):
            made += ids
        elif isinstance(message, UserMessage) and (ids or made) and not scaffold_of(message):
            message, made = _with_ids(message, ids, made), []
        told.append(message)
    return told


async def attached(messages: Sequence[Message], ids: JSONValue, contents: ContentSource | None) -> list[UserContent]:
    """The media of these ids as blocks: references where there can be such, else the bytes.

    Args:
        messages: the conversation.
        ids: as a model wrote them.
        contents: stored media.

    Raises:
        InvalidInput: it is no list of content ids of the conversation, or the content is gone.
    """
    if ids is None:
        return []
    if not isinstance(ids, list) or not all(isinstance(ident, str) for ident in ids):
        raise InvalidInput("attachments must be a list of content ids, such as the conversation names them")
    if len(ids) > MOST:
        raise InvalidInput(f"{len(ids)} attachments are too many; {MOST} may be handed on")
    wanted = dict.fromkeys(cast("list[str]", ids))
    return [await _attached(messages, ident, contents) for ident in wanted]


def task_message(task: str, ids: JSONValue, media: Sequence[UserContent]) -> UserMessage:
    """What another agent is told: the task, and the media, which keeps its ids.

    Args:
        task: in words.
        ids: of `attached`.
        media: what that returned, one for each id that is not there twice.
    """
    names = list(dict.fromkeys(cast("list[str]", ids or [])))
    if not media:
        return UserMessage(task)
    items: list[JSONValue] = [None, *({"content_id": ident} for ident in names)]
    return UserMessage([TextBlock(task), *media], metadata={_WIRE: {"items": items}})


async def _attached(messages: Sequence[Message], ident: str, contents: ContentSource | None) -> UserContent:
    found = find_mention(messages, ident)
    if found is None:
        unnamed = (block for message in messages for own, block in _identified(message) if own == ident)
        found = next(unnamed, None)
    if found is None or isinstance(found, ReasoningBlock):
        known = [own for message in messages for own in _ids(message)]
        there = f"it has {', '.join(dict.fromkeys(known))}" if known else "it has no media"
        raise InvalidInput(f"the conversation has no content {ident[:60]!r} to attach; {there}")
    if not isinstance(found, ToolMedia):
        stored = reference_of(found)
        if stored is not None and contents is not None:
            await known_content(contents, stored)
        return found
    if contents is None:
        raise InvalidInput(f"content {ident} cannot be reached here; an agent's run can")
    facts = await known_content(contents, ident)
    return reference_block(facts) or block_of(await whole_content(contents, ident))


def _identified(message: Message) -> Iterator[tuple[str, ContentBlock]]:
    """The media blocks of a message, each with its id."""
    if isinstance(message, ToolResultMessage):
        return
    wire = (message.metadata or {}).get(_WIRE) or {}
    items = cast("list[JSONObject | None]", wire.get("items") or [])
    for place, block in enumerate(message.blocks()):
        if isinstance(block, TextBlock | ReasoningBlock):
            continue
        said = (items[place] or {}).get("content_id") if place < len(items) else None
        named = reference_of(block) or (said if isinstance(said, str) else None)
        yield named or derive_id(message.id, "content", place), block


def _ids(message: Message) -> list[str]:
    if isinstance(message, ToolResultMessage):
        media = (item for result in message.results for item in returned_media(result.result))
        return [item.content_id for item in media if item.content_id is not None]
    return [ident for ident, _ in _identified(message)]


def _with_ids(message: UserMessage, ids: Sequence[str], made: Sequence[str]) -> UserMessage:
    notes: list[str] = []
    if ids:
        notes.append(f"[content ids of the media in this message, in order: {', '.join(ids)}]")
    if made:
        notes.append(f"[content ids of the media that you made before, in order: {', '.join(made)}]")
    blocks = cast("list[UserContent]", [*message.content, TextBlock("\n".join(notes))])
    return UserMessage(blocks, id=message.id, timestamp=message.timestamp, metadata=message.metadata)
