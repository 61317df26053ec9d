"""Content blocks as the parts of a Chat Completions message."""

from __future__ import annotations

from perdure.upp.content import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    VideoBlock,
)
from perdure.upp.json_value import JSONObject, encode_base64
from perdure.upp.media_source import Base64Source, TextSource
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._media import data_url, decode_document, image_url, input_audio, titled
from perdure.upp.providers.openai_completions.dialect import Dialect


def text_part(text: str) -> JSONObject:
    """Returns text as a part."""
    return {"type": "text", "text": text}


def to_part(block: ContentBlock, dialect: Dialect) -> JSONObject:
    """Returns a user's block as a part.

    Raises:
        UPPError: INVALID_REQUEST if the vendor cannot take it.
    """
    match block:
        case TextBlock():
            return text_part(block.text)
        case ImageBlock():
            return {"type": "image_url", "image_url": {"url": image_url(block)}}
        case DocumentBlock():
            return _document(block, dialect)
        case AudioBlock():
            return _audio(block, dialect)
        case VideoBlock() if dialect.capabilities.video_input:
            return {"type": "video_url", "video_url": {"url": data_url(block.mime_type, encode_base64(block.data))}}
        case _:
            raise refuse(f"{dialect.provider} takes no {block.type} blocks; leave the block out", dialect.provider)


def _document(block: DocumentBlock, dialect: Dialect) -> JSONObject:
    source, name = block.source, block.title or "document.pdf"
    if isinstance(source, TextSource):
        return text_part(titled(block.title, source.data))
    if isinstance(source, Base64Source) and block.mime_type.startswith("text/"):
        return text_part(titled(block.title, decode_document(source.data, dialect.provider)))
    if block.mime_type != "application/pdf":
        raise refuse(f"{dialect.provider} takes PDF and text documents, not {block.mime_type}", dialect.provider)
    if isinstance(source, Base64Source):
        return {"type": "file", "file": {"filename": name, "file_data": data_url(block.mime_type, source.data)}}
    if dialect.url_documents:
        return {"type": "file", "file": {"filename": name, "file_data": source.url}}
    raise refuse(
        f"{dialect.provider}'s Chat Completions API fetches no documents from URLs; give the document's bytes",
        dialect.provider,
    )


def _audio(block: AudioBlock, dialect: Dialect) -> JSONObject:
    if not dialect.capabilities.audio_input:
        raise refuse(f"{dialect.provider} takes no audio here; give a transcript as text", dialect.provider)
    return input_audio(block, dialect.provider)
