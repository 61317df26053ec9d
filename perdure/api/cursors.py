"""Where a page ended, as text that callers give back and do not read."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import cast

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONValue, dumps, loads

_LONGEST = 4000


def to_cursor(*parts: str | int) -> str:
    """The cursor of a place that is told by these parts."""
    return base64.urlsafe_b64encode(dumps([*parts])).decode().rstrip("=")


def read_cursor(text: str, *kinds: type) -> list[str | int]:
    """The parts of a place.

    Args:
        text: what `to_cursor` made.
        kinds: of the parts, each `str` or `int`.

    Raises:
        InvalidInput: it did not make this.
    """
    parts = _decoded(text)
    if not isinstance(parts, list) or len(parts) != len(kinds):
        raise _refused(text)
    for part, kind in zip(parts, kinds, strict=True):
        fits = isinstance(part, kind) and not isinstance(part, bool)
        if (
            not fits
            or (isinstance(part, str) and not part.isprintable())
            or (isinstance(part, int) and abs(part) >> 62)
        ):
            raise _refused(text)
    return cast("list[str | int]", parts)


def read_time_cursor(text: str) -> tuple[datetime, str]:
    """The place in a list that is ordered by time of creation and id. Raises InvalidInput."""
    at, name = read_cursor(text, str, str)
    try:
        moment = datetime.fromisoformat(str(at))
    except ValueError:
        raise _refused(text) from None
    if moment.tzinfo is None or not 1900 < moment.year < 9000:
        raise _refused(text)
    return moment, str(name)


def _decoded(text: str) -> JSONValue:
    if len(text) > _LONGEST or not text.isascii():
        raise _refused(text)
    try:
        return loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise _refused(text) from None


def _refused(text: str) -> InvalidInput:
    return InvalidInput(f"cursor {text[:40]!r} is none of ours; take `next` of the page before, or leave it out")
