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
    ReadHistoryInput,
    ReadHistoryResult,
    RecordInput,
    RecordResult,
    SessionInput,
)
from perdure.uap.session_key import SessionKey

T = TypeVar("T")

_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=5)
)
_HEARTBEAT = timedelta(seconds=2)
_LOCAL_TRY = timedelta(seconds=10)
_MARGIN = timedelta(seconds=30)
_HOOK_TIMEOUT = timedelta(hours=1)
_STORE_TIMEOUT = timedelta(minutes=15)
_TASK_TIMEOUT = timedelta(seconds=5)


def start_generate(call: GenerateInput, *, timeout_s: float) -> workflow.ActivityHandle[GenerateResult]:
    """Schedule a model call; a dead worker is noticed by its missing heartbeat, not by the timeout."""
    return workflow.start_activity(
        contracts.GENERATE,
        call,
        result_type=GenerateResult,
        start_to_close_timeout=timedelta(seconds=timeout_s) + _MARGIN,
        heartbeat_timeout=_HEARTBEAT,
        retry_policy=_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )


def start_call_tool(call: CallToolInput) -> workflow.ActivityHandle[CallToolResult]:
    """Schedule a tool call; its own timeout is kept inside the activity, which then stores an error result."""
    return workflow.start_activity(
        contracts.CALL_TOOL,
        call,
        result_type=CallToolResult,
        start_to_close_timeout=timedelta(seconds=call.timeout_s) + _MARGIN,
        heartbeat_timeout=_HEARTBEAT,
        retry_policy=_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )


def start_call_user(call: CallUserInput) -> workflow.ActivityHandle[CallUserResult]:
    """Schedule a lifecycle hook; a worker that dies in it calls it again."""
    return workflow.start_activity(
        contracts.CALL_USER,
        call,
        result_type=CallUserResult,
        start_to_close_timeout=_HOOK_TIMEOUT,
        heartbeat_timeout=_HEARTBEAT,
        retry_policy=_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )


async def start_session(child: SessionInput, *, sandboxed: bool) -> workflow.ChildWorkflowHandle[Any, Any]:
    """Start a sub-agent's session on this one's queue; it is cancelled when this execution closes.

    Raises:
        FailureError: an execution of that session is open, or it could not be started.
    """
    return await workflow.start_child_workflow(
        contracts.SANDBOXED_SESSION if sandboxed else contracts.SESSION,
        child,
        id=SessionKey(child.tenant, child.session).workflow_id,
        task_timeout=_TASK_TIMEOUT,
        cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
    )


def start_around(call: AroundInput) -> workflow.ActivityHandle[AroundResult]:
    """Schedule a call of a run's middleware; a worker that dies in it calls it again."""
    return workflow.start_activity(
        contracts.AROUND,
        call,
        result_type=AroundResult,
        start_to_close_timeout=_HOOK_TIMEOUT,
        heartbeat_timeout=_HEARTBEAT,
        retry_policy=_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )


def start_read_history(call: ReadHistoryInput) -> workflow.ActivityHandle[ReadHistoryResult]:
    """Schedule the reading of what is before a run."""
    return workflow.start_activity(
        contracts.READ_HISTORY,
        call,
        result_type=ReadHistoryResult,
        start_to_close_timeout=_STORE_TIMEOUT,
        heartbeat_timeout=_HEARTBEAT,
        retry_policy=_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )


def start_keep_turn(call: KeepTurnInput) -> workflow.ActivityHandle[KeepTurnResult]:
    """Schedule the storing of the turn that a strategy of the user's own returned."""
    return workflow.start_activity(
        contracts.KEEP_TURN,
        call,
        result_type=KeepTurnResult,
        start_to_close_timeout=_STORE_TIMEOUT,
        heartbeat_timeout=_HEARTBEAT,
        retry_policy=_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    )


async def begin_run(call: BeginRunInput) -> BeginRunResult:
    """Take the next input."""
    return await _local(contracts.BEGIN_RUN, call, BeginRunResult)


async def record(call: RecordInput) -> RecordResult:
    """Write what must not wait."""
    return await _local(contracts.RECORD, call, RecordResult)


async def end_run(call: EndRunInput) -> EndRunResult:
    """End the run."""
    return await _local(contracts.END_RUN, call, EndRunResult)


async def _local(name: str, call: object, result: type[T]) -> T:
    """A local activity that is redone until it succeeds: the store may be away for as long as it likes."""
    return cast(
        T,
        await workflow.execute_local_activity(
            name, call, result_type=result, start_to_close_timeout=_LOCAL_TRY, retry_policy=_RETRY
        ),
    )
