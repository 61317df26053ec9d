"""Strategies of one's own: what they are, and what they are given. Source: UAP-1.0 sections 5.1 and 5.5."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.uap.hook_line import StrategyHooks
from perdure.uap.llm_facade import StrategyLLM
from perdure.uap.own_effects import AgentView, OwnEvent, ToolView
from perdure.uap.state import ExecutionState
from perdure.upp.messages import Message
from perdure.upp.turn import Turn


class AbortSignal:
    """Says whether the run is to be cancelled. Model and tool calls of a cancelled run raise `CancelledError`."""

    def __init__(self) -> None:
        self._raised = asyncio.Event()
        self._reason: str | None = None

    @property
    def aborted(self) -> bool:
        """Whether it is."""
        return self._raised.is_set()

    @property
    def reason(self) -> str | None:
        """Why; None as long as it is not."""
        return self._reason

    async def wait(self) -> None:
        """Return once it is."""
        await self._raised.wait()

    def abort(self, reason: str) -> None:
        """Say so; the host's part."""
        if not self.aborted:
            self._reason = reason
            self._raised.set()


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What a strategy of one's own is given. Source: UAP-1.0 section 5.1, ExecutionContext.

    Attributes:
        agent: whose run it is. In process the `Agent`; in a workflow its id and name.
        llm: its model, with its tools.
        input: the user's message. In a workflow the parts over 1 KB of this and all other messages are a preview of at
            most 128 bytes; what is given back to `llm` is sent whole.
        history: the messages before the run, oldest first.
        tools: in process the tools themselves; in a workflow what a run knows of them. `llm` runs them.
        strategy: the agent's hooks.
        signal: says whether the run is to be cancelled.
        state: the execution's, mutable; no messages at first. A strategy with `resumable = True` may be given one whose
            `step` is above 0, and goes on after it.
    """

    agent: AgentView
    llm: StrategyLLM
    input: Message
    history: Sequence[Message]
    tools: Sequence[ToolView]
    strategy: StrategyHooks
    signal: AbortSignal
    state: ExecutionState


class StrategyStream(Protocol):
    """What a strategy's `stream` returns: an `AgentStreamResult`, or anything with its iteration and its turn."""

    @property
    def turn(self) -> Awaitable[Turn]:
        """The turn, once the events have been read."""
        ...

    def __aiter__(self) -> AsyncIterator[OwnEvent]: ...


class ExecutionStrategy(Protocol):
    """How an agent uses its model and tools. Source: UAP-1.0 section 5.1.

    In a durable run it is workflow code: it runs again from the beginning whenever a worker takes the run over, so it
    must take the same way each time. Clocks, chance, files and the network are refused there; they belong into tools.
    """

    @property
    def name(self) -> str:
        """The strategy's identifier."""
        ...

    async def execute(self, context: ExecutionContext) -> Turn:
        """Run to the end; the turn is the run's."""
        ...

    def stream(self, context: ExecutionContext) -> StrategyStream:
        """The same, with events: the reader of the run's stream gets exactly these."""
        ...
