"""`@task`: a method of a stage as a task that clients can call in that stage."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, Literal, TypeVar, cast, overload

from perdure.errors import InvalidInput
from perdure.uaip.definition import TaskSpec
from perdure.uaip.retry import NO_RETRY, Retry, RetrySpec
from perdure.uaip.task_function import TaskFunction, read_function
from perdure.uap.agent import Agent
from perdure.upp.docstring import read_docstring
from perdure.upp.function_tool import EffectName
from perdure.upp.tools import ToolEffect

F = TypeVar("F", bound=Callable[..., object])

MARK = "__uaip_task__"
_OPTIMIZED = 1  # the flag of a function's code; those of classes and modules do not have it


@dataclass(frozen=True, slots=True)
class TaskDeclaration:
    """What `@task` noted at a method.

    Attributes:
        spec: the task as a definition has it.
        function: how it is called.
        agent: whose run the task is, if it is an agent's.
    """

    spec: TaskSpec
    function: TaskFunction
    agent: Agent | None


@dataclass(frozen=True, slots=True)
class _Options:
    name: str | None = None
    description: str | None = None
    effect: ToolEffect | EffectName | None = None
    timeout: float | timedelta | None = None
    retry: int | Retry | None = None
    approval: Literal["human"] | None = None
    approval_timeout: timedelta | None = None
    agent: Agent | None = None
    save_as: str | None = None


@overload
def task(function: F, /) -> F: ...


@overload
def task(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: ToolEffect | EffectName | None = None,
    timeout: float | timedelta | None = None,
    retry: int | Retry | None = None,
    approval: Literal["human"] | None = None,
    approval_timeout: timedelta | None = None,
    agent: Agent | None = None,
    save_as: str | None = None,
) -> Callable[[F], F]: ...


def task(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: ToolEffect | EffectName | None = None,
    timeout: float | timedelta | None = None,
    retry: int | Retry | None = None,
    approval: Literal["human"] | None = None,
    approval_timeout: timedelta | None = None,
    agent: Agent | None = None,
    save_as: str | None = None,
) -> Any:
    """Makes a task of a method, sync or async; used with or without arguments. The method stays what it is.

    The arguments' JSON Schema comes from the annotations and the docstring, as for `@tool`; the result's from the return
    annotation. A parameter annotated `State` gets the shared state, one annotated `TaskContext` the call's context;
    clients see neither. What the task wrote into the state is kept if it returns, and dropped if it raises.

    Args:
        function: a method whose parameters are all annotated, but for self.
        name: what clients call it; by default the method's name.
        description: by default the first paragraph of the docstring.
        effect: what a second run of the same call would do, see `ToolEffect`; by default `at_most_once`.
        timeout: of one try, in seconds or a timedelta; None means no limit.
        retry: how many tries there are in all when it raises, or a `Retry`; by default one.
        approval: "human" to have a person approve each call before it runs.
        approval_timeout: how long that is waited for; None means for ever.
        agent: the task is a run of this agent, as a sub-agent's is a tool call: durable, and begun once. The method is
            its declaration and is never called, so it needs no return; the agent is told the argument `task` if there is one, else all
            arguments as JSON.
        save_as: of an agent's task: the key of the state that gets the result.

    Raises:
        InvalidInput: the method is in no class, the class has a task of that name already, or an option cannot be used.
    """
    names, scope = _scopes(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # annotations may name local types
    given = _Options(name, description, effect, timeout, retry, approval, approval_timeout, agent, save_as)

    def decorate(target: Callable[..., object]) -> Callable[..., object]:
        declaration = _declare(target, given, names)
        _check_place(target, scope)
        setattr(target, MARK, declaration)
        return target

    return decorate if function is None else decorate(function)


def declaration_of(value: object) -> TaskDeclaration | None:
    """What `@task` noted at a function, or None."""
    return cast("TaskDeclaration | None", getattr(value, "__dict__", {}).get(MARK))


def _declare(target: Callable[..., object], given: _Options, names: dict[str, object]) -> TaskDeclaration:
    function = read_function(target, names, is_method=True, what="task")
    what = f"task {target.__qualname__}"
    effect = given.effect or ToolEffect.AT_MOST_ONCE
    if given.agent is not None:
        effect = _check_agent(given, function, what)
    elif given.save_as is not None:
        raise InvalidInput(f"{what}: save_as is for tasks that are agents; write state.set({given.save_as!r}, ...)")
    spec = TaskSpec(
        name=given.name if given.name is not None else target.__name__,
        description=given.description if given.description is not None else read_docstring(target).summary,
        parameters=function.signature.schema,
        returns=_returns(given.agent, function),
        kind="function" if given.agent is None else "agent",
        effect=str(effect),
        timeout_s=seconds(given.timeout, f"{what}: timeout"),
        retry=_retry(given.retry, what),
        approval=given.approval or "",
        approval_timeout_s=seconds(given.approval_timeout, f"{what}: approval_timeout"),
        agent=(given.agent.name or "") if given.agent else "",
        save_as=given.save_as or "",
    )
    return TaskDeclaration(spec, function, given.agent)


def _returns(agent: Agent | None, function: TaskFunction) -> dict[str, Any] | None:
    if agent is None or (function.returns is not None and agent.structure is None):
        return function.returns
    return {"type": "string"} if agent.structure is None else agent.structure


def _check_agent(given: _Options, function: TaskFunction, what: str) -> ToolEffect:
    agent: object = given.agent
    if not isinstance(agent, Agent):
        raise InvalidInput(f"{what}: agent is a {type(agent).__name__}; it must come from agent(...)")
    if agent.name is None:
        raise InvalidInput(f"{what}: its agent needs a name, so that a worker finds it: agent(name=..., ...)")
    if given.effect is not None or given.retry is not None:
        raise InvalidInput(
            f"{what} is an agent's: its run is found again, never begun twice; leave effect and retry out"
        )
    if function.signature.hidden:
        hidden = ", ".join(function.signature.hidden)
        raise InvalidInput(f"{what} is an agent's and is never called; take {hidden} away, or give the agent a tool")
    return ToolEffect.IDEMPOTENT


def _retry(retry: object, what: str) -> RetrySpec:
    if retry is None:
        return NO_RETRY
    if isinstance(retry, Retry):
        return retry.spec()
    if isinstance(retry, int) and not isinstance(retry, bool):
        return RetrySpec(attempts=retry)
    raise InvalidInput(f"{what}: retry {retry!r:.80} must be the number of tries, or Retry(...)")


def seconds(time: object, what: str) -> float | None:
    """Seconds of seconds or of a timedelta. Raises InvalidInput for anything else, and for what is not above zero."""
    if time is None:
        return None
    length = time.total_seconds() if isinstance(time, timedelta) else time
    if isinstance(length, bool) or not isinstance(length, int | float) or not math.isfinite(length) or length <= 0:
        raise InvalidInput(f"{what} {time!r:.80} must be seconds or a timedelta above zero")
    return float(length)


def _check_place(target: Callable[..., object], scope: dict[str, Any]) -> None:
    """A task stands in a class, and is the first of its name there: Python would drop the first without a word."""
    owner = target.__qualname__.rpartition(".")[0]
    if not owner or owner.endswith("<locals>"):
        raise InvalidInput(
            f"task {target.__qualname__} is outside a stage; make it a method of a class with @stage above it"
        )
    if declaration_of(scope.get(target.__name__)) is not None:
        raise InvalidInput(f"two tasks are named {target.__qualname__!r}; names must differ")


def _scopes(frame: FrameType) -> tuple[dict[str, object], dict[str, Any]]:
    """Local names around a class body, the nearest first to count, and those of the class body itself."""
    names: dict[str, object] = {}
    at: FrameType | None = frame
    while at is not None and at.f_locals is not at.f_globals:
        names = {**at.f_locals, **names}
        if at.f_code.co_flags & _OPTIMIZED:
            break
        at = at.f_back
    return names, frame.f_locals
