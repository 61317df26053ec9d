"""Sealing parts of JSON, and which columns are sealed."""

from __future__ import annotations

import os
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import DamagedSession, KeyMissing
from perdure.store.json_text import escaped_json
from perdure.store.keyring import NO_KEYS, Keyring
from perdure.store.opened import Opened
from perdure.store.sealed_columns import CLEAR_COLUMNS, SEALED_COLUMNS
from perdure.store.sealing import Seal
from perdure.store.tables import events, inputs, metadata
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey

RING = Keyring([("a", os.urandom(32))])
KEY = SessionKey("tenant", "session")
SEAL = Seal(RING, KEY)

_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | _text, lambda inner: st.lists(inner) | st.dictionaries(_text, inner)
)


def read(text: str, ring: Keyring = RING, of: SessionKey | str | None = KEY) -> Any:
    """A json column's value as a connection gives it out."""
    opened = Opened(ring)
    value = opened.value(text)
    opened.check(of)
    return value


def test_every_column_is_sealed_or_clear_with_a_reason() -> None:
    """A new column of any table has to be put into one of the two."""
    known = {
        (table, column)
        for columns in (SEALED_COLUMNS, CLEAR_COLUMNS)
        for table, names in columns.items()
        for column in names
    }
    there = {(table.name, column.name) for table in metadata.tables.values() for column in table.columns}
    assert known == there
    for table, columns in SEALED_COLUMNS.items():
        assert not columns.keys() & CLEAR_COLUMNS[table].keys()
    assert all(reason for columns in CLEAR_COLUMNS.values() for reason in columns.values())


@given(_values)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    """Also with NUL, lone surrogates, and what looks like the mark of what is sealed."""
    assert read(escaped_json(SEAL.value(value))) == value
    assert read(escaped_json([value, {"x": SEAL.value(value)}])) == [value, {"x": value}]


@pytest.mark.parametrize(
    "given", [{"\ufdd0sealed": "AAAA"}, {"a": ["\ufdd0sealed"]}, {"\\ufdd0sealed": '"\ufdd0sealed":'}]
)
def test_a_users_own_words_are_never_taken_for_sealed(given: Any) -> None:
    """Neither where keys are set nor where there are none."""
    assert read(escaped_json(given)) == given
    assert read(escaped_json(given), NO_KEYS) == given
    assert read(escaped_json(SEAL.value(given))) == given


def test_of_an_event_only_numbers_and_ids_of_ours_stay_clear() -> None:
    """A text under the name of an id is content like any other."""
    message = new_id()
    event = {"s": "upp", "t": "text_delta", "d": {"message": message, "index": 3, "delta": {"text": "MARKER"}}}
    sealed = SEAL.event(cast(Any, event))
    text = escaped_json(sealed)
    assert "MARKER" not in text
    assert message in text
    assert read(text) == event
    strange = SEAL.event({"s": "run", "t": "x", "d": {"message": "MARKER", "run": message}})
    assert "MARKER" not in escaped_json(strange)
    assert read(escaped_json(strange))["d"] == {"message": "MARKER", "run": message}


def test_a_row_is_sealed_column_by_column() -> None:
    """What the registry does not name stays, None stays None."""
    detail = {"node": "n", "progress": {"position": 3, "metadata": {"x": "MARKER"}}, "name": "MARKER"}
    row = SEAL.row(inputs, {"ordinal": 1, "options": None, "message": b"MARKER", "detail": detail})
    assert row["ordinal"] == 1
    assert row["options"] is None
    assert b"MARKER" not in row["message"]
    text = escaped_json(row["detail"])
    assert '"position":3' in text
    assert "MARKER" not in text
    assert read(text) == detail


def test_without_keys_nothing_is_changed() -> None:
    """Byte for byte as before."""
    seal = Seal(NO_KEYS, KEY)
    data = {"message": "m", "delta": {"text": "x"}}
    assert seal.row(events, {"data": data, "seq": 1}) == {"data": data, "seq": 1}
    assert seal.body(b"body") == b"body"
    assert seal.event_text([{"d": {"a": 1}}]) == '[{"d":{"a":1}}]'
    assert seal.record_text([{"k": "checkpoint", "r": {"id": "x"}}]) == '[{"k":"checkpoint","r":{"id":"x"}}]'


def test_without_the_key_a_read_ends_with_an_error_that_says_so() -> None:
    """And so it does where the value was moved to another session, or another tenant."""
    text = escaped_json(SEAL.value("MARKER"))
    with pytest.raises(KeyMissing, match="PERDURE_ENCRYPTION_KEYS"):
        read(text, NO_KEYS)
    for other in (SessionKey("tenant", "another"), SessionKey("another", "session"), "another"):
        with pytest.raises(DamagedSession, match="sealed for another"):
            read(text, of=other)
    assert read(text, of="tenant") == "MARKER"
