"""The bytes of a thread: RFC 8785 for equality and hashes, the specification's order of members for display.

The same conversation has the same canonical bytes in Python and in JavaScript. So a number is what JavaScript reads: an
integer beyond 2**53 counts as the nearest double.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import rfc8785

from perdure.protocols.threadprotocol.models import Record
from perdure.protocols.threadprotocol.problem import InvalidThread, Problem
from perdure.upp.json_value import JSONValue, dumps, sha256_hex

_SURROGATE = re.compile("[\ud800-\udfff]")
_SAFE = 2**53 - 1


def canonical_bytes(thing: Record) -> bytes:
    """The RFC 8785 form of a thread, or of one action.

    Raises:
        InvalidThread: it holds what has none: a lone surrogate, NaN, an infinite or a too large number.
    """
    value = thing.to_json()
    problems = list(uncanonical(value, ""))
    if problems:
        raise InvalidThread(problems)
    return rfc8785.dumps(cast("dict[str, rfc8785._impl._Value]", _doubles(value)))  # pyright: ignore[reportPrivateUsage]


def canonical_hash(thing: Record) -> str:
    """The SHA-256 of the RFC 8785 form, as 64 hexadecimal digits.

    Raises:
        InvalidThread: as `canonical_bytes` does.
    """
    return sha256_hex(canonical_bytes(thing))


def display_bytes(thing: Record) -> bytes:
    """Compact UTF-8 JSON with members in the specification's order, integers as they are.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    return dumps(thing.to_json())


def uncanonical(value: JSONValue, path: str) -> Iterator[Problem]:
    """What in a value has no canonical form, with its path."""
    if isinstance(value, str):
        if _SURROGATE.search(value):
            yield _problem(path, "holds half of a surrogate pair", "send whole characters, as valid UTF-8 does")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from uncanonical(name, path)
            yield from uncanonical(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from uncanonical(item, f"{path}[{index}]")
    elif isinstance(value, int | float) and not isinstance(value, bool) and not _is_double(value):
        yield _problem(path, "is a number that JSON readers cannot hold", "write it as text")


def _is_double(value: float) -> bool:
    try:
        return abs(float(value)) <= 1.7976931348623157e308
    except OverflowError:
        return False


def _problem(path: str, message: str, remedy: str) -> Problem:
    return Problem(path or "thread", "canonical", message, remedy)


def _doubles(value: JSONValue) -> JSONValue:
    if isinstance(value, dict):
        return {name: _doubles(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_doubles(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE:
        return float(value)
    return value
