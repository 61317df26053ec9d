"""`StreamResult`: the events of an inference as they come, and the turn at its end.

Source: UPP-1.2, StreamResult; awaiting it without iterating is UPP-1.3's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeAlias

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.event_flow import EventFlow
from perdure.upp.stream import StreamEvent
from perdure.upp.turn import Turn

Work: TypeAlias = Callable[[EventFlow], Coroutine[Any, Any, Turn]]


class StreamResult:
    """An inference that starts when it is first read: iterated, awaited, or both at once.

    Iterating gives each event once, at the reader's pace. `await result` and `await result.turn` give the turn, as
    often as wanted, and need no iteration: then the inference runs to its end without waiting for a reader. Leaving an
    iteration before its end ends the inference, as `abort` does; so does cancelling the last one who reads or awaits.
    """

    def __init__(self, work: Work, provider: str) -> None:
        """Takes what sends the events and returns the turn; it is called once, and cancelled to end it early."""
        self._inference = _Inference(work, provider)

    @property
    def turn(self) -> Awaitable[Turn]:
        """The turn, to be awaited. Raises what the inference raised, or UPPError CANCELLED if it was ended early."""
        return self

    def __await__(self) -> Generator[Any, None, Turn]:
        return self._inference.finish().__await__()

    def __aiter__(self) -> StreamIterator:
        return StreamIterator(self._inference)

    def abort(self) -> None:
        """Ends the inference: the model call and running tools are cancelled, tools not yet started are skipped.

        Reading on raises UPPError CANCELLED, as does the turn, once all has stopped. After the end it does nothing.
        """
        self._inference.abort()


class StreamIterator:
    """One iteration over a stream result; dropping or closing it before its end aborts the inference."""

    def __init__(self, inference: _Inference) -> None:
        self._inference = inference
        self._reading = False

    def __aiter__(self) -> StreamIterator:
        return self

    async def __anext__(self) -> StreamEvent:
        if not self._reading:
            self._reading = True
            self._inference.readers += 1
        try:
            event = await self._inference.next()
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
            self._inference.abort()

    def __del__(self) -> None:
        # Not an async generator: its finaliser runs some time after a `break`, and by then the inference may be over.
        if self._reading:
            self._leave()
            self._inference.abort_from_anywhere()

    def _leave(self) -> None:
        self._reading = False
        self._inference.readers -= 1


class _Inference:
    """The task that does the work, and its outcome.

    Attributes:
        readers: how many iterate or await.
    """

    def __init__(self, work: Work, provider: str) -> None:
        self.readers = 0
        self._work = work
        self._provider = provider
        self._flow = EventFlow()
        self._task: asyncio.Task[Turn] | None = None
        self._aborted = False
        self._outcome: Turn | BaseException | None = None
        self._settled = asyncio.Event()

    async def next(self) -> StreamEvent | None:
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
            self._settle(self._cancelled())
        else:
            self._task.cancel()

    def abort_from_anywhere(self) -> None:
        """Ends the work early, from whatever thread the garbage collector runs on."""
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.get_loop().call_soon_threadsafe(self.abort)

    def _start(self) -> None:
        if self._task is None and self._outcome is None:
            self._task = asyncio.get_running_loop().create_task(self._work(self._flow))
            self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Turn]) -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or self._aborted:
            self._settle(self._cancelled(error))
        else:
            self._settle(error or task.result())

    def _settle(self, outcome: Turn | BaseException) -> None:
        self._outcome = outcome
        self._flow.close()
        self._settled.set()

    def _result(self) -> Turn:
        assert self._outcome is not None
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome

    def _cancelled(self, cause: BaseException | None = None) -> UPPError:
        return UPPError("the stream was aborted", ErrorCode.CANCELLED, self._provider, cause=cause)
