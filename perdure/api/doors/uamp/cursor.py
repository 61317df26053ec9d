"""Where a reader of a UAMP session stands: in its chat's log, and in its mail."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.errors import InvalidInput
from perdure.protocols.uamp_events.event_place import Place

_FORM = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,15})(?:\.[0-9]{1,15})?")
"""Ids of before folded events said how long each of their deltas was have a fourth number."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place. As text it is an SSE id: `log.part.mail`.

    Attributes:
        log: the row of the log whose events were told last; and
        part: which of them was the last. A row of which all is told has `WHOLE`.
        mail: the number of the last event of the mail that was told.
    """

    log: int
    part: int
    mail: int

    @property
    def place(self) -> Place:
        """The place in the log."""
        return Place(self.log, self.part)

    def __str__(self) -> str:
        return f"{self.log}.{self.part}.{self.mail}"

    @classmethod
    def read(cls, text: str) -> Cursor:
        """The cursor of an SSE id.

        Raises:
            InvalidInput: it is none of ours.
        """
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise InvalidInput(f"{text[:80]!r} is no event id of this stream; leave Last-Event-ID out to begin anew")
        log, part, mail = found.groups()
        return cls(int(log), int(part), int(mail))


WHOLE = 1_000_000
"""The part of a row of which all events are told."""
