"""Which bytes of a body a client wants, and whether it has it already. Source: RFC 9110, sections 13 and 14."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?("[^"]*")')


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes from `first` to `last`, both among them."""

    first: int
    last: int

    def of(self, size: int) -> str:
        """What Content-Range says of it, in a body of so many bytes."""
        return f"bytes {self.first}-{self.last}/{size}"


class Unsatisfiable(Exception):
    """There are none of the bytes that are wanted."""


def wanted_range(header: str | None, size: int) -> ByteRange | None:
    """The range that a request asks for; None for the whole.

    A header that is none, or asks for several ranges, is passed over, as a server may.

    Args:
        header: Range.
        size: of the body, in bytes.

    Raises:
        Unsatisfiable: the range begins behind the end.
    """
    found = _RANGE.fullmatch(header) if header is not None else None
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        length = min(int(found[2]), size)
        if length == 0:
            raise Unsatisfiable
        return ByteRange(size - length, size - 1)
    first, last = int(found[1]), int(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    if first >= size:
        raise Unsatisfiable
    return ByteRange(first, min(last, size - 1))


def names_tag(header: str | None, tag: str) -> bool:
    """Whether If-None-Match names an entity tag, or all of them."""
    if header is None:
        return False
    return header.strip() == "*" or tag in _TAG.findall(header)
