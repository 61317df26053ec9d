"""Payments in headers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from perdure.api.payments import submitted_by_headers
from perdure.errors import InvalidInput


def packed(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def test_a_plain_token_stands_in_either_header() -> None:
    """The new name is looked at first; names are in any case; nothing is nothing."""
    for name in ("X-PAYMENT", "x-payment", "X-Payment-Token"):
        made = submitted_by_headers({name: "ptok_x"})
        assert made is not None
        assert (made.scheme, made.token) == ("token", "ptok_x")
    both = submitted_by_headers({"x-payment-token": "old", "x-payment": "new"})
    assert both is not None
    assert both.token == "new"
    assert submitted_by_headers({}) is None
    assert submitted_by_headers({"X-PAYMENT": ""}) is None


def test_an_object_stands_in_base64() -> None:
    given = {"scheme": "ap2", "credential": {"a": 1}, "amount": "1", "network": "x", "proof": "p"}
    made = submitted_by_headers({"X-PAYMENT": packed(given)})
    assert made is not None
    assert (made.scheme, made.credential, made.amount, made.network, made.proof, made.token) == (
        "ap2", {"a": 1}, "1", "x", "p", None,
    )  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {"token": "secret"},
        {"scheme": 1, "token": "secret"},
        {"scheme": "token", "token": 5, "proof": "secret"},
        {"scheme": "token", "credential": ["secret"]},
        {"scheme": "token", "unknown": "secret"},
    ],
)
def test_what_cannot_be_read_is_refused_without_a_word_of_it(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        submitted_by_headers({"X-PAYMENT": packed(given)})
    assert "secret" not in str(caught.value)


def test_a_header_has_a_bound() -> None:
    with pytest.raises(InvalidInput, match="16,384"):
        submitted_by_headers({"X-PAYMENT": "x" * 16_385})
