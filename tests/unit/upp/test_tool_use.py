"""The hooks of tool use: what they see, what they may change, and what their failures do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_loop import execute_tool
from perdure.upp.tool_use import AfterCallResult, BeforeCallResult, ToolSkipped, ToolUseStrategy
from perdure.upp.tools import Tool, ToolContext
from tests.unit.upp.models import giving, never

CONTEXT = ToolContext("c", "key", 1)


def make(run: Callable[..., object], **options: Any) -> Tool:
    return Tool("t", "", {"type": "object"}, run, **options)


def echo(params: JSONObject) -> JSONObject:
    return params


async def execute(strategy: ToolUseStrategy, run: Callable[..., object] = echo, **options: Any) -> ToolExecution:
    return await execute_tool(make(run, **options), ToolCall("c", "t", {"x": 1}), CONTEXT, strategy)


def raising(error: Exception) -> Callable[..., Any]:
    def hook(*_: object) -> None:
        raise error

    return hook


class Told:
    """An error hook that keeps what it was told."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, JSONObject, Exception]] = []

    def __call__(self, tool: Tool, params: JSONObject, error: Exception) -> None:
        self.errors.append((tool.name, params, error))

    @property
    def texts(self) -> list[str]:
        return [str(error) for _, _, error in self.errors]


def all_hooks(seen: list[str], *, is_async: bool) -> ToolUseStrategy:
    def hook(name: str, answer: Any = None) -> Callable[..., Any]:
        def sync(*_: object) -> Any:
            seen.append(name)
            return answer

        async def later(*_: object) -> Any:
            return sync()

        return later if is_async else sync

    return ToolUseStrategy(
        on_tool_call=hook("tool_call"),
        on_before_call=hook("before", True),
        on_after_call=hook("after"),
        on_error=hook("error"),
    )


@pytest.mark.parametrize("is_async", [False, True])
async def test_hooks_run_around_the_call_in_order(is_async: bool) -> None:
    """The approval comes after the before-call hook; sync and async hooks are the same."""
    seen: list[str] = []

    def run(_: JSONObject) -> None:
        seen.append("run")

    def approval(_: JSONObject) -> bool:
        seen.append("approval")
        return True

    await execute(all_hooks(seen, is_async=is_async), run, approval=approval)
    assert seen == ["tool_call", "before", "approval", "run", "after"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_error_hook_is_told_of_a_failed_tool(is_async: bool) -> None:
    """There is no after-call then."""
    seen: list[str] = []
    await execute(all_hooks(seen, is_async=is_async), raising(ValueError("broken")))
    assert seen == ["tool_call", "before", "error"]


@pytest.mark.parametrize("hook", ["on_tool_call", "on_before_call"])
async def test_a_hook_that_fails_before_the_call_makes_it_an_error(hook: str) -> None:
    """The tool is not run, the model and the error hook are told why."""
    told = Told()
    hooks: dict[str, Any] = {hook: raising(ValueError("no budget")), "on_error": told}
    strategy = ToolUseStrategy(**hooks)
    execution = await execute(strategy, never)
    assert execution == ToolExecution("t", "c", {"x": 1}, "no budget", True, 0)
    assert told.texts == ["no budget"]
    assert told.errors[0][:2] == ("t", {"x": 1})


@pytest.mark.parametrize("decision", [False, None, BeforeCallResult(False), BeforeCallResult(False, {"x": 2})])
async def test_a_before_call_hook_can_skip_the_call(decision: Any) -> None:
    """The model is told; a hook that says nothing does not let the call through."""
    told = Told()
    strategy = ToolUseStrategy(on_before_call=giving(decision), on_error=told)
    execution = await execute(strategy, never, approval=never)
    assert execution == ToolExecution("t", "c", {"x": 1}, "Tool execution skipped", True, 0)
    assert [type(error) for _, _, error in told.errors] == [ToolSkipped]
    assert told.texts == ["Tool execution skipped"]


async def test_a_before_call_hook_can_replace_the_arguments() -> None:
    """Everybody after it sees them, and so does the record."""
    seen: list[JSONValue] = []

    def approval(params: JSONObject) -> bool:
        seen.append(params)
        return True

    def after(_: Tool, params: JSONObject, value: Any) -> None:
        seen.append(params)

    strategy = ToolUseStrategy(
        on_before_call=lambda tool, params: BeforeCallResult(True, {**params, "user": tool.name}), on_after_call=after
    )
    execution = await execute(strategy, approval=approval)
    given: JSONObject = {"x": 1, "user": "t"}
    assert execution == ToolExecution("t", "c", given, given, False, execution.duration_ms, True)
    assert seen == [given, given]


async def test_a_denied_call_has_the_arguments_that_were_denied() -> None:
    """A denial is a decision, no error."""
    told = Told()
    strategy = ToolUseStrategy(on_before_call=giving(BeforeCallResult(True, {"x": 2})), on_error=told)
    execution = await execute(strategy, never, approval=giving(False))
    denied = "Tool execution denied by approval handler"
    assert execution == ToolExecution("t", "c", {"x": 2}, denied, True, 0, False)
    assert told.errors == []


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"x": object()}, "The before-call hook gave tool 't' params that are not JSON"),
        ([1], "The before-call hook gave tool 't' a list as params"),
    ],
)
async def test_arguments_of_a_hook_must_be_a_json_object(params: Any, expected: str) -> None:
    """What the tool is called with is recorded, so it must be JSON."""
    strategy = ToolUseStrategy(on_before_call=giving(BeforeCallResult(True, params)))
    execution = await execute(strategy, never)
    assert execution.is_error
    assert str(execution.result).startswith(expected)


