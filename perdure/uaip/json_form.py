"""This package's frozen dataclasses as JSON and back, without what stands at its default."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, JSONValue

T = TypeVar("T")

_PLAIN = {
    "extra_forbidden": "there is no member of that name here",
    "missing": "it is missing",
    "model_type": "it must be an object",
    "dict_type": "it must be an object",
}
"""Plainer words for pydantic's kinds of errors."""


def to_json(value: object) -> JSONObject:
    """The value's JSON object. Fields at their default are left out, so a field that is added later changes no hash."""
    adapter = cast("TypeAdapter[object]", _adapter(type(value)))
    return cast(JSONObject, adapter.dump_python(value, mode="json", exclude_defaults=True))


def from_json(kind: type[T], value: JSONValue, what: str) -> T:
    """The value of its JSON object.

    Args:
        kind: the dataclass.
        value: what `to_json` gave.
        what: what is read; the error begins with it.

    Raises:
        InvalidInput: it is none; the message lists each misfit with its path.
    """
    try:
        return cast(T, _adapter(kind).validate_python(value))
    except ValidationError as error:
        raise InvalidInput(f"{what}: {describe(error)}") from error


def describe(error: ValidationError) -> str:
    """All misfits of a JSON value, each with its path, as `$.stages.cart: ...`."""
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{_path(item['loc'])}: {_PLAIN.get(item['type'], item['msg'])}" for item in problems)


def _path(steps: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


@lru_cache(32)
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
