"""JSON as PostgreSQL's json columns take it, and back."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import example, given

from perdure.store.json_text import escaped_json, read_json
from perdure.upp.json_value import JSONValue
from tests.unit.store.strategies import MARK, joined, nasty_values


@given(nasty_values.map(joined))
@example("\ud800")
@example("\\ud800")
@example("\\\ud800")
@example("\\\\ud800\x00")
@example(MARK + "d800")
@example("\\" + MARK)
@example("\udfff\ud800")
@example({"\x00": {MARK: "\x00"}})
def test_whatever_is_written_is_read_back(value: JSONValue) -> None:
    """NUL, lone surrogates, the mark itself, backslashes before any of them."""
    assert read_json(escaped_json(value)) == value


@given(nasty_values)
def test_the_text_is_what_postgres_takes(value: JSONValue) -> None:
    """ASCII, valid JSON, no escape of NUL, none of a surrogate without its other half."""
    text = escaped_json(value)
    assert text.isascii()
    plain = json.dumps(json.loads(text), ensure_ascii=False)
    assert plain.encode("utf-8")
    assert "\x00" not in "".join(_strings(json.loads(text)))


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in cast("list[Any]", value) for text in _strings(item)]
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return [text for name, item in items for text in [name, *_strings(item)]]
    return []


def test_plain_text_is_plain_json() -> None:
    """Somebody who looks into the table reads it."""
    assert escaped_json({"a": ["é", 1, None, True]}) == '{"a":["\\u00e9",1,null,true]}'
    assert escaped_json("\x00\ud800") == '"\\ufdd00000\\ufdd0d800"'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_a_number_that_json_has_not_is_refused(value: object) -> None:
    """Never written as what PostgreSQL refuses."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        escaped_json(value)


def test_what_is_no_json_is_refused() -> None:
    """Nothing is turned into something else."""
    with pytest.raises(TypeError):
        escaped_json({"a": object()})
