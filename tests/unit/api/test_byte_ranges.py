"""Which bytes a Range asks for, and which tags If-None-Match names. Source: RFC 9110, sections 13 and 14."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.api.byte_ranges import ByteRange, Unsatisfiable, names_tag, wanted_range


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, None),
        ("bytes=0-0", (0, 0)),
        ("bytes=2-", (2, 9)),
        ("Bytes= 2-4 ", (2, 4)),
        ("bytes=5-99", (5, 9)),
        ("bytes=-3", (7, 9)),
        ("bytes=-99", (0, 9)),
        ("bytes=4-2", None),
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("lines=0-1", None),
        ("bytes=a-b", None),
        ("bytes=" + "9" * 40 + "-", None),
    ],
)
def test_a_range_of_ten_bytes(header: str | None, wanted: tuple[int, int] | None) -> None:
    found = wanted_range(header, 10)
    assert found == (None if wanted is None else ByteRange(*wanted))


@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0)])
def test_a_range_of_nothing_cannot_be_given(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        wanted_range(header, size)


@given(st.binary(min_size=1, max_size=50), st.integers(0, 60), st.integers(0, 60))
def test_a_range_is_a_slice(body: bytes, first: int, length: int) -> None:
    if first >= len(body):
        return
    found = wanted_range(f"bytes={first}-{first + length}", len(body))
    assert found is not None
    assert body[found.first : found.last + 1] == body[first : first + length + 1]
    assert found.of(len(body)) == f"bytes {found.first}-{found.last}/{len(body)}"


def test_tags_are_compared_as_a_list() -> None:
    assert names_tag('"a", W/"b"', '"b"')
    assert names_tag("*", '"b"')
    assert not names_tag('"ab"', '"b"')
    assert not names_tag(None, '"b"')
