"""`agent(...)`: a model, tools and a strategy under one stable name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack, overload

from perdure.uap import agent_checks as checks
from perdure.uap import host
from perdure.uap.agent_copy import copied_options
from perdure.uap.agent_execution import NamedStrategy, StagedStrategy, spec_of_execution, staged_of
from perdure.uap.agent_input import History, read_input
from perdure.uap.agent_spec import make_spec
from perdure.uap.agent_stream import AgentStreamResult
from perdure.uap.agent_tool import AgentTool, make_tool
from perdure.uap.delegate import DelegateTool
from perdure.uap.execution import ExecutionStrategy
from perdure.uap.hooks import AgentStrategy
from perdure.uap.ids import derive_id, new_id
from perdure.uap.middleware import Middleware
from perdure.uap.options import RunOptions
from perdure.uap.spec import AgentSpec, Limits, StrategySpec
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message
from perdure.upp.prices import PriceTable
from perdure.upp.provider import BoundLLMModel, ModelReference
from perdure.upp.provider_config import ProviderConfig
from perdure.upp.tool_use import ToolUseStrategy
from perdure.upp.tools import Tool
from perdure.upp.turn import Turn

if TYPE_CHECKING:
    from perdure.uap.option_types import AgentOptions

MAX_DEPTH = 8
"""Levels of sub-agents below an agent that says nothing else."""


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """An agent. Made by `agent(...)`. Source: UAP-1.0 section 4.3.

    Attributes:
        id: UUIDv4. Derived from the name if there is one, so that a restored session finds its agent again.
        model: the bound model; None for an agent that has its parent's.
        name: how workers, sessions and the command line know it; None for one that runs in process only.
        tools: tools and sub-agents, the very objects that were given, in the order given.
        system: the system prompt.
        execution: the strategy and its options.
        params: model parameters.
        description: one line for people and for parent agents.
        config: how the model's provider is reached, over what the model says; it stays in this process and is never
            stored.
        strategy: its lifecycle hooks.
        middleware: what surrounds its runs, outermost first.
        structure: the JSON Schema of its answers; None for free text.
        tool_strategy: hooks around its tool calls.
        max_depth: how many levels of sub-agents may run below it.
        resolved: the tools, with each sub-agent as the tool that its parent's model calls.
        custom: the strategy itself if it is one of the user's own.
        staged: the strategy with its workflow if it walks one.
    """

    id: str
    model: ModelReference | None
    name: str | None = None
    tools: tuple[Tool | Agent, ...] = ()
    system: str | None = None
    execution: StrategySpec = field(default_factory=StrategySpec)
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    description: str | None = None
    config: ProviderConfig | None = None
    strategy: AgentStrategy = field(default_factory=AgentStrategy)
    middleware: tuple[Middleware, ...] = ()
    structure: JSONObject | None = None
    tool_strategy: ToolUseStrategy | None = None
    max_depth: int = MAX_DEPTH
    custom: ExecutionStrategy | None = None
    staged: StagedStrategy | None = None
    resolved: tuple[Tool, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        resolved = tuple(item.to_tool() if isinstance(item, Agent) else item for item in self.tools)
        object.__setattr__(self, "resolved", resolved)

    def tool(self, name: str) -> Tool | None:
        """The tool of that name, a sub-agent's too, or None.

        Tasks of the workflow that it walks are `stage.task`, agents that it hands tasks to `delegate:agent`.
        """
        found = next((tool for known, tool in self._own_tools() if known == name), None)
        return self.staged.stages.tools.get(name) if found is None and self.staged is not None else found

    def all_tools(self) -> Iterator[tuple[str, Tool]]:
        """Its tools by name, and after them the tasks of all stages of the workflow that it walks."""
        yield from self._own_tools()
        if self.staged is not None:
            yield from self.staged.stages.tools.items()

    def _own_tools(self) -> Iterator[tuple[str, Tool]]:
        """Its tools by name, each that hands tasks to agents with these."""
        for tool in self.resolved:
            yield tool.name, tool
            if isinstance(tool, DelegateTool):
                yield from tool.named()

    def shown(self) -> list[Sequence[Tool]]:
        """The tools that its model may be shown together: all of them, or those of each stage with its own."""
        if self.staged is None:
            return [self.resolved]
        return [[*tools, *self.resolved] for tools in self.staged.stages.shown()]

    def bind(self) -> BoundLLMModel:
        """The model, ready to be called.

        Raises:
            UPPError: INVALID_REQUEST if the agent has none and runs below no agent that has one, or it cannot be used.
        """
        if self.model is None:
            raise checks.missing_model(self.name or self.id)
        return self.model.bind()

    @property
    def reach(self) -> ProviderConfig | None:
        """How the model's provider is reached: the agent's configuration over the model's own."""
        below = None if self.model is None else self.model.config
        return below if self.config is None else self.config.over(below)

    def spec(self, limits: Limits | None = None, prices: PriceTable | None = None, *, path: str = "") -> AgentSpec:
        """The agent as a run sees it, by the limits and prices of whoever runs it.

        Args:
            limits: by default the usual ones.
            prices: by default nothing is known.
            path: of a sub-agent: the root agent's name and the names of the tools that lead to it, joined by `/`. It is
                the spec's name.
        """
        return make_spec(self, limits or Limits(), prices or {}, path)

    def to_tool(
        self, *, name: str | None = None, description: str | None = None, parameter_schema: JSONObject | None = None
    ) -> AgentTool:
        """The agent as a tool, which another agent's model can call. Source: UAP-1.0 section 8.2.

        An agent among the `tools` of another one becomes a tool so, without options.

        Args:
            name: by default the agent's name, with `_` for each dot, or `agent_<id>` if it has none.
            description: by default the agent's own, else how its system prompt begins.
            parameter_schema: what the model gives. By default a `task`; without one in it the sub-agent's task is the
                JSON text of all that was given.

        Raises:
            InvalidInput: the name or the schema cannot be used.
        """
        return make_tool(self, name, description, parameter_schema)

    def copy(self, **changes: Unpack[AgentOptions]) -> Agent:
        """Another agent with the same options but for the changes; see `agent`.

        Its id is a new one, unless it is given or the copy has a name: a name stands for one id, so a copy that keeps
        the name keeps the id that is derived from it. A configuration is not taken along to another provider.

        Raises:
            InvalidInput: as `agent`.
            UPPError: as `agent`.
        """
        return agent(**copied_options(self, changes))

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
        history, message = read_input(first, second)
        return await host.current().run(self, history, message, options or RunOptions())

    @overload
    def stream(
        self, input: str | Message, /, *, options: RunOptions | None = None, sub_agents: bool = False
    ) -> AgentStreamResult: ...
    @overload
    def stream(
        self, history: History, input: str | Message, /, *, options: RunOptions | None = None, sub_agents: bool = False
    ) -> AgentStreamResult: ...
    def stream(
        self, first: History | str | Message, second: str | Message | None = None, /, *,
        options: RunOptions | None = None, sub_agents: bool = False,
    ) -> AgentStreamResult:  # fmt: skip
        """Do what `run` does, with events as it goes. Nothing happens before the result is read. Source: UAP-1.0 section 4.3.

        The run is carried out where `run` would be: in process, or durable inside `async with connect()`, whose block
        must then last until the stream has been read. With `sub_agents` the events of sub-agents are given too, each
        with the path and the tool call that it belongs to.

        Raises:
            InvalidInput: the arguments are not (input) or (history, input). What `run` raises is raised by reading.
        """
        history, message = read_input(first, second)
        return host.current().stream(self, history, message, options or RunOptions(), sub_agents=sub_agents)


