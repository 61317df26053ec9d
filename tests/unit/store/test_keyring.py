"""Keys that seal what is stored."""

from __future__ import annotations

import base64

import pytest

from perdure.errors import DamagedSession, InvalidInput, KeyMissing
from perdure.store.keyring import (
    NO_KEYS,
    Keyring,
    header_of,
    is_sealed,
    new_key,
    parse_keys,
    scope_of,
    tenant_scope,
)

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


def test_what_a_key_seals_it_opens_and_it_never_looks_the_same_twice() -> None:
    """A nonce is random, so equal bodies cannot be told by their sealed forms."""
    ring = Keyring([("a", OLD)])
    sealed = [ring.seal(b"body", purpose=b"p") for _ in range(2)]
    assert [ring.open(item, purpose=b"p") for item in sealed] == [b"body", b"body"]
    assert sealed[0] != sealed[1]
    assert all(is_sealed(item) and b"body" not in item for item in sealed)


def test_the_first_key_seals_and_all_open() -> None:
    """That is what a rotation needs."""
    old, both = Keyring([("a", OLD)]), Keyring([("b", NEW), ("a", OLD)])
    assert both.open(old.seal(b"body")) == b"body"
    assert header_of(both.seal(b"body"))[0] == "b"


@pytest.mark.parametrize(
    ("ring", "words"), [(NO_KEYS, "is not set"), (Keyring([("b", NEW)]), "has no key of that id")]
)  # fmt: skip
def test_a_missing_key_is_named_with_the_setting(ring: Keyring, words: str) -> None:
    """Whoever reads the message knows what to add and where."""
    with pytest.raises(KeyMissing, match=f"'a'.*PERDURE_ENCRYPTION_KEYS {words}"):
        ring.open(Keyring([("a", OLD)]).seal(b"body"))


@pytest.mark.parametrize("place", [7, 20, 30, -1])
def test_a_changed_byte_is_noticed_wherever_it_is(place: int) -> None:
    """In the scope, the nonce, the body or the tag."""
    ring = Keyring([("a", OLD)])
    sealed = bytearray(ring.seal(b"body", scope=scope_of("t", "s")))
    sealed[place] ^= 1
    with pytest.raises(DamagedSession):
        ring.open(bytes(sealed))


def test_a_cut_body_and_another_key_of_the_same_id_are_noticed() -> None:
    """Neither is taken for something else."""
    ring, other = Keyring([("a", OLD)]), Keyring([("a", NEW)])
    sealed = ring.seal(b"body")
    for given in (sealed[:-1], sealed[:20], sealed[:5]):
        with pytest.raises(DamagedSession):
            ring.open(given)
    with pytest.raises(DamagedSession, match="another key of that id"):
        other.open(sealed)


def test_what_was_sealed_as_one_thing_does_not_open_as_another() -> None:
    """A part of JSON cannot be put in the place of a body."""
    ring = Keyring([("a", OLD)])
    with pytest.raises(DamagedSession):
        ring.open(ring.seal(b"body", purpose=b"part"), purpose=b"body")


def test_scopes_tell_tenants_and_sessions_apart() -> None:
    """The first half is the tenant's."""
    assert scope_of("t", "s") != scope_of("t", "r")
    assert scope_of("t", "s").startswith(tenant_scope("t"))
    assert not scope_of("u", "s").startswith(tenant_scope("t"))
    assert scope_of("t\0s", "") != scope_of("t", "s")


def test_a_new_key_can_be_used_at_once() -> None:
    """And is another one each time."""
    first, second = new_key("2026-01"), new_key("2026-02")
    ring = parse_keys(f"{second}, {first}")
    assert ring.ids == ("2026-02", "2026-01")
    assert first.partition(":")[2] != second.partition(":")[2]
    assert parse_keys("") is NO_KEYS
    assert not NO_KEYS


SHORT = base64.b64encode(b"k" * 16).decode()
KEY = base64.b64encode(OLD).decode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "entry 1 .*ID:KEY"),
        (f"a:{KEY},", "entry 2 .*ID:KEY"),
        (f"a b:{KEY}", "entry 1 .*ID:KEY"),
        ("a:!!!!", "'a' .*base64"),
        (f"a:{SHORT}", "'a' .*16 bytes, not 32"),
        (f"a:{KEY},a:{base64.b64encode(NEW).decode()}", "same id twice"),
        (f"a:{KEY},b:{KEY}", "same key twice"),
    ],
)
def test_keys_that_cannot_be_used_are_refused_without_showing_them(text: str, words: str) -> None:
    """The message names the entry and the remedy, never the key."""
    with pytest.raises(InvalidInput, match=words) as refused:
        parse_keys(text)
    assert KEY not in str(refused.value)
    assert SHORT not in str(refused.value)
    assert KEY not in repr(Keyring([("a", OLD)]))
