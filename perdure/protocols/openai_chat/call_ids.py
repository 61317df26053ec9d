"""The ids of tool calls that clients run: each says which wait its result answers.

A vendor's own id would not do: some vendors use the same ids in every answer, and a client hands back nothing but the id.
"""

from __future__ import annotations

import re
import uuid

_ID = re.compile(r"call_([0-9a-f]{32})(?:_([1-9][0-9]?))?")


def call_id_of(wait: str) -> str:
    """The id of the call whose result a wait is for; at most 40 characters, as OpenAI has it.

    Args:
        wait: the wait's id: a UUID, and `-` and a number if the call was asked about again.
    """
    ident, number = wait[:36], wait[37:]
    return f"call_{uuid.UUID(ident).hex}" + (f"_{number}" if number else "")


def wait_of(call_id: str) -> str | None:
    """The wait that a call's id names; None if the id is not one of ours."""
    found = _ID.fullmatch(call_id)
    if found is None:
        return None
    ident = str(uuid.UUID(found[1]))
    return ident if found[2] is None else f"{ident}-{found[2]}"
