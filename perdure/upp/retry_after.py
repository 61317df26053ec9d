"""How long a server asks to wait: the Retry-After header, in seconds or as a date, and its variant in milliseconds.

Source: RFC 9110, section 10.2.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


def read_retry_after(headers: Mapping[str, str], longest: timedelta, now: datetime) -> timedelta | None:
    """Returns the wait that the headers ask for; None if they ask for none, or not in a readable way.

    Args:
        headers: by their names in lower case, or in any case if the mapping does not mind.
        longest: a longer wait, or one until a later date, becomes this.
        now: what a date is counted from; a date before it is no wait.
    """
    wait = read_seconds(headers.get("retry-after-ms", ""), longest, scale=0.001)
    return wait if wait is not None else read_wait(headers.get("retry-after", ""), longest, now)


def read_wait(text: str, longest: timedelta, now: datetime) -> timedelta | None:
    """Returns the wait that a Retry-After value asks for, from zero to the longest; None if it is neither form."""
    seconds = read_seconds(text, longest)
    if seconds is not None:
        return seconds
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return _clamp(((until if until.tzinfo else until.replace(tzinfo=UTC)) - now).total_seconds(), longest)


def read_seconds(text: str, longest: timedelta, *, scale: float = 1.0) -> timedelta | None:
    """Returns the wait of a number's text, from zero to the longest; None if it is no number.

    Args:
        text: an integer or a decimal.
        longest: what a longer wait becomes.
        scale: the number's unit in seconds.
    """
    stripped = text.strip()
    return _clamp(float(stripped) * scale, longest) if _NUMBER.fullmatch(stripped) else None


def _clamp(seconds: float, longest: timedelta) -> timedelta:
    return timedelta(seconds=min(max(seconds, 0.0), longest.total_seconds()))
