"""What a strategy is inside, and what it may do. One strategy runs in both hosts: a workflow, or a plain process.

What users write is `perdure.uap.execution.ExecutionStrategy`; `custom_strategy` makes one of these of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from perdure.uap.options import RunOptions
from perdure.uap.own_effects import OwnEffects
from perdure.uap.spec import AgentSpec
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.turn import Turn


@dataclass(frozen=True, slots=True)
class Ask:
    """How one model call differs from a plain one.

    Attributes:
        scaffold: the answer is the strategy's own ("reason", "plan"): it stays in the state and is sent to the model
            again in this run, but is no part of the turn or the thread. Tool calls in it are dropped.
        prompt: said to the model as the user's last message, and never again; likewise no part of the turn.
        observe: "markdown", "json" or "text": the last tool results are told once more in that form before the prompt.
        tools: whether the model may call tools; they are declared all the same.
        structure: a JSON Schema that the answer must fit, in place of the agent's.
        stages: of an agent that walks a workflow: sha256 of the definition. The model has the tools of the stage where the
            run is besides the agent's own, and its calls of them go to that stage.
        acts: all tools that the answer calls are called next, whatever it says. A host may then call short ones before it
            comes back with the answer.
    """

    scaffold: str = ""
    prompt: str = ""
    observe: str = ""
    tools: bool = True
    structure: JSONObject | None = None
    stages: str = ""
    acts: bool = False


PLAIN = Ask()


class Effects(Protocol):
    """Everything a strategy may do to the world, each awaited, in the host that runs it.

    A host raises `asyncio.CancelledError` from any of them once the run is cancelled, so a strategy needs no word of
    cancelling. Hooks that the agent does not have cost nothing.
    """

    async def start_step(self) -> int:
        """Begin the next step, say so to viewers, call `on_step_start`; returns its number, from 1."""
        ...

    async def generate(self, ask: Ask = PLAIN) -> AssistantMessage:
        """One model call over the conversation so far. Its answer becomes part of the conversation.

        A "reason" answer is appended to `state.reasoning`, is told to viewers and to `on_reason`.

        Raises:
            UPPError: the model could not be used; retryable errors have been retried.
        """
        ...

    async def call_tools(self, message: AssistantMessage, *, hooks: bool = False) -> ToolResultMessage:
        """Run all tool calls of one answer, together but for barriers; results in call order, errors among them.

        Those of a stage's tools run one after the other: each finds the stage that the one before it has left.

        Args:
            message: the answer.
            hooks: call `on_act` before and `on_observe` after, as react does.
        """
        ...

    async def end_step(self, *, last: bool) -> bool:
        """Close the step: `on_step_end`, its event, its checkpoint. A workflow may go on in a new execution from here.

        Args:
            last: the run needs no further step; sets `state.done`, which is part of the checkpoint.

        Returns:
            Whether the run ends here: it was the last step, or the stop condition says so.
        """
        ...

    @property
    def data(self) -> JSONValue:
        """What the last answer to an `Ask` with a structure holds; None if its text was no JSON."""
        ...

    def turn(self) -> Turn:
        """The turn so far. In a workflow, long parts are previews; the full turn is read from the store."""
        ...


@dataclass(frozen=True, slots=True)
class StrategyContext:
    """What a strategy is given.

    Attributes:
        agent: the agent's frozen spec.
        input: the user's message.
        options: the run's options.
        state: mutable; a strategy goes on from `state.step`, which is above 0 when a run is taken up again.
        effects: what it may do.
        own: what a strategy of the user's own may do; None in hosts that run none.
    """

    agent: AgentSpec
    input: Message
    options: RunOptions
    state: ExecutionState
    effects: Effects
    own: OwnEffects | None = None


class Strategy(Protocol):
    """How an agent uses its model and tools."""

    @property
    def name(self) -> str:
        """The strategy's identifier."""
        ...

    async def execute(self, context: StrategyContext) -> Turn:
        """Run from `context.state` to the end of the run."""
        ...
