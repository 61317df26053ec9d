"""The blocks that messages are made of.

Blocks are plain values; loading media from files is `perdure.upp.media`'s. Source: UPP-1.2, content blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from perdure.upp.json_field import (
    invalid,
    read_bytes,
    read_object,
    read_optional_int,
    read_optional_number,
    read_optional_object,
    read_optional_str,
    read_str,
)
from perdure.upp.json_value import JSONObject, JSONValue, encode_base64
from perdure.upp.media_source import DocumentSource, ImageSource, document_source_from_json, image_source_from_json


class ContentBlockType(StrEnum):
    """The `type` of a content block."""

    TEXT = "text"
    REASONING = "reasoning"
    IMAGE = "image"
    DOCUMENT = "document"
    AUDIO = "audio"
    VIDEO = "video"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text."""

    type: ClassVar[Literal[ContentBlockType.TEXT]] = ContentBlockType.TEXT
    text: str

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """The model's reasoning; never part of a message's `text`."""

    type: ClassVar[Literal[ContentBlockType.REASONING]] = ContentBlockType.REASONING
    text: str

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {"type": "reasoning", "text": self.text}


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image; width and height are pixels."""

    type: ClassVar[Literal[ContentBlockType.IMAGE]] = ContentBlockType.IMAGE
    source: ImageSource
    mime_type: str
    width: int | None = None
    height: int | None = None

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        head: JSONObject = {"type": "image", "source": self.source.to_json(), "mimeType": self.mime_type}
        return head | _present(width=self.width, height=self.height)


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A document: `application/pdf` or `text/plain`."""

    type: ClassVar[Literal[ContentBlockType.DOCUMENT]] = ContentBlockType.DOCUMENT
    source: DocumentSource
    mime_type: str
    title: str | None = None

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        head: JSONObject = {"type": "document", "source": self.source.to_json(), "mimeType": self.mime_type}
        return head | _present(title=self.title)


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """Sound; duration in seconds."""

    type: ClassVar[Literal[ContentBlockType.AUDIO]] = ContentBlockType.AUDIO
    data: bytes = field(repr=False)
    mime_type: str
    duration: float | None = None

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        head: JSONObject = {"type": "audio", "data": encode_base64(self.data), "mimeType": self.mime_type}
        return head | _present(duration=self.duration)


@dataclass(frozen=True, slots=True)
class VideoBlock:
    """Moving pictures; duration in seconds, width and height in pixels."""

    type: ClassVar[Literal[ContentBlockType.VIDEO]] = ContentBlockType.VIDEO
    data: bytes = field(repr=False)
    mime_type: str
    duration: float | None = None
    width: int | None = None
    height: int | None = None

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        head: JSONObject = {"type": "video", "data": encode_base64(self.data), "mimeType": self.mime_type}
        return head | _present(duration=self.duration, width=self.width, height=self.height)


@dataclass(frozen=True, slots=True)
class BinaryBlock:
    """Bytes of any other kind; only users send it."""

    type: ClassVar[Literal[ContentBlockType.BINARY]] = ContentBlockType.BINARY
    data: bytes = field(repr=False)
    mime_type: str
    metadata: JSONObject | None = None

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        head: JSONObject = {"type": "binary", "data": encode_base64(self.data), "mimeType": self.mime_type}
        return head | _present(metadata=self.metadata)


UserContent: TypeAlias = TextBlock | ImageBlock | DocumentBlock | AudioBlock | VideoBlock | BinaryBlock
AssistantContent: TypeAlias = TextBlock | ReasoningBlock | ImageBlock | AudioBlock | VideoBlock
ContentBlock: TypeAlias = (
    TextBlock | ReasoningBlock | ImageBlock | DocumentBlock | AudioBlock | VideoBlock | BinaryBlock
)


Block_co = TypeVar("Block_co", bound=ContentBlock, covariant=True)


@runtime_checkable
class StandsForBlock(Protocol[Block_co]):
    """What may stand in a message's content in place of a block, as the helpers of `perdure.upp.media` do."""

    def to_block(self) -> Block_co:
        """Returns the block."""
        ...


UserMedia: TypeAlias = StandsForBlock[ImageBlock | DocumentBlock | AudioBlock | VideoBlock]
AssistantMedia: TypeAlias = StandsForBlock[ImageBlock | AudioBlock | VideoBlock]


def text(text: str) -> TextBlock:
    """Returns a text block."""
    return TextBlock(text)


def reasoning(text: str) -> ReasoningBlock:
    """Returns a reasoning block."""
    return ReasoningBlock(text)


def block_from_json(value: JSONValue) -> ContentBlock:
    """Returns the content block of a JSON object; unknown fields are ignored.

    Raises:
        UPPError: INVALID_REQUEST if the type is unknown or a required field is missing or of another type.
    """
    source = read_object(value, "content block")
    reader = _READERS.get(str(source.get("type")))
    if reader is None:
        raise invalid("content block", f"unknown type {source.get('type')!r}; known are {', '.join(_READERS)}")
    return reader(source)


def _read_image(source: JSONObject) -> ImageBlock:
    what = "image block"
    width, height = (read_optional_int(source, field, what) for field in ("width", "height"))
    return ImageBlock(image_source_from_json(source.get("source")), read_str(source, "mimeType", what), width, height)


def _read_document(source: JSONObject) -> DocumentBlock:
    what = "document block"
    title = read_optional_str(source, "title", what)
    return DocumentBlock(document_source_from_json(source.get("source")), read_str(source, "mimeType", what), title)


def _read_audio(source: JSONObject) -> AudioBlock:
    what = "audio block"
    duration = read_optional_number(source, "duration", what)
    return AudioBlock(read_bytes(source, "data", what), read_str(source, "mimeType", what), duration)


def _read_video(source: JSONObject) -> VideoBlock:
    what = "video block"
    width, height = (read_optional_int(source, field, what) for field in ("width", "height"))
    duration = read_optional_number(source, "duration", what)
    return VideoBlock(read_bytes(source, "data", what), read_str(source, "mimeType", what), duration, width, height)


def _read_binary(source: JSONObject) -> BinaryBlock:
    what = "binary block"
    metadata = read_optional_object(source, "metadata", what)
    return BinaryBlock(read_bytes(source, "data", what), read_str(source, "mimeType", what), metadata)


def _present(**fields: JSONValue) -> JSONObject:
    return {name: value for name, value in fields.items() if value is not None}


_READERS: dict[str, Callable[[JSONObject], ContentBlock]] = {
    ContentBlockType.TEXT: lambda source: TextBlock(read_str(source, "text", "text block")),
    ContentBlockType.REASONING: lambda source: ReasoningBlock(read_str(source, "text", "reasoning block")),
    ContentBlockType.IMAGE: _read_image,
    ContentBlockType.DOCUMENT: _read_document,
    ContentBlockType.AUDIO: _read_audio,
    ContentBlockType.VIDEO: _read_video,
    ContentBlockType.BINARY: _read_binary,
}
