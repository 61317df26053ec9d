"""How long streams of events wait."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a stream waits.

    Attributes:
        silence_s: after so long without an event the viewer is told that the stream is alive.
        stalled_s: a viewer that takes nothing for so long is dropped.
        most_behind: events by which a viewer that had them all once may fall behind before it is told to come again.
    """

    silence_s: float = 15.0
    stalled_s: float = 30.0
    most_behind: int = 10_000
