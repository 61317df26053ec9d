"""Which names stages, tasks and workflows may have."""

from __future__ import annotations

import re

from perdure.errors import InvalidInput
from perdure.uaip.keys import is_unprintable
from perdure.uaip.offers import RESERVED_NAMES
from perdure.upp.tools import TOOL_NAME

MAX_NAME_CHARS = 128
_NEW_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def name_of(python_name: str) -> str:
    """The wire's name of a class: `TakeOrder` is `take_order`."""
    return _NEW_WORD.sub("_", python_name).lower()


def check_name(name: object, what: str) -> None:
    """Refuse a workflow's or stage's name that could not stand in an address, a row or a list.

    Raises:
        InvalidInput: it is empty, longer than 128 characters, no text, has a `/` or control characters, or begins or
            ends with a space.
    """
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{what} needs a name, a text of 1 to {MAX_NAME_CHARS} characters; it has {name!r:.80}")
    if len(name) > MAX_NAME_CHARS or name != name.strip() or "/" in name or name in (".", "..") or is_unprintable(name):
        raise InvalidInput(
            f"{what} cannot be named {name[:80]!r}: 1 to {MAX_NAME_CHARS} characters, no '/' and no control "
            "characters, no space at its ends"
        )


def check_task_name(name: object, what: str) -> None:
    """Refuse a task's name that a model could not call.

    Raises:
        InvalidInput: it is reserved, or not 1 to 64 of letters, digits, `_` and `-`.
    """
    if not isinstance(name, str) or TOOL_NAME.fullmatch(name) is None:
        raise InvalidInput(f"{what}: task name {name!r:.80} must be 1 to 64 letters, digits, '_' or '-'")
    if name in RESERVED_NAMES:
        raise InvalidInput(
            f"{what}: no task can be named {name!r}; every session has a tool of that name. "
            f"Reserved are {', '.join(RESERVED_NAMES)}"
        )
