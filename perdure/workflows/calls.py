"""How the session workflow schedules its activities. Every number here is part of the history's shape."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar, cast

from temporalio import workflow
from temporalio.common import RetryPolicy

from perdure.activities import contracts
from perdure.activities.contracts import (
    AroundInput,
    AroundResult,
    BeginRunInput,
    BeginRunResult,
    CallToolInput,
    CallToolResult,
    CallUserInput,
    CallUserResult,
    EndRunInput,
    EndRunResult,
    GenerateInput,
    GenerateResult,
    KeepTurnInput,
    KeepTurnResult,
    PayInput,
    PayResult,
    ReadHistoryInput,
    ReadHistoryResult,
    RecordInput,
    RecordResult,
    SessionInput,
    TakeSteersInput,
    TakeSteersResult,
)
from perdure.uap.session_key import SessionKey
from perdure.uap.spec import AgentSpec, ToolSpec

T = TypeVar("T")

_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=5)
)
_HEARTBEAT = timedelta(seconds=3)
"""Beats come each second: a worker that stands still for two is not taken for dead, and buys no answer twice."""
_HOOK_HEARTBEAT = timedelta(seconds=5)
"""Longer, for nothing but its worker's death is to have a hook called twice: not a process that stood still for a moment."""
_LOCAL_TRY = timedelta(seconds=10)
MARGIN = timedelta(seconds=30)
_HOOK_TIMEOUT = timedelta(hours=1)
_STORE_TIMEOUT = timedelta(minutes=15)
_TASK_TIMEOUT = timedelta(seconds=5)


def start_generate(call: GenerateInput, spec: AgentSpec) -> workflow.ActivityHandle[GenerateResult]:
    """Schedule a model call; a dead worker is noticed by its missing heartbeat, not by the timeout.

    Args:
        call: the call. It takes the longer, the longer the tools may that are called with it.
        spec: of the agent. Its model may be short: then whoever takes over from a dead worker looks first what is stored.
    """
    start = start_here if spec.model is not None and spec.model.short else start_activity
    seconds = spec.limits.model_timeout_s + max((_longest(spec.tool(name)) for name in call.ahead), default=0.0)
    return start(contracts.GENERATE, call, GenerateResult, timedelta(seconds=seconds) + MARGIN)


def _longest(tool: ToolSpec | None) -> float:
    return 0.0 if tool is None or tool.timeout_s is None else tool.timeout_s * tool.attempts + tool.waits_s


def start_call_tool(call: CallToolInput, spec: ToolSpec | None) -> workflow.ActivityHandle[CallToolResult]:
    """Schedule a tool call; its own timeout is kept inside the activity, which then stores an error result.

    Args:
        call: the call.
        spec: of its tool, if there is one: one that is tried again may take that much longer.
    """
    seconds = call.timeout_s if spec is None else call.timeout_s * spec.attempts + spec.waits_s
    start = start_here if spec is not None and spec.short else start_activity
    return start(contracts.CALL_TOOL, call, CallToolResult, timedelta(seconds=seconds) + MARGIN)


def start_call_user(call: CallUserInput) -> workflow.ActivityHandle[CallUserResult]:
    """Schedule a lifecycle hook; a worker that dies in it calls it again."""
    return start_activity(contracts.CALL_USER, call, CallUserResult, _HOOK_TIMEOUT, _HOOK_HEARTBEAT)


async def start_session(
    child: SessionInput, *, sandboxed: bool, task_queue: str | None = None
) -> workflow.ChildWorkflowHandle[Any, Any]:
    """Start a session on this one's queue, or on another; it is cancelled when this execution closes.

    Raises:
        FailureError: an execution of that session is open, or it could not be started.
    """
    return await workflow.start_child_workflow(
        contracts.SANDBOXED_SESSION if sandboxed else contracts.SESSION,
        child,
        id=SessionKey(child.tenant, child.session).workflow_id,
        task_queue=task_queue,
        task_timeout=_TASK_TIMEOUT,
        cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
    )


def start_around(call: AroundInput) -> workflow.ActivityHandle[AroundResult]:
    """Schedule a call of a run's middleware; a worker that dies in it calls it again."""
    return start_activity(contracts.AROUND, call, AroundResult, _HOOK_TIMEOUT, _HOOK_HEARTBEAT)


def start_read_history(call: ReadHistoryInput) -> workflow.ActivityHandle[ReadHistoryResult]:
    """Schedule the reading of what is before a run."""
    return start_activity(contracts.READ_HISTORY, call, ReadHistoryResult, _STORE_TIMEOUT)


def start_keep_turn(call: KeepTurnInput) -> workflow.ActivityHandle[KeepTurnResult]:
    """Schedule the storing of the turn that a strategy of the user's own returned."""
    return start_activity(contracts.KEEP_TURN, call, KeepTurnResult, _STORE_TIMEOUT)


async def begin_run(call: BeginRunInput) -> BeginRunResult:
    """Take the next input."""
    return await until_it_succeeds(contracts.BEGIN_RUN, call, BeginRunResult)


async def take_steers(call: TakeSteersInput) -> TakeSteersResult:
    """Let inputs join the run."""
    return await until_it_succeeds(contracts.TAKE_STEERS, call, TakeSteersResult)


async def pay(call: PayInput) -> PayResult:
    """See that the run is paid for."""
    return await until_it_succeeds(contracts.PAY, call, PayResult)


async def record(call: RecordInput) -> RecordResult:
    """Write what must not wait."""
    return await until_it_succeeds(contracts.RECORD, call, RecordResult)


async def end_run(call: EndRunInput) -> EndRunResult:
    """End the run."""
    return await until_it_succeeds(contracts.END_RUN, call, EndRunResult)


def start_activity(
    name: str, call: object, result: type[T], timeout: timedelta, heartbeat: timedelta = _HEARTBEAT
) -> workflow.ActivityHandle[T]:
    """An activity that is tried until it succeeds, and that when cancelled has its say before the workflow goes on."""
    return workflow.start_activity(
        name,
        call,
        result_type=result,
        start_to_close_timeout=timeout,
        heartbeat_timeout=heartbeat,
        retry_policy=_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        priority=workflow.info().priority,  # the tenant's; the server would add it, but not to what starts eagerly
    )


def start_here(name: str, call: object, result: type[T], timeout: timedelta) -> workflow.ActivityHandle[T]:
    """The same as a local activity, for what ends within a second: signals wait meanwhile."""
    return workflow.start_local_activity(
        name,
        call,
        result_type=result,
        start_to_close_timeout=timeout,
        retry_policy=_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )


async def until_it_succeeds(name: str, call: object, result: type[T]) -> T:
    """A local activity that is redone until it succeeds: the store may be away for as long as it likes."""
    return cast(
        T,
        await workflow.execute_local_activity(
            name, call, result_type=result, start_to_close_timeout=_LOCAL_TRY, retry_policy=_RETRY
        ),
    )
