"""Where keys come from, and which one signs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perdure.errors import InvalidInput
from perdure.protocols.uamp_events.content_items import TextItem
from perdure.protocols.uamp_events.server_events import Response, ResponseDone
from perdure.protocols.uamp_events.signing_key import SigningKey, new_key
from perdure.runtime.response_signer import FRESH_S, ResponseSigner
from perdure.runtime.signing_keys import PUBLISHED_BEFORE, keys_from, signing_first
from perdure.store.database import Database
from perdure.store.signing_keys import StoredKey

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOWHERE = Database("postgresql://nobody@127.0.0.1:1/none")
DONE = ResponseDone(
    event_id="e",
    timestamp=1_767_225_600_999,
    response_id="resp_1",
    response=Response(id="resp_1", status="completed", output=[TextItem(text="22")]),
)


def stored(name: str, age: timedelta) -> StoredKey:
    return StoredKey(name, b"", NOW - age)


def first_of(*rows: StoredKey) -> str:
    return signing_first(list(rows), NOW)[0].id


def test_a_new_key_is_published_before_it_signs() -> None:
    """Every process has read it by then, and so has who fetched the key set lately. A first key has nobody before it."""
    old, new = stored("old", timedelta(days=9)), stored("new", timedelta(seconds=5))
    assert [row.id for row in signing_first([new, old], NOW)] == ["old", "new"]
    assert first_of(stored("new", PUBLISHED_BEFORE), old) == "new"
    assert first_of(new) == "new"
    assert first_of(stored("newer", timedelta(seconds=1)), new) == "new"


def test_a_file_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    for content in (None, b"no key"):
        file = tmp_path / "keys.pem"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"keys\.pem \(PERDURE_SIGNING_KEY\)"):
            keys_from(str(file), NOWHERE)


async def test_84_without_a_key_nothing_is_signed_and_nothing_published() -> None:
    signer = ResponseSigner(keys_from("none", NOWHERE))
    assert await signer.signed(DONE, request="00", issuer="greeter", audience=None) == DONE
    assert await signer.key_set() == {"keys": []}


async def test_keys_are_read_again_after_a_while(tmp_path: Path) -> None:
    """A new key that is put first signs, and the old one stays published."""
    now, (old, new) = [0.0], (new_key(), new_key())
    file = tmp_path / "keys.pem"
    file.write_bytes(pem(old))
    signer = ResponseSigner(keys_from(str(file), NOWHERE), clock=lambda: now[0])
    first = await signer.signed(DONE, request="00", issuer="greeter", audience="me")
    file.write_bytes(pem(new) + pem(old))
    assert await signer.signed(DONE, request="00", issuer="greeter", audience="me") == first
    now[0] = FRESH_S
    second = await signer.signed(DONE, request="00", issuer="greeter", audience="me")
    assert second.signature != first.signature
    assert await signer.key_set() == {"keys": [new.public(), old.public()]}


def pem(key: SigningKey) -> bytes:
    return key.key.as_pem(private=True)
