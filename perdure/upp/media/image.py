"""An image for a message."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from perdure.upp.content import ImageBlock
from perdure.upp.json_value import encode_base64
from perdure.upp.media.media_file import (
    check_url,
    decode_base64,
    kind_of_file,
    kind_of_url,
    no_data,
    no_url,
    read_media_file,
)
from perdure.upp.media_source import Base64Source, BytesSource, ImageSource, UrlSource


@dataclass(frozen=True, slots=True)
class Image:
    """An image; stands in a message's content like the block that `to_block` makes.

    Attributes:
        source: the bytes, or the URL that the provider shall fetch.
        width: in pixels.
        height: in pixels.
    """

    source: ImageSource
    mime_type: str
    width: int | None = None
    height: int | None = None

    @classmethod
    async def from_path(cls, path: str | PurePath, mime_type: str | None = None) -> Image:
        """Returns a file's image; the type is that of the extension unless given.

        Raises:
            InvalidInput: the file cannot be read, or its extension is no image's.
        """
        kind = kind_of_file(path, "image/", mime_type)
        return cls(BytesSource(await read_media_file(path)), kind)

    @classmethod
    def from_url(cls, url: str, mime_type: str | None = None) -> Image:
        """Returns an image that the provider fetches; the type is the extension's unless given, else JPEG.

        Raises:
            InvalidInput: it is no http or https URL.
        """
        return cls(UrlSource(check_url(url)), kind_of_url(url, "image/", mime_type, "image/jpeg"))

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> Image:
        """Returns the image of raw bytes."""
        return cls(BytesSource(bytes(data)), mime_type)

    @classmethod
    def from_base64(cls, data: str, mime_type: str) -> Image:
        """Returns the image of base64 text. Raises UPPError INVALID_REQUEST if it is none."""
        decode_base64(data, "image")
        return cls(Base64Source(data), mime_type)

    @classmethod
    def from_block(cls, block: ImageBlock) -> Image:
        """Returns the image of a block."""
        return cls(block.source, block.mime_type, block.width, block.height)

    @property
    def has_data(self) -> bool:
        """Whether the bytes are here; False for a URL."""
        return not isinstance(self.source, UrlSource)

    def to_block(self) -> ImageBlock:
        """Returns the content block."""
        return ImageBlock(self.source, self.mime_type, self.width, self.height)

    def to_bytes(self) -> bytes:
        """Returns the bytes. Raises UPPError INVALID_REQUEST for a URL."""
        match self.source:
            case BytesSource(data=data):
                return data
            case Base64Source(data=text):
                return decode_base64(text, "image")
            case UrlSource():
                raise no_data("the image")

    def to_base64(self) -> str:
        """Returns the bytes as base64. Raises UPPError INVALID_REQUEST for a URL."""
        return self.source.data if isinstance(self.source, Base64Source) else encode_base64(self.to_bytes())

    def to_data_url(self) -> str:
        """Returns a URL that holds the bytes. Raises UPPError INVALID_REQUEST for a URL of another place."""
        return f"data:{self.mime_type};base64,{self.to_base64()}"

    def to_url(self) -> str:
        """Returns the URL. Raises UPPError INVALID_REQUEST if the bytes are here instead."""
        if isinstance(self.source, UrlSource):
            return self.source.url
        raise no_url("the image")
