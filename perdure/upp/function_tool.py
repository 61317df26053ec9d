"""`@tool`: a tool made from a typed function."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from perdure.errors import InvalidInput
from perdure.upp.docstring import read_docstring
from perdure.upp.json_value import JSONObject
from perdure.upp.signature import Signature, read_signature
from perdure.upp.tool_retry import ToolRetry
from perdure.upp.tools import ApprovalHandler, Tool, ToolContext, ToolEffect

P = ParamSpec("P")
R = TypeVar("R")
EffectName: TypeAlias = Literal["none", "idempotent", "at_most_once", "once"]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTool(Tool, Generic[P, R]):
    """A tool made from a function; calling it calls the function, without validation.

    Attributes:
        function: the function that was decorated.
    """

    function: Callable[P, R] = field(kw_only=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Returns what the function returns."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: ToolEffect | EffectName = ToolEffect.AT_MOST_ONCE,
    timeout: float | timedelta | None = None,
    sequential: bool = False,
    approval: ApprovalHandler | Literal["human"] | None = None,
    approval_timeout: timedelta | None = None,
    metadata: dict[str, JSONObject] | None = None,
    retry: ToolRetry | None = None,
    short: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: ToolEffect | EffectName = ToolEffect.AT_MOST_ONCE,
    timeout: float | timedelta | None = None,
    sequential: bool = False,
    approval: ApprovalHandler | Literal["human"] | None = None,
    approval_timeout: timedelta | None = None,
    metadata: dict[str, JSONObject] | None = None,
    retry: ToolRetry | None = None,
    short: bool = False,
) -> Any:
    """Makes a tool from a typed function, sync or async; used with or without arguments.

    The parameters' JSON Schema comes from the annotations, with `Field`, defaults, enums and pydantic models; their
    descriptions from `Annotated[..., Field(description=...)]` or the docstring's `Args:`. A parameter annotated
    `ToolContext` gets the call's context and is hidden from the model. The model's arguments are validated and
    coerced by pydantic; a misfit becomes an error result that lists what is wrong.

    Args:
        function: its parameters are all annotated, none is positional-only or variadic.
        name: what the model calls it; by default the function's name.
        description: by default the first paragraph of the docstring.
        effect: what a second run of the same call would do; see ToolEffect.
        timeout: seconds or a timedelta; None means no limit.
        sequential: run alone among the calls of one message.
        approval: "human" to have a person approve each call, or a function of the arguments as the model wrote them,
            sync or async, that returns True (run it), False (do not) or "human" (a person decides).
        approval_timeout: how long a person's approval is waited for; None means for ever.
        metadata: one object per provider name.
        retry: when the function is called again after it has raised; only with effect "none" or "idempotent".
        short: it ends within a second, so that a durable run may call it at a third of the cost; see Tool.

    Raises:
        InvalidInput: the function or an option cannot be used; the message says why.
    """
    names = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]  # annotations may name local types

    def decorate(target: Callable[..., Any]) -> FunctionTool[..., Any]:
        _check_function(target)
        signature = read_signature(target, names)
        return FunctionTool(
            name=name if name is not None else _name_of(target),
            description=description if description is not None else read_docstring(target).summary,
            parameters=signature.schema,
            run=_make_run(target, signature),
            approval=approval,
            approval_timeout=approval_timeout,
            metadata=metadata,
            effect=cast(ToolEffect, effect),
            timeout=_to_timedelta(timeout),
            sequential=sequential,
            takes_context=True,
            retry=retry,
            short=short,
            function=target,
        )

    return decorate if function is None else decorate(function)


def _make_run(function: Callable[..., Any], signature: Signature) -> Callable[..., object]:
    def arguments_of(params: JSONObject, context: ToolContext | None) -> Mapping[str, object]:
        if context is None and signature.context_parameters:
            raise InvalidInput(f"{signature.context_parameters[0]}: this tool needs a ToolContext")
        return signature.bind(params) | dict.fromkeys(signature.context_parameters, context)

    @functools.wraps(function)
    def run(params: JSONObject, context: ToolContext | None = None) -> object:
        return function(**arguments_of(params, context))

    @functools.wraps(function)
    async def run_async(params: JSONObject, context: ToolContext | None = None) -> object:
        return await cast("Awaitable[object]", function(**arguments_of(params, context)))

    return run_async if inspect.iscoroutinefunction(function) else run


def _check_function(function: object) -> None:
    if isinstance(function, type) or not callable(function):
        raise InvalidInput(f"@tool takes a function, got {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(f"tool function {_name_of(function)} is a generator; return a list instead")


def _name_of(function: Callable[..., object]) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise InvalidInput(f"{function!r} has no name of its own; use tool(name=...)")
    return name


def _to_timedelta(timeout: float | timedelta | None) -> timedelta | None:
    if timeout is None or isinstance(timeout, timedelta):
        return timeout
    try:
        return timedelta(seconds=timeout)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"timeout {timeout!r} must be seconds or a timedelta: {error}") from error
