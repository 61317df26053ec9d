"""How a conversation names media that is stored with us: a media block whose source is the URL of stored content.

UPP's images and documents have such a source. Its sound, video and other bytes have none: their blocks hold the bytes.
Source: UAMP 1.0, sections 8.4.1 and 8.5.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar, cast
from urllib.parse import urlsplit

from perdure.errors import InvalidInput
from perdure.upp.content import (
    AssistantContent,
    AudioBlock,
    BinaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    UserContent,
    VideoBlock,
)
from perdure.upp.json_value import JSONObject, JSONValue, encode_base64
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_media import ToolMedia

M = TypeVar("M", bound=Message)

PATH = "/api/content/"
"""Where content is shown, before its id."""

UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
PDF = "application/pdf"
PLAIN_TEXT = "text/plain"
_ID = re.compile(UUID)
_REFERRING = (ImageBlock, DocumentBlock)
_WIRE = "uamp"


def content_path(ident: str) -> str:
    """The reference to content."""
    return f"{PATH}{ident.lower()}"


def content_of(url: str) -> str | None:
    """The id of the content that a URL is of, on whatever host, signed or not; None for any other URL."""
    try:
        path = urlsplit(url).path if url.startswith(("http://", "https://", "/")) else ""
    except ValueError:
        return None
    ident = path.removeprefix(PATH)
    return ident.lower() if path.startswith(PATH) and _ID.fullmatch(ident) else None


def is_content_id(text: str) -> bool:
    """Whether a text can be the id of content."""
    return _ID.fullmatch(text) is not None


def reference_of(block: ContentBlock) -> str | None:
    """The id of the content that a block refers to; None for a block that refers to none of ours."""
    if isinstance(block, _REFERRING) and isinstance(block.source, UrlSource):
        return content_of(block.source.url)
    return None


def references(messages: Iterable[Message]) -> list[str]:
    """The ids of the content that messages refer to, each once, in order."""
    found = (
        reference_of(block)
        for message in messages
        if not isinstance(message, ToolResultMessage)  # results are JSON
        for block in message.blocks()
        if isinstance(block, _REFERRING)
    )
    return list(dict.fromkeys(ident for ident in found if ident is not None))


def is_text(media_type: str) -> bool:
    """Whether media of a type is shown to models as text."""
    kind = media_type.partition(";")[0].strip()
    return kind.startswith("text/") or kind == "application/json"


def reference_block(media: ToolMedia) -> ImageBlock | DocumentBlock | None:
    """The block that refers to stored media; None where a block of its kind must hold the bytes."""
    if media.content_id is None:
        return None
    source, kind = UrlSource(content_path(media.content_id)), media.media_type
    if media.kind == "image":
        return ImageBlock(source, kind)
    if kind == PDF:
        return DocumentBlock(source, PDF, media.filename)
    return DocumentBlock(source, PLAIN_TEXT, media.filename) if is_text(kind) else None


def block_of(media: ToolMedia) -> UserContent:
    """The block that holds the bytes of media, which are there."""
    data, kind = media.data or b"", media.media_type
    if media.kind == "image":
        return ImageBlock(Base64Source(encode_base64(data)), kind)
    if media.kind == "audio":
        return AudioBlock(data, kind)
    if media.kind == "video":
        return VideoBlock(data, kind)
    if kind == PDF:
        return DocumentBlock(Base64Source(encode_base64(data)), PDF, media.filename)
    text = utf8_of(data) if is_text(kind) else None
    if text is not None:
        return DocumentBlock(TextSource(text), PLAIN_TEXT, media.filename)
    return BinaryBlock(data, kind, {"filename": media.filename} if media.filename else None)


def with_content(message: M, media: Mapping[str, ToolMedia]) -> M:
    """A message whose references are the bytes themselves; the very object if it has none.

    Args:
        message: of a conversation.
        media: by id, with bytes, all that the message refers to.

    Raises:
        InvalidInput: media is of a kind that the block which refers to it cannot be.
    """
    return _changed(message, lambda block: _whole(block, media))


def with_plain_references(message: M) -> M:
    """A message whose references are paths, without host and signature; the very object if it has none."""
    return _changed(message, _plain)


def _changed(message: M, change: Callable[[ContentBlock], ContentBlock]) -> M:
    blocks = message.blocks()
    if isinstance(message, ToolResultMessage) or not any(reference_of(block) for block in blocks):
        return message
    changed = [change(block) for block in blocks]
    if isinstance(message, AssistantMessage):
        said, calls = cast("list[AssistantContent]", changed), message.tool_calls
        made = AssistantMessage(said, calls, id=message.id, timestamp=message.timestamp, metadata=message.metadata)
        return cast(M, made)
    given = cast("list[UserContent]", changed)
    return cast(M, UserMessage(given, id=message.id, timestamp=message.timestamp, metadata=message.metadata))


def _plain(block: ContentBlock) -> ContentBlock:
    ident = reference_of(block)
    if ident is None or not isinstance(block, _REFERRING):
        return block
    return replace(block, source=UrlSource(content_path(ident)))


def _whole(block: ContentBlock, media: Mapping[str, ToolMedia]) -> ContentBlock:
    ident = reference_of(block)
    if ident is None:
        return block
    found = media[ident]
    data, kind = found.data or b"", found.media_type
    if isinstance(block, ImageBlock):
        if found.kind != "image":
            raise InvalidInput(
                f"content {ident} is {kind}, and the conversation shows it as an image; send it as a file"
            )
        return ImageBlock(BytesSource(data), kind, block.width, block.height)
    title = block.title if isinstance(block, DocumentBlock) else None
    if kind == PDF:
        return DocumentBlock(Base64Source(encode_base64(data)), PDF, title)
    text = utf8_of(data) if is_text(kind) else None
    if text is None:
        raise InvalidInput(f"content {ident} is {kind}; a document in a conversation must be PDF or text in UTF-8")
    return DocumentBlock(TextSource(text), PLAIN_TEXT, title)


def utf8_of(data: bytes) -> str | None:
    """Bytes as text, if they are UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def returned_media(result: JSONValue) -> list[ToolMedia]:
    """The media that a tool's result names, as `ToolContent.result` writes it; none in any other result."""
    items = result.get("content_items") if isinstance(result, dict) else None
    return media_facts(items)


