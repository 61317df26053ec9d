"""Keys of the shared state: flat texts, in which a dot means nothing."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from perdure.errors import InvalidInput

RESERVED_KEYS = ("events",)
RESERVED_PREFIX = "perdure."
"""Keys that begin so are ours; `events` is where the first UAIP server kept its log."""

MAX_KEY_CHARS = 256
_UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")


def key_problem(key: str) -> str | None:
    """Why a key cannot stand in the state, or None if it can. A dot in it means nothing: keys are flat."""
    if not key or len(key) > MAX_KEY_CHARS or is_unprintable(key):
        return f"key {key[:80]!r} must have 1 to {MAX_KEY_CHARS} characters and no control characters"
    if key in RESERVED_KEYS or key.startswith(RESERVED_PREFIX):
        return f"key {key!r} is reserved: {', '.join(RESERVED_KEYS)} and what begins with {RESERVED_PREFIX!r}"
    return None


def check_keys(keys: Iterable[object], what: str) -> None:
    """Refuse keys that could never be in the state, and one that comes twice.

    Raises:
        InvalidInput: one of them is such.
    """
    seen: list[str] = []
    for key in keys:
        if not isinstance(key, str):
            raise InvalidInput(f"{what}: {key!r:.80} is no key of the state; keys are texts, as 'cart.items'")
        problem = f"key {key!r} comes twice" if key in seen else key_problem(key)
        if problem is not None:
            raise InvalidInput(f"{what}: {problem}")
        seen.append(key)


def is_unprintable(text: str) -> bool:
    """Whether it has control characters, line ends or lone surrogates."""
    return any(unicodedata.category(character) in _UNPRINTABLE for character in text)
