"""`agent(...)`: a model, tools and a strategy under one stable name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast, overload

from perdure.errors import InvalidInput
from perdure.uap import host
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.hooks import AgentStrategy
from perdure.uap.ids import derive_id, is_uuid4, new_id
from perdure.uap.middleware import Middleware
from perdure.uap.options import RunOptions
from perdure.uap.spec import AgentSpec, Limits, StrategySpec, ToolSpec
from perdure.upp.messages import Message, UserMessage
from perdure.upp.prices import PriceTable, find_price
from perdure.upp.provider import ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.thread import Thread
from perdure.upp.tools import Tool
from perdure.upp.turn import Turn

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")

History: TypeAlias = Sequence[Message] | Thread


class NamedStrategy(Protocol):
    """What `agent` asks of a strategy: a name and options from which a worker builds it again."""

    @property
    def name(self) -> str:
        """The strategy's registered name."""
        ...

    @property
    def options(self) -> dict[str, Any]:
        """JSON options."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """An agent. Made by `agent(...)`. Source: UAP-1.0 section 4.3.

    Attributes:
        id: UUIDv4. Derived from the name if there is one, so that a restored session finds its agent again.
        name: how workers, sessions and the command line know it; None for one that runs in process only.
        model: the bound model.
        tools: in the order given.
        system: the system prompt.
        execution: the strategy and its options.
        params: model parameters.
        description: one line for people and for parent agents.
        config: how the model's provider is reached; it stays in this process and is never stored.
        strategy: its lifecycle hooks.
        middleware: what surrounds its runs, outermost first.
    """

    id: str
    model: ModelReference
    name: str | None = None
    tools: tuple[Tool, ...] = ()
    system: str | None = None
    execution: StrategySpec = field(default_factory=StrategySpec)
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    description: str | None = None
    config: ProviderConfig | None = None
    strategy: AgentStrategy = field(default_factory=AgentStrategy)
    middleware: tuple[Middleware, ...] = ()

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def spec(self, limits: Limits | None = None, prices: PriceTable | None = None) -> AgentSpec:
        """The agent as a run sees it, by the limits and prices of whoever runs it."""
        tools = [
            ToolSpec(
                name=tool.name,
                effect=tool.effect.value,
                timeout_s=tool.timeout.total_seconds() if tool.timeout else None,
                sequential=tool.sequential,
            )
            for tool in self.tools
        ]
        return AgentSpec(
            name=self.name or "",
            id=self.id,
            strategy=self.execution,
            tools=tools,
            limits=limits or Limits(),
            priced=find_price(prices or {}, self.model.provider.name, self.model.model_id) is not None,
            hooks=self.strategy.names,
        )

    @overload
    async def run(self, input: str | Message, /, *, options: RunOptions | None = None) -> Turn: ...
    @overload
    async def run(self, history: History, input: str | Message, /, *, options: RunOptions | None = None) -> Turn: ...
    async def run(
        self, first: History | str | Message, second: str | Message | None = None, /, *,
        options: RunOptions | None = None,
    ) -> Turn:  # fmt: skip
        """Run on one input, after a history if one is given; neither is changed. Source: UAP-1.0 section 4.3.

        In process without a connection; durable inside `async with connect()`.

        Raises:
            InvalidInput: the arguments are not (input) or (history, input).
            UPPError: the model could not be used, or the strategy's limit was met with tool calls open.
            RunError: the run failed in another way.
        """
        history, message = _overload(first, second)
        return await host.current().run(self, history, message, options or RunOptions())

    @overload
    def stream(self, input: str | Message, /, *, options: RunOptions | None = None) -> AgentStreamResult: ...
    @overload
    def stream(
        self, history: History, input: str | Message, /, *, options: RunOptions | None = None
    ) -> AgentStreamResult: ...
    def stream(
        self, first: History | str | Message, second: str | Message | None = None, /, *,
        options: RunOptions | None = None,
    ) -> AgentStreamResult:  # fmt: skip
        """Do what `run` does, with events as it goes. Nothing happens before the result is read. Source: UAP-1.0 section 4.3.

        The run is carried out where `run` would be: in process, or durable inside `async with connect()`, whose block
        must then last until the stream has been read.

        Raises:
            InvalidInput: the arguments are not (input) or (history, input). What `run` raises is raised by reading.
        """
        history, message = _overload(first, second)
        return host.current().stream(self, history, message, options or RunOptions())


def _overload(first: History | str | Message, second: str | Message | None) -> tuple[list[Message], Message]:
    if second is None:
        if not isinstance(first, str | Message):
            raise InvalidInput("a history alone lacks the input: give (history, input)")
        return [], _message(first)
    if isinstance(first, str | Message):
        raise InvalidInput("(history, input) takes a list of messages or a Thread first")
    messages = first.messages if isinstance(first, Thread) else first
    return list(messages), _message(second)


def _message(value: str | Message) -> Message:
    return UserMessage(value) if isinstance(value, str) else value


def agent(
    *,
    model: ModelReference,
    name: str | None = None,
    id: str | None = None,
    description: str | None = None,
    system: str | None = None,
    tools: Sequence[Tool] = (),
    execution: NamedStrategy | StrategySpec | None = None,
    params: Mapping[str, Any] | None = None,
    config: ProviderConfig | None = None,
    strategy: AgentStrategy | None = None,
    middleware: Sequence[Middleware] = (),
) -> Agent:
    """Define an agent. Source: UAP-1.0 section 4.1.

    Args:
        model: from a provider factory, for example `scripted([...])`.
        name: 1 to 64 letters, digits, `_`, `.` or `-`. Needed by an agent that an `App` serves; it must stay the same
            from deploy to deploy.
        id: UUIDv4; by default derived from the name, or drawn if there is none.
        description: one line for people.
        system: the system prompt.
        tools: functions made into tools by `@tool`; names must differ.
        execution: `loop(...)` by default.
        params: model parameters, passed on as they are.
        config: how the model's provider is reached, over what the model's own reference says.
        strategy: lifecycle hooks.
        middleware: what surrounds each run, outermost first; see `perdure.middleware`.

    Raises:
        InvalidInput: a name, id or tool that cannot be used.
        UPPError: INVALID_REQUEST if the model's provider would refuse a tool.
    """
    if name is not None and not _NAME.match(name):
        raise InvalidInput(f"agent name {name!r} cannot be used; 1 to 64 letters, digits, '_', '.' or '-'")
    if id is not None and not is_uuid4(id):
        raise InvalidInput(f"agent id {id!r} is not a UUIDv4; leave it out to get one from the name")
    if not isinstance(cast(object, model), ModelReference):
        raise InvalidInput(f"model is a {type(model).__name__}; it must come from a provider, as scripted([...]) does")
    _check_tools(tools)
    _check_middleware(middleware)
    model.bind().check(tools, None)
    chosen = execution or StrategySpec()
    return Agent(
        id=id or (derive_id("agent", name) if name else new_id()),
        model=model,
        name=name,
        tools=tuple(tools),
        system=system,
        execution=StrategySpec(name=chosen.name, options=dict(chosen.options)),
        params=dict(params or {}),
        description=description,
        config=model.config if config is None else config.over(model.config),
        strategy=strategy or AgentStrategy(),
        middleware=tuple(middleware),
    )


def _check_middleware(middleware: Sequence[Middleware]) -> None:
    for item in middleware:
        if not isinstance(cast(object, item), Middleware):
            raise InvalidInput(
                f"{item!r:.80} is not middleware; make a subclass of Middleware, or use perdure.middleware"
            )


def _check_tools(tools: Sequence[Tool]) -> None:
    for item in tools:
        if not isinstance(cast(object, item), Tool):
            raise InvalidInput(f"{item!r} is not a tool; make one from a typed function with @tool")
    check_names(tools)


def check_names(tools: Sequence[Tool]) -> None:
    """Refuse tools that a model could take for one another.

    Raises:
        InvalidInput: two names differ in nothing, or only in case or in `-` and `_`.
    """
    seen: dict[str, str] = {}
    for item in tools:
        folded = item.name.replace("-", "_").lower()
        if folded in seen:
            raise InvalidInput(f"tools {seen[folded]!r} and {item.name!r} cannot be told apart; give one another name")
        seen[folded] = item.name
