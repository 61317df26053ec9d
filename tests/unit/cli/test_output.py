"""How answers look."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.output import in_short, put_fields, put_json, put_json_line, put_table, put_text, visible
from perdure.runtime.shown import iso


def test_a_table_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Long cells stay whole, brackets are no markup, nothing is nothing."""
    put_table(("name", "value"), [["a" * 300, None], ["[red]b[/red]", 1]])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["name", "value"], ["a" * 300], ["[red]b[/red]", "1"]]


def test_fields_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    put_fields([("run", "r"), ("error", None), ("steps", 0)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["run", "r"], ["steps", "0"]]


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_is_ascii_json(text: str) -> None:
    """Lone surrogates and control characters survive, whatever the locale."""
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        patch.setattr("perdure.cli.output.put", written.append)
        put_json({"text": text})
        put_json_line(text)
    assert "".join(written).isascii()
    assert json.loads(written[0]) == {"text": text}
    assert json.loads(written[1]) == text
    assert "\n" not in written[1][:-1]


def test_what_a_terminal_would_obey_is_not_shown() -> None:
    assert visible("a\x1b[31mb\x9b\x00\r\n\tc") == "a�[31mb���\n\tc"


def test_a_pipe_gets_what_the_model_said(capsys: pytest.CaptureFixture[str]) -> None:
    put_text("a\x1b[31mb")
    assert capsys.readouterr().out == "a\x1b[31mb"


def test_a_value_in_short() -> None:
    assert in_short({"a": "é"}) == '{"a": "é"}'
    assert in_short("one\ntwo") == "one"
    assert in_short("x" * 200, 10) == "x" * 9 + "…"


def test_times_are_iso_in_utc() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=timezone(timedelta(hours=1)))
    assert iso(at) == "2026-01-02T02:04:05.678Z"
    assert iso(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000Z"
    assert iso(None) is None
