"""Changes that can be none are refused before anything is stored."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.store.change_inputs import Change


@pytest.mark.parametrize(
    ("kind", "detail", "message"),
    [
        ("move", {}, "a change is one of fork, checkout, merge, restore, resume"),
        ("fork", {"name": "x"}, "fork needs node"),
        ("merge", {"source": "a"}, "merge needs target"),
        ("checkout", {"node": "a", "name": "b"}, "checkout does not take name"),
        ("restore", {"checkpoint": 7}, "restore's checkpoint must be text"),
    ],
)
def test_a_change_that_can_be_none(kind: str, detail: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Change(kind, detail, "key").check()


@pytest.mark.parametrize(
    ("kind", "detail"),
    [("fork", {"node": "a", "id": "b"}), ("resume", {}), ("resume", {"checkpoint": "c"}), ("checkout", {"node": "a"})],
)
def test_a_change_that_can_be_made(kind: str, detail: dict[str, Any]) -> None:
    Change(kind, detail, "key").check()
