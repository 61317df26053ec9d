"""Keys that seal what is stored, and sealing itself: AES-256-GCM, one format for bodies and for parts of JSON.

A sealed body is `MAGIC`, the length of the key's id, that id, its scope, a random nonce of 96 bits, and the ciphertext with
its tag. All that stands before the nonce is authenticated with it. The scope names tenant and session by their hashes, so
that what is moved to another session is noticed by whoever knows which session is asked for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from perdure.errors import DamagedSession, InvalidInput, KeyMissing

VARIABLE = "PERDURE_ENCRYPTION_KEYS"
MAGIC = b"\x00PRD1"
"""No JSON begins so, and no message of protobuf: its first byte would be a field of number 0."""
KEY_BYTES = 32
SCOPE_BYTES = 16
NONCE_BYTES = 12
TAG_BYTES = 16

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SHAPE = "it must be ID:KEY, or several of them separated by commas; `perdure encryption new-key` makes one"


@dataclass(frozen=True, slots=True)
class _Key:
    id: str
    cipher: AESGCM


class Keyring:
    """The keys of a process. The first one seals, all of them open; one without keys seals nothing."""

    def __init__(self, keys: Iterable[tuple[str, bytes]] = ()) -> None:
        """Hold keys.

        Args:
            keys: id and 32 bytes of each, the one that seals first.
        """
        known = [_Key(name, AESGCM(secret)) for name, secret in keys]
        self._first = known[0] if known else None
        self._by_id = {key.id: key.cipher for key in known}

    def __bool__(self) -> bool:
        """Whether there is a key."""
        return self._first is not None

    def __repr__(self) -> str:
        return f"Keyring({', '.join(self._by_id)})"

    @property
    def first(self) -> str | None:
        """The id of the key that seals; None without keys."""
        return None if self._first is None else self._first.id

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all keys, the one that seals first."""
        return tuple(self._by_id)

    def seal(self, plain: bytes, *, scope: bytes = b"\0" * SCOPE_BYTES, purpose: bytes = b"") -> bytes:
        """The bytes, sealed by the first key.

        Args:
            plain: what is to be sealed.
            scope: whose it is, see `scope_of`.
            purpose: what it is; who opens it must say the same.
        """
        assert self._first is not None, "asked only of a keyring with keys"
        name = self._first.id.encode()
        head = MAGIC + bytes([len(name)]) + name + scope
        nonce = os.urandom(NONCE_BYTES)
        return head + nonce + self._first.cipher.encrypt(nonce, plain, head + purpose)

    def open(self, sealed: bytes, *, purpose: bytes = b"") -> bytes:
        """What was sealed.

        Raises:
            KeyMissing: this process does not have its key.
            DamagedSession: it was changed since, or is something else than what was asked for.
        """
        name, _, end = header_of(sealed)
        cipher = self._by_id.get(name)
        if cipher is None:
            raise KeyMissing(_missing(name, bool(self)))
        nonce, body = sealed[end : end + NONCE_BYTES], sealed[end + NONCE_BYTES :]
        try:
            return cipher.decrypt(nonce, body, sealed[:end] + purpose)
        except (InvalidTag, ValueError):
            raise DamagedSession(
                f"a body that was sealed under key {name!r} does not open with it: it was changed, or {VARIABLE} has "
                "another key of that id; it is not used"
            ) from None


NO_KEYS = Keyring()


def is_sealed(body: bytes) -> bool:
    """Whether these bytes are a sealed body."""
    return body.startswith(MAGIC)


def header_of(sealed: bytes) -> tuple[str, bytes, int]:
    """Key id and scope of a sealed body, and where they end.

    Raises:
        DamagedSession: it is none.
    """
    start = len(MAGIC) + 1
    end = start + sealed[len(MAGIC)] + SCOPE_BYTES if len(sealed) > start else 0
    if not is_sealed(sealed) or len(sealed) < end + NONCE_BYTES + TAG_BYTES:
        raise DamagedSession("a sealed body is cut off or changed; it is not used")
    name = sealed[start : end - SCOPE_BYTES].decode("ascii", "replace")
    return name, sealed[end - SCOPE_BYTES : end], end


def scope_of(tenant: str, session: str) -> bytes:
    """The name of a session in what is sealed for it; its first half is the tenant's alone."""
    return tenant_scope(tenant) + hashlib.sha256(f"{tenant}\0{session}".encode("utf-8", "surrogatepass")).digest()[:8]


def tenant_scope(tenant: str) -> bytes:
    """The first half of the scopes of a tenant's sessions."""
    return hashlib.sha256(f"{tenant}\0".encode("utf-8", "surrogatepass")).digest()[:8]


def new_key(name: str) -> str:
    """A new random key of that id, as the setting takes it.

    Raises:
        InvalidInput: no id can be like that.
    """
    if _ID.fullmatch(name) is None:
        raise InvalidInput(f"the id {name[:40]!r} cannot be used; take letters, digits, dots, dashes and underscores")
    return f"{name}:{base64.b64encode(os.urandom(KEY_BYTES)).decode()}"


def parse_keys(text: str) -> Keyring:
    """The keyring that the setting describes. No message shows a key.

    Args:
        text: `ID:KEY` or several, separated by commas; a key is 32 bytes in base64. Empty: no keys.

    Raises:
        InvalidInput: something in it cannot be used; it says which entry, and the remedy.
    """
    if not text.strip():
        return NO_KEYS
    entries = [entry.strip() for entry in text.split(",")]
    keys = [_parsed(entry, place) for place, entry in enumerate(entries, 1)]
    for known, what in ((name for name, _ in keys), "id"), ((key for _, key in keys), "key"):
        seen = list(known)
        if len(set(seen)) < len(seen):
            raise InvalidInput(f"{VARIABLE} has the same {what} twice; leave one of them out")
    return Keyring(keys)


def _parsed(entry: str, place: int) -> tuple[str, bytes]:
    name, colon, secret = entry.partition(":")
    if not colon or _ID.fullmatch(name) is None:
        raise InvalidInput(f"entry {place} of {VARIABLE} cannot be used: {_SHAPE}")
    try:
        key = base64.b64decode(secret.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"the key {name!r} of {VARIABLE} is not base64; {_SHAPE}") from None
    if len(key) != KEY_BYTES:
        raise InvalidInput(f"the key {name!r} of {VARIABLE} has {len(key)} bytes, not {KEY_BYTES}; {_SHAPE}")
    return name, key


def _missing(name: str, has_keys: bool) -> str:
    what = "has no key of that id" if has_keys else "is not set in this process"
    return f"what is stored was sealed under key {name!r}, and {VARIABLE} {what}; add the key and start again"
