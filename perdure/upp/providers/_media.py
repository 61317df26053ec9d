"""Media on their way to vendors, as far as several vendors write them alike."""

from __future__ import annotations

import base64
import binascii

from perdure.upp.content import AudioBlock, ImageBlock
from perdure.upp.json_value import JSONObject, encode_base64
from perdure.upp.media_source import Base64Source, BytesSource, UrlSource
from perdure.upp.providers._answer import refuse

_AUDIO_FORMATS = {
    "audio/aac": "aac",
    "audio/aiff": "aiff",
    "audio/flac": "flac",
    "audio/m4a": "m4a",
    "audio/mp3": "mp3",
    "audio/mp4": "m4a",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-aiff": "aiff",
    "audio/x-wav": "wav",
}


def base64_of(source: Base64Source | BytesSource) -> str:
    """Returns an image's bytes as base64."""
    return source.data if isinstance(source, Base64Source) else encode_base64(source.data)


def data_url(mime_type: str, data: str) -> str:
    """Returns base64 text as a URL that holds it."""
    return f"data:{mime_type};base64,{data}"


def image_url(block: ImageBlock) -> str:
    """Returns where an image is: its own URL, or one that holds it."""
    source = block.source
    return source.url if isinstance(source, UrlSource) else data_url(block.mime_type, base64_of(source))


def decode_document(data: str, provider: str) -> str:
    """Returns the text of a text document in base64.

    Raises:
        UPPError: INVALID_REQUEST if it is no base64 of UTF-8.
    """
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise refuse(f"a text document must be base64 of UTF-8: {error}", provider) from error


def titled(title: str | None, text: str) -> str:
    """Returns a document's text below its title, for vendors that have no field for it."""
    return f"{title}\n\n{text}" if title else text


def input_audio(block: AudioBlock, provider: str) -> JSONObject:
    """Returns sound as both of OpenAI's APIs write it.

    Raises:
        UPPError: INVALID_REQUEST if they have no name for its format.
    """
    kind = _AUDIO_FORMATS.get(block.mime_type.partition(";")[0].strip().lower())
    if kind is None:
        raise refuse(f"{provider} takes no {block.mime_type}; it takes {', '.join(_AUDIO_FORMATS)}", provider)
    return {"type": "input_audio", "input_audio": {"data": encode_base64(block.data), "format": kind}}
