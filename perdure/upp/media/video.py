"""Moving pictures for a message."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath

from perdure.upp.content import VideoBlock
from perdure.upp.json_value import encode_base64
from perdure.upp.media.media_file import decode_base64, kind_of_file, read_media_file


@dataclass(frozen=True, slots=True)
class Video:
    """Moving pictures; stand in a message's content like the block that `to_block` makes.

    Attributes:
        duration: in seconds.
        width: in pixels.
        height: in pixels.
    """

    data: bytes = field(repr=False)
    mime_type: str
    duration: float | None = None
    width: int | None = None
    height: int | None = None

    @classmethod
    async def from_path(cls, path: str | PurePath, mime_type: str | None = None) -> Video:
        """Returns a file's pictures; the type is that of the extension unless given.

        Raises:
            InvalidInput: the file cannot be read, or its extension is no video's.
        """
        kind = kind_of_file(path, "video/", mime_type)
        return cls(await read_media_file(path), kind)

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> Video:
        """Returns the pictures of raw bytes."""
        return cls(bytes(data), mime_type)

    @classmethod
    def from_base64(cls, data: str, mime_type: str) -> Video:
        """Returns the pictures of base64 text. Raises UPPError INVALID_REQUEST if it is none."""
        return cls(decode_base64(data, "video"), mime_type)

    @classmethod
    def from_block(cls, block: VideoBlock) -> Video:
        """Returns the pictures of a block."""
        return cls(block.data, block.mime_type, block.duration, block.width, block.height)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    @property
    def has_data(self) -> bool:
        """Whether the bytes are here; a video always has them."""
        return True

    def to_block(self) -> VideoBlock:
        """Returns the content block."""
        return VideoBlock(self.data, self.mime_type, self.duration, self.width, self.height)

    def to_bytes(self) -> bytes:
        """Returns the bytes."""
        return self.data

    def to_base64(self) -> str:
        """Returns the bytes as base64."""
        return encode_base64(self.data)

    def to_data_url(self) -> str:
        """Returns a URL that holds the bytes."""
        return f"data:{self.mime_type};base64,{self.to_base64()}"
