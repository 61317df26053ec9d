r"""JSON for json columns: ASCII text that PostgreSQL takes and gives back with nothing changed.

PostgreSQL refuses the escape of a lone surrogate; and it keeps that of NUL, but then refuses to give out any field of
that json. Such a one is written as U+FDD0, a code point that is no character, followed by its four hexadecimal digits;
U+FDD0 itself is written the same way. So a U+FDD0 that is followed by anything else is never of a user's: it begins the
key under which the sealed part of an object stands, which is `SEALED` here.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from typing import Any

SEALED = f"sealed-{secrets.token_hex(16)}"
"""In Python the key of an object's sealed part: a word that nobody can have known, so no user's object has it."""

_STORED = '"\\ufdd0sealed"'
_WRITE = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([dD][89a-fA-F][0-9a-fA-F]{2}|fdd0|0000)"
)
_READ = re.compile(r"\\\\|\\ufdd0([0-9a-fA-F]{4})")


def escaped_json(value: object) -> str:
    """The value as text for a json column.

    Raises:
        ValueError: a number is NaN or infinite.
        TypeError: something is not JSON.
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    if "\\ud" in text or "\\ufdd0" in text or "\\u0000" in text:
        text = _WRITE.sub(lambda found: found[0] if found[1] is None else f"\\ufdd0{found[1]}", text)
    return text.replace(f'"{SEALED}"', _STORED) if SEALED in text else text


def read_json(text: str, opened: Callable[[dict[str, Any]], Any] | None = None) -> object:
    """The value of a json column's text.

    Args:
        text: of the column.
        opened: called with each object that has a sealed part under `SEALED`; returns what stands in its place. Without
            it such objects stay as they are.
    """
    if "\\ufdd0" not in text:
        return json.loads(text)
    is_sealed = _STORED in text
    if is_sealed:
        text = text.replace(_STORED, f'"{SEALED}"')
    text = _READ.sub(lambda found: found[0] if found[1] is None else f"\\u{found[1]}", text)
    if not is_sealed or opened is None:
        return json.loads(text)
    return json.loads(text, object_hook=lambda value: opened(value) if SEALED in value else value)
