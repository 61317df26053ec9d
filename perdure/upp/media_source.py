"""Where an image's or a document's bytes come from. Source: UPP-1.2, ImageSource and DocumentSource."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from perdure.upp.json_field import invalid, read_bytes, read_object, read_str
from perdure.upp.json_value import JSONObject, JSONValue, encode_base64


class SourceType(StrEnum):
    """The `type` of an image's or a document's source."""

    BASE64 = "base64"
    URL = "url"
    BYTES = "bytes"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Base64Source:
    """Media as base64 text."""

    type: ClassVar[Literal[SourceType.BASE64]] = SourceType.BASE64
    data: str = field(repr=False)

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {"type": "base64", "data": self.data}


@dataclass(frozen=True, slots=True)
class UrlSource:
    """Media that the provider fetches from a URL."""

    type: ClassVar[Literal[SourceType.URL]] = SourceType.URL
    url: str

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {"type": "url", "url": self.url}


@dataclass(frozen=True, slots=True)
class BytesSource:
    """An image as raw bytes; its JSON form keeps the type and carries base64."""

    type: ClassVar[Literal[SourceType.BYTES]] = SourceType.BYTES
    data: bytes = field(repr=False)

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {"type": "bytes", "data": encode_base64(self.data)}


@dataclass(frozen=True, slots=True)
class TextSource:
    """A document as plain text."""

    type: ClassVar[Literal[SourceType.TEXT]] = SourceType.TEXT
    data: str = field(repr=False)

    def to_json(self) -> JSONObject:
        """Returns UPP's JSON form."""
        return {"type": "text", "data": self.data}


ImageSource: TypeAlias = Base64Source | UrlSource | BytesSource
DocumentSource: TypeAlias = Base64Source | UrlSource | TextSource


def image_source_from_json(value: JSONValue) -> ImageSource:
    """Returns an image's source.

    Raises:
        UPPError: INVALID_REQUEST if the value is none.
    """
    source = read_object(value, "image source")
    match source.get("type"):
        case SourceType.BASE64:
            return Base64Source(read_str(source, "data", "image source"))
        case SourceType.URL:
            return UrlSource(read_str(source, "url", "image source"))
        case SourceType.BYTES:
            return BytesSource(read_bytes(source, "data", "image source"))
        case kind:
            raise invalid("image source", f"unknown type {kind!r}; known are base64, url and bytes")


def document_source_from_json(value: JSONValue) -> DocumentSource:
    """Returns a document's source.

    Raises:
        UPPError: INVALID_REQUEST if the value is none.
    """
    source = read_object(value, "document source")
    match source.get("type"):
        case SourceType.BASE64:
            return Base64Source(read_str(source, "data", "document source"))
        case SourceType.URL:
            return UrlSource(read_str(source, "url", "document source"))
        case SourceType.TEXT:
            return TextSource(read_str(source, "data", "document source"))
        case kind:
            raise invalid("document source", f"unknown type {kind!r}; known are base64, url and text")
