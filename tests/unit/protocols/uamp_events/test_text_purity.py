"""No URL of stored content in text, however the text is cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.protocols.uamp_events.text_purity import TextPurity, pure

ID = "550e8400-e29b-41d4-a716-446655440000"
URL = f"/api/content/{ID}"
CASES = [
    (f"See {URL}.", f"See content:{ID}."),
    (f"{URL}?expires=1&signature=a-b_c", f"content:{ID}"),
    (f"https://perdure.example:8700{URL}?x=1, and more", f"content:{ID}, and more"),
    (f"Here: ![a red square]({URL}?signature=x) done", "Here: a red square done"),
    (f"[the file](https://h{URL} \"title\") and [no link]", "the file and [no link]"),
    (f"![]({URL})", f"content:{ID}"),
    (f"[{URL}]({URL})", f"content:{ID}"),
    (f'{{"image":"{URL}","n":1}}', f'{{"image":"content:{ID}","n":1}}'),
    (f"{URL.upper().replace('/API/CONTENT', '/api/content')}", f"content:{ID}"),
    (f"`{URL}` <{URL}>", f"`content:{ID}` <content:{ID}>"),
    (f"{URL}0 is none", f"{URL}0 is none"),
    ("/api/content/ and /api/contents and http://x/y and ![x](y)", "/api/content/ and /api/contents and http://x/y and ![x](y)"),
    ("ends with http", "ends with http"),
    (f"twice {URL}{URL}", f"twice content:{ID}content:{ID}"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), CASES, ids=range(len(CASES)))
def test_urls_of_content_are_not_told(text: str, told: str) -> None:
    assert pure(text) == told


pieces = st.lists(
    st.sampled_from([
        URL, f"{URL}?signature=ab", f"https://h{URL}", f"![label]({URL})", "/api/content/", "http", "https://", "![", "[",
        "](", ")", "/", "!", " ", "a", ID, ID[:20], "\n", '"', "word ",
    ]),
    max_size=12,
)  # fmt: skip


@given(pieces, st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_pieces_say_what_the_whole_says(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)
    reader, told, place = TextPurity(), "", 0
    for size in [*sizes, len(text) + 1]:
        told += reader.take(text[place : place + size])
        place += size
    assert told + reader.rest() == pure(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_other_text_is_told_as_it_is(text: str) -> None:
    reader = TextPurity()
    assert "".join([*map(reader.take, text), reader.rest()]) == text


def test_what_cannot_become_a_url_is_told_at_once() -> None:
    """And nothing is held back for long, whatever comes."""
    reader = TextPurity()
    assert reader.take("The weather is fine. ") == "The weather is fine. "
    assert reader.take("See http") == "See "
    assert reader.take(" it") == "http it"
    assert len(reader.take("![" + "x" * 2000)) > 1000
    assert len(reader.take("https://" + "x" * 2000)) > 1000
