"""Session ids that callers choose."""

from __future__ import annotations

import pytest
from hypothesis import given

from perdure.errors import InvalidInput
from perdure.uap.ids import is_uuid4
from perdure.uap.session_key import SessionKey, checked_session_id
from tests.unit.upp.strategies import texts

GOOD = "0f0e0d0c-0b0a-4908-8706-050403020100"


def test_the_workflow_is_named_after_tenant_and_session() -> None:
    """The id by which `temporal workflow show` finds it."""
    assert SessionKey("acme", GOOD).workflow_id == f"session/acme/{GOOD}"


@pytest.mark.parametrize("text", [GOOD, GOOD.upper(), f"  {GOOD}\n"])
def test_one_session_has_one_key(text: str) -> None:
    """Letters' case and blanks around do not make another session."""
    assert checked_session_id(text) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x" * 300,
        GOOD * 10,
        "\U0001f378" * 9,
        GOOD[:-1] + "\x00",
        GOOD[:-1] + "\ud800",
        GOOD.replace("-4908", "-1908"),
        GOOD.replace("-", ""),
        "{" + GOOD + "}",
        "main",
        "../" + GOOD,
        GOOD + "/x",
    ],
)
def test_an_id_that_cannot_be_used_is_refused(text: str) -> None:
    """The message shows at most 40 characters of it and says what to do."""
    with pytest.raises(InvalidInput, match="is not a UUIDv4; leave it out to get one") as raised:
        checked_session_id(text)
    assert len(str(raised.value)) < 400


@given(texts(80))
def test_whatever_is_taken_is_a_uuid4(text: str) -> None:
    """Nothing else comes through, and nothing else is raised."""
    try:
        assert is_uuid4(checked_session_id(text))
    except InvalidInput:
        assert not is_uuid4(text)
