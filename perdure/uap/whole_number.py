"""A strategy's limits, as `loop`, `react`, `plan` and `staged` take them."""

from __future__ import annotations

from typing import cast

from perdure.errors import InvalidInput


def check_whole_number(name: str, value: int, least: int) -> None:
    """Look at a limit when the agent is defined.

    Raises:
        InvalidInput: not a whole number of at least `least`.
    """
    given = cast(object, value)
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise InvalidInput(f"{name} is {value!r}; it must be a whole number of at least {least}")
