"""UPP's content blocks to and from ThreadProtocol's parts."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence

from perdure.protocols.threadprotocol.content import MessageContent, media_part, parts_of, text_part
from perdure.protocols.threadprotocol.models import Attachment
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
from perdure.upp.messages import AssistantMessage

_BYTES = "application/octet-stream"


def read_blocks(blocks: Sequence[ContentBlock]) -> JSONValue:
    """The content of a user's blocks: a string if it is one text."""
    if len(blocks) == 1 and isinstance(blocks[0], TextBlock):
        return blocks[0].text
    return [_read_block(block) for block in blocks]


def spoken_parts(message: AssistantMessage) -> list[list[JSONObject] | None]:
    """For each block of an assistant message what it says, or None for reasoning."""
    return [None if isinstance(block, ReasoningBlock) else [_read_block(block)] for block in message.content]


def signatures_of(message: AssistantMessage) -> Iterator[JSONObject]:
    """For each reasoning block the provider's name, and the signature where the message's metadata has it."""
    metadata = message.metadata or {}
    provider = next((name for name in metadata if name != "perdure"), "unknown")
    several = metadata.get(provider, {}).get("thinkingSignatures")
    signatures = several if isinstance(several, list) else []
    for index, _ in enumerate(message.reasoning):
        signature = signatures[index] if index < len(signatures) else None
        signed: JSONObject = {"signature": signature} if isinstance(signature, str) and signature else {}
        yield {"provider_name": provider} | signed


def _read_block(block: ContentBlock) -> JSONObject:
    match block:
        case TextBlock() | ReasoningBlock():
            return text_part(block.text)
        case ImageBlock():
            return media_part(block.mime_type, kind="image", **_source(block.source))
        case DocumentBlock():
            return media_part(block.mime_type, kind="file", name=block.title, **_source(block.source))
        case AudioBlock() | VideoBlock() | BinaryBlock():
            kind = {AudioBlock: "audio", VideoBlock: "video", BinaryBlock: "file"}[type(block)]
            return media_part(block.mime_type, kind=kind, data=encode_base64(block.data))


def _source(source: Base64Source | UrlSource | BytesSource | TextSource) -> dict[str, str]:
    match source:
        case UrlSource():
            return {"url": source.url}
        case Base64Source():
            return {"data": source.data}
        case BytesSource():
            return {"data": encode_base64(source.data)}
        case TextSource():
            return {"data": encode_base64(source.data.encode("utf-8", "replace"))}


def write_user(content: MessageContent, attachments: Sequence[Attachment] = ()) -> list[UserContent]:
    """A user's content as blocks; attachments come after it."""
    parts = [*parts_of(content)]
    for attachment in attachments:
        kind = "image" if attachment.media_type.startswith("image/") else None
        named = {"url": attachment.url, "data": attachment.data, "name": attachment.name}
        parts.append(media_part(attachment.media_type, kind=kind, **named))
    return [_write_part(part) for part in parts]


def write_assistant(content: MessageContent) -> list[AssistantContent]:
    """An assistant's content as blocks; what its blocks cannot hold is named in a text."""
    blocks = [_write_part(part) for part in parts_of(content)]
    return [TextBlock("[file]") if isinstance(block, DocumentBlock | BinaryBlock) else block for block in blocks]


def _write_part(part: JSONObject) -> UserContent:
    kind, media_type = part["type"], str(part.get("media_type") or "")
    url, data = part.get("image_url") or part.get("url"), part.get("image_base64") or part.get("data")
    if kind == "text":
        return TextBlock(str(part["text"]))
    if kind == "image":
        source = Base64Source(data) if isinstance(data, str) else UrlSource(str(url))
        return ImageBlock(source, media_type or "image/png")
    if isinstance(data, str):
        return _write_bytes(str(kind), data, media_type, part.get("name"))
    if isinstance(url, str) and kind == "file" and media_type in ("", "application/pdf", "text/plain"):
        name = part.get("name")
        return DocumentBlock(UrlSource(url), media_type or "application/pdf", name if isinstance(name, str) else None)
    return TextBlock(f"[{kind} {url or part.get('file_id') or part.get('name') or 'without a source'}]")


def _write_bytes(kind: str, data: str, media_type: str, name: JSONValue) -> UserContent:
    title = name if isinstance(name, str) else None
    match kind, media_type:
        case "audio", _:
            return AudioBlock(base64.b64decode(data), media_type or "audio/wav")
        case "video", _:
            return VideoBlock(base64.b64decode(data), media_type or "video/mp4")
        case _, "application/pdf":
            return DocumentBlock(Base64Source(data), media_type, title)
        case _, "text/plain":
            return DocumentBlock(TextSource(base64.b64decode(data).decode("utf-8", "replace")), media_type, title)
        case _:
            return BinaryBlock(base64.b64decode(data), media_type or _BYTES)
