"""What all media share: reading a file, its kind by its name, base64, and what a mere URL cannot give."""

from __future__ import annotations

import asyncio
import base64
import binascii
import mimetypes
from functools import lru_cache
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from perdure.errors import InvalidInput
from perdure.upp.errors import ErrorCode, UPPError

_ALSO_KNOWN = {
    ".aac": "audio/aac",
    ".avif": "image/avif",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".mkv": "video/x-matroska",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".wav": "audio/wav",
    ".webm": "video/webm",
    ".webp": "image/webp",
}
"""Kinds that Python or the machine's own table does not know, or names in another way than providers do."""


async def read_media_file(path: str | PurePath) -> bytes:
    """Returns a file's bytes, read off the event loop.

    Raises:
        InvalidInput: there is no such file, or it cannot be read.
    """
    try:
        return await asyncio.to_thread(Path(path).read_bytes)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(f"the file {str(path)!r} cannot be read: {reason}") from error


def kind_of_file(path: str | PurePath, family: str, given: str | None) -> str:
    """Returns the MIME type that is given, else that of the file's extension.

    Args:
        path: the file, for its extension.
        family: what the type must begin with, as "image/"; empty if anything goes.
        given: the caller's own word, taken as it is.

    Raises:
        InvalidInput: the extension says no type of the family.
    """
    kind = given or _guess(PurePath(path).suffix)
    if kind is None or not kind.startswith(family):
        wanted = f" of {family}*" if family else ""
        raise InvalidInput(f"the name of the file {str(path)!r} says no MIME type{wanted}; give mime_type")
    return kind


def kind_of_url(url: str, family: str, given: str | None, fallback: str) -> str:
    """Returns the MIME type that is given, else that of the extension in the URL's path, else the fallback."""
    found = _guess(PurePath(unquote(urlsplit(url).path)).suffix)
    return given or (found if found is not None and found.startswith(family) else fallback)


def check_url(url: str) -> str:
    """Returns the URL.

    Raises:
        InvalidInput: it is no http or https URL with a host.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise InvalidInput(
            f"{url[:80]!r} must be a URL such as https://host/file; a file has from_path, data from_base64"
        )
    return url


def decode_base64(text: str, what: str) -> bytes:
    """Returns the bytes of base64 text. Raises UPPError INVALID_REQUEST if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UPPError(f"{what}: this is no base64: {error}", ErrorCode.INVALID_REQUEST, cause=error) from error


def no_data(what: str) -> UPPError:
    """Returns the error for asking the bytes of something that is only a URL."""
    return UPPError(f"{what} is a URL; fetch it and use from_bytes to have its data", ErrorCode.INVALID_REQUEST)


def no_url(what: str) -> UPPError:
    """Returns the error for asking the URL of something whose bytes are here."""
    return UPPError(f"{what} has its data and no URL; use to_data_url", ErrorCode.INVALID_REQUEST)


def _guess(suffix: str) -> str | None:
    return _ALSO_KNOWN.get(suffix.lower()) or _types().get(suffix.lower())


@lru_cache(1)
def _types() -> dict[str, str]:
    """Returns Python's own table alone, so that a file is of the same kind on every machine."""
    return mimetypes.MimeTypes().types_map[True]
