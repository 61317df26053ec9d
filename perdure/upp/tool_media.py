"""Media that a tool returns beside its result. Its bytes are stored by whoever runs the tool; the model gets the ids.

Source: UAMP 1.0, section 8.5.4 (StructuredToolResult).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, cast

from perdure.errors import InvalidInput
from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    StandsForBlock,
    TextBlock,
    UserMedia,
    VideoBlock,
)
from perdure.upp.json_value import JSONObject, JSONValue, sha256_hex
from perdure.upp.media_names import checked_filename, checked_media_type
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource

MOST_ITEMS = 32
SHOWN_TO_MODEL = "shown_to_model"
"""In a result: the model sees the media itself, not only its ids."""

LONGEST_DESCRIPTION = 1000
_KINDS = ("image", "audio", "video")


@dataclass(frozen=True, slots=True)
class ToolMedia:
    """One piece of media: bytes that are to be stored, or content that is stored already.

    Attributes:
        media_type: such as image/png.
        data: the bytes; None if they are stored under `content_id`.
        content_id: UUID of stored content; of new media it is derived.
        filename: for people.
        description: what it shows, for the model and for people; at most 1000 characters.
        size_bytes: where it is known.

    Raises:
        InvalidInput: a value cannot be used, or there are neither bytes nor an id.
    """

    media_type: str
    data: bytes | None = field(default=None, repr=False)
    content_id: str | None = field(default=None, kw_only=True)
    filename: str | None = field(default=None, kw_only=True)
    description: str | None = field(default=None, kw_only=True)
    size_bytes: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "media_type", checked_media_type(self.media_type))
        checked_filename(self.filename)
        if self.description is not None and len(self.description) > LONGEST_DESCRIPTION:
            raise InvalidInput(f"the description of media may have {LONGEST_DESCRIPTION} characters")
        if self.data is not None:
            object.__setattr__(self, "size_bytes", len(self.data))
        elif self.content_id is None:
            raise InvalidInput("media needs `data`, its bytes, or the `content_id` of what is stored already")

    @property
    def kind(self) -> str:
        """One of image, audio, video and file."""
        kind = self.media_type.partition("/")[0]
        return kind if kind in _KINDS else "file"

    def to_json(self) -> JSONObject:
        """Its facts without its bytes, as results and the event log name it."""
        facts: JSONObject = {
            "type": self.kind,
            "content_id": self.content_id,
            "media_type": self.media_type,
            "size_bytes": self.size_bytes,
            "filename": self.filename,
            "description": self.description,
        }
        return {name: value for name, value in facts.items() if value is not None}


Given: TypeAlias = ToolMedia | ContentBlock | UserMedia
"""What a tool may put into a result: media, a media block, or a helper of `perdure.upp.media`."""


class StructuredToolResult:
    """What a tool returns that made media. No dataclass: it has no JSON form of its own.

    Attributes:
        media: in the tool's order.
        result: for the model, beside the ids of the media.
        present: whether the media is shown to the user at once, without the agent choosing it.
        for_model: whether the model sees the media, as that of a screenshot, and not only its ids.
    """

    __slots__ = ("for_model", "media", "present", "result")

    def __init__(
        self, content_items: Sequence[Given], result: object = None, *, present: bool = False, for_model: bool = False
    ) -> None:
        """Return media.

        Args:
            content_items: the media, at most 32 pieces.
            result: anything that a tool may return, for the model.
            present: show it to the user.
            for_model: have the model see it, in each call from now on; a model that takes no such media is told so.

        Raises:
            InvalidInput: an item is no media, or has only an address: its bytes are needed.
        """
        if len(content_items) > MOST_ITEMS:
            raise InvalidInput(f"a tool may return {MOST_ITEMS} pieces of media, not {len(content_items)}")
        self.media = [to_media(item) for item in content_items]
        self.result = result
        self.present = present
        self.for_model = for_model


class ContentSource(Protocol):
    """Stored media, as tools reach it: that of the tenant whose run it is."""

    @property
    def max_bytes(self) -> int:
        """How many bytes one piece of media may have."""
        ...

    async def find(self, content_id: str) -> ToolMedia | None:
        """Media without its bytes; None if there is none of this id."""
        ...

    async def read(self, content_id: str) -> ToolMedia | None:
        """Media with its bytes."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContent:
    """The media of one tool call, each piece with its id.

    Attributes:
        media: in the tool's order; those with bytes are to be stored before the result is told.
        presented: shown to the user at once.
        for_model: seen by the model.
    """

    media: tuple[ToolMedia, ...]
    presented: bool = False
    for_model: bool = False

    def to_json(self) -> list[JSONValue]:
        """The facts of each piece."""
        return [item.to_json() for item in self.media]

    def result(self, value: JSONValue) -> JSONValue:
        """What the model is told: the tool's own value, and the ids."""
        told: JSONObject = {} if value is None else {"result": value}
        seen: JSONObject = {SHOWN_TO_MODEL: True} if self.for_model else {}
        return {**told, "content_items": self.to_json(), **seen}


