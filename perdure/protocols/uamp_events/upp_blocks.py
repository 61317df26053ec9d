"""Content items as UPP's blocks, and back. Media that only bytes can stand for is handed in resolved.

Source: UAMP 1.0, section 8.4; UPP-1.2, content blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perdure.protocols.uamp_events.content_ids import media_of, stored_content
from perdure.protocols.uamp_events.content_items import (
    AudioItem,
    ContentItem,
    FileItem,
    ImageItem,
    MediaItem,
    TextItem,
    VideoItem,
)
from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.media import MediaUrl, data_uri, decode, format_of, mime_of, url_of
from perdure.uap.content_refs import PDF, PLAIN_TEXT, content_of, content_path, is_text, reference_of, utf8_of
from perdure.upp.content import (
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
from perdure.upp.json_value import encode_base64
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.tool_media import ToolMedia


@dataclass(frozen=True, slots=True)
class Fetched:
    """Media that somebody has fetched from its URL."""

    mime_type: str
    data: bytes = field(repr=False)


def urls_to_fetch(items: Iterable[ContentItem]) -> list[str]:
    """The URLs that must be fetched before `user_blocks`: of what no block can refer to.

    That is sound, video and files; but for images and PDFs, and text that is stored with us.
    """
    found: list[str] = []
    for item in items:
        if not isinstance(item, AudioItem | VideoItem | FileItem):
            continue
        url = url_of(media_of(item))
        if url is not None and not url.startswith("data:") and not _is_referred_to(item, url):
            found.append(url)
    return found


def _is_referred_to(item: AudioItem | VideoItem | FileItem, url: str) -> bool:
    if not isinstance(item, FileItem):
        return False
    passes = _is_image(item.mime_type) or item.mime_type == PDF
    return passes or (is_text(item.mime_type) and content_of(url) is not None)


def user_blocks(items: Sequence[ContentItem], fetched: Mapping[str, Fetched] | None = None) -> list[UserContent]:
    """The blocks of a user message, one per item.

    Args:
        items: text and media.
        fetched: by URL, what `urls_to_fetch` names.

    Raises:
        EventRefused: an item that no user sends, base64 that is none, or media that was not fetched.
    """
    return [_block(item, fetched or {}) for item in items]


def _block(item: ContentItem, fetched: Mapping[str, Fetched]) -> UserContent:
    match item:
        case TextItem():
            return TextBlock(item.text)
        case ImageItem():
            return _image(item, mime_of(item.format, "image", "image/jpeg"))
        case AudioItem():
            got = _bytes(item, mime_of(item.format, "audio", "audio/wav"), fetched)
            return AudioBlock(got.data, got.mime_type, _seconds(item.duration_ms))
        case VideoItem():
            got = _bytes(item, mime_of(item.format, "video", "video/mp4"), fetched)
            return VideoBlock(got.data, got.mime_type, _seconds(item.duration_ms))
        case FileItem():
            return _file(item, fetched)
        case _:
            raise EventRefused(Code.INVALID_EVENT, f"a user message cannot hold an item of type '{item.type}'")


def _image(item: ImageItem | FileItem, mime: str) -> ImageBlock:
    media = media_of(item)
    url = url_of(media)
    if url is None:
        text = str(media)
        decode(text, f"{item.type} input")
        return ImageBlock(Base64Source(text), mime)
    inline = data_uri(url)
    if inline is not None:
        return ImageBlock(Base64Source(encode_base64(inline[1])), inline[0])
    return ImageBlock(_at(url), mime)


def _file(item: FileItem, fetched: Mapping[str, Fetched]) -> UserContent:
    mime, url = item.mime_type, url_of(item.file)
    if _is_image(mime):
        return _image(item, mime)
    if url is not None and not url.startswith("data:") and _is_referred_to(item, url):
        return DocumentBlock(_at(url), PDF if mime == PDF else PLAIN_TEXT, item.filename)
    data = _bytes(item, mime, fetched).data
    if mime == PDF:
        return DocumentBlock(Base64Source(encode_base64(data)), mime, item.filename)
    if mime.startswith("audio/"):
        return AudioBlock(data, mime)
    if mime.startswith("video/"):
        return VideoBlock(data, mime)
    text = utf8_of(data) if is_text(mime) else None
    if text is not None:
        return DocumentBlock(TextSource(text), PLAIN_TEXT, item.filename)
    return BinaryBlock(data, mime, {"filename": item.filename})


def _at(url: str) -> UrlSource:
    """Where media is; of stored content the reference, without host and signature."""
    stored = content_of(url)
    return UrlSource(url if stored is None else content_path(stored))


def _bytes(item: AudioItem | VideoItem | FileItem, mime: str, fetched: Mapping[str, Fetched]) -> Fetched:
    media = media_of(item)
    url = url_of(media)
    if url is None:
        return Fetched(mime, decode(str(media), f"{item.type} input"))
    inline = data_uri(url)
    if inline is not None:
        return Fetched(inline[0], inline[1])
    if url not in fetched:
        raise EventRefused(Code.INVALID_EVENT, f"the {item.type} at {url[:200]!r} was not fetched; send it as base64")
    return fetched[url]


def content_item(block: ContentBlock) -> ContentItem | None:
    """The item of a block; reasoning has none, it is told by thinking events."""
    match block:
        case TextBlock():
            return TextItem(text=block.text)
        case ImageBlock():
            stored = reference_of(block)
            return ImageItem(image=_source(block.source), format=format_of(block.mime_type), content_id=stored)
        case AudioBlock():
            return AudioItem(
                audio=encode_base64(block.data), format=format_of(block.mime_type), duration_ms=_ms(block.duration)
            )
        case VideoBlock():
            return VideoItem(
                video=encode_base64(block.data), format=format_of(block.mime_type), duration_ms=_ms(block.duration)
            )
        case DocumentBlock():
            name, stored = block.title or "document", reference_of(block)
            return FileItem(file=_source(block.source), filename=name, mime_type=block.mime_type, content_id=stored)
        case BinaryBlock():
            name = (block.metadata or {}).get("filename")
            return FileItem(
                file=encode_base64(block.data),
                filename=name if isinstance(name, str) else "document",
                mime_type=block.mime_type,
            )
        case ReasoningBlock():
            return None


def stored_item(media: ToolMedia) -> MediaItem:
    """The item of stored content, by its URL."""
    ident = media.content_id or ""
    url, form = MediaUrl(url=content_path(ident)), format_of(media.media_type)
    match media.kind:
        case "image":
            return ImageItem(image=url, format=form, alt_text=media.description, content_id=ident)
        case "audio":
            return AudioItem(audio=url, format=form, content_id=ident)
        case "video":
            return VideoItem(video=url, format=form, content_id=ident)
        case _:
            name = media.filename or "document"
            size, kind = media.size_bytes, media.media_type
            return FileItem(file=url, filename=name, mime_type=kind, size_bytes=size, content_id=ident)


def stored_facts(item: ContentItem) -> ToolMedia | None:
    """The facts of an item's stored content; None for any other item."""
    if not isinstance(item, ImageItem | AudioItem | VideoItem | FileItem):
        return None
    ident = stored_content(media_of(item))
    if ident is None:
        return None
    match item:
        case ImageItem():
            kind = mime_of(item.format, "image", "image/jpeg")
            return ToolMedia(kind, content_id=ident, description=item.alt_text)
        case AudioItem():
            return ToolMedia(mime_of(item.format, "audio", "audio/wav"), content_id=ident)
        case VideoItem():
            return ToolMedia(mime_of(item.format, "video", "video/mp4"), content_id=ident)
        case FileItem():
            return ToolMedia(item.mime_type, content_id=ident)


def _source(source: Base64Source | UrlSource | BytesSource | TextSource) -> str | MediaUrl:
    match source:
        case UrlSource():
            return MediaUrl(url=source.url)
        case Base64Source():
            return source.data
        case BytesSource():
            return encode_base64(source.data)
        case TextSource():
            return encode_base64(source.data.encode("utf-8", "replace"))


def _is_image(mime: str) -> bool:
    return mime.startswith("image/")


def _seconds(duration_ms: float | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1000


def _ms(duration: float | None) -> float | None:
    return None if duration is None else duration * 1000
