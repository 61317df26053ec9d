"""L97: the secrets that a process knows, and text and JSON without them."""

from __future__ import annotations

import base64
import itertools
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONValue
from perdure.upp.redaction import SHORTEST, Redaction

VALUE = 'sk_"live"/é+ 7f3a'
MARK = "[redacted:stripe]"

values = st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=20).filter(
    lambda text: any(c.isdigit() for c in text) and any(c in "ghijklmnopqrstuvwxyz" for c in text)
)


def knowing(value: str = VALUE, name: str = "stripe") -> Redaction:
    known = Redaction()
    known.register(name, value)
    return known


@pytest.mark.parametrize(
    "written",
    [
        VALUE,
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(VALUE))[3:-3],
        quote(VALUE, safe=""),
        quote(VALUE),
        quote_plus(VALUE),
        quote(VALUE, safe="").lower(),
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode().rstrip("="),
        "sk_&quot;live&quot;/é+ 7f3a",
    ],
)
def test_l97_a_secret_is_taken_out_however_it_is_written(written: str) -> None:
    assert knowing().text(f"<{written}>") == f"<{MARK}>"


@given(values, st.binary(max_size=6), st.binary(max_size=6))
def test_l97_base64_of_something_longer_does_not_have_it(value: str, before: bytes, after: bytes) -> None:
    """Of each third of places all but the few characters that its neighbours decide too are taken out."""
    whole = base64.b64encode(before + value.encode() + after).decode()
    shown = knowing(value).text(whole)
    assert MARK in shown
    assert len(shown.replace(MARK, "")) <= 4 * ((len(before) + len(after)) // 3 + 2)


@given(values, st.lists(st.integers(0, 60)), st.text(max_size=10), st.text(max_size=10))
def test_l97_a_text_that_comes_in_pieces_is_told_as_the_whole_would_be(
    value: str, cuts: list[int], before: str, after: str
) -> None:
    """Nothing is told of a secret before it is whole, wherever the text is cut."""
    known, whole = knowing(value), f"{before}{value}{after}"
    held, told = "", ""
    places = [0, *sorted({cut for cut in cuts if 0 < cut < len(whole)}), len(whole)]
    for start, end in itertools.pairwise(places):
        shown, held = known.told(held + whole[start:end])
        told += shown
    assert told + known.text(held) == known.text(whole)
    assert value not in told


def test_l97_only_what_may_be_a_secret_is_held_back() -> None:
    assert knowing("abc-123-xyz").told("say abc-12") == ("say ", "abc-12")
    assert knowing("abc-123-xyz").told("say abc-13") == ("say abc-13", "")


def test_l97_the_longer_of_two_secrets_is_waited_for() -> None:
    known = knowing("abc-123-xyz", "short")
    known.register("long", "abc-123-xyz-and-more")
    assert known.told("abc-123-xyz") == ("", "abc-123-xyz")
    assert known.text("abc-123-xyz-and-more") == "[redacted:long]"


def test_l97_json_is_searched_whole_and_kept_if_nothing_is_in_it() -> None:
    found: JSONValue = {"a": [1, None, {VALUE: f"x{VALUE}"}], "b": 123456789012}
    known = knowing()
    known.register("account", "123456789012")
    assert known.json(found) == {"a": [1, None, {MARK: f"x{MARK}"}], "b": "[redacted:account]"}
    clean: JSONValue = {"a": ["x", {"y": 1.5}]}
    assert known.json(clean) is clean
    assert known.encoded(json.dumps(found).encode())
    assert not known.encoded(json.dumps(clean).encode())


@pytest.mark.parametrize(
    "value",
    ["", "x" * (SHORTEST - 1), "12345678901", "deadbeef", "password", "tool_result", "x" * 40, "1212121212121212"],
)
def test_a_value_that_other_text_holds_by_chance_is_refused(value: str) -> None:
    """The message has the name, and not the value."""
    with pytest.raises(
        InvalidInput, match=r"the secret 'pin' (has|is) [0-9]+ (different )?(characters|digits|letters)"
    ) as caught:
        knowing(value, "pin")
    assert value == "" or value not in str(caught.value)


def test_a_key_that_nobody_declared_is_a_secret_only_if_it_is_long() -> None:
    """Keys of local servers are words."""
    known = Redaction()
    known.learn("local", "ollama-2-key")
    assert known.is_empty
    known.learn("declared", "ollama-2-key", declared=True)
    known.learn("vendor", "sk-0123456789abcdefgh")
    assert known.text("ollama-2-key sk-0123456789abcdefgh") == "[redacted:declared] [redacted:vendor]"


def test_a_registered_name_stays_when_the_value_is_used_as_a_key() -> None:
    known = knowing("sk-0123456789abcdefgh", "mine")
    known.learn("OPENAI_API_KEY", "sk-0123456789abcdefgh")
    assert known.text("sk-0123456789abcdefgh") == "[redacted:mine]"


def test_keys_that_change_each_hour_do_not_add_up() -> None:
    """The oldest are forgotten; what was registered never is."""
    known = knowing()
    for number in range(60):
        known.learn("hourly", f"key-number-{number:010}")
    assert known.text("key-number-0000000000") == "key-number-0000000000"
    assert known.text("key-number-0000000059") == "[redacted:hourly]"
    assert known.text(VALUE) == MARK


def test_where_no_secret_is_known_nothing_is_looked_for() -> None:
    known, text = Redaction(), "text"
    assert known.is_empty
    assert known.text(text) is text
    assert known.told(text) == (text, "")


def test_a_name_cannot_break_what_it_stands_in() -> None:
    assert json.loads(knowing(VALUE, 'a"b\\ c').text(json.dumps([VALUE]))) == ["[redacted:a-b-c]"]
