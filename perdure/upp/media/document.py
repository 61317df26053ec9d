"""A document for a message."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from perdure.errors import InvalidInput
from perdure.upp.content import DocumentBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import encode_base64, well_formed
from perdure.upp.media.media_file import check_url, decode_base64, kind_of_file, no_data, no_url, read_media_file
from perdure.upp.media_source import Base64Source, DocumentSource, TextSource, UrlSource

PDF = "application/pdf"
PLAIN_TEXT = "text/plain"


@dataclass(frozen=True, slots=True)
class Document:
    """A document: a PDF or plain text; stands in a message's content like the block that `to_block` makes.

    Attributes:
        source: the bytes, the text, or the URL that the provider shall fetch.
        mime_type: "application/pdf" or "text/plain".
        title: what the model may call it.
    """

    source: DocumentSource
    mime_type: str
    title: str | None = None

    @classmethod
    async def from_path(cls, path: str | PurePath, mime_type: str | None = None, title: str | None = None) -> Document:
        """Returns a file's document; it is a PDF or, if its type is `text/*` or JSON, plain text.

        Args:
            path: the file.
            mime_type: taken in place of the extension's type.
            title: the file's name unless given.

        Raises:
            InvalidInput: the file cannot be read, is of another type, or is no UTF-8 text.
        """
        kind = kind_of_file(path, "", mime_type)
        named = PurePath(path).name if title is None else title
        if kind == PDF:
            return cls.from_bytes(await read_media_file(path), PDF, named)
        if not kind.startswith("text/") and kind != "application/json":
            raise InvalidInput(f"the file {str(path)!r} is of type {kind}; documents are PDF or text")
        try:
            return cls.from_text((await read_media_file(path)).decode("utf-8"), named)
        except UnicodeDecodeError as error:
            raise InvalidInput(f"the file {str(path)!r} is no UTF-8 text: {error}") from error

    @classmethod
    def from_url(cls, url: str, title: str | None = None) -> Document:
        """Returns a PDF that the provider fetches. Raises InvalidInput if it is no http or https URL."""
        return cls(UrlSource(check_url(url)), PDF, title)

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str = PDF, title: str | None = None) -> Document:
        """Returns the document of raw bytes."""
        return cls(Base64Source(encode_base64(bytes(data))), mime_type, title)

    @classmethod
    def from_base64(cls, data: str, mime_type: str = PDF, title: str | None = None) -> Document:
        """Returns the document of base64 text. Raises UPPError INVALID_REQUEST if it is none."""
        decode_base64(data, "document")
        return cls(Base64Source(data), mime_type, title)

    @classmethod
    def from_text(cls, text: str, title: str | None = None) -> Document:
        """Returns a document of plain text."""
        return cls(TextSource(text), PLAIN_TEXT, title)

    @classmethod
    def from_block(cls, block: DocumentBlock) -> Document:
        """Returns the document of a block."""
        return cls(block.source, block.mime_type, block.title)

    @property
    def has_data(self) -> bool:
        """Whether the content is here; False for a URL."""
        return not isinstance(self.source, UrlSource)

    @property
    def is_pdf(self) -> bool:
        """Whether it is a PDF."""
        return self.mime_type == PDF

    @property
    def is_text(self) -> bool:
        """Whether it is plain text."""
        return self.mime_type == PLAIN_TEXT

    def to_block(self) -> DocumentBlock:
        """Returns the content block."""
        return DocumentBlock(self.source, self.mime_type, self.title)

    def to_bytes(self) -> bytes:
        """Returns the bytes, of text in UTF-8. Raises UPPError INVALID_REQUEST for a URL."""
        match self.source:
            case TextSource(data=text):
                return str(well_formed(text)).encode()
            case Base64Source(data=text):
                return decode_base64(text, "document")
            case UrlSource():
                raise no_data("the document")

    def to_base64(self) -> str:
        """Returns the bytes as base64. Raises UPPError INVALID_REQUEST for a URL."""
        return self.source.data if isinstance(self.source, Base64Source) else encode_base64(self.to_bytes())

    def to_data_url(self) -> str:
        """Returns a URL that holds the bytes. Raises UPPError INVALID_REQUEST for a URL of another place."""
        return f"data:{self.mime_type};base64,{self.to_base64()}"

    def to_text(self) -> str:
        """Returns the text. Raises UPPError INVALID_REQUEST for a URL, a PDF, and what is no UTF-8."""
        if isinstance(self.source, TextSource):
            return self.source.data
        data = self.to_bytes()
        try:
            if self.is_text:
                return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UPPError(f"the document is no UTF-8: {error}", ErrorCode.INVALID_REQUEST, cause=error) from error
        raise UPPError(f"a document of type {self.mime_type} has no plain text", ErrorCode.INVALID_REQUEST)

    def to_url(self) -> str:
        """Returns the URL. Raises UPPError INVALID_REQUEST if the content is here instead."""
        if isinstance(self.source, UrlSource):
            return self.source.url
        raise no_url("the document")
