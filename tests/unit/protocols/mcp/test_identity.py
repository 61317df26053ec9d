"""Who sends a call: ids of MCP sessions, and idempotency keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.protocols.mcp.identity import KEY_MEMBER, Seat, call_key, read_seat
from perdure.protocols.uaip.request import MAX_IDEMPOTENCY_KEY_CHARS, RequestRefused
from tests.unit.uaip.stage_store import SESSION

CONNECTION = "0123456789abcdef"
SEAT = Seat(SESSION, CONNECTION)
IDS = st.one_of(st.integers(), st.text())


@given(st.uuids(version=4), st.text("0123456789abcdef", min_size=16, max_size=16))
def test_an_id_says_again_what_it_was_made_of(session: Any, connection: str) -> None:
    seat = Seat(str(session), connection)
    assert read_seat(str(seat)) == seat
    assert read_seat(str(session)) == Seat(str(session))


@pytest.mark.parametrize("text", ["", " ", "a b", "é", "x" * 218, "\n"])
def test_what_can_be_no_id_is_none(text: str) -> None:
    assert read_seat(text) is None


@pytest.mark.parametrize("text", [f"{SESSION}.", f"{SESSION}.0123", f"{SESSION}.{CONNECTION.upper()}", "a.b.c"])
def test_an_id_of_another_form_names_a_session_that_nobody_has(text: str) -> None:
    assert read_seat(text) == Seat(text)


@given(IDS, IDS)
@example(1, "1")
def test_the_same_request_has_the_same_key_and_another_has_another(one: int | str, other: int | str) -> None:
    """The number 1 and the text "1" are two ids."""
    first, second = call_key(SEAT, one, None, None), call_key(SEAT, other, None, None)
    assert (first == second) is (type(one) is type(other) and one == other)
    assert first is not None
    assert len(first) <= MAX_IDEMPOTENCY_KEY_CHARS
    assert first.isprintable()


def test_another_connection_begins_to_count_anew() -> None:
    assert call_key(SEAT, 1, None, None) != call_key(Seat(SESSION, "f" * 16), 1, None, None)


def test_without_a_connection_a_requests_id_says_nothing() -> None:
    assert call_key(Seat(SESSION), 1, None, None) is None
    assert call_key(SEAT, None, None, None) is None


def test_a_key_of_the_clients_own_goes_before() -> None:
    """That of the call before that of the request, which may be a client's setting for all."""
    assert call_key(SEAT, 1, {KEY_MEMBER: "mine"}, "header") == "mine"
    assert call_key(SEAT, 1, {}, "header") == "header"
    assert call_key(Seat(SESSION), 1, {KEY_MEMBER: "mine"}, None) == "mine"


@pytest.mark.parametrize("key", ["", "x" * 201, "a\nb", 1, {}])
def test_a_key_that_can_be_none_is_refused(key: Any) -> None:
    with pytest.raises(RequestRefused, match="printable"):
        call_key(SEAT, 1, {KEY_MEMBER: key}, None)
