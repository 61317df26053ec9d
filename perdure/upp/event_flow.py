"""Stream events on their way from the one who makes them to the one who reads them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeAlias, TypeVar

from perdure.upp.stream import StreamEvent

E = TypeVar("E")


class Flow(Generic[E]):
    """Events of one producer for a reader who sets the pace: the producer goes on when the reader wants more.

    So nothing is asked of a model, and no tool runs, beyond what was read; unless somebody wants the end (`drain`).
    """

    def __init__(self) -> None:
        self._events: deque[E] = deque()
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._draining = False
        self._closed = False

    async def send(self, events: Iterable[E]) -> None:
        """Hands events on, and returns when the reader has taken them all and wants more."""
        self.post(events)
        if self._events and not self._draining:
            self._wanted.clear()
        await self._wanted.wait()

    def post(self, events: Iterable[E]) -> None:
        """Hands events on and does not wait."""
        self._events.extend(events)
        self._changed.set()

    def drain(self) -> None:
        """Lets the producer run to its end; what is not read is kept."""
        self._draining = True
        self._wanted.set()

    def close(self) -> None:
        """Says that no other event will come."""
        self._closed = True
        self._changed.set()

    async def next(self) -> E | None:
        """Returns the next event, or None after the last."""
        while not self._events:
            if self._closed:
                return None
            self._wanted.set()
            self._changed.clear()
            await self._changed.wait()
        return self._events.popleft()


EventFlow: TypeAlias = Flow[StreamEvent]
"""The flow of a model's events."""
