"""What a signal holds, as anybody may have sent it. Reading raises; whoever notes a signal must not let that through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from temporalio import workflow
from temporalio.common import RawValue

LONGEST_ID = 200
SHOWN = 80
"""So many characters of what could not be read are told."""


def read_value(arguments: Sequence[RawValue]) -> dict[str, object]:
    """The JSON object that a signal came with; an empty one if it came with nothing.

    Raises:
        TypeError: it is something else.
        Exception: what the payload converter raises.
    """
    if not arguments:
        return {}
    value = workflow.payload_converter().from_payload(arguments[0].payload)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError(f"a JSON object is needed, not {type(value).__name__}")
    return cast("dict[str, object]", value)


def check_length(*names: str | None) -> None:
    """Refuse an id that none of ours can be. Raises ValueError."""
    if any(name is not None and len(name) > LONGEST_ID for name in names):
        raise ValueError(f"an id is longer than {LONGEST_ID} characters")
