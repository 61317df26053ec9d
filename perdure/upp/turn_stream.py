"""Work that sends events and makes a turn, for readers who iterate, await, or both. UPP's and UAP's streams are such.

It is one class for both, since they differ only in their events and in what is left of work that was ended early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeAlias, TypeVar

from perdure.upp.event_flow import Flow
from perdure.upp.turn import Turn

E = TypeVar("E")

Work: TypeAlias = Callable[[Flow[E]], Coroutine[Any, Any, Turn]]
Left: TypeAlias = Callable[[Turn | BaseException | None], Turn | BaseException]
"""Says what is left of work that was ended early, from the turn it still made or the error it still raised; None if it
did neither, as when it never began."""


class TurnStream(Generic[E]):
    """Work that starts when it is first read: iterated, awaited, or both at once.

    Iterating gives each event once, at the reader's pace. `await stream` and `await stream.turn` give the turn, as
    often as wanted, and need no iteration: then the work runs to its end without waiting for a reader. Leaving an
    iteration before its end ends the work, as `abort` does; so does cancelling the last one who reads or awaits.
    """

    def __init__(self, work: Work[E], left: Left) -> None:
        """Takes what sends the events and returns the turn; it is called once, and cancelled to end it early."""
        self._running = _RunningWork(work, left)

    @property
    def turn(self) -> Awaitable[Turn]:
        """The turn, to be awaited. Raises what the work raised."""
        return self

    def __await__(self) -> Generator[Any, None, Turn]:
        return self._running.finish().__await__()

    def __aiter__(self) -> TurnStreamIterator[E]:
        return TurnStreamIterator(self._running)

    def abort(self) -> None:
        """Ends the work: what is running is cancelled, nothing else begins. After the end it does nothing."""
        self._running.abort()


class TurnStreamIterator(Generic[E]):
    """One iteration over a stream; dropping or closing it before its end aborts the work."""

    def __init__(self, running: _RunningWork[E]) -> None:
        self._running = running
        self._reading = False

    def __aiter__(self) -> TurnStreamIterator[E]:
        return self

    async def __anext__(self) -> E:
        if not self._reading:
            self._reading = True
            self._running.readers += 1
        try:
            event = await self._running.next()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        except BaseException:
            self._leave()
            raise
        if event is None:
            self._leave()
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """Ends the iteration as leaving the loop does, so that `contextlib.aclosing` can be used."""
        if self._reading:
            self._leave()
            self._running.abort()

    def __del__(self) -> None:
        # Not an async generator: its finaliser runs some time after a `break`, and by then the work may be over.
        if self._reading:
            self._leave()
            self._running.abort_from_anywhere()

    def _leave(self) -> None:
        self._reading = False
        self._running.readers -= 1


class _RunningWork(Generic[E]):
    """The task that does the work, and its outcome.

    Attributes:
        readers: how many iterate or await.
    """

    def __init__(self, work: Work[E], left: Left) -> None:
        self.readers = 0
        self._work = work
        self._left = left
        self._flow: Flow[E] = Flow()
        self._task: asyncio.Task[Turn] | None = None
        self._aborted = False
        self._outcome: Turn | BaseException | None = None
        self._settled = asyncio.Event()

    async def next(self) -> E | None:
        """Returns the next event, or None after the last; starts the work. Raises what it raised."""
        self._start()
        event = None if self._aborted else await self._flow.next()
        if event is None or self._aborted:
            await self._settled.wait()
            self._result()
            return None
        return event

    async def finish(self) -> Turn:
        """Returns the turn; starts the work. Raises what it raised."""
        self._start()
        self._flow.drain()
        self.readers += 1
        try:
            await self._settled.wait()
        except asyncio.CancelledError:
            if self.readers == 1:
                self.abort()
            raise
        finally:
            self.readers -= 1
        return self._result()

    def abort(self) -> None:
        """Ends the work early, if it is not over."""
        if self._aborted or self._outcome is not None:
            return
        self._aborted = True
        if self._task is None:
            self._settle(self._left(None))
        else:
            self._task.cancel()
            self._flow.drain()  # nobody reads on: work that still has something to say must not wait for it

    def abort_from_anywhere(self) -> None:
        """Ends the work early, from whatever thread the garbage collector runs on."""
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.get_loop().call_soon_threadsafe(self.abort)

    def _start(self) -> None:
        if self._task is None and self._outcome is None:
            self._task = asyncio.get_running_loop().create_task(self._work(self._flow))
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Turn]) -> None:
        made = None if task.cancelled() else task.exception() or task.result()
        self._settle(self._left(made) if made is None or self._aborted else made)

    def _settle(self, outcome: Turn | BaseException) -> None:
        self._outcome = outcome
        self._flow.close()
        self._settled.set()

    def _result(self) -> Turn:
        assert self._outcome is not None
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome
