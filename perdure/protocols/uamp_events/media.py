"""Media on the wire: base64 text, or where the bytes are. Source: UAMP 1.0, sections 8.2 and 8.4.1."""

from __future__ import annotations

import base64
import binascii
from typing import TypeAlias

from perdure.protocols.uamp_events.faults import Code, EventRefused
from perdure.protocols.uamp_events.wire import WireModel

_URL_STARTS = ("http://", "https://", "/", "data:")


class MediaUrl(WireModel):
    """Where media is."""

    url: str


Media: TypeAlias = str | MediaUrl

MIME_BY_FORMAT = {
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "gif": "image/gif",
    "pcm16": "audio/pcm",
    "g711_ulaw": "audio/basic",
    "g711_alaw": "audio/x-alaw-basic",
    "mp3": "audio/mpeg",
    "opus": "audio/opus",
    "wav": "audio/wav",
    "aac": "audio/aac",
    "mp4": "video/mp4",
}
FORMAT_BY_MIME = {mime: name for name, mime in MIME_BY_FORMAT.items() if name != "jpg"}


def url_of(media: Media) -> str | None:
    """Where the media is, or None if it is there as base64.

    A string that begins like a URL is one. A bare path is one only below /api/: the base64 of every JPEG begins with a
    slash. Any other path can be sent as `{url}`.
    """
    if isinstance(media, MediaUrl):
        return media.url
    if not media.startswith(_URL_STARTS):
        return None
    return None if media.startswith("/") and not media.startswith("/api/") else media


def wire_media(media: Media) -> Media:
    """The same media with a URL as `{url}`, the preferred form."""
    url = url_of(media)
    return media if url is None else MediaUrl(url=url)


def data_uri(url: str) -> tuple[str, bytes] | None:
    """MIME type and bytes of a `data:` URI with base64; None for any other URL.

    Raises:
        EventRefused: a data URI that cannot be read.
    """
    if not url.startswith("data:"):
        return None
    head, comma, body = url.removeprefix("data:").partition(",")
    mime, _, coding = head.rpartition(";")
    if not comma or coding != "base64":
        raise EventRefused(Code.INVALID_EVENT, "a data URI must be data:<mime type>;base64,<data>")
    return mime.partition(";")[0] or "application/octet-stream", decode(body, "a data URI")


def decode(text: str, what: str) -> bytes:
    """The bytes of base64.

    Raises:
        EventRefused: it is none.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EventRefused(Code.INVALID_EVENT, f"{what} is not base64: {error}") from error


def mime_of(form: str | None, family: str, default: str) -> str:
    """The MIME type of a format name.

    Args:
        form: such as "png"; None if the sender does not say.
        family: "image", "audio" or "video", for names that are not listed.
        default: where there is no name.
    """
    if form is None:
        return default
    return MIME_BY_FORMAT.get(form.lower(), f"{family}/{form.lower()}")


def format_of(mime: str) -> str:
    """The format name of a MIME type."""
    return FORMAT_BY_MIME.get(mime, mime.rpartition("/")[2])