def to_media(given: Given) -> ToolMedia:
    """The media of whatever may stand for it.

    Raises:
        InvalidInput: it is no media, or has only an address.
    """
    if isinstance(given, ToolMedia):
        return given
    block = given.to_block() if isinstance(given, StandsForBlock) else given
    match block:
        case ImageBlock() | DocumentBlock():
            name = block.title if isinstance(block, DocumentBlock) else None
            return ToolMedia(block.mime_type, _bytes_of(block.source), filename=name)
        case AudioBlock() | VideoBlock() | BinaryBlock():
            return ToolMedia(block.mime_type, block.data)
        case TextBlock() | ReasoningBlock():
            raise InvalidInput("content_items hold media; give text as `result`")
        case _:
            raise InvalidInput(f"content_items hold media, not {type(cast(object, block)).__name__}")


async def content_of(result: StructuredToolResult, key: str, contents: ContentSource | None) -> ToolContent:
    """The media of a result with its ids and, of what is stored already, its facts.

    The same bytes of the same call always have the same id.

    Args:
        result: as the tool returned it.
        key: of the call, the same for every attempt of it.
        contents: where media is stored.

    Raises:
        InvalidInput: a piece is too large, or not there, or nothing can be stored.
    """
    if contents is None:
        raise InvalidInput("media of a tool is stored with an agent's run; here there is none")
    media = [await _named(item, key, place, contents) for place, item in enumerate(result.media)]
    return ToolContent(tuple(media), result.present, result.for_model)


async def known_content(contents: ContentSource, content_id: str) -> ToolMedia:
    """The facts of stored media. Raises InvalidInput if there is none of this id."""
    return _known(await contents.find(content_id), content_id)


async def whole_content(contents: ContentSource, content_id: str) -> ToolMedia:
    """Stored media with its bytes. Raises InvalidInput if there is none of this id."""
    return _known(await contents.read(content_id), content_id)


def _known(media: ToolMedia | None, content_id: str) -> ToolMedia:
    if media is None:
        raise InvalidInput(f"there is no content {content_id[:60]!r}: it was never stored, or is deleted or over")
    return media


async def _named(item: ToolMedia, key: str, place: int, contents: ContentSource) -> ToolMedia:
    if item.data is None:
        known = await known_content(contents, item.content_id or "")
        return replace(known, description=item.description)
    if len(item.data) > contents.max_bytes:
        raise InvalidInput(
            f"media may have {contents.max_bytes} bytes (PERDURE_MAX_CONTENT_BYTES), not {len(item.data)}"
        )
    return replace(item, content_id=_derived(key, place, item.data))


def _derived(key: str, place: int, data: bytes) -> str:
    """A UUIDv4 that depends on these alone."""
    text = "\x1f".join((key, "content", str(place), sha256_hex(data)))
    digits = sha256_hex(text.encode("utf-8", "surrogatepass"))
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def _bytes_of(source: Base64Source | BytesSource | TextSource | UrlSource) -> bytes:
    match source:
        case BytesSource():
            return source.data
        case TextSource():
            return source.data.encode("utf-8", "replace")
        case UrlSource():
            raise InvalidInput(
                "media of a tool needs its bytes, not an address; or ToolMedia with the content_id of ours"
            )
        case Base64Source():
            try:
                return base64.b64decode(source.data, validate=True)
            except binascii.Error as error:
                raise InvalidInput(f"media of a tool is no base64: {error}") from error
