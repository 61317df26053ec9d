"""How an issuer's keys are kept: rotation is followed, and strangers' tokens cannot make us fetch."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from perdure.api.jwks import FRESH_SECONDS, RETRY_SECONDS, USABLE_SECONDS, KeySource, keys_in
from perdure.errors import ServerUnavailable
from tests.unit.api import issuer


class Issuer:
    """Gives what it is told to, counts how often it was asked, and holds the clock."""

    def __init__(self) -> None:
        self.document: bytes | None = issuer.key_set(issuer.RSA)
        self.asked = 0
        self.now = 1000.0
        self.keys = KeySource(self.read, clock=lambda: self.now)

    async def read(self) -> bytes:
        self.asked += 1
        await asyncio.sleep(0)
        if self.document is None:
            raise ServerUnavailable("it is away")
        return self.document


async def test_keys_are_fetched_once_and_kept() -> None:
    there = Issuer()
    found = await asyncio.gather(*(there.keys.key("rsa") for _ in range(50)))
    assert all(found)
    assert there.asked == 1


async def test_a_new_key_is_found_when_a_token_names_it() -> None:
    there = Issuer()
    await there.keys.key("rsa")
    there.document = issuer.key_set(issuer.EC, issuer.RSA)
    there.now += RETRY_SECONDS
    assert await there.keys.key("ec")
    assert there.asked == 2


async def test_a_key_that_was_taken_back_is_worth_nothing_once_the_set_is_fetched_again() -> None:
    there = Issuer()
    await there.keys.key("rsa")
    there.document = issuer.key_set(issuer.EC)
    there.now += FRESH_SECONDS
    assert await there.keys.key("rsa") is None


async def test_unknown_key_ids_fetch_no_more_than_once_each_half_minute() -> None:
    there = Issuer()
    for n in range(200):
        assert await there.keys.key(f"unknown {n}") is None
        there.now += RETRY_SECONDS / 100
    assert there.asked == 2


async def test_old_keys_serve_for_an_hour_while_the_issuer_is_away() -> None:
    there = Issuer()
    await there.keys.key("rsa")
    there.document = None
    there.now += USABLE_SECONDS - 1
    assert await there.keys.key("rsa")
    there.now += 1
    with pytest.raises(ServerUnavailable):
        await there.keys.key("rsa")
    there.document = issuer.key_set(issuer.RSA)
    there.now += RETRY_SECONDS
    assert await there.keys.key("rsa")


async def test_an_issuer_that_was_never_there_is_not_asked_by_every_request() -> None:
    there = Issuer()
    there.document = b"<html>"
    for _ in range(20):
        with pytest.raises(ServerUnavailable):
            await there.keys.key("rsa")
    assert there.asked == 1


async def test_a_file_of_keys_is_read(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    with pytest.raises(ServerUnavailable):
        await keys_in(file).key("rsa")
    file.write_bytes(issuer.key_set(issuer.RSA))
    assert await keys_in(file).key("rsa")
