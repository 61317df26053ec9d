"""Parameters that many routes take."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Path, Query

from perdure.errors import UnknownRun, UnknownWait
from perdure.uap.ids import is_uuid4

_LONGEST_WAIT_ID = 50  # a UUIDv4, and a number where a call was asked about again
_ID = "7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11"

SessionId = Annotated[str, Path(description="The session's id.", examples=[_ID])]
RunId = Annotated[str, Path(description="The run's id.", examples=[_ID])]
WaitId = Annotated[str, Path(description="The wait's id.", examples=[_ID])]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="1 to 200 printable characters; the same key again is the same request, answered as it is today.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]
Cursor = Annotated[str | None, Query(description="`next` of the page before.")]


def known_run_id(text: str) -> str:
    """The id of a run that is there already.

    Raises:
        UnknownRun: no run can have it.
    """
    lowered = text.lower()
    if not is_uuid4(lowered):
        raise UnknownRun(f"no run {text[:40]!r}; a run's id is a UUIDv4")
    return lowered


def known_wait_id(text: str) -> str:
    """The id of a wait that is there already.

    Raises:
        UnknownWait: no wait can have it.
    """
    lowered = text.lower()
    if len(text) > _LONGEST_WAIT_ID or not is_uuid4(lowered[:36]) or not lowered.isprintable():
        raise UnknownWait(f"no wait {text[:40]!r}; `GET /api/waits` lists the open ones")
    return lowered
