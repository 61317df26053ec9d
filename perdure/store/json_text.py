r"""JSON for json columns: ASCII text that PostgreSQL takes and gives back with nothing changed.

PostgreSQL refuses the escape of a lone surrogate; and it keeps that of NUL, but then refuses to give out any field of
that json. Such a one is written as U+FDD0, a code point that is no character, followed by its four hexadecimal digits;
U+FDD0 itself is written the same way.
"""

from __future__ import annotations

import json
import re

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
    if "\\ud" not in text and "\\ufdd0" not in text and "\\u0000" not in text:
        return text
    return _WRITE.sub(lambda found: found[0] if found[1] is None else f"\\ufdd0{found[1]}", text)


def read_json(text: str) -> object:
    """The value of a json column's text."""
    if "\\ufdd0" in text:
        text = _READ.sub(lambda found: found[0] if found[1] is None else f"\\u{found[1]}", text)
    return json.loads(text)
