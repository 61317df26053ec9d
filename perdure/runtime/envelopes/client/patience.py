"""How long a client goes on when the other side is busy or away, and how it waits in between."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from perdure.upp.chance import CHANCE

_LONGEST_WAIT_SECONDS = 10.0
_MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Patience:
    """What a client puts up with.

    Attributes:
        busy: how long it goes on against answers of "busy" or "too many" (5.04 and 4.29), with the waits that they ask.
        broken: how long it goes on against connections that break or cannot be made; frames that come begin it anew.
        silence: how long a connection that should bring frames or heartbeats may be silent before it counts as broken.
        answer: how long the answer to one request is waited for.
        pause: before the second try; each further one waits for twice as long, ten seconds at most.
    """

    busy: timedelta = timedelta(seconds=60)
    broken: timedelta = timedelta(seconds=60)
    silence: timedelta = timedelta(seconds=45)
    answer: timedelta = timedelta(seconds=30)
    pause: timedelta = timedelta(milliseconds=100)


DEFAULT_PATIENCE = Patience()


@dataclass(slots=True)
class Tries:
    """The waits of one thing that is tried again.

    Attributes:
        limit: of all the time that may pass.
        pause: before the second try.
    """

    limit: timedelta
    pause: timedelta
    _count: int = field(default=0, init=False)
    _began: float | None = field(default=None, init=False)

    async def wait(self, at_least: timedelta | None = None) -> bool:
        """Wait before the next try.

        Args:
            at_least: what the other side asked for.

        Returns:
            False at once if the next try would come too late.
        """
        now = asyncio.get_running_loop().time()
        self._began = now if self._began is None else self._began
        backoff = min(
            self.pause.total_seconds() * 2 ** min(self._count, _MOST_DOUBLINGS), _LONGEST_WAIT_SECONDS
        ) * CHANCE.uniform(0.5, 1)
        pause = max(backoff, 0 if at_least is None else at_least.total_seconds())
        if now + pause - self._began > self.limit.total_seconds():
            return False
        self._count += 1
        await asyncio.sleep(pause)
        return True

    def reset(self) -> None:
        """Begin anew: it has got on."""
        self._count, self._began = 0, None
