"""Filters of session lists by metadata: which keys a deployment allows, and how callers write what they ask for."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from typing import NoReturn

from perdure.errors import InvalidInput
from perdure.store.database import Database
from perdure.store.filterable_keys import set_filterable
from perdure.store.label_filling import keep_labels
from perdure.upp.json_value import JSONValue


async def apply_filterable(database: Database, keys: Collection[str] | None) -> None:
    """Have lists be filtered by these keys; None leaves it as it is.

    A few sessions are gone through at once; of many the sweep of any process goes through the rest.

    Raises:
        KeyMissing: something is sealed under a key that this process lacks.
    """
    if keys is not None:
        await set_filterable(database, keys)
        await keep_labels(database)


def read_filter(pairs: Sequence[str], separator: str, name: str) -> dict[str, JSONValue]:
    """What the metadata must have, by key.

    A value that is a JSON number, true or false is that, one in double quotes is the JSON text, any other is a text as it
    stands: `7` is the number and `"7"` the text.

    Args:
        pairs: of a key and a value.
        separator: the first one in a pair ends its key.
        name: of the parameter, for the message.

    Raises:
        InvalidInput: there is no separator or no key, a key is there twice, or lists are not filtered by such a value.
    """
    wanted: dict[str, JSONValue] = {}
    for pair in pairs:
        key, found, value = pair.partition(separator)
        if not found or not key:
            raise InvalidInput(f"{name} {pair[:40]!r} must be KEY{separator}VALUE, such as team{separator}web")
        if key in wanted:
            raise InvalidInput(f"{name} names {key[:40]!r} twice; a session has one value of it")
        wanted[key] = _value(value, name)
    return wanted


def _value(text: str, name: str) -> JSONValue:
    try:
        value: JSONValue = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return text
    if not isinstance(value, str | int | float):
        raise InvalidInput(
            f"{name}: lists are not filtered by {text[:40]}, only by a text, a number, true or false; "
            "a text that looks like it goes in double quotes"
        )
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)
