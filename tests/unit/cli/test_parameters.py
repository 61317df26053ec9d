"""What arguments must be."""

from __future__ import annotations

import uuid

import pytest

from perdure.cli.parameters import checked_run_id, checked_text
from perdure.errors import InvalidInput


def test_a_run_id_is_taken_as_people_write_it() -> None:
    run = str(uuid.uuid4())
    assert checked_run_id(f" {run.upper()} ") == run


@pytest.mark.parametrize("text", ["", "x" * 300, "🦀", "a\x00b", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"])
def test_what_no_run_can_have_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a UUIDv4") as refused:
        checked_run_id(text)
    assert len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("text", "why"), [("", "is empty"), (" \n", "is empty"), ("\udcff", "not UTF-8")])
def test_text_must_be_text(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        checked_text(text, "--key")
