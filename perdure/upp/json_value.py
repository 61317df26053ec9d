"""JSON as plain Python values, and its bytes.

Everything that Perdure stores or hashes goes through `dumps`; everything a user's function returns goes through
`jsonable`. Reading the fields of one JSON object is `json_field`'s part.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, cast

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from typing_extensions import TypeAliasType

# A named alias and not a plain one: pydantic can only read a recursive type that has a name, and Temporal's default
# converter, which turns objects into lists of their keys for a plain one, refuses it.
if TYPE_CHECKING:  # pyright loses the inside of a recursive TypeAliasType that another module imports
    JSONValue: TypeAlias = "dict[str, JSONValue] | list[JSONValue] | str | int | float | bool | None"
else:
    JSONValue = TypeAliasType("JSONValue", "dict[str, JSONValue] | list[JSONValue] | str | int | float | bool | None")
JSONObject: TypeAlias = dict[str, JSONValue]

MAX_DEPTH = 200
"""Levels of nesting that `jsonable` accepts; far below what Python's JSON encoder survives on a deep stack."""

_MAX_INT_BITS = 14_000  # Python refuses to print integers of more than 4,300 digits
_MAX_SHOWN = 200
_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(value: JSONValue) -> bytes:
    """Returns the value as compact UTF-8 JSON, keys in insertion order.

    Lone surrogates are written as the three bytes that UTF-8 forbids ("surrogatepass"), so that `loads` gives
    back exactly what was put in. Such bytes are for storage; a wire gets `well_formed` text.

    Raises:
        TypeError: something is not JSON; nothing is turned into something else, as Python does with integer keys.
        ValueError: a float is NaN or infinite, or the value is nested too deeply or contains itself.
    """
    try:
        _check_strict(value)
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except RecursionError as error:
        raise ValueError("the value is nested too deeply for JSON, or contains itself") from error
    return text.encode("utf-8", "surrogatepass")


def loads(data: bytes) -> JSONValue:
    """Returns the value that `dumps` wrote.

    Raises:
        ValueError: the bytes are not JSON, or hold a number that JSON cannot carry (NaN, Infinity, 1e999).
    """
    text = data.decode("utf-8", "surrogatepass")
    try:
        return cast(JSONValue, json.loads(text, parse_constant=_finite, parse_float=_finite))
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def sha256_hex(data: bytes) -> str:
    """Returns the SHA-256 of the bytes as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def encode_base64(data: bytes) -> str:
    """Returns bytes as UPP's JSON carries them: standard base64 with padding."""
    return base64.b64encode(data).decode("ascii")


def well_formed(value: JSONValue) -> JSONValue:
    """Returns the value with every string valid Unicode: a surrogate pair becomes its character, a lone one U+FFFD.

    The value itself is untouched; keys are repaired like other strings.
    """
    if isinstance(value, str):
        if _SURROGATE.search(value) is None:
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [well_formed(item) for item in value]
    if isinstance(value, dict):
        return {cast(str, well_formed(key)): well_formed(item) for key, item in value.items()}
    return value


def jsonable(value: object) -> JSONValue:
    """Returns a fresh JSON value that stands for a Python value, or refuses; it never changes a value silently.

    Strings, numbers, booleans, None, mappings with string keys, lists and tuples stand for themselves. Bytes become
    base64 text, sets become sorted lists, dataclasses become objects of their fields; pydantic models, dates, UUIDs,
    decimals, paths and the like become what pydantic makes of them. Strings are passed through as they are.

    Raises:
        TypeError: something has no JSON form (an open file, NaN, a key that is not a string, a value that contains
            itself); the message names the type and the path to it, as in `$.rows[3].when`.
    """
    return _convert(value, None, 0)


_Path: TypeAlias = "tuple[_Path, str | int] | None"  # innermost step last; written out only for an error


def _convert(value: object, path: _Path, depth: int) -> JSONValue:
    if value is None or value is True or value is False:
        return value
    if depth > MAX_DEPTH:
        raise TypeError(f"{_show(path)}: nested more than {MAX_DEPTH} levels deep, or the value contains itself")
    if isinstance(value, Enum):
        return _convert(value.value, path, depth + 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _integer(int(value), path)
    if isinstance(value, float):
        return _number(float(value), path)
    if isinstance(value, list | tuple):
        return _array(cast("Iterable[object]", value), path, depth)
    if isinstance(value, Mapping):
        return _object(cast("Mapping[object, object]", value).items(), path, depth)
    return _convert_object(value, path, depth)


def _convert_object(value: object, path: _Path, depth: int) -> JSONValue:
    if isinstance(value, bytes | bytearray | memoryview):
        return encode_base64(bytes(cast(bytes, value)))
    if isinstance(value, set | frozenset):
        return sorted(_array(cast("Iterable[object]", value), path, depth), key=dumps)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return _object(fields, path, depth)
    _refuse_lossy(value, path, depth)
    try:
        plain = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="constants")
    except Exception as error:
        raise _no_json_form(value, path, error) from error
    return _convert(plain, path, depth + 1)


def _object(items: Iterable[tuple[object, object]], path: _Path, depth: int) -> JSONObject:
    result: JSONObject = {}
    for key, item in items:
        if not isinstance(key, str):
            kind = type(key).__name__
            raise TypeError(f"{_show(path)}: key {key!r} is of type {kind}; JSON keys are strings, use str(key)")
        name = key.value if isinstance(key, Enum) else str.__str__(key)
        result[name] = _convert(item, (path, name), depth + 1)
    return result


def _array(items: Iterable[object], path: _Path, depth: int) -> list[JSONValue]:
    return [_convert(item, (path, index), depth + 1) for index, item in enumerate(items)]


def _integer(value: int, path: _Path) -> int:
    if value.bit_length() > _MAX_INT_BITS:
        raise TypeError(f"{_show(path)}: an int of {value.bit_length()} bits is too large for JSON; use a string")
    return value


def _number(value: float, path: _Path) -> float:
    if not math.isfinite(value):
        raise TypeError(f"{_show(path)}: float {value} has no JSON form; use None or a string")
    return value


def _refuse_lossy(value: object, path: _Path, depth: int) -> None:
    """Raises TypeError for what pydantic would change: an open file would become [], a NaN inside a model null."""
    if depth > MAX_DEPTH:
        return
    children: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, Iterator):
        raise _no_json_form(cast(object, value), path)
    if isinstance(value, float):
        _number(value, path)
    if isinstance(value, BaseModel):
        children = value
    elif isinstance(value, Mapping):
        children = cast("Mapping[str, object]", value).items()
    elif isinstance(value, list | tuple):
        children = enumerate(cast("Iterable[object]", value))
    for step, item in children:
        _refuse_lossy(item, (path, step), depth + 1)


def _no_json_form(value: object, path: _Path, cause: Exception | None = None) -> TypeError:
    kind = type(value)
    reason = f" ({cause})" if cause is not None and str(cause) else ""
    return TypeError(f"{_show(path)}: a value of type {kind.__module__}.{kind.__qualname__} has no JSON form{reason}")


def _show(path: _Path) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    shown = "$" + "".join(reversed(steps))
    return shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "…"


def _check_strict(value: object) -> None:
    """Raises TypeError for what Python's encoder would write as something else."""
    if isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is of type {type(key).__name__}; JSON keys are strings")
            if isinstance(item, dict | list | tuple):
                _check_strict(cast(object, item))
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            if isinstance(item, dict | list | tuple):
                _check_strict(cast(object, item))
    elif isinstance(value, tuple):
        raise TypeError("a tuple is no JSON value; pass it through jsonable() first")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"JSON cannot carry the number {text}")
    return value
