"""An activity's tie to the server: heartbeats from entry on, and what a cancellation means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity

from perdure.store.answers import Writer
from perdure.uap.session_key import SessionKey

BEAT_SECONDS = 0.5
STORE_PATIENCE = timedelta(minutes=10)


@asynccontextmanager
async def beating() -> AsyncGenerator[None]:
    """Heartbeat each half second inside the block; without heartbeats an activity never learns of its cancellation.

    What ends before sends none: a heartbeat costs a request. Nor does a local activity, which the server does not see.
    """
    if activity.info().is_local:
        yield
        return
    loop = asyncio.get_running_loop()

    def beat() -> None:
        nonlocal following
        activity.heartbeat()
        following = loop.call_later(BEAT_SECONDS, beat)

    following = loop.call_later(BEAT_SECONDS, beat)
    try:
        yield
    finally:
        following.cancel()


def cancelled_by_user() -> bool:
    """Whether the running `CancelledError` is the run's cancellation, not the worker's end; if so, it is taken back.

    A worker that shuts down re-raises: the activity is tried again elsewhere, and nobody calls that a stop.
    """
    details = activity.cancellation_details()
    if details is None or details.worker_shutdown or not details.cancel_requested:
        return False
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
    return True


def writer_of(tenant: str, session: str, run: str) -> Writer:
    """Who writes: this run, in the execution that scheduled this activity."""
    execution = activity.info().workflow_run_id
    assert execution is not None, "scheduled by a workflow"
    return Writer(SessionKey(tenant, session), run, execution)
