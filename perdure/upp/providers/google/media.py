"""Media on their way to Gemini: each block as one part of a content."""

from __future__ import annotations

import re

from perdure.upp.content import AudioBlock, BinaryBlock, DocumentBlock, ImageBlock, VideoBlock
from perdure.upp.json_value import JSONObject, encode_base64
from perdure.upp.media_source import Base64Source, TextSource, UrlSource
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._media import base64_of
from perdure.upp.providers.google.endpoint import PROVIDER

_FILE_OF_GOOGLE = re.compile(r"gs://.+|https://generativelanguage\.googleapis\.com/v[^/]+/files/[^/?#]+")


def image_part(block: ImageBlock) -> JSONObject:
    """Returns the part of an image. Raises UPPError INVALID_REQUEST for a URL that Gemini does not read."""
    if isinstance(block.source, UrlSource):
        return _file(block.source.url, block.mime_type, "an image")
    return _inline(base64_of(block.source), block.mime_type)


def document_parts(block: DocumentBlock) -> list[JSONObject]:
    """Returns the parts of a document: its text, or its bytes; a title goes before it as text, it has no field.

    Raises:
        UPPError: INVALID_REQUEST for a URL that Gemini does not read.
    """
    title: list[JSONObject] = [{"text": block.title}] if block.title else []
    match block.source:
        case TextSource(data):
            return [*title, {"text": data}]
        case Base64Source(data):
            return [*title, _inline(data, block.mime_type)]
        case UrlSource(url):
            return [*title, _file(url, block.mime_type, "a document")]


def bytes_part(block: AudioBlock | VideoBlock | BinaryBlock) -> JSONObject:
    """Returns the part of sound, video or other bytes; Gemini itself says which media types it reads."""
    return _inline(encode_base64(block.data), block.mime_type)


def _inline(data: str, mime_type: str) -> JSONObject:
    return {"inlineData": {"mimeType": mime_type, "data": data}}


def _file(url: str, mime_type: str, what: str) -> JSONObject:
    if _FILE_OF_GOOGLE.fullmatch(url) is None:
        raise refuse(
            f"Gemini fetches no URLs, and {what} has one: send the bytes, or upload it with the Files API and give the"
            " file's URI (https://generativelanguage.googleapis.com/v1beta/files/... or gs://...)",
            PROVIDER,
        )
    return {"fileData": {"mimeType": mime_type, "fileUri": url}}