def agent(
    *,
    model: ModelReference | None = None,
    name: str | None = None,
    id: str | None = None,
    description: str | None = None,
    system: str | None = None,
    tools: Sequence[Tool | Agent] = (),
    execution: NamedStrategy | ExecutionStrategy | StrategySpec | None = None,
    params: Mapping[str, Any] | None = None,
    config: ProviderConfig | None = None,
    strategy: AgentStrategy | None = None,
    middleware: Sequence[Middleware] = (),
    structure: JSONObject | None = None,
    tool_strategy: ToolUseStrategy | None = None,
    max_depth: int = MAX_DEPTH,
) -> Agent:
    """Define an agent. Source: UAP-1.0 section 4.1.

    Args:
        model: from a provider factory, for example `scripted([...])`. A sub-agent without one has its parent's.
        name: 1 to 64 letters, digits, `_`, `.` or `-`. Needed by an agent that an `App` serves; it must stay the same
            from deploy to deploy.
        id: UUIDv4; by default derived from the name, or drawn if there is none.
        description: one line for people, and for the models of parent agents.
        system: the system prompt.
        tools: functions made into tools by `@tool`, and sub-agents; names must differ.
        execution: `loop(...)`, `react(...)`, `plan(...)`, `staged(...)`, or a strategy of one's own, see
            `perdure.uap.execution.ExecutionStrategy`. `loop(...)` by default, with the rounds of `tool_strategy` if there is one.
        params: model parameters, passed on as they are.
        config: how the model's provider is reached, over what the model's own reference says.
        strategy: lifecycle hooks.
        middleware: what surrounds each run, outermost first; see `perdure.middleware`.
        structure: a JSON Schema that the answers must fit; the turn then has `data`.
        tool_strategy: hooks around each tool call. Its limit of rounds counts where no `execution` is given.
        max_depth: how many levels of sub-agents may run below this one; 0 for none.

    Raises:
        InvalidInput: a name, id, tool or other option that cannot be used.
        UPPError: INVALID_REQUEST if the model's provider would refuse a tool or the structure.
    """
    checks.check_identity(name, id)
    checks.check_model(model)
    checks.check_tools(tools, Agent)
    checks.check_middleware(middleware)
    checks.check_depth(max_depth)
    kept, custom = spec_of_execution(execution, tool_strategy)
    walks = staged_of(execution)
    checks.check_walk(kept.name, walks)
    made = Agent(
        id=id or (derive_id("agent", name) if name else new_id()),
        model=model,
        name=name,
        tools=tuple(tools),
        system=system,
        execution=kept,
        params=dict(params or {}),
        description=description,
        config=config,
        strategy=strategy or AgentStrategy(),
        middleware=tuple(middleware),
        structure=checks.checked_structure(structure),
        tool_strategy=tool_strategy,
        max_depth=max_depth,
        custom=custom,
        staged=walks,
    )
    for shown in made.shown():
        checks.check_names(shown)
        if model is not None:
            checks.check_fit(model, shown, made.structure)
    return made
