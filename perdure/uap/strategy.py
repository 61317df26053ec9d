"""What a strategy is, and what it may do. One strategy runs in both hosts: a workflow, or a plain process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from perdure.uap.options import RunOptions
from perdure.uap.spec import AgentSpec
from perdure.uap.state import ExecutionState
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.turn import Turn


class Effects(Protocol):
    """Everything a strategy may do to the world, each awaited, in the host that runs it.

    A host raises `asyncio.CancelledError` from any of them once the run is cancelled, so a strategy needs no word of
    cancelling.
    """

    async def start_step(self) -> int:
        """Begin the next step and say so to viewers; returns its number, from 1."""
        ...

    async def generate(self) -> AssistantMessage:
        """One model call over the conversation so far. Its answer becomes part of the conversation.

        Raises:
            UPPError: the model could not be used; retryable errors have been retried.
        """
        ...

    async def call_tools(self, message: AssistantMessage) -> ToolResultMessage:
        """Run all tool calls of one answer, together but for barriers; results in call order, errors among them."""
        ...

    async def end_step(self, *, last: bool) -> None:
        """Close the step: its event, its checkpoint. A workflow may go on in a new execution from here.

        Args:
            last: the run needs no further step; sets `state.done`, which is part of the checkpoint.
        """
        ...

    def turn(self) -> Turn:
        """The turn so far. In a workflow, long parts are previews; the full turn is read from the store."""
        ...


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """What a strategy is given. Source: UAP-1.0 section 5.1, ExecutionContext.

    Attributes:
        agent: the agent's frozen spec.
        input: the user's message.
        options: the run's options.
        state: mutable; a strategy goes on from `state.step`, which is above 0 when a run is taken up again.
        effects: what it may do.
    """

    agent: AgentSpec
    input: Message
    options: RunOptions
    state: ExecutionState
    effects: Effects


class ExecutionStrategy(Protocol):
    """How an agent uses its model and tools. Source: UAP-1.0 section 5.1."""

    @property
    def name(self) -> str:
        """The strategy's identifier."""
        ...

    async def execute(self, context: ExecutionContext) -> Turn:
        """Run from `context.state` to the end of the run."""
        ...
