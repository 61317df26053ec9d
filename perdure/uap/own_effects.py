"""What a strategy of the user's own may do to the world, in the host that runs it.

It is given messages to send, where the built-in strategies send the conversation as the host knows it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeAlias, cast

from perdure.errors import StrategyError
from perdure.uap.hooks import Hook, HookCall, HookOutcome
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject, JSONValue, jsonable
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage
from perdure.upp.stream import StreamEvent
from perdure.upp.tool_call import ToolExecution
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage

Tell: TypeAlias = Callable[[StreamEvent], Awaitable[None]]


class AgentView(Protocol):
    """The agent as every host knows it; in process it is the `Agent` itself."""

    @property
    def id(self) -> str:
        """UUIDv4."""
        ...

    @property
    def name(self) -> str | None:
        """How workers know it."""
        ...


class ToolView(Protocol):
    """A tool as every host knows it; in process it is the `Tool` itself, in a workflow its frozen `ToolSpec`."""

    @property
    def name(self) -> str:
        """As the model calls it."""
        ...

    @property
    def sequential(self) -> bool:
        """A barrier in its batch."""
        ...


class EventOfAgent(Protocol):
    """A UAP event, see `perdure.uap.agent_stream.UAPEvent`."""

    @property
    def type(self) -> str:
        """A `UAPEventType`."""
        ...

    @property
    def step(self) -> int:
        """From 1."""
        ...

    @property
    def agent_id(self) -> str:
        """Whose event it is."""
        ...

    @property
    def data(self) -> JSONObject:
        """JSON."""
        ...


class OwnEvent(Protocol):
    """An event that a strategy's stream yields, see `perdure.uap.agent_stream.AgentStreamEvent`."""

    @property
    def uap(self) -> EventOfAgent | None:
        """There if it is the agent's."""
        ...

    @property
    def upp(self) -> StreamEvent | None:
        """There if it is a model's or a tool's."""
        ...


@dataclass(frozen=True, slots=True)
class ModelView:
    """What is known of the agent's model where the strategy runs. In a workflow that is nothing."""

    model: Any = None
    system: str | None = None
    params: JSONObject = field(default_factory=dict[str, JSONValue])
    capabilities: Any = None


@dataclass(frozen=True, slots=True)
class OwnAsk:
    """One model call.

    Attributes:
        messages: what is sent, oldest first.
        inputs: how many of them may become part of the thread before the answer.
        tell: takes the model's events as they come; None if nobody does. In a workflow they go to the event log instead.
    """

    messages: Sequence[Message]
    inputs: int = 0
    tell: Tell | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, and what this call used."""

    message: AssistantMessage
    usage: TokenUsage


class OwnEffects(Protocol):
    """Everything such a strategy may do. A host raises `asyncio.CancelledError` once the run is cancelled."""

    @property
    def agent(self) -> AgentView:
        """Whose run it is."""
        ...

    @property
    def tools(self) -> Sequence[ToolView]:
        """The agent's and the client's."""
        ...

    @property
    def model(self) -> ModelView:
        """What is known of the model."""
        ...

    @property
    def streamed(self) -> bool:
        """Whether the run is read as a stream."""
        ...

    def begun(self, *, resumable: bool) -> ExecutionState:
        """The state that the strategy begins with: as it was at the last boundary if it can go on from there."""
        ...

    def stamp(self) -> tuple[str, datetime]:
        """Id and time of a message that is made now."""
        ...

    async def history(self) -> list[Message]:
        """The messages before the run."""
        ...

    async def ask(self, ask: OwnAsk) -> Answered:
        """One model call; several may run at once. Raises UPPError."""
        ...

    async def call_answer_tools(
        self, answer: AssistantMessage, tell: Tell | None
    ) -> tuple[ToolResultMessage, list[ToolExecution]]:
        """Run the tool calls of an answer to `ask`."""
        ...

    async def open_step(self, number: int) -> None:
        """Begin a step: its event. Raises LimitExceeded."""
        ...

    async def close_step(self, number: int, state: ExecutionState) -> None:
        """End a step: its event and its checkpoint."""
        ...

    def has_hook(self, hook: Hook) -> bool:
        """Whether the agent has this hook."""
        ...

    async def call_own_hook(self, call: HookCall) -> HookOutcome:
        """Call a hook that the agent has, with the state that the strategy has."""
        ...

    async def tell(self, event: OwnEvent) -> None:
        """Give an event of the strategy's stream to the run's reader."""
        ...

    async def guard(self, work: Coroutine[Any, Any, Turn], abort: Callable[[str], None]) -> Turn:
        """Carry the work out; `abort` is called as soon as the run is to be cancelled, with the reason."""
        ...

    async def keep(self, turn: Turn, state: ExecutionState) -> None:
        """Make the turn the run's: what of the run is not in it leaves the thread, what is new in it is stored."""
        ...


def plain_metadata(state: ExecutionState) -> JSONObject:
    """The metadata of a strategy's state, as it is kept.

    Raises:
        StrategyError: it is not JSON.
    """
    try:
        return cast(JSONObject, jsonable(state.metadata))
    except TypeError as error:
        raise StrategyError(f"the strategy left metadata that is not JSON: {error}") from error
