"""A workflow's work with the handling of its signals beside it, so that cancelling the workflow leaves nothing half done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from perdure.activities.border import to_application_error


async def run_beside(
    work: Coroutine[Any, Any, None], signals: Coroutine[Any, Any, None], cancelled: Callable[[], None]
) -> None:
    """Return once the work is done; the tasks themselves are never cancelled.

    Args:
        work: what the workflow does.
        signals: handles what is signalled meanwhile, until there is nothing left that it could be about.
        cancelled: called for each cancellation of the workflow; it has the work come to its end.

    Raises:
        asyncio.CancelledError: the work is done, and the workflow was cancelled.
        FailureError: what either raised; an error of ours as the failure that stands for it, for it must end the
            execution and never be tried for ever.
    """
    try:
        await _beside(asyncio.create_task(work), asyncio.create_task(signals), cancelled)
    except (FailureError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise to_application_error(error) from error


async def _beside(work: asyncio.Task[None], signals: asyncio.Task[None], cancelled: Callable[[], None]) -> None:
    while not work.done() and not signals.done():
        try:
            await asyncio.wait([work, signals], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            cancelled()
    if not work.done():
        signals.result()  # ended by an error; it is raised here
        await work
    work.result()
    if workflow.cancellation_reason() is not None:
        raise asyncio.CancelledError
