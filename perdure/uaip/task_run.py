"""One call of a function task: arguments checked, function run, result and changes of the state taken."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from perdure.errors import InvalidInput
from perdure.uaip.arguments import argument_problems, check_result, misfit
from perdure.uaip.bound_task import FunctionTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.state import State
from perdure.uaip.state_change import too_large
from perdure.uaip.task_context import TaskContext
from perdure.uaip.task_outcome import TaskError, TaskRun
from perdure.upp.deadline import CancelledFromWithin, DeadlineExceeded, run_with_deadline
from perdure.upp.json_value import JSONObject, jsonable
from perdure.upp.tool_loop import call_function, error_text


async def run_function(
    task: FunctionTask, pinned: TaskSpec, arguments: JSONObject, state: State, context: TaskContext
) -> TaskRun:
    """Returns what came of one call, whatever the function does.

    A sync function runs on a daemon thread. One that is not done in time is abandoned, with its changes of the state.

    Args:
        task: as it is deployed now.
        pinned: as the session's definition has it: its schemas and its timeout count.
        arguments: as the client sent them.
        state: of the session; it is changed.
        context: for a task that wants it.

    Raises:
        asyncio.CancelledError: the caller was cancelled.
    """
    problems = argument_problems(pinned.parameters, arguments)
    if problems:
        return TaskRun(refusal=misfit(pinned.name, problems))
    try:
        given = task.function.bind(arguments, state, context)
    except InvalidInput as error:
        return TaskRun(refusal=misfit(pinned.name, [str(error)]))
    try:
        return finish(pinned, await _within(pinned, partial(task.callable(), **given)), state)
    except Exception as error:  # noqa: BLE001  # a task's failure is the client's to handle
        return TaskRun(error=TaskError(type(error).__name__, error_text(error)))


def finish(pinned: TaskSpec, value: object, state: State) -> TaskRun:
    """What came of a task that returned, of whatever kind: its result, saved if it says so, and its changes.

    Args:
        pinned: as the session's definition has it.
        value: what the function returned, the agent answered or the server replied.
        state: of the session; it is changed.

    Raises:
        TypeError: the value has no JSON form.
        InvalidInput: it does not fit what the task says it returns, or a value in the state is no JSON any more.
    """
    result = jsonable(value)
    check_result(pinned.name, pinned.returns, result)
    if pinned.save_as:
        state.set(pinned.save_as, result)
    diff = state.diff()
    refusal = too_large(state.sizes()) if diff.values else None
    if refusal is not None:
        return TaskRun(error=TaskError("StateTooLarge", refusal.detail))
    return TaskRun(result, diff)


async def _within(pinned: TaskSpec, call: Callable[[], object]) -> object:
    timeout = None if pinned.timeout_s is None else timedelta(seconds=pinned.timeout_s)
    try:
        return await run_with_deadline(call_function(f"task '{pinned.name}'", call), timeout)
    except DeadlineExceeded:
        raise TimeoutError(f"task '{pinned.name}' timed out after {pinned.timeout_s:g} s") from None
    except CancelledFromWithin:
        raise RuntimeError(f"task '{pinned.name}' was cancelled from within") from None
