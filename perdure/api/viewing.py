"""One viewer of an event log: what it is told, and when it has all."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from perdure.api.event_choice import EventChoice
from perdure.store.events import Event
from perdure.uap.events import RUN_TERMINAL

JOINED = "input.joined"


@dataclass(slots=True)
class Viewing:
    """What of the log is told. An input that joins another run has that one's events from there on.

    Attributes:
        pages: the log's events, in order; closed when the viewer leaves.
        choice: the viewer's.
        run: the only run whose events are told; None for all of the session.
        ended: the run's terminal event was told. A session's log never ends.
    """

    pages: AsyncGenerator[list[Event], None]
    choice: EventChoice
    run: str | None = None
    ended: bool = False

    def told(self, page: list[Event]) -> list[Event]:
        """Those events of the next page that are told; nothing after the run's end. That one is told whatever the choice."""
        given: list[Event] = []
        for event in page:
            if self.ended:
                break
            if self.run is None:
                wanted = self.choice.takes(event)
            elif event.type == JOINED and event.data.get("as") == self.run:
                self.run, wanted = str(event.data["run"]), self.choice.takes(event)
            else:
                self.ended = event.run == self.run and event.type in RUN_TERMINAL
                wanted = event.run == self.run and (self.ended or self.choice.takes(event))
            if wanted:
                given.append(event)
        return given
