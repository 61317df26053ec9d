"""UAIP's conformance checks 39 to 41: `state_input`. The first line of each says what the reference asks for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.uaip_replies import expect
from tests.conformance.uaip_server import UaipClient

VALUES: dict[str, Any] = {
    "text": "h\u00e9 \U0001f600",
    "empty": "",
    "integer": 7,
    "large": 2**53 + 1,
    "negative": -0.25,
    "true": True,
    "false": False,
    "null": None,
    "list": [1, "two", None, [3.5]],
    "object": {"a.b": {"c": []}, "": None},
}
MEGABYTE = 1024 * 1024


async def test_check_39_a_dot_in_a_key_means_nothing(uaip: UaipClient) -> None:
    """A key with a dot is one flat key: read as `user.email`, and no object `user` appears."""
    session = await uaip.open()
    expect(await session.put({"user.email": "a@b.example"}), 200)
    assert await session.read("user.email") == "a@b.example"
    assert not await session.has("user")
    expect(await session.put({"user": {"email": "other"}}), 200)
    assert await session.read("user.email") == "a@b.example"


async def test_check_40_updates_are_merged(uaip: UaipClient) -> None:
    """Other keys stay, the last write wins, null is stored, and values of every JSON type come back as they were."""
    session = await uaip.open()
    expect(await session.put({"kept": 1, "text": "old"}), 200)
    expect(await session.put(VALUES), 200)
    for key, value in VALUES.items():
        assert await session.result("read", key=key) == {"there": True, "value": value}
        assert type(await session.read(key)) is type(value)
    assert await session.read("kept") == 1
    expect(await session.put({}), 200)
    expect(await session.put({"text": None}), 200)
    assert await session.result("read", key="text") == {"there": True, "value": None}


@pytest.mark.parametrize("case", ["reserved", "reserved beside a good one", "too large", "too large in all"])
async def test_check_41_what_cannot_be_written(uaip: UaipClient, case: str) -> None:
    """A reserved key or a state beyond its limit is refused, and nothing of the update is kept."""
    session = await uaip.open()
    cases: dict[str, dict[str, Any]] = {
        "reserved": {"events": []},
        "reserved beside a good one": {"good": 1, "events": "x"},
        "too large": {"good": "x" * MEGABYTE},
        "too large in all": {"good": 1, **{f"key {number}": "x" * (MEGABYTE // 16) for number in range(16)}},
    }
    expect(await session.put(cases[case]), 413 if "large" in case else 422)
    assert not await session.has("good")
    assert await session.stage() == "browse"
