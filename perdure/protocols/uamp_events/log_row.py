"""A row of a session's event log as the mapping reads it, and the heads of the events that are made of it.

The log itself is the store's; what is read here is its shape.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, TypedDict, cast

from perdure.errors import InvalidInput
from perdure.protocols.uamp_events.event_place import Place, placed_id
from perdure.uap.ids import derive_id
from perdure.upp.json_value import JSONObject


class LogRow(Protocol):
    """An entry of the log, with everything in `data` whole."""

    @property
    def seq(self) -> int:
        """Its number in the session."""
        ...

    @property
    def run(self) -> str | None:
        """The run that it is about."""
        ...

    @property
    def source(self) -> str:
        """One of "run", "uap", "upp" and "own"."""
        ...

    @property
    def type(self) -> str:
        """What happened."""
        ...

    @property
    def data(self) -> JSONObject:
        """The facts."""
        ...

    @property
    def at(self) -> datetime:
        """When."""
        ...


class Head(TypedDict):
    """What all events have."""

    event_id: str
    timestamp: int
    session_id: str | None


class RowHeads:
    """Heads of the events of one row. They depend on session and row alone, so a second reading gives the same."""

    def __init__(self, session_id: str, response_id: str, row: LogRow, *, of_chat: bool = True) -> None:
        """Make heads for events of `row`.

        Args:
            session_id: the UAMP session that is told.
            response_id: the response, or what else sets the row's events apart.
            row: the row.
            of_chat: the row is one of the chat's own log, so that a client can resume behind it.
        """
        self._session = session_id
        self._parts = (session_id, response_id)
        self._seq = row.seq
        self._of_chat = of_chat
        self._at = int(row.at.timestamp() * 1000)
        self._made = 0

    def next(self) -> Head:
        """Another head."""
        self._made += 1
        if self._of_chat:
            ident = placed_id(Place(self._seq, self._made), *self._parts)
        else:
            ident = derive_id("uamp", *self._parts, self._seq, self._made)
        return Head(event_id=ident, timestamp=self._at, session_id=self._session)


def is_cut(row: LogRow) -> bool:
    """Whether the log has only a preview of something in the row, so that it must be made whole before it is mapped."""
    calls = row.data.get("toolCalls")
    cut_calls = isinstance(calls, list) and any("cut" in cast(JSONObject, call) for call in calls)
    return row.data.get("cut") is not None or cut_calls


def check_whole(row: LogRow) -> None:
    """Refuse a row that is not whole.

    Raises:
        InvalidInput: it has a preview.
    """
    if is_cut(row):
        raise InvalidInput(f"event {row.seq} ({row.type}) holds a preview; read its payload and hand the row in whole")