def media_facts(items: JSONValue) -> list[ToolMedia]:
    """The media of `ToolContent.to_json`; what is none is passed over, since a tool may return anything."""
    found: list[ToolMedia] = []
    for item in items if isinstance(items, list) else ():
        facts = item if isinstance(item, dict) else {}
        ident, kind = facts.get("content_id"), facts.get("media_type")
        if not (isinstance(ident, str) and _ID.fullmatch(ident) and isinstance(kind, str) and "/" in kind):
            continue
        name, said, size = facts.get("filename"), facts.get("description"), facts.get("size_bytes")
        try:
            media = ToolMedia(
                kind,
                content_id=ident.lower(),
                filename=name if isinstance(name, str) else None,
                description=said if isinstance(said, str) else None,
                size_bytes=size if isinstance(size, int) else None,
            )
        except InvalidInput:
            continue
        found.append(media)
    return found


def find_mention(messages: Iterable[Message], content_id: str) -> ContentBlock | ToolMedia | None:
    """The media of an id in a conversation, the last if there are several.

    Returns:
        A block as it stands there; of what a tool has returned, the media's facts. None if nobody has named the id.
    """
    wanted, found = content_id.lower(), None
    for message in messages:
        for ident, item in _mentions(message):
            found = item if ident == wanted else found
    return found


def _mentions(message: Message) -> Iterator[tuple[str, ContentBlock | ToolMedia]]:
    if isinstance(message, ToolResultMessage):
        for result in message.results:
            yield from ((item.content_id or "", item) for item in returned_media(result.result))
        return
    wire = (message.metadata or {}).get(_WIRE) or {}
    told = cast("list[JSONObject | None]", wire.get("items") or [])
    for place, block in enumerate(message.blocks()):
        if isinstance(block, TextBlock | ReasoningBlock):
            continue
        said = (told[place] or {}).get("content_id") if place < len(told) else None
        if isinstance(said, str):
            yield said.lower(), block
        stored = reference_of(block)
        if stored is not None:
            yield stored, block
