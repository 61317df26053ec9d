"""The calls of one answer that go to a stage: one after the other, each on the session that the one before it has left.

Deterministic, since it also runs inside a Temporal workflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import TypeVar

from perdure.uap.stage_place import StagePlace
from perdure.upp.tool_call import ToolCall

T = TypeVar("T")


class StageOrder:
    """Where the session is while the calls of an answer are carried out.

    Attributes:
        place: after those that have ended; None if the answer is of no agent that walks a workflow.
    """

    def __init__(self, place: StagePlace | None, calls: Sequence[ToolCall], others: Container[str]) -> None:
        """Let the calls follow each other.

        Args:
            place: where the session is before them.
            calls: of the answer, in order.
            others: names of the agent's and the client's own tools, which wait for nobody.
        """
        self.place = place
        stages = [] if place is None else [at for at, call in enumerate(calls) if call.tool_name not in others]
        self._ended = {at: asyncio.Event() for at in stages}
        self._failed: BaseException | None = None

    def has(self, index: int) -> bool:
        """Whether the call at that place goes to a stage."""
        return index in self._ended

    async def run(self, index: int, work: Callable[[StagePlace | None], Awaitable[T]]) -> T:
        """What comes of a call, begun when it is its turn.

        Args:
            index: its place in the answer.
            work: carries it out; is given where the session is, None if the call goes to no stage.

        Raises:
            BaseException: what it raised, or one before it: it is not begun then.
        """
        if not self.has(index):
            return await work(None)
        try:
            for before, ended in self._ended.items():
                if before < index:
                    await ended.wait()
            if self._failed is not None:
                raise self._failed
            return await work(self.place)
        except BaseException as error:
            self._failed = self._failed or error
            raise
        finally:
            self._ended[index].set()

    def left(self, place: StagePlace | None) -> None:
        """Say where the session is after a call; None if that call has changed nothing."""
        self.place = place or self.place
