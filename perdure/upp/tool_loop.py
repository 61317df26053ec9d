"""Carrying out one tool call: whatever a tool does, the model gets a result.

Order and parallelism of several calls are in `tool_batch`. Source: UPP-1.2, tool execution.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import cast

from perdure.errors import InvalidInput
from perdure.upp.deadline import CancelledFromWithin, DeadlineExceeded, run_with_deadline
from perdure.upp.json_value import JSONObject, JSONValue, jsonable
from perdure.upp.threads import run_in_daemon_thread
from perdure.upp.tool_call import ToolCall, ToolExecution
from perdure.upp.tool_media import StructuredToolResult, ToolContent, content_of
from perdure.upp.tool_use import ToolUseStrategy, copy_arguments
from perdure.upp.tools import HUMAN, Approval, Tool, ToolContext

DENIED = "Tool execution denied by approval handler"
NOBODY_TO_ASK = (
    "Tool '{}' needs a person's approval, and only a durable run can wait for one. "
    "Run the agent durably, or give it a ToolUseStrategy with on_approval."
)
CLIENT_RUNS_IT = "Tool '{}' is run by the client, and only a durable run can wait for its result."
_SHOWN_CHARACTERS = 200
_NO_HOOKS = ToolUseStrategy()


class ApprovalNeeded(Exception):
    """A person has to approve a call before it may run.

    Attributes:
        arguments: what it would be called with.
    """

    def __init__(self, arguments: JSONObject) -> None:
        super().__init__("a person has to approve this call")
        self.arguments = arguments


@dataclass(frozen=True, slots=True)
class ReadyCall:
    """A call that may run.

    Attributes:
        tool: which has a function here.
        call: with the arguments that count, an object.
        approved: True if the call was approved, None if nobody was asked.
    """

    tool: Tool
    call: ToolCall
    approved: bool | None


async def execute_tool(
    tool: Tool | None, call: ToolCall, context: ToolContext, strategy: ToolUseStrategy | None = None
) -> ToolExecution:
    """Returns the record of one call; what goes wrong with the tool is an error result for the model.

    An unknown tool, arguments that are no object, a denial, an exception, a timeout and a result that is not JSON
    are error results. The tool gets a copy of the arguments.

    Args:
        tool: None if no tool has the called name.
        call: what the model wrote.
        context: given to tools that take one.
        strategy: its hooks run around the call: on_tool_call, on_before_call, the approval, the tool, on_after_call;
            on_error after a failure. The record has the arguments that the before-call hook left.

    Raises:
        Exception: what the approval handler raised: then nobody decided, and nothing was run. What the on_error hook
            raised.
        asyncio.CancelledError: the caller was cancelled; a sync function then runs on, abandoned.
        KeyboardInterrupt: it propagates too.
    """
    ready = await prepare_call(tool, call, strategy)
    return ready if isinstance(ready, ToolExecution) else await run_prepared(ready, context, strategy)


async def prepare_call(
    tool: Tool | None, call: ToolCall, strategy: ToolUseStrategy | None = None, *, can_wait: bool = False
) -> ReadyCall | ToolExecution:
    """Returns the call as it is to be run, or the record of one that is not: all that comes before the tool itself.

    Args:
        tool: None if no tool has the called name.
        call: what the model wrote.
        strategy: see `execute_tool`.
        can_wait: the caller can wait for a person; what was approved then goes to `run_prepared`.

    Raises:
        ApprovalNeeded: a person has to approve the call, and `can_wait`.
        Exception: as `execute_tool`.
    """
    if tool is None:
        return _failed(call, f"Tool '{call.tool_name}' not found")
    if tool.run is None:
        return _failed(call, CLIENT_RUNS_IT.format(tool.name))
    if not isinstance(call.arguments, dict):
        return _failed(call, _not_an_object(call))
    try:
        given = copy_arguments(call.arguments)
    except TypeError as error:
        return _failed(call, f"The arguments of tool '{tool.name}' are not JSON: {error}")
    hooks = strategy or _NO_HOOKS
    try:
        arguments = await hooks.before(tool, given)
    except Exception as error:  # noqa: BLE001  # the model is told, as of a tool's failure
        await hooks.failed(tool, given, error)
        return _failed(call, error_text(error))
    if arguments is not given:
        call = replace(call, arguments=arguments)
    approved = await request_approval(tool, arguments)
    if approved == HUMAN:
        if can_wait:
            raise ApprovalNeeded(arguments)
        approved = await hooks.approve(tool, arguments)
        if approved is None:
            return _failed(call, NOBODY_TO_ASK.format(tool.name), approved=False)
    if approved is False:
        return _failed(call, DENIED, approved=False)
    return ReadyCall(tool, call, approved)


async def run_prepared(
    ready: ReadyCall, context: ToolContext, strategy: ToolUseStrategy | None = None
) -> ToolExecution:
    """Returns the record of a call that may run, with the arguments that it has now; nobody is asked again.

    Raises:
        Exception: what the on_error hook raised.
        asyncio.CancelledError: the caller was cancelled.
    """
    return await _run(ready.tool, ready.call, context, ready.approved, strategy or _NO_HOOKS)


async def request_approval(tool: Tool, arguments: JSONObject) -> Approval | None:
    """Returns the approval handler's answer, "human" if a person has to decide, or None if every call may run.

    Raises:
        TypeError: the handler returned a text that means nothing.
        Exception: what the handler raised.
    """
    if tool.approval is None:
        return None
    if isinstance(tool.approval, str):
        return HUMAN
    answer = await call_function(f"Approval of tool '{tool.name}'", tool.approval, copy_arguments(arguments))
    if answer == HUMAN:
        return HUMAN
    if isinstance(answer, str):
        raise TypeError(f"approval of tool '{tool.name}' returned {answer!r:.80}; it must be True, False or \"human\"")
    return bool(answer)


async def _run(
    tool: Tool, call: ToolCall, context: ToolContext, approved: bool | None, hooks: ToolUseStrategy
) -> ToolExecution:
    arguments = cast(JSONObject, call.arguments)
    started = time.monotonic()
    ended = None
    content: ToolContent | None = None
    try:
        value = await _call_repeatedly(tool, arguments, context)
        ended = time.monotonic()
        value = await hooks.after(tool, arguments, value)
        if isinstance(value, StructuredToolResult):
            content = await content_of(value, context.idempotency_key, context.contents)
            result = content.result(_to_json(tool, value.result))
        else:
            result = _to_json(tool, value)
        is_error = False
    except Exception as error:  # noqa: BLE001  # a tool's failure is the model's to handle
        ended = ended or time.monotonic()
        await hooks.failed(tool, arguments, error)
        result, is_error, content = error_text(error), True, None
    duration_ms = int((ended - started) * 1000)
    return ToolExecution(tool.name, call.tool_call_id, call.arguments, result, is_error, duration_ms, approved, content)


async def _call_repeatedly(tool: Tool, arguments: JSONObject, context: ToolContext) -> object:
    """Returns what the tool returned; one that raises is called again, as its `retry` says. Raises what it raised last."""
    retry, attempt = tool.retry, 1
    while True:
        try:
            return await _call_tool(tool, arguments, replace(context, attempt=context.attempt + attempt - 1))
        except InvalidInput:  # the arguments do not fit, now or later
            raise
        except Exception:
            if retry is None or attempt >= retry.max_attempts:
                raise
        await asyncio.sleep(retry.wait(attempt).total_seconds())
        attempt += 1


async def _call_tool(tool: Tool, arguments: JSONObject, context: ToolContext) -> object:
    """Returns what the tool returned.

    Raises:
        TimeoutError: the tool's time is over.
        Exception: what the tool raised.
    """
    assert tool.run is not None, "a tool that the client runs is not called here"
    given = (copy_arguments(arguments), context) if tool.takes_context else (copy_arguments(arguments),)
    try:
        return await run_with_deadline(call_function(f"Tool '{tool.name}'", tool.run, *given), tool.timeout)
    except DeadlineExceeded:
        seconds = cast(timedelta, tool.timeout).total_seconds()
        raise TimeoutError(f"Tool '{tool.name}' timed out after {seconds:g} s") from None
    except CancelledFromWithin:
        raise RuntimeError(f"Tool '{tool.name}' was cancelled from within") from None


async def call_function(subject: str, function: Callable[..., object], *args: object) -> object:
    """Calls an async function here and a sync one on a daemon thread; awaits what is awaitable.

    Raises:
        RuntimeError: it raised what is no Exception, as sys.exit() and panics in Rust extensions do; that would end
            the event loop.
        Exception: what it raised.
    """
    try:
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        value = await run_in_daemon_thread(partial(function, *args))
        return await cast("Awaitable[object]", value) if inspect.isawaitable(value) else value
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise RuntimeError(f"{subject} raised {type(error).__name__}: {error_text(error)}") from error


def error_text(error: BaseException) -> str:
    """Returns an exception's message, or its type's name if the message is blank or cannot be had."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  # a broken __str__ must not hide that the tool failed
        message = ""
    return message if message.strip() else type(error).__name__


def _to_json(tool: Tool, value: object) -> JSONValue:
    try:
        return jsonable(value)
    except TypeError as error:
        raise TypeError(f"Tool '{tool.name}' returned a value that is not JSON: {error}") from error


def _not_an_object(call: ToolCall) -> str:
    try:
        shown = json.dumps(call.arguments, ensure_ascii=False, default=repr)
    except (ValueError, RecursionError):  # a number or a nesting that cannot be printed
        shown = f"a {type(call.arguments).__name__}"
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[:_SHOWN_CHARACTERS] + "…"
    return f"The arguments of tool '{call.tool_name}' must be a JSON object, got {shown}"


def _failed(call: ToolCall, text: str, *, approved: bool | None = None) -> ToolExecution:
    return ToolExecution(call.tool_name, call.tool_call_id, call.arguments, text, True, 0, approved)
