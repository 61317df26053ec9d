"""Timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given

from perdure.upp.errors import UPPError
from perdure.upp.timestamp import format_timestamp, now, parse_timestamp, to_milliseconds
from tests.unit.upp import strategies as upp


@given(upp.moments())
def test_a_cut_time_survives_its_text(moment: datetime) -> None:
    """The JSON form of a time at millisecond precision is exact."""
    cut = to_milliseconds(moment)
    assert parse_timestamp(format_timestamp(cut)) == cut


@given(upp.moments())
def test_a_time_is_cut_and_not_rounded(moment: datetime) -> None:
    """No time moves into the future."""
    assert timedelta(0) <= moment - to_milliseconds(moment) < timedelta(milliseconds=1)


def test_the_text_is_utc_with_z_and_milliseconds() -> None:
    """A time of another zone is written in UTC."""
    moment = datetime(2026, 1, 6, 11, 27, 0, 5999, tzinfo=timezone(timedelta(hours=-6)))
    assert format_timestamp(moment) == "2026-01-06T17:27:00.005Z"


@pytest.mark.parametrize("text", ["2026-01-06T17:27:00Z", "2026-01-06T18:27:00.000999+01:00"])
def test_other_spellings_of_a_time_are_read(text: str) -> None:
    """Offsets and other precisions are ISO-8601 too."""
    assert parse_timestamp(text) == datetime(2026, 1, 6, 17, 27, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-06T17:27:00", "0001-01-01T00:00:00+14:00"])
def test_a_text_that_names_no_moment_is_refused(text: str) -> None:
    """A time without a zone is refused like nonsense."""
    with pytest.raises(UPPError, match="timestamp"):
        parse_timestamp(text)


def test_the_present_is_at_millisecond_precision() -> None:
    """What is drawn survives its text."""
    assert now().microsecond % 1000 == 0
