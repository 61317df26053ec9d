"""Compressed content: gzip (RFC 1952) and zstd (RFC 8878), packed, and unpacked without ever holding more than a limit.

Source: UAMP envelope 1.0, section 4, whose `compression` is free text; these values are the reading.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Literal

import zstandard

from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed

Packing = Literal["gzip", "zstd"]

_GZIP_WINDOW = 31  # zlib's number for a gzip header and the largest window
_ZSTD_WINDOW = 8 * 1024 * 1024  # what RFC 8878 asks every decoder to have; a sender may ask for gigabytes


def packed(data: bytes, packing: Packing) -> bytes:
    """The data, compressed; the same bytes for the same data."""
    return gzip.compress(data, mtime=0) if packing == "gzip" else zstandard.compress(data)


def unpacked(data: bytes, packing: Packing, max_bytes: int) -> bytes:
    """What was compressed.

    Args:
        data: one gzip member or one zstd frame, and nothing else.
        packing: how it was compressed.
        max_bytes: the greatest size of the result.

    Raises:
        UAMPError: 4.13 if the result is larger, 4.00 if the data is damaged, cut off or followed by more.
    """
    return _inflated(data, max_bytes) if packing == "gzip" else _zstd(data, max_bytes)


def too_large(max_bytes: int) -> UAMPError:
    """An error 4.13 to raise."""
    return UAMPError(Code.TOO_LARGE, f"the content is larger than {max_bytes} bytes")


def _inflated(data: bytes, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        made = inflater.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise malformed("the content is not gzip") from error
    if len(made) > max_bytes:
        raise too_large(max_bytes)
    _check_end("gzip", inflater.eof, inflater.unused_data)
    return made


def _zstd(data: bytes, max_bytes: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    try:
        with decompressor.stream_reader(data) as reader:
            if len(reader.read(max_bytes + 1)) > max_bytes:
                raise too_large(max_bytes)
        # A reader is bounded, but does not tell a frame that is cut off; the other way tells, and is harmless by now.
        inflater = decompressor.decompressobj()
        made = inflater.decompress(data)
    except zstandard.ZstdError as error:
        raise malformed("the content is not zstd, or needs a window of more than 8 MiB") from error
    _check_end("zstd", inflater.eof, inflater.unused_data)
    return made


def _check_end(packing: Packing, has_ended: bool, rest: bytes) -> None:
    if not has_ended:
        raise malformed(f"the {packing} content is cut off")
    if rest:
        raise malformed(f"something follows the {packing} content")
