"""The cursor of `perdure sessions list`."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest

from perdure.cli.sessions import cursor_of, read_cursor
from perdure.errors import InvalidInput


def test_a_cursor_is_read_back_to_the_microsecond() -> None:
    at, session = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC), str(uuid.uuid4())
    assert read_cursor(cursor_of(at, session)) == (at, session)


@pytest.mark.parametrize(
    "text", ["", "x", "2026-01-02T00:00:00Z", "2026-01-02T00:00:00/x", "x/y", "2026-01-02T00:00:00Z/é"]
)
def test_anything_else_is_refused(text: str) -> None:
    """Also a time without a zone, which would mean another time on another machine."""
    with pytest.raises(InvalidInput, match="is no cursor"):
        read_cursor(text)
