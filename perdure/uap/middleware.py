"""Middleware: what surrounds the runs of an agent, and the pipeline that calls it. Source: UAP-1.0 section 10.

Hooks are the user's code: they are called in process or in activities, never in workflow code. A durable host calls
`enter` and `leave` apart, an in-process one both through `run_pipeline`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from perdure.errors import StrategyError
from perdure.uap.agent_stream import UAPEvent, UAPEventType
from perdure.uap.middleware_usage import MiddlewareUsage
from perdure.uap.spent import Spent
from perdure.uap.user_call import call_user
from perdure.upp.messages import Message
from perdure.upp.provider import BoundLLMModel
from perdure.upp.secrets import Secret, declared, value_of
from perdure.upp.tool_use import settle
from perdure.upp.turn import Turn
from perdure.upp.usage import TokenUsage

if TYPE_CHECKING:
    from perdure.uap.agent import Agent


class RunSession(Protocol):
    """What middleware may know of the session in which a run takes place."""

    @property
    def id(self) -> str:
        """The session's id."""
        ...


@dataclass(slots=True, kw_only=True)
class MiddlewareContext:
    """What the middleware of one run sees. Source: UAP-1.0 section 10.1, MiddlewareContext.

    Attributes:
        agent: the agent that runs.
        input: the user's message; what `before` leaves here is what the agent is given.
        history: the messages before it, oldest first, a list of this context's own; what `before` leaves here is what
            the model sees. The caller's list or thread, and a session's, stay as they are.
        metadata: the request's, for middleware to keep things in; JSON, so that it outlives a process.
        session: the session, if the run is within one.
        spent: what the run has spent so far; kept by `tell` and `count`.
        used: what of it middleware has spent; kept by `count`.
        secrets: references, by name; of the App that is served.
    """

    agent: Agent
    input: Message
    history: list[Message] = field(default_factory=list[Message])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    session: RunSession | None = None
    spent: Spent = field(default_factory=Spent)
    used: MiddlewareUsage = field(default_factory=MiddlewareUsage)
    secrets: Mapping[str, Secret] = field(default_factory=declared, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.history = list(self.history)

    def secret(self, name: str) -> str:
        """The value of a secret of the App, as it is now; it is redacted in what is kept of the run.

        Raises:
            InvalidInput: the App names no such secret, or it has no value.
        """
        return value_of(self.secrets, name)

    def count(self, middleware: str, model: BoundLLMModel, usage: TokenUsage) -> None:
        """Count what a middleware's `before` hook used of a model of its own, as part of what the run uses.

        Args:
            middleware: its name.
            model: the model.
            usage: of one model call or several.
        """
        self.spent = self.spent.after_usage(self.used.add(middleware, model, usage))


class Middleware:
    """Hooks around each run of an agent; override those that are wanted. Source: UAP-1.0 section 10.1.

    `before`, `after` and `on_error` may be async, or sync and run on a thread. One object serves all runs of its
    agents at once, so what belongs to one run goes into the context's metadata, under keys that begin with the name.

    A durable run calls them in activities: `before` and what comes after the run once each, unless a worker dies
    meanwhile; then that worker's call is repeated, but never once what came of it is stored. A durable run that is
    cancelled ends without `after` and `on_error`; in process, a stream that is aborted has a partial turn, which `after`
    is given.

    Attributes:
        name: of the middleware.
        listens: the types of events that `on_event` wants; None for all of them. A durable run makes one call for each,
            so say what is wanted.
    """

    name: str = "middleware"
    listens: frozenset[UAPEventType] | None = None

    @property
    def holds_deltas(self) -> bool:
        """Whether a host must hold what the model streams until `after` has seen the whole turn."""
        return False

    def before(self, context: MiddlewareContext) -> Awaitable[MiddlewareContext | None] | MiddlewareContext | None:
        """Called before the run, in array order. A context that is returned goes downstream in place of this one."""

    def after(self, context: MiddlewareContext, result: Turn) -> Awaitable[Turn] | Turn:
        """Called with the turn, in reverse order; returns the turn that goes on outwards."""
        return result

    def on_error(self, context: MiddlewareContext, error: Exception) -> Awaitable[Turn | None] | Turn | None:
        """Called with what the run or an inner middleware raised, in reverse order.

        A turn that is returned ends the error: the middleware outside this one get it in `after`. None lets the error
        go on; what is raised goes on in its place.
        """

    def on_event(self, context: MiddlewareContext, event: UAPEvent) -> Awaitable[None] | None:
        """Called with each UAP event of the run, in array order; a sync one must not block.

        `step_start` comes before anything of the step is done. What this raises makes the run fail there. A durable
        run tells of its own steps only: what a sub-agent spent is in `context.spent` once it has ended.
        """


Execute: TypeAlias = Callable[[MiddlewareContext], Awaitable[Turn]]
"""Runs the agent on a context's input after its history."""


@dataclass(frozen=True, slots=True)
class Entered:
    """How far the `before` hooks came.

    Attributes:
        context: as the last of them left it.
        count: how many middleware were entered, one that raised included. Only these are to be left.
        error: what the last of them raised.
    """

    context: MiddlewareContext
    count: int
    error: Exception | None = None


async def run_pipeline(middleware: Sequence[Middleware], context: MiddlewareContext, execute: Execute) -> Turn:
    """The turn of a run with its middleware around it.

    Args:
        middleware: the agent's, outermost first.
        context: of this run alone.
        execute: runs the agent; called once, with the context as the `before` hooks left it, unless one raised.

    Raises:
        Exception: what the run or a hook raised, if no middleware recovered.
    """
    entered = await enter(middleware, context)
    outcome = await _outcome(execute, entered.context) if entered.error is None else entered.error
    return await leave(middleware[: entered.count], entered.context, outcome)


async def enter(middleware: Sequence[Middleware], context: MiddlewareContext) -> Entered:
    """Calls the `before` hooks in array order, until one raises."""
    for place, item in enumerate(middleware):
        try:
            context = await _before(item, context)
        except Exception as error:  # noqa: BLE001 - leave() gives it to on_error, and raises it
            return Entered(context, place + 1, error)
    return Entered(context, len(middleware))


async def leave(middleware: Sequence[Middleware], context: MiddlewareContext, outcome: Turn | Exception) -> Turn:
    """Calls `after` with a turn and `on_error` with an error, in reverse order: a hook's outcome is the next one's.

    Args:
        middleware: those that were entered, outermost first.
        context: as the `before` hooks left it.
        outcome: of the run, or what a `before` hook raised.

    Raises:
        Exception: the outcome after the outermost.
    """
    for item in reversed(middleware):
        try:
            outcome = await _leave(item, context, outcome)
        except Exception as error:  # noqa: BLE001 - the next one's outcome; the last is raised
            outcome = error
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def tell(middleware: Sequence[Middleware], context: MiddlewareContext, event: UAPEvent) -> None:
    """Counts an event, then shows it to every middleware that wants it, in array order; a host tells each event once.

    Raises:
        Exception: what a middleware raised; it must make the run fail.
    """
    if event.type is UAPEventType.STEP_END:
        own = event.agent_id == context.agent.id
        spent = context.spent
        context.spent = spent.after_step(event.step, event.data) if own else spent.after_child(event.data)
    await show(middleware, context, event)


async def show(middleware: Sequence[Middleware], context: MiddlewareContext, event: UAPEvent) -> None:
    """Shows an event that is counted to every middleware that wants it, in array order.

    Raises:
        Exception: what a middleware raised; it must make the run fail.
    """
    for item in middleware:
        if event.type in wanted(item):
            await settle(item.on_event(context, event))


def wanted(item: Middleware) -> frozenset[UAPEventType]:
    """The types of events that a middleware is to be told."""
    if type(item).on_event is Middleware.on_event:
        return frozenset()
    return frozenset(UAPEventType) if item.listens is None else item.listens


def holds_deltas(middleware: Sequence[Middleware]) -> bool:
    """Whether a host must hold streamed deltas until the `after` hooks have seen the turn."""
    return any(item.holds_deltas for item in middleware)


async def _outcome(execute: Execute, context: MiddlewareContext) -> Turn | Exception:
    try:
        return await execute(context)
    except Exception as error:  # noqa: BLE001 - leave() gives it to on_error, and raises it
        return error


async def _before(item: Middleware, context: MiddlewareContext) -> MiddlewareContext:
    returned = await _call(item, "before", context)
    if returned is None:
        return context
    if not isinstance(returned, MiddlewareContext):
        raise _wrong(item, "before", returned, "the context or None")
    return returned


async def _leave(item: Middleware, context: MiddlewareContext, outcome: Turn | Exception) -> Turn | Exception:
    hook, needed = ("after", "a Turn") if isinstance(outcome, Turn) else ("on_error", "a Turn or None")
    returned = await _call(item, hook, context, outcome)
    if returned is None and not isinstance(outcome, Turn):
        return outcome
    if not isinstance(returned, Turn):
        raise _wrong(item, hook, returned, needed)
    return returned


async def _call(item: Middleware, hook: str, *arguments: object) -> object:
    function: Callable[..., object] = getattr(item, hook)
    is_default = getattr(type(item), hook) is getattr(Middleware, hook)
    return function(*arguments) if is_default else await call_user(function, *arguments)


def _wrong(item: Middleware, hook: str, returned: object, needed: str) -> StrategyError:
    kind = type(returned).__name__
    return StrategyError(f"{hook} of middleware {item.name!r} returned a {kind}; it must return {needed}")
