"""What a user says, as the Responses API takes it: text, images and files, and what single services take besides."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.upp.content import AudioBlock, ContentBlock, DocumentBlock, ImageBlock, TextBlock, VideoBlock
from perdure.upp.json_value import JSONObject, JSONValue, encode_base64
from perdure.upp.media_source import Base64Source, TextSource, UrlSource
from perdure.upp.providers._answer import refuse
from perdure.upp.providers._media import data_url, decode_document, image_url, input_audio, titled
from perdure.upp.providers.openai_responses.dialect import Dialect

_PDF = "application/pdf"


def user_content(blocks: Sequence[ContentBlock], dialect: Dialect) -> JSONValue:
    """Returns the content of a user's message: a string for one text, else a list of parts; blank text is left out.

    Raises:
        UPPError: INVALID_REQUEST if the service does not take a block.
    """
    said = [block for block in blocks if not (isinstance(block, TextBlock) and not block.text.strip())]
    match said:
        case []:
            return "\n\n".join(block.text for block in blocks if isinstance(block, TextBlock))
        case [TextBlock(text)]:
            return text
        case _:
            return [_part(block, dialect) for block in said]


def _part(block: ContentBlock, dialect: Dialect) -> JSONObject:
    can = dialect.capabilities
    match block:
        case TextBlock():
            return _text(block.text)
        case ImageBlock() if can.image_input:
            return {"type": "input_image", "image_url": image_url(block), "detail": "auto"}
        case DocumentBlock() if can.document_input:
            return _document(block, dialect)
        case AudioBlock() if can.audio_input:
            return input_audio(block, dialect.provider)
        case VideoBlock() if can.video_input:
            return {"type": "input_video", "video_url": data_url(block.mime_type, encode_base64(block.data))}
        case _:
            raise refuse(
                f"a message holds {block.type} content, which {dialect.provider} does not take here; "
                "leave it out, or use a model of a provider that takes it",
                dialect.provider,
            )


def _text(text: str) -> JSONObject:
    return {"type": "input_text", "text": text}


def _document(block: DocumentBlock, dialect: Dialect) -> JSONObject:
    source, is_pdf = block.source, block.mime_type == _PDF
    match source:
        case TextSource(text) if not is_pdf:
            return _text(titled(block.title, text))
        case Base64Source(data) if is_pdf:
            return {"type": "input_file", "filename": _filename(block.title), "file_data": data_url(_PDF, data)}
        case Base64Source(data) if block.mime_type.startswith("text/"):
            return _text(titled(block.title, decode_document(data, dialect.provider)))
        case UrlSource(url) if is_pdf:
            return {"type": "input_file", "file_url": url}
        case _:
            raise refuse(
                f"{dialect.provider} takes no document of type {block.mime_type!r} as {source.type}; "
                "give a PDF as base64 or URL, anything else as text",
                dialect.provider,
            )


def _filename(title: str | None) -> str:
    """Returns a name that ends in .pdf: the vendor goes by the ending, and refuses a file without one."""
    if not title:
        return "document.pdf"
    return title if title.lower().endswith(".pdf") else f"{title}.pdf"
