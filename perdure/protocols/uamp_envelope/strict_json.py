"""JSON that means the same to every reader: what two parsers could read differently is refused, not guessed.

A signature covers a value, so a text with two readings could be signed in one and obeyed in the other.
Source: UAMP envelope 1.0, section 4.2; RFC 7493 (I-JSON).
"""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn, cast

from perdure.protocols.uamp_envelope.error import Code, UAMPError, malformed
from perdure.upp.json_value import JSONObject, JSONValue

MAX_DEPTH = 64
MAX_ENVELOPE_BYTES = 1024 * 1024
MAX_SAFE_INTEGER = 2**53 - 1
"""Above it a double skips integers, so readers with doubles see another number."""

_MAX_INTEGER_DIGITS = 17  # with the sign; longer ones are out of range without a look
_FIRST_WITH_EXPONENT = 1e21  # canonical form writes smaller ones as integers, which would be refused when read again
_MAX_SHOWN = 64
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_object(data: bytes, *, max_bytes: int = MAX_ENVELOPE_BYTES, max_depth: int = MAX_DEPTH) -> JSONObject:
    """The JSON object of a UTF-8 text, if it has one reading only.

    Args:
        data: the whole text.
        max_bytes: its greatest size.
        max_depth: the greatest nesting; the outermost object is level 1.

    Raises:
        UAMPError: 4.13 if it is too large; 4.00 for everything else: not UTF-8, a byte order mark, two members of one
            name, NaN, an integer beyond 2^53 - 1, a lone surrogate, nested too deeply, or no object.
    """
    if len(data) > max_bytes:
        raise UAMPError(Code.TOO_LARGE, f"{len(data)} bytes were sent; the limit is {max_bytes}")
    value = _parse(data)
    if not isinstance(value, dict):
        raise malformed("the JSON must be an object")
    check_value(value, max_depth=max_depth)
    return value


def check_value(value: JSONValue, *, max_depth: int = MAX_DEPTH) -> None:
    """Checks a parsed or built value for what `parse_object` refuses.

    Raises:
        UAMPError: 4.00.
    """
    level: list[JSONValue] = [value]
    depth = 0
    while level:
        depth += 1
        below: list[JSONValue] = []
        for item in level:
            below.extend(_inside(item))
        if below and depth > max_depth:
            raise malformed(f"the JSON is nested more than {max_depth} levels deep")
        level = below


def _parse(data: bytes) -> JSONValue:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed(f"the text is not UTF-8 at byte {error.start}") from error
    if text.startswith("\ufeff"):
        raise malformed("the text begins with a byte order mark; send plain UTF-8")
    try:
        return cast(
            JSONValue,
            json.loads(
                text,
                object_pairs_hook=_object,
                parse_constant=_no_number,
                parse_int=_integer,
                parse_float=_number,
            ),
        )
    except RecursionError as error:
        raise malformed("the JSON is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise malformed(f"the text is not JSON: {error.msg} at character {error.pos}") from error


def _object(pairs: list[tuple[str, JSONValue]]) -> JSONObject:
    made: JSONObject = {}
    for name, value in pairs:
        if name in made:
            raise malformed(f"the member {name[:_MAX_SHOWN]!r} stands twice in one object")
        made[name] = value
    return made


def _no_number(text: str) -> NoReturn:
    raise malformed(f"{text} is no JSON number")


def _integer(text: str) -> int:
    if len(text) > _MAX_INTEGER_DIGITS:
        raise _too_great(text)
    return _safe(int(text))


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or MAX_SAFE_INTEGER < abs(value) < _FIRST_WITH_EXPONENT:
        raise _too_great(text)
    return value


def _safe(value: int) -> int:
    if abs(value) > MAX_SAFE_INTEGER:
        raise _too_great(str(value))
    return value


def _too_great(text: str) -> UAMPError:
    return malformed(f"the number {text[:_MAX_SHOWN]} is too great for every reader; send it as a string")


def _inside(item: JSONValue) -> list[JSONValue]:
    """What stands one level below an item, after a check of the item itself."""
    match item:
        case str():
            if _SURROGATE.search(item) is not None:
                raise malformed("a string holds a lone surrogate, which is no Unicode character")
        case bool():
            pass
        case int():
            _safe(item)
        case float():
            _number(repr(item))
        case list():
            return item
        case dict():
            return [*item.keys(), *item.values()]
        case _:
            pass
    return []
