"""ThreadProtocol's times: RFC 3339 with a zone, written in UTC with exactly three decimals."""

from __future__ import annotations

import re

from perdure.upp.errors import UPPError
from perdure.upp.timestamp import format_timestamp, parse_timestamp

_RFC_3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")


def normal_moment(text: str) -> str:
    """The same time in UTC, cut (not rounded) to milliseconds, as in `2025-01-15T10:00:00.000Z`.

    So written, times compare as their texts do.

    Raises:
        ValueError: the text is no such time.
    """
    if _RFC_3339.fullmatch(text) is None:
        raise ValueError(f"{text!r:.80} is not an ISO 8601 time with a zone, such as 2025-01-15T10:00:00Z")
    try:
        return format_timestamp(parse_timestamp(text))
    except UPPError as error:
        raise ValueError(error.message) from error