async def test_an_after_call_hook_can_replace_the_value() -> None:
    """It sees what the tool returned, though that be no JSON; the record and the model get what it gives."""
    value = object()
    seen: list[object] = []

    async def after(_: Tool, __: JSONObject, result: Any) -> AfterCallResult:
        seen.append(result)
        return AfterCallResult({"wrapped": True})

    execution = await execute(ToolUseStrategy(on_after_call=after), giving(value))
    assert (execution.result, execution.is_error) == ({"wrapped": True}, False)
    assert seen == [value]


async def test_an_after_call_hook_that_fails_makes_the_call_an_error() -> None:
    """As if the tool itself had failed."""
    told = Told()
    execution = await execute(ToolUseStrategy(on_after_call=raising(ValueError("unreadable")), on_error=told))
    assert (execution.result, execution.is_error) == ("unreadable", True)
    assert told.texts == ["unreadable"]


async def test_a_value_that_is_no_json_is_told_to_the_error_hook() -> None:
    """Also if it comes from the after-call hook."""
    told = Told()
    strategy = ToolUseStrategy(on_after_call=giving(AfterCallResult(object())), on_error=told)
    execution = await execute(strategy)
    assert execution.is_error
    assert told.texts == [execution.result]


async def test_a_timeout_is_told_to_the_error_hook() -> None:
    """With the text that the model gets."""
    told = Told()

    async def run(_: JSONObject) -> None:
        await asyncio.Event().wait()

    execution = await execute(ToolUseStrategy(on_error=told), run, timeout=timedelta(milliseconds=5))
    assert [type(error) for _, _, error in told.errors] == [TimeoutError]
    assert told.texts == [execution.result] == ["Tool 't' timed out after 0.005 s"]


async def test_an_approval_that_fails_propagates() -> None:
    """Nobody decided; the error hook is for calls that were made."""
    told = Told()
    with pytest.raises(ValueError, match="no answer"):
        await execute(ToolUseStrategy(on_error=told), never, approval=raising(ValueError("no answer")))
    assert told.errors == []


@pytest.mark.parametrize("run", [raising(ValueError("tool")), giving(1)])
async def test_an_error_hook_that_fails_propagates(run: Any) -> None:
    """The application's own fault is not the model's to handle."""
    strategy = ToolUseStrategy(on_after_call=raising(ValueError("after")), on_error=raising(KeyError("hook")))
    with pytest.raises(KeyError, match="hook"):
        await execute(strategy, run)


async def test_hooks_cannot_change_the_arguments_in_passing() -> None:
    """They get copies; a change is said with a result."""

    def spoil(_: Tool, params: JSONObject, *__: object) -> Any:
        params["x"] = "changed"
        return BeforeCallResult(True)

    approved: list[JSONObject] = []

    def approval(params: JSONObject) -> bool:
        approved.append(params)
        return True

    strategy = ToolUseStrategy(on_tool_call=spoil, on_before_call=spoil, on_after_call=spoil)
    execution = await execute(strategy, approval=approval)
    assert (execution.arguments, execution.result, approved) == ({"x": 1}, {"x": 1}, [{"x": 1}])


@pytest.mark.parametrize(("tool", "arguments"), [(None, {}), (make(never), "no object")])
async def test_a_call_that_cannot_be_made_reaches_no_hook(tool: Tool | None, arguments: JSONValue) -> None:
    """There is no tool, or nothing that could be its params."""
    strategy = ToolUseStrategy(on_tool_call=never, on_before_call=never, on_after_call=never, on_error=never)
    assert (await execute_tool(tool, ToolCall("c", "t", arguments), CONTEXT, strategy)).is_error


@pytest.mark.parametrize("limit", [-1, True, 1.0, "3", None])
def test_the_limit_is_a_whole_number(limit: Any) -> None:
    """Zero means that calls are returned unexecuted."""
    assert ToolUseStrategy(max_iterations=0).max_iterations == 0
    with pytest.raises(InvalidInput, match="max_iterations"):
        ToolUseStrategy(max_iterations=limit)


def test_ten_rounds_are_the_default() -> None:
    """UPP's number."""
    assert ToolUseStrategy().max_iterations == 10


@pytest.mark.parametrize("answer", [True, False])
async def test_the_approval_hook_decides_in_a_persons_place(answer: bool) -> None:
    """Where nobody can be waited for; the record says what it decided."""
    execution = await execute(ToolUseStrategy(on_approval=giving(answer)), approval="human")
    assert (execution.approved, execution.is_error) == (answer, not answer)


async def test_without_the_hook_a_call_that_needs_a_person_is_an_error_result() -> None:
    """The model is told that only a durable run can wait."""
    execution = await execute(ToolUseStrategy(), never, approval="human")
    assert (execution.is_error, execution.approved) == (True, False)
    assert "durable" in str(execution.result)


async def test_a_predicate_may_have_a_person_decide() -> None:
    """And a text that means nothing is a mistake, not a yes."""
    asked: list[JSONObject] = []

    def approve(_: Tool, params: JSONObject) -> bool:
        asked.append(params)
        return True

    execution = await execute(ToolUseStrategy(on_approval=approve), approval=giving("human"))
    assert (asked, execution.approved) == ([{"x": 1}], True)
    with pytest.raises(TypeError, match="'humen'"):
        await execute(ToolUseStrategy(on_approval=approve), never, approval=giving("humen"))


async def test_a_tool_of_the_clients_is_not_called_here() -> None:
    """The model is told so."""
    execution = await execute_tool(Tool("t", "", {"type": "object"}, None), ToolCall("c", "t", {}), CONTEXT)
    assert execution.is_error
    assert "client" in str(execution.result)
