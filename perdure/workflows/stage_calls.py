"""How the stage workflow schedules its activities. Every number here is part of the history's shape."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from perdure.activities import contracts
from perdure.activities.contracts import (
    ControlStageInput,
    ControlStageResult,
    FailTaskInput,
    RunTaskInput,
    RunTaskResult,
    StageTask,
    TakeActionInput,
    TakeActionResult,
)
from perdure.workflows.calls import MARGIN, start_activity, until_it_succeeds

_NO_LIMIT = timedelta(days=365)
"""Of a task without a timeout: that its worker is alive is seen by its heartbeat."""


def start_run_task(call: RunTaskInput, task: StageTask) -> workflow.ActivityHandle[RunTaskResult]:
    """Schedule a task; the timeout of each try is kept inside the activity, which then stores an error as its result."""
    limit = _NO_LIMIT
    if task.timeout_s is not None:
        limit = timedelta(seconds=task.timeout_s * task.attempts + task.waits_s)
    return start_activity(contracts.RUN_TASK, call, RunTaskResult, limit + MARGIN)


async def take_action(call: TakeActionInput) -> TakeActionResult:
    """Take the next action, and settle it if it needs no task."""
    return await until_it_succeeds(contracts.TAKE_ACTION, call, TakeActionResult)


async def fail_task(call: FailTaskInput) -> RunTaskResult:
    """Settle a task that could not be run."""
    return await until_it_succeeds(contracts.FAIL_TASK, call, RunTaskResult)


async def control_stage(call: ControlStageInput) -> ControlStageResult:
    """Pause, resume or terminate."""
    return await until_it_succeeds(contracts.CONTROL_STAGE, call, ControlStageResult)
