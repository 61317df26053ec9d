"""Hypothesis strategies of JSON that is hard to store: NUL, lone surrogates, the store's own mark, backslashes."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import strategies as st

from perdure.upp.json_value import JSONValue
from tests.unit.upp.strategies import json_values

MARK = "\ufdd0"
nasty_texts = st.lists(st.sampled_from([*'\x00\\"u0ad8f/', MARK, "\ud800", "\udfff", "\ufdd1", "é", "\U0001f378"])).map(
    "".join
)
nasty_values: st.SearchStrategy[JSONValue] = st.recursive(
    nasty_texts | json_values(2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(nasty_texts, inner, max_size=3),
    max_leaves=6,
)


def joined(value: Any) -> Any:
    """A JSON value whose surrogates are lone: JSON cannot tell a pair of them from the character they stand for."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if isinstance(value, list):
        return [joined(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {joined(name): joined(item) for name, item in cast("dict[str, Any]", value).items()}
    return value
