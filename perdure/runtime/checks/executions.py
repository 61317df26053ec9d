"""Checks of open runs and open executions: lost ones, stray ones, and runs that do not get on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from functools import partial

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.runtime.checks.check import MOST_SHOWN, Check, Finding, Scope, Tally
from perdure.runtime.checks.servers import is_served
from perdure.runtime.executions import StrayExecution, end_stray, find_lost, find_strays, wake_lost
from perdure.runtime.shown import iso
from perdure.runtime.temporal import RPC_TIMEOUT
from perdure.store.database import Database
from perdure.store.open_runs import GONE, OpenRun, page_open_runs

_PAGE = 200
_OPEN = 'ExecutionStatus = "Running"'


async def check_executions(client: Client, database: Database, tenant: str, *, repair: bool = False) -> Check:
    """Runs that are open in the rows and have no open execution. A worker's sweep adopts them within a minute."""
    tally, count = Tally("executions", "", repair=repair), 0
    async for page in _pages(database, tenant, timedelta()):
        count += len(page)
        for run in await find_lost(client, database, page):
            what = f"run {run.id} is open without an open execution"
            remedy = "a worker goes on with it within a minute; --repair wakes it now"
            await tally.add(Finding(what, remedy, run.key, partial(wake_lost, client, database, run.key)))
    check = tally.check()
    return check if check.count else Check("executions", True, f"{count} open runs, each with its execution")


async def check_strays(client: Client, database: Database, tenant: str, *, repair: bool) -> Check:
    """Open executions whose session is gone, or whose rows hold nothing to run. A worker's reconciler ends them."""
    tally = Tally("strays", "every open execution has something to run", repair=repair)
    listed, token = client.list_workflows(_OPEN, page_size=_PAGE), None
    while True:
        await listed.fetch_next_page(page_size=_PAGE)
        for stray in await find_strays(client, database, listed.current_page or []):
            if stray.key.tenant == tenant:
                await tally.add(_stray(client, database, stray))
        token = listed.next_page_token
        if not token:
            return tally.check()


def _stray(client: Client, database: Database, stray: StrayExecution) -> Finding:
    why = "it is gone" if stray.standing == GONE else "its rows hold nothing to run"
    what = f"{why}, and its execution {stray.run_id} is open"
    remedy = "a worker's reconciler ends it; --repair does it now"
    return Finding(what, remedy, stray.key, partial(end_stray, client, database, stray))


async def check_progress(scope: Scope) -> Check:
    """Runs that have written nothing for long, and what they wait for: nothing is wrong if that is a person."""
    tally, waiting, told = Tally("progress", "", repair=False), 0, list[str]()
    async for page in _pages(scope.database, scope.tenant, scope.stuck_after):
        for run in page:
            patient = _patient(run)
            if patient is None:
                await tally.add(_still(run, await _hindrance(scope.client, run)))
                continue
            waiting += 1
            if len(told) < MOST_SHOWN:
                told.append(f"session {run.key.session}: run {run.id} waits since {iso(run.touched_at)}: {patient}")
    check = tally.check()
    if check.ok:
        return Check(
            "progress", True, f"every run gets on, but for {waiting} that wait for somebody", told, count=waiting
        )
    return check


def _patient(run: OpenRun) -> str | None:
    """What a run waits for that a person has in hand; None if it is nothing of that kind."""
    if run.wait is not None:
        return f"{run.wait[0]} {run.wait[1]} is not answered; `perdure waits list` shows it"
    return "the session is paused; `perdure sessions resume` lets it go on" if run.paused else None


def _still(run: OpenRun, hindrance: str) -> Finding:
    what = f"run {run.id} has written nothing since {iso(run.touched_at)}: {hindrance}"
    return Finding(what, "`perdure sessions cancel` ends it", run.key)


async def _hindrance(client: Client | None, run: OpenRun) -> str:
    """What a run that no person holds up is at."""
    if client is None:
        return "Temporal does not answer"
    if run.task_queue is None:
        return "no worker has registered its agent"
    return await in_hand(client, run.task_queue, run.key.workflow_id)


async def in_hand(client: Client, task_queue: str, workflow: str) -> str:
    """What an execution is at that gets no further, in a phrase.

    Args:
        client: Temporal's.
        task_queue: whose workers serve it.
        workflow: its id.

    Raises:
        RPCError: Temporal does not answer.
    """
    if not await is_served(client, task_queue):
        return f"no worker serves task queue {task_queue}"
    try:
        found = await client.get_workflow_handle(workflow).describe(rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return "it has no execution"
    raw = found.raw_description
    for activity in raw.pending_activities:
        failure = f", after: {activity.last_failure.message[:200]}" if activity.HasField("last_failure") else ""
        return f"activity {activity.activity_type.name} is at attempt {activity.attempt}{failure}"
    for child in raw.pending_children:
        return f"it waits for the sub-agent of workflow {child.workflow_id}"
    if raw.HasField("pending_workflow_task"):
        return f"its workflow task is at attempt {raw.pending_workflow_task.attempt}"
    return "it is at rest, and nothing says what for"


async def _pages(database: Database, tenant: str, quiet: timedelta) -> AsyncGenerator[list[OpenRun]]:
    after: OpenRun | None = None
    while page := await page_open_runs(database, tenant, quiet=quiet, after=after, limit=_PAGE):
        yield page
        after = page[-1]
