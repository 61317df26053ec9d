"""The worker process of a contestant on Temporal. What it may import is as in `temporal_driver`."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from benchmarks.work import WrongRun
from benchmarks.worker_process import until_told

TASK_QUEUE_VARIABLE = "BENCH_TASK_QUEUE"


async def serve_worker(
    client: Client, workflows: Sequence[type], activities: Sequence[Callable[..., Any]], *, sandboxed: bool
) -> None:
    """Take the driver's work until it says otherwise.

    Args:
        client: with the contestant's plugins or converter.
        workflows: "Run" and "Session".
        activities: beside those that the client's plugins bring.
        sandboxed: Temporal's sandbox around the workflows, as it comes by default.
    """
    worker = Worker(
        client,
        task_queue=os.environ[TASK_QUEUE_VARIABLE],
        workflows=workflows,
        activities=activities,
        workflow_runner=SandboxedWorkflowRunner() if sandboxed else UnsandboxedWorkflowRunner(),
    )
    async with worker:
        await until_told()


@contextmanager
def failing_at_once() -> Generator[None, None, None]:
    """Around what the scripted model or the tool does: a wrong run fails instead of being tried again for ever."""
    try:
        yield
    except WrongRun as wrong:
        raise ApplicationError(str(wrong), type="WrongRun", non_retryable=True) from wrong
