"""`ToolUseStrategy`: how an application takes part in the tool calls that `llm()` carries out.

When the hooks of one call run is in `tool_loop`. Source: UPP-1.2, ToolUseStrategy.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, jsonable
from perdure.upp.tools import Tool

T = TypeVar("T")

DEFAULT_MAX_ITERATIONS = 10
SKIPPED = "Tool execution skipped"


class ToolSkipped(Exception):
    """A before-call hook said that the call shall not run."""


@dataclass(frozen=True, slots=True)
class BeforeCallResult:
    """What a before-call hook decides.

    Attributes:
        proceed: whether the call goes on; if not, the model is told that it was skipped.
        params: arguments in place of the model's; None keeps them.
    """

    proceed: bool
    params: JSONObject | None = None


@dataclass(frozen=True, slots=True)
class AfterCallResult:
    """A value in place of the one that the tool returned."""

    result: object


BeforeCallDecision: TypeAlias = bool | BeforeCallResult

OnApproval: TypeAlias = Callable[[Tool, JSONObject], bool | Awaitable[bool]]
OnToolCall: TypeAlias = Callable[[Tool, JSONObject], object]
OnBeforeCall: TypeAlias = Callable[[Tool, JSONObject], BeforeCallDecision | Awaitable[BeforeCallDecision]]
OnAfterCall: TypeAlias = Callable[[Tool, JSONObject, Any], AfterCallResult | Awaitable[AfterCallResult | None] | None]
OnToolError: TypeAlias = Callable[[Tool, JSONObject, Exception], object]
OnMaxIterations: TypeAlias = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseStrategy:
    """Limits and hooks of automatic tool use; every hook may be sync or async and is awaited.

    Hooks get a copy of the arguments. A call of an unknown tool, or with arguments that are no object, reaches none.

    Attributes:
        max_iterations: rounds of tools; at the limit with calls open the inference fails. 0 runs none and returns the
            calls unexecuted.
        on_tool_call: the model asked for a call; if it raises, the model gets an error result.
        on_before_call: decides on the call before its approval: False or a `BeforeCallResult`. If it raises, the
            model gets an error result.
        on_approval: decides in a person's place on a call whose approval is "human", where nobody can be waited for;
            durable runs wait for a person instead. Without it such a call is an error result. What it raises ends the
            inference.
        on_after_call: may replace what the tool returned, which need not be JSON yet; if it raises, the call failed.
        on_error: the call failed or was skipped; not called for a denial. What it raises ends the inference.
        on_max_iterations: the limit was met; gets the limit, before the inference fails.

    Raises:
        InvalidInput: max_iterations is not a whole number of at least 0.
    """

    max_iterations: int = DEFAULT_MAX_ITERATIONS
    on_tool_call: OnToolCall | None = None
    on_before_call: OnBeforeCall | None = None
    on_after_call: OnAfterCall | None = None
    on_error: OnToolError | None = None
    on_max_iterations: OnMaxIterations | None = None
    on_approval: OnApproval | None = None

    def __post_init__(self) -> None:
        given = cast(object, self.max_iterations)
        if not isinstance(given, int) or isinstance(given, bool) or given < 0:
            raise InvalidInput(f"max_iterations is {given!r}; it must be a whole number of at least 0")

    async def before(self, tool: Tool, arguments: JSONObject) -> JSONObject:
        """Returns the arguments that the tool shall be called with.

        Raises:
            ToolSkipped: the call shall not run.
            Exception: what a hook raised, or that the arguments it gave are no JSON object.
        """
        if self.on_tool_call is not None:
            await settle(self.on_tool_call(tool, copy_arguments(arguments)))
        if self.on_before_call is None:
            return arguments
        decision = await settle(self.on_before_call(tool, copy_arguments(arguments)))
        proceed = decision.proceed if isinstance(decision, BeforeCallResult) else decision
        if not proceed:
            raise ToolSkipped(SKIPPED)
        if not isinstance(decision, BeforeCallResult) or decision.params is None:
            return arguments
        return _replacement(tool, decision.params)

    async def approve(self, tool: Tool, arguments: JSONObject) -> bool | None:
        """Returns what the approval hook decided; None if there is no such hook. Raises what the hook raised."""
        if self.on_approval is None:
            return None
        return bool(await settle(self.on_approval(tool, copy_arguments(arguments))))

    async def after(self, tool: Tool, arguments: JSONObject, value: object) -> object:
        """Returns the value that counts: the tool's, or the hook's. Raises what the hook raised."""
        if self.on_after_call is None:
            return value
        decision = await settle(self.on_after_call(tool, copy_arguments(arguments), value))
        return decision.result if isinstance(decision, AfterCallResult) else value

    async def failed(self, tool: Tool, arguments: JSONObject, error: Exception) -> None:
        """Tells the error hook. Raises what the hook raised."""
        if self.on_error is not None:
            await settle(self.on_error(tool, copy_arguments(arguments), error))

    async def exhausted(self) -> None:
        """Tells the limit's hook. Raises what the hook raised."""
        if self.on_max_iterations is not None:
            await settle(self.on_max_iterations(self.max_iterations))


async def settle(value: T | Awaitable[T]) -> T:
    """Returns what a sync hook returned, or what an async one returns."""
    return await cast("Awaitable[T]", value) if inspect.isawaitable(value) else cast(T, value)


def copy_arguments(arguments: JSONObject) -> JSONObject:
    """Returns a deep copy, so that nobody can change what another one sees.

    Raises:
        TypeError: a value is not JSON.
    """
    return cast(JSONObject, jsonable(arguments))


def _replacement(tool: Tool, params: object) -> JSONObject:
    try:
        made = jsonable(params)
    except TypeError as error:
        raise TypeError(f"The before-call hook gave tool '{tool.name}' params that are not JSON: {error}") from error
    if not isinstance(made, dict):
        raise TypeError(f"The before-call hook gave tool '{tool.name}' a {type(params).__name__} as params")
    return made
