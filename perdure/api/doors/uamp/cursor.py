"""Where a reader of a UAMP session stands: in its chat's log, and in its mail."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perdure.errors import InvalidInput
from perdure.protocols.uamp_events.event_place import Place

_FORM = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,15})(?:\.([0-9]{1,15}))?")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place. As text it is an SSE id: `log.part.mail`, with `.offset` behind it where there is one.

    Attributes:
        log: the row of the log whose events were told last; and
        part: which of them was the last. A row of which all is told has `WHOLE`.
        mail: the number of the last event of the mail that was told.
        offset: see `Place`.
    """

    log: int
    part: int
    mail: int
    offset: int = 0

    @property
    def place(self) -> Place:
        """The place in the log."""
        return Place(self.log, self.part, self.offset)

    def __str__(self) -> str:
        text = f"{self.log}.{self.part}.{self.mail}"
        return f"{text}.{self.offset}" if self.offset else text

    @classmethod
    def read(cls, text: str) -> Cursor:
        """The cursor of an SSE id.

        Raises:
            InvalidInput: it is none of ours.
        """
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise InvalidInput(f"{text[:80]!r} is no event id of this stream; leave Last-Event-ID out to begin anew")
        log, part, mail, offset = found.groups(default="0")
        return cls(int(log), int(part), int(mail), int(offset))


WHOLE = 1_000_000
"""The part of a row of which all events are told."""
