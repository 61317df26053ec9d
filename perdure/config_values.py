"""How the values of settings are read, whatever they are for."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path


def absolute(value: Path) -> Path:
    """A path that does not depend on the folder that a process is in."""
    return value.expanduser().absolute()


def seconds(value: object) -> object:
    """A number in a text, as the environment gives it, counts as seconds; anything else is left to pydantic."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def not_negative(value: timedelta) -> timedelta:
    """The value, if it is 0 or more."""
    if value < timedelta(0):
        raise ValueError("negative")
    return value


def positive(value: timedelta) -> timedelta:
    """The value, if it is above 0."""
    if value <= timedelta(0):
        raise ValueError("not above 0")
    return value
