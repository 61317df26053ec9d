"""An agent's spec: what a run needs to know of its agent, as plain data, frozen when the run begins.

Workflow code reads nothing else of an agent and no setting: two workers with different settings, or a deploy in the
middle of a run, cannot make it take another path on replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

STAGED = "staged"
"""The name of the strategy that walks a workflow."""


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """A strategy by name, with its options as JSON.

    Attributes:
        source: of a strategy of the user's own: `module:attribute`, where a worker finds it again.
        resumable: it can go on from the state of a step boundary; else it is carried out from the beginning again.
    """

    name: str = "loop"
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    source: str = ""
    resumable: bool = False

    @property
    def starts_over(self) -> bool:
        """Whether each execution of a run carries it out from the beginning."""
        return bool(self.source) and not self.resumable


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the workflow must know of a tool; its function stays in the worker.

    Attributes:
        name: the tool's name; of a task of a workflow that the agent walks `stage.task`.
        effect: `none`, `idempotent`, `at_most_once` or `once`; `client` of a tool that the client runs, `remote`
            of one that asks an agent elsewhere.
        timeout_s: seconds one call may take; None for no limit of its own.
        sequential: a barrier in its batch.
        agent: of a sub-agent: its path, the tool names from the root agent's name on, joined by `/`.
        sandboxed: of a sub-agent: its strategy is of the user's own, so its sessions run in the sandboxed twin.
        approval: "human" if a person approves each call, "predicate" if a function of the arguments decides, else "".
        attempts: how often one call may run its function; each time may take the whole timeout.
        waits_s: seconds between them, all together at most.
        short: a call ends within a second, and is made where the run is worked on.
    """

    name: str
    effect: str = "at_most_once"
    timeout_s: float | None = None
    sequential: bool = False
    agent: str = ""
    sandboxed: bool = False
    approval: str = ""
    attempts: int = 1
    waits_s: float = 0.0
    short: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a run stops or goes on in a new execution.

    Attributes:
        continue_as_new_events: history events of one execution after which a step boundary continues as new.
        continue_as_new_bytes: history bytes, likewise.
        model_timeout_s: seconds one model call may take, all its tries together.
        tool_timeout_s: seconds one tool call may take where the tool says nothing.
    """

    continue_as_new_events: int = 3000
    continue_as_new_bytes: int = 4_000_000
    model_timeout_s: float = 1800.0
    tool_timeout_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The model that an agent calls, for those who ask what the agent can take.

    Attributes:
        provider: its name.
        id: the vendor's name of the model.
        can: the names of those `LLMCapabilities` that it has; none if it cannot be used as it is configured, which each
            run says.
        api: which of the provider's APIs it is reached by, where there are several; "" where nobody said.
        short: a call ends within a second, and is made where the run is worked on.
    """

    provider: str
    id: str
    can: list[str] = field(default_factory=list[str])
    api: str = ""
    short: bool = False


@dataclass(frozen=True, slots=True)
class PaidSpec:
    """How the runs of an agent are paid for. Amounts are decimals as text.

    Attributes:
        hold: kept of the payer's balance before the run begins, and again each time that it has used what is kept.
        currency: of all amounts; that of the table of prices.
        wait_s: seconds that a run waits for a payment before it fails.
        low_balance: the payer is warned from this balance on; "" warns of none.
        reason: what the payer is told it is for.
        gate: the name of the payment gate.
        schemes: the ways to pay, each {"scheme", "network"?, "address"?, "min_amount"?, "max_amount"?}.
    """

    hold: str
    currency: str = "USD"
    wait_s: float = 3600.0
    low_balance: str = ""
    reason: str = "llm_usage"
    gate: str = "ledger"
    schemes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent as a run sees it.

    Attributes:
        model: None for an agent without one.
        paid: how its runs are paid for; None if they cost their callers nothing.
        priced: its model has a price, so that what a run costs is known.
        hooks: the names of the lifecycle hooks that it has.
        middleware: the names of its middleware, outermost first.
        listens: the types of UAP events that some middleware is to be told.
    """

    name: str
    id: str
    strategy: StrategySpec = field(default_factory=StrategySpec)
    tools: list[ToolSpec] = field(default_factory=list[ToolSpec])
    limits: Limits = field(default_factory=Limits)
    priced: bool = False
    hooks: list[str] = field(default_factory=list[str])
    middleware: list[str] = field(default_factory=list[str])
    listens: list[str] = field(default_factory=list[str])
    model: ModelSpec | None = None
    paid: PaidSpec | None = None

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of that name, or None: the model may call what does not exist."""
        return next((tool for tool in self.tools if tool.name == name), None)


def runs_alone(spec: Mapping[str, Any], tool: str) -> bool:
    """Whether a tool's calls run alone: it says so, or it is a task of the stage that an agent is in.

    Args:
        spec: an agent's, as JSON.
        tool: the name that the model calls it by.
    """
    tools = {str(item["name"]): item for item in cast("list[dict[str, Any]]", spec.get("tools") or [])}
    if tool in tools:
        return tools[tool].get("sequential") is True
    return cast("dict[str, Any]", spec.get("strategy") or {}).get("name") == STAGED
