"""How many frames a client may send over one socket."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_AT_ONCE = 2000
"""Frames that may come at once, and events of one socket that may wait to be applied."""

MOST_PER_SECOND = 200.0
"""Frames for long: more than sound in pieces of 20 ms for four sessions."""


class Flood:
    """Counts one socket's frames."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing counted; `clock` gives seconds."""
        self._clock = clock
        self._left = float(MOST_AT_ONCE)
        self._at = clock()

    def is_too_much(self) -> bool:
        """Count a frame; whether it is one too many."""
        now = self._clock()
        self._left = min(float(MOST_AT_ONCE), self._left + (now - self._at) * MOST_PER_SECOND)
        self._at = now
        if self._left < 1:
            return True
        self._left -= 1
        return False
