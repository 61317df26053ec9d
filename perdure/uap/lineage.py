"""Which agent is running here and on whose behalf: what sub-agents inherit, and what they use up.

It is for runs in this process; a durable run has its parent in its rows. Source: UAP-1.0 sections 8.3 and 8.4.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from perdure.uap.active_session import SessionRun, current_run
from perdure.uap.agent_stream import AgentStreamEvent
from perdure.uap.allowance import Allowance, shorter
from perdure.uap.ids import new_id
from perdure.uap.inheritance import check_level, deepest, inherit, label_of
from perdure.uap.middleware_usage import MiddlewareUsage
from perdure.uap.options import RunOptions
from perdure.uap.state import ExecutionState
from perdure.uap.usage_by_agent import UsageByAgent, sum_by_agent, usage_since
from perdure.upp.event_flow import Flow
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message
from perdure.upp.prices import PriceTable
from perdure.upp.usage import TokenUsage, aggregate_usage, empty_usage

if TYPE_CHECKING:
    from perdure.uap.agent import Agent
    from perdure.uap.middleware import MiddlewareContext


@dataclass(slots=True, eq=False)
class Lineage:
    """One run of an agent in this process, with its place among those that it is part of.

    Attributes:
        agent: with all that it inherits.
        turn: the run's id.
        path: the root agent's name or `agent_<id>`, then the names of the tools that led here.
        options: the run's.
        limit: the depth of the last sub-agents that may run below.
        parent: the run whose tool, hook or middleware began this one.
        call: the tool call that did.
        session_run: the session's run that this is part of.
        context: as the middleware's `before` hooks left it.
        gives_events: the events of its sub-agents are wanted by who reads its own.
        sink: where they go; None if they are not wanted.
        top: depth of the run whose stream the sink is.
        error: what the agent's middleware raised when it was told of a sub-agent; the run must fail with it.
        around: what its middleware's own model calls used.
        deadline: when its time is over, by the monotonic clock; None if it has no limit.
        timed: what allows it that time.
    """

    agent: Agent
    turn: str
    path: tuple[str, ...]
    options: RunOptions
    limit: int
    parent: Lineage | None = None
    call: str = ""
    session_run: SessionRun | None = None
    context: MiddlewareContext | None = None
    gives_events: bool = False
    sink: Flow[AgentStreamEvent] | None = None
    top: int = 0
    error: Exception | None = None
    around: MiddlewareUsage = field(default_factory=MiddlewareUsage)
    deadline: float | None = None
    timed: Allowance | None = None
    _over: bool = False
    _state: ExecutionState | None = None
    _before: TokenUsage = field(default_factory=empty_usage)
    _before_step: int = 0
    _children: list[Lineage] = field(default_factory=list["Lineage"])
    _used: UsageByAgent | None = None

    @property
    def ids(self) -> JSONObject:
        """Who this is and on whose behalf, as middleware's metadata has it. Source: UAP-1.0 section 8.4."""
        return {"agentId": self.agent.id, "turnId": self.turn, **self.parents}

    @property
    def parents(self) -> JSONObject:
        """On whose behalf this is; empty for a root."""
        return {} if self.parent is None else {"parentAgentId": self.parent.agent.id, "parentTurnId": self.parent.turn}

    def up(self) -> Iterator[Lineage]:
        """The runs that this one is part of, the innermost first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def count(self, state: ExecutionState) -> None:
        """Count what is used from now on in this state."""
        self._state, self._before, self._before_step = state, state.usage, state.step

    def usage(self) -> UsageByAgent:
        """What this run and its sub-agents have used so far, by path; the run's own first."""
        if self._used is not None:
            return dict(self._used)
        used = empty_usage() if self._state is None else usage_since(self._before, self._state.usage)
        path = "/".join(self.path)
        return sum_by_agent([{path: used}, self.around.by_path(path), *(child.usage() for child in self._children)])

    def count_around(self, prices: PriceTable) -> MiddlewareUsage:
        """Count what the run's middleware will use by model calls of its own, also for the runs that it is part of."""

        def told(usage: TokenUsage) -> None:
            for run in self.up():
                if run.context is not None:
                    run.context.spent = run.context.spent.after_usage(usage)

        self.around = MiddlewareUsage(prices, told)
        return self.around

    def spent(self) -> Decimal | None:
        """What that cost; None if a model call's cost is not known."""
        total = aggregate_usage(self.usage().values())
        return total.cost if total.cycles else Decimal(0)

    def tokens(self) -> int:
        """The tokens of that."""
        return aggregate_usage(self.usage().values()).total_tokens

    @property
    def allowance(self) -> Allowance | None:
        """What was left of its session's limits when it began; None if it has none, or is not the session's own run."""
        run = self.session_run
        return None if run is None or not self._is_outermost else run.allowance

    @property
    def _is_outermost(self) -> bool:
        """Whether it is the session's own run, not one that was begun inside it."""
        return self.parent is None or self.parent.session_run is not self.session_run

    def conversation(self) -> list[Message]:
        """What has been said so far, oldest first."""
        history = [] if self.context is None else self.context.history
        return [*history, *([] if self._state is None else self._state.messages)]

    def begin_clock(self) -> None:
        """Let the run's time begin."""
        self.timed = shorter(Allowance.by(self.options), self.allowance)
        if self.timed is not None and self.timed.seconds is not None:
            self.deadline = time.monotonic() + self.timed.seconds

    def seconds_left(self) -> float | None:
        """What is left of the run's time; None if it has no limit."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    def check_error(self) -> None:
        """Look whether this run and those that it is part of may go on. Raises what a middleware raised of a sub-agent."""
        for run in (self, *self.up()):
            if run.error is not None:
                raise run.error

    def check_next_step(self) -> None:
        """Look whether this run may take another step on behalf of those that it is part of.

        Raises:
            LimitExceeded: with code "max_cost" or "max_total_tokens": it or one of them has spent all it may, sub-agents
                included.
            Exception: what a middleware raised of a sub-agent.
        """
        self.check_error()
        for run in (self, *self.up()):
            if run._children or run.around.by_name:
                run._check_spent()

    def _check_spent(self) -> None:
        for allowed in (Allowance.by(self.options), self.allowance):
            if allowed is not None and allowed.cost is not None:
                allowed.check_cost(self.spent(), self.turn)
            if allowed is not None and allowed.tokens is not None:
                allowed.check_tokens(self.tokens(), self.turn)

    def end(self) -> None:
        """Say that the run is over: what it used stays, its messages are let go."""
        self._used, self._over = self.usage(), True
        steps = 0 if self._state is None else self._state.step - self._before_step
        self._state = self.sink = self.context = None
        self._children.clear()
        if self.session_run is not None and self._is_outermost:
            run = self.session_run
            run.steps += steps
            run.usage_by_agent = sum_by_agent([run.usage_by_agent, self._used])

    @property
    def running(self) -> Lineage | None:
        """This run, or the innermost of those above that is not over: tasks may be left behind."""
        return next((run for run in (self, *self.up()) if not run._over), None)

    def adopt(self, child: Lineage) -> None:
        """Count what a run below this one uses."""
        self._children.append(child)


_innermost: ContextVar[Lineage | None] = ContextVar("perdure_lineage", default=None)
_called: ContextVar[tuple[Lineage | None, str, str] | None] = ContextVar("perdure_sub_agent_call", default=None)


def current() -> Lineage | None:
    """The innermost run of an agent that this code is part of; None outside any."""
    run = _innermost.get()
    return None if run is None else run.running


def current_turn() -> str:
    """The id of that run; a new one outside any."""
    run = current()
    return new_id() if run is None else run.turn


def usage_by_agent() -> UsageByAgent:
    """What the run that this code is part of has used so far, by agent path, its sub-agents included."""
    run = current()
    return {} if run is None else run.usage()


@contextmanager
def called_as(name: str, call: str) -> Generator[None]:
    """Give the run that begins inside a tool's name and a tool call's id."""
    token = _called.set((current(), name, call))
    try:
        yield
    finally:
        _called.reset(token)


@contextmanager
def running(agent: Agent, options: RunOptions) -> Generator[Lineage]:
    """Make everything that starts inside a part of a new run of the agent.

    Raises:
        UPPError: INVALID_REQUEST if the agent is nested too deeply, or has no model and inherits none.
    """
    run = _begin(agent, options)
    run.begin_clock()
    token = _innermost.set(run)
    try:
        yield run
    finally:
        run.end()
        _innermost.reset(token)


def _begin(agent: Agent, options: RunOptions) -> Lineage:
    parent, session_run = current(), current_run()
    if parent is None:
        agent.bind()
        turn = new_id() if session_run is None else session_run.id
        limit = deepest(agent, 0, None)
        return Lineage(agent, turn, (label_of(agent),), options, limit, session_run=session_run)
    caller = _called.get()
    name, call = caller[1:] if caller is not None and caller[0] is parent else (label_of(agent), "")
    path = (*parent.path, name)
    check_level(path, parent.limit)
    effective = inherit(agent, parent.agent)
    effective.bind()
    limit = deepest(effective, len(path) - 1, parent.limit)
    session_own = None if session_run is parent.session_run else session_run
    made = Lineage(
        effective,
        new_id() if session_own is None else session_own.id,
        path,
        options,
        limit,
        parent,
        call,
        session_run,
        top=len(path) - 1,
    )
    parent.adopt(made)
    return made
