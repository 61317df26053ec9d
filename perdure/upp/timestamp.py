"""UPP's timestamps: UTC at millisecond precision, written as ISO-8601 with `Z`."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure.upp.json_field import invalid


def now() -> datetime:
    """Returns the present time, cut to milliseconds. Not for workflow code: it reads the clock."""
    return to_milliseconds(datetime.now(UTC))


def to_milliseconds(moment: datetime) -> datetime:
    """Returns an aware time in UTC, cut (not rounded) to milliseconds, so that its JSON form is exact.

    Raises:
        UPPError: INVALID_REQUEST if the time is naive, because it then names no moment.
    """
    if moment.tzinfo is not UTC:
        if moment.utcoffset() is None:
            raise invalid("timestamp", f"{moment} has no time zone; use datetime.now(UTC)")
        moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def format_timestamp(moment: datetime) -> str:
    """Returns the JSON form, as in `2026-01-06T17:27:00.000Z`."""
    return to_milliseconds(moment).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def parse_timestamp(text: str) -> datetime:
    """Returns the time of an ISO-8601 text with a time zone, in UTC, cut to milliseconds.

    Raises:
        UPPError: INVALID_REQUEST if the text is no such time.
    """
    try:
        return to_milliseconds(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as error:
        raise invalid("timestamp", f"{text!r} is not an ISO-8601 time: {error}") from error
