"""Sound for a message."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath

from perdure.upp.content import AudioBlock
from perdure.upp.json_value import encode_base64
from perdure.upp.media.media_file import decode_base64, kind_of_file, read_media_file


@dataclass(frozen=True, slots=True)
class Audio:
    """Sound; stands in a message's content like the block that `to_block` makes.

    Attributes:
        duration: in seconds.
    """

    data: bytes = field(repr=False)
    mime_type: str
    duration: float | None = None

    @classmethod
    async def from_path(
        cls, path: str | PurePath, mime_type: str | None = None, duration: float | None = None
    ) -> Audio:
        """Returns a file's sound; the type is that of the extension unless given.

        Raises:
            InvalidInput: the file cannot be read, or its extension is no sound's.
        """
        kind = kind_of_file(path, "audio/", mime_type)
        return cls(await read_media_file(path), kind, duration)

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str, duration: float | None = None) -> Audio:
        """Returns the sound of raw bytes."""
        return cls(bytes(data), mime_type, duration)

    @classmethod
    def from_base64(cls, data: str, mime_type: str, duration: float | None = None) -> Audio:
        """Returns the sound of base64 text. Raises UPPError INVALID_REQUEST if it is none."""
        return cls(decode_base64(data, "audio"), mime_type, duration)

    @classmethod
    def from_block(cls, block: AudioBlock) -> Audio:
        """Returns the sound of a block."""
        return cls(block.data, block.mime_type, block.duration)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    @property
    def has_data(self) -> bool:
        """Whether the bytes are here; sound always has them."""
        return True

    def to_block(self) -> AudioBlock:
        """Returns the content block."""
        return AudioBlock(self.data, self.mime_type, self.duration)

    def to_bytes(self) -> bytes:
        """Returns the bytes."""
        return self.data

    def to_base64(self) -> str:
        """Returns the bytes as base64."""
        return encode_base64(self.data)

    def to_data_url(self) -> str:
        """Returns a URL that holds the bytes."""
        return f"data:{self.mime_type};base64,{self.to_base64()}"
