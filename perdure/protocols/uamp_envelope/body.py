"""A body's content: text or bytes, encoded and compressed, and back with both sizes bounded.

The specification leaves `encoding` and `compression` free; these values are the reading: utf-8, base64url, base64; none,
gzip, zstd. Source: UAMP envelope 1.0, section 4.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from typing import Literal, cast

from perdure.protocols.uamp_envelope.compression import packed, too_large, unpacked
from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.protocols.uamp_envelope.jws import encode_part
from perdure.upp.json_value import JSONObject

Compression = Literal["none", "gzip", "zstd"]

MAX_CONTENT_BYTES = 8 * 1024 * 1024

_BASE64 = re.compile("[A-Za-z0-9+/]*={0,2}")
_BASE64URL = re.compile("[A-Za-z0-9_-]*={0,2}")


@dataclass(frozen=True, slots=True)
class Content:
    """What a body holds.

    Attributes:
        type: its media type.
        data: the bytes, decoded and decompressed.
    """

    type: str
    data: bytes = field(repr=False)

    @property
    def text(self) -> str:
        """The bytes as text.

        Raises:
            UAMPError: 4.00 if they are not UTF-8.
        """
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise malformed(f"the body is not UTF-8 at byte {error.start}") from error


def encode_body(type: str, content: str | bytes, compression: Compression = "none") -> JSONObject:
    """A body: text as it is, bytes and all that is compressed as base64url.

    Args:
        type: the media type.
        content: JSON is given as its text.
        compression: worth it for kilobytes of text.
    """
    if compression == "none" and isinstance(content, str):
        return {"type": type, "content": content}
    data = content.encode("utf-8") if isinstance(content, str) else content
    if compression == "none":
        return {"type": type, "content": encode_part(data), "encoding": "base64url"}
    content = encode_part(packed(data, compression))
    return {"type": type, "content": content, "encoding": "base64url", "compression": compression}


def decode_body(body: JSONObject, *, max_bytes: int = MAX_CONTENT_BYTES) -> Content:
    """The content of a body that obeys the schema.

    Args:
        body: of an envelope.
        max_bytes: the greatest size, before and after decompression.

    Raises:
        UAMPError: 4.15 for an encoding or compression that is not taken, 4.13 if it is too large, 4.00 if it is damaged.
    """
    content, encoding = cast(str, body["content"]), body.get("encoding", "utf-8")
    compression = body.get("compression", "none")
    if encoding not in ("utf-8", "base64url", "base64"):
        raise _unsupported(f"the encoding {encoding!s:.32}", "utf-8, base64url and base64")
    if compression not in ("none", "gzip", "zstd"):
        raise _unsupported(f"the compression {compression!s:.32}", "none, gzip and zstd")
    if compression != "none" and encoding != "base64url":
        raise _unsupported(f"{compression} content in {encoding}", "compressed content in base64url")
    data = content.encode("utf-8") if encoding == "utf-8" else decode_base64(content, is_url=encoding == "base64url")
    if compression != "none":
        data = unpacked(data, compression, max_bytes)
    if len(data) > max_bytes:
        raise too_large(max_bytes)
    return Content(cast(str, body["type"]), data)


def decode_base64(text: str, *, is_url: bool) -> bytes:
    """The bytes of base64 in one alphabet; padding may be left out, other characters may not be there.

    Raises:
        UAMPError: 4.00.
    """
    if (_BASE64URL if is_url else _BASE64).fullmatch(text) is None:
        raise malformed("the content is not base64url" if is_url else "the content is not base64")
    bare = text.rstrip("=")
    if len(text) != len(bare) and len(text) % 4 != 0:
        raise malformed("the content's base64 padding is wrong")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_" if is_url else None)
    except binascii.Error as error:
        raise malformed("the content's base64 is cut off") from error


def _unsupported(what: str, taken: str) -> UAMPError:
    return UAMPError(Code.UNSUPPORTED, f"{what} is not taken; this agent takes {taken}")
