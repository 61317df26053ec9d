"""The count of a body's JSON equals the parsed value's, however it is cut into chunks."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.api.json_bounds import JSONBounds, RefusedJSON

LEAVES = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30)


def depth(value: Any) -> int:
    inner: list[Any] | None = None
    if isinstance(value, dict):
        inner = [*cast("dict[str, Any]", value).values()]
    elif isinstance(value, list):
        inner = cast("list[Any]", value)
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def feed(body: bytes, *, size: int, **bounds: int) -> None:
    counted = JSONBounds(**{"max_depth": 10_000, "max_items": 10_000, **bounds})
    for at in range(0, len(body), size):
        counted.feed(body[at : at + size])


@given(VALUES, st.integers(1, 9), st.booleans())
def test_the_depth_is_that_of_the_value(value: Any, size: int, ascii: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    deepest = depth(value)
    feed(body, size=size, max_depth=deepest)
    if deepest:
        with pytest.raises(RefusedJSON, match="deeper"):
            feed(body, size=size, max_depth=deepest - 1)


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_bomb_is_refused_before_it_is_parsed(size: int) -> None:
    for body in (b"[" * 50_000, b'{"a":' * 50_000):
        with pytest.raises(RefusedJSON, match="deeper than 100"):
            feed(body, size=size, max_depth=100)
    with pytest.raises(RefusedJSON, match="more than 100 values"):
        feed(b"[" + b"0," * 100 + b"0]", size=size, max_items=100)
    with pytest.raises(RefusedJSON, match="more than 100 values"):
        feed(b"[" + b"{}," * 100 + b"0]", size=size, max_items=100)


def test_brackets_in_a_text_do_not_count() -> None:
    feed(json.dumps({"a": '[[["\\' * 1000}).encode(), size=3, max_depth=1, max_items=2)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32-le"])
def test_another_encoding_cannot_hide_the_marks(encoding: str) -> None:
    with pytest.raises(RefusedJSON, match="UTF-8"):
        feed('["\u2222'.encode(encoding) + "[".encode(encoding) * 1000, size=100, max_depth=10)
