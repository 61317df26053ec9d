"""UAMP's times: RFC 3339 in UTC with `Z`. A time received is hashed as it was written, so it is never written anew."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from perdure.protocols.uamp_envelope.error import malformed
from perdure.upp.timestamp import format_timestamp

_FORM = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z")
_MICROSECOND_DIGITS = 6


def read_time(text: str) -> datetime:
    """The moment of a text, cut to microseconds.

    Raises:
        UAMPError: 4.00 if it is not RFC 3339 with `Z`, or is no moment of the calendar.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise malformed(f"the time {text[:40]!r} must be UTC as 2025-07-10T13:37:05Z")
    fraction = (found[2] or "").ljust(_MICROSECOND_DIGITS, "0")[:_MICROSECOND_DIGITS]
    try:
        return datetime.fromisoformat(found[1]).replace(microsecond=int(fraction), tzinfo=UTC)
    except ValueError as error:
        raise malformed(f"the time {text[:40]!r} is not in the calendar: {error}") from error


def write_time(moment: datetime) -> str:
    """The text of a moment with a time zone, at milliseconds."""
    return format_timestamp(moment)
