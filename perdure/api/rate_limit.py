"""How many requests one caller may send: a token bucket for each, in this process."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from perdure.config import Settings

_MAX_CALLERS = 10_000


class RateLimit:
    """Buckets that fill at a rate and hold a burst. The callers that were quiet longest are forgotten first.

    Attributes:
        burst: how many requests a full bucket holds.
    """

    def __init__(self, per_second: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with full buckets.

        Args:
            per_second: requests, for long.
            burst: requests at once.
            clock: seconds.
        """
        self._per_second = per_second
        self.burst = burst
        self._clock = clock
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, caller: Hashable) -> int:
        """Take one request from a caller's bucket.

        Returns:
            0 if it may go on, else after how many whole seconds it may try again.
        """
        now = self._clock()
        left, at = self._buckets.pop(caller, (float(self.burst), now))
        left = min(float(self.burst), left + (now - at) * self._per_second)
        is_enough = left >= 1
        self._buckets[caller] = (left - 1 if is_enough else left, now)
        if len(self._buckets) > _MAX_CALLERS:
            self._buckets.popitem(last=False)
        return 0 if is_enough else max(1, math.ceil((1 - left) / self._per_second))

    def left(self, caller: Hashable) -> tuple[int, float]:
        """How many requests a caller may send now, and in how many seconds its bucket is full again."""
        now = self._clock()
        left, at = self._buckets.get(caller, (float(self.burst), now))
        left = min(float(self.burst), left + (now - at) * self._per_second)
        return int(left), (self.burst - left) / self._per_second


def rate_limit_of(settings: Settings) -> RateLimit | None:
    """The limit that the settings set; None if they set none."""
    if settings.requests_per_second is None:
        return None
    return RateLimit(settings.requests_per_second, settings.request_burst)
