"""Which of an agent's keys signs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure.runtime.envelopes.own_keys import PUBLISHED_BEFORE, signing_first
from perdure.store.envelope_keys import EnvelopeKeyRow

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def row(name: str, age: timedelta, *, retired: bool = False) -> EnvelopeKeyRow:
    return EnvelopeKeyRow("did:web:a.example", name, b"", NOW - age, NOW if retired else None)


def ids(*rows: EnvelopeKeyRow) -> list[str]:
    return [row.id for row in signing_first(rows, NOW)]


def test_a_new_key_is_published_before_it_signs() -> None:
    """Who has read the DID document lately may not know it yet. A first key has nobody before it."""
    old, new = row("old", timedelta(days=9)), row("new", timedelta(seconds=5))
    assert ids(new, old) == ["old", "new"]
    assert ids(row("new", PUBLISHED_BEFORE), old) == ["new", "old"]
    assert ids(new) == ["new"]
    assert ids(row("newer", timedelta(seconds=1)), new) == ["new", "newer"]


def test_a_retired_key_signs_no_more_and_stays_published() -> None:
    old, new = row("old", timedelta(days=9), retired=True), row("new", timedelta(seconds=5))
    assert ids(new, old) == ["new", "old"]
    assert ids(row("newest", timedelta(days=1), retired=True), row("middle", timedelta(days=2)), old) == [
        "middle", "newest", "old",
    ]  # fmt: skip


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(EnvelopeKeyRow("did:web:a.example", "k", b"secret", NOW))
