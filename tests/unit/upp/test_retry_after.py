"""What a server's Retry-After asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.retry_after import read_retry_after

NOW = datetime(2025, 6, 1, 12, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3", 3),
        (" 3 ", 3),
        ("1.5", 1.5),
        ("2.", 2),
        ("0", 0),
        ("+4", 4),
        ("-5", 0),
        ("1400000", 3600),
        ("9" * 5000, 3600),
        ("Sun, 01 Jun 2025 12:00:30 GMT", 30),
        ("Sun, 01 Jun 2025 14:00:30 +0200", 30),
        ("Sun, 01 Jun 2025 12:00:30 -0000", 30),
        ("Sun Jun  1 12:00:30 2025", 30),
        ("Sun, 01 Jun 2025 11:59:00 GMT", 0),
        ("Tue, 17 Jun 2025 12:00:00 GMT", 3600),
    ],
)
def test_it_is_read_as_seconds_or_a_date_within_its_bounds(text: str, seconds: float) -> None:
    assert read_retry_after({"retry-after": text}, HOUR, NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "soon", "1e3", "nan", "inf", "١٢", "²", "1,5", "5s", "--1", "0x10", "Sun, 99 Foo 2025", "1 2"]
)
def test_what_cannot_be_read_is_nothing(text: str) -> None:
    assert read_retry_after({"retry-after": text}, HOUR, NOW) is None


def test_no_header_is_nothing() -> None:
    assert read_retry_after({}, HOUR, NOW) is None


def test_milliseconds_go_first() -> None:
    headers = {"retry-after-ms": "1500", "retry-after": "7"}
    assert read_retry_after(headers, HOUR, NOW) == timedelta(seconds=1.5)


def test_milliseconds_that_cannot_be_read_leave_the_seconds() -> None:
    assert read_retry_after({"retry-after-ms": "x", "retry-after": "7"}, HOUR, NOW) == timedelta(seconds=7)


def test_milliseconds_have_the_same_bounds() -> None:
    assert read_retry_after({"retry-after-ms": "99999999"}, HOUR, NOW) == HOUR


@given(st.text())
def test_no_text_makes_it_fail_or_leave_its_bounds(text: str) -> None:
    wait = read_retry_after({"retry-after": text}, HOUR, NOW)
    assert wait is None or timedelta(0) <= wait <= HOUR


@given(st.integers(0, 2**37))
def test_every_date_is_read(seconds: int) -> None:
    date = datetime.fromtimestamp(seconds, UTC)
    wait = read_retry_after({"retry-after": format_datetime(date, usegmt=True)}, HOUR, NOW)
    assert wait == min(max(date - NOW, timedelta(0)), HOUR)
