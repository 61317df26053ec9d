"""The check of stage sessions' actions that were begun: without an execution, or not getting on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from functools import partial

from temporalio.client import Client

from perdure.runtime.checks.check import MOST_SHOWN, Check, Finding, Scope, Tally
from perdure.runtime.checks.executions import in_hand
from perdure.runtime.executions import find_lost_stages, wake_lost_stage
from perdure.runtime.shown import iso
from perdure.store.database import Database
from perdure.store.stages.standings import BegunAction, page_begun

_PAGE = 200
_NAME = "tasks"


async def check_tasks(scope: Scope, client: Client, *, repair: bool) -> Check:
    """Tasks of stages that have no execution, or of which nothing was heard for long; what waits for a person is well.

    One whose function no worker has is among the latter: it is tried until a worker has it.
    """
    tally, count, waiting, told = Tally(_NAME, "", repair=repair), 0, 0, list[str]()
    async for page in _pages(scope.database, scope.tenant, timedelta()):
        count += len(page)
        lost = await find_lost_stages(client, [one for one in page if not one.rests])
        for one in lost:
            await tally.add(_lost(client, scope.database, one))
    async for page in _pages(scope.database, scope.tenant, scope.stuck_after):
        for one in page:
            if not one.is_waiting:
                await tally.add(await _still(client, one))
                continue
            waiting += 1
            if len(told) < MOST_SHOWN:
                told.append(f"{_named(one)} waits for a person since {iso(one.touched_at)}")
    check = tally.check()
    if not check.ok or check.count:
        return check
    return Check(
        _NAME, True, f"{count} actions of stage sessions were begun, each with its execution", told, count=waiting
    )


def _lost(client: Client, database: Database, one: BegunAction) -> Finding:
    what = f"{_named(one)} was begun and has no open execution"
    remedy = "a worker goes on with it within a minute; --repair wakes it now"
    return Finding(what, remedy, one.key, partial(wake_lost_stage, client, database, one))


async def _still(client: Client, one: BegunAction) -> Finding:
    if one.task_queue is None:
        hindrance = "no worker has registered its workflow"
    else:
        hindrance = await in_hand(client, one.task_queue, one.key.stage_workflow_id)
    what = f"{_named(one)} has written nothing since {iso(one.touched_at)}: {hindrance}"
    return Finding(what, "`perdure stages terminate` ends its session", one.key)


def _named(one: BegunAction) -> str:
    return f"action {one.ordinal}, task {one.task!r:.80} of stage {one.stage!r} of workflow {one.workflow!r},"


async def _pages(database: Database, tenant: str, quiet: timedelta) -> AsyncGenerator[list[BegunAction]]:
    after: BegunAction | None = None
    while page := await page_begun(database, tenant, quiet=quiet, after=after, limit=_PAGE):
        yield page
        after = page[-1]
