"""A JSON document's text, read so that nothing in it is lost: a member that comes twice is an error with its path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONValue


def read_document(text: str | bytes) -> JSONValue:
    """The document's value.

    Raises:
        InvalidInput: it is no JSON, or an object in it has a member twice.
    """
    try:
        value = json.loads(text, object_pairs_hook=_Noted, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:  # what is no UTF-8 is a ValueError too
        raise InvalidInput(f"the workflow document is not JSON: {error}") from error
    twice = next(_twice(value, "$"), None)
    if twice is not None:
        raise InvalidInput(f"workflow document: {twice} comes twice; names must differ")
    return cast(JSONValue, value)


class _Noted(dict[str, Any]):
    """An object that knows which of its members came twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.twice = [name for name in self if names.count(name) > 1] if len(self) < len(names) else []


def _twice(value: object, path: str) -> Iterator[str]:
    if isinstance(value, _Noted):
        yield from (f"{path}.{name}" for name in value.twice)
        for name, item in value.items():
            yield from _twice(item, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[object]", value)):
            yield from _twice(item, f"{path}[{index}]")


def _refuse(text: str) -> float:
    raise ValueError(f"JSON has no number {text}")
