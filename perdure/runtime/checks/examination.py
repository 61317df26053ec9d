"""All checks in their order, and the repair of what they find. What needs a server that is away is left out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence

from temporalio.service import RPCError

from perdure.errors import ServerUnavailable
from perdure.runtime.checks import executions, servers
from perdure.runtime.checks.check import Check, Scope, Tally
from perdure.runtime.checks.orphans import DeletionCheck, PayloadCheck, find_orphans
from perdure.runtime.checks.rows import ROW_CHECKS, PageCheck, find_stage_faults
from perdure.runtime.checks.tasks import check_tasks
from perdure.runtime.checks.threads import ThreadCheck
from perdure.store.database import is_away
from perdure.store.schema_drift import find_drift
from perdure.store.session_pages import page_ids
from perdure.store.stages.faults import page_stage_ids

_PAGE = 200
_DELETIONS = DeletionCheck()
_OF_PAGES: tuple[PageCheck, ...] = (*ROW_CHECKS, ThreadCheck(), PayloadCheck())

OF_SERVERS = ("drift", "indexes", "filters", "agents", "waits", "workers", "stuck")
OF_EXECUTIONS = ("executions", "strays", "progress", "tasks")
ORPHANS = "orphans"
STAGE_ROWS = "stage_rows"
NAMES = (*OF_SERVERS, _DELETIONS.name, ORPHANS, STAGE_ROWS, *(check.name for check in _OF_PAGES), *OF_EXECUTIONS)
"""The names of all checks, in their order."""


async def examine(scope: Scope, *, only: Collection[str] = NAMES, repair: bool = False) -> AsyncGenerator[Check]:
    """Make checks, and mend what can be mended safely if that is asked for.

    Sessions are read page by page, so their number costs time and no memory. What is mended is looked at again first, with
    the session held; a session in which a run is active is left alone where that might disturb it.

    Args:
        scope: where to look.
        only: names of the checks to make.
        repair: mend what they find.
    """
    for name in OF_SERVERS:
        if name in only and (work := _of_servers(scope, name, repair=repair)) is not None:
            yield await surviving(work)
    if _DELETIONS.name in only:
        yield await surviving(lambda: _one(scope, _DELETIONS, repair=repair))
    if ORPHANS in only:
        yield await surviving(lambda: _orphans(scope, repair=repair))
    if STAGE_ROWS in only:
        yield await surviving(lambda: _stage_rows(scope, repair=repair))
    for check in await _of_pages(scope, [check for check in _OF_PAGES if check.name in only], repair=repair):
        yield check
    for name in OF_EXECUTIONS:
        if name in only and (work := _of_executions(scope, name, repair=repair)) is not None:
            yield await surviving(work)


def _of_servers(scope: Scope, name: str, *, repair: bool) -> Callable[[], Awaitable[Check]] | None:
    database, tenant, client = scope.database, scope.tenant, scope.client
    of_rows: dict[str, Callable[[], Awaitable[Check]]] = {
        "drift": lambda: _drift(scope),
        "indexes": lambda: servers.check_indexes(database, repair=repair),
        "filters": lambda: servers.check_filters(database),
        "agents": lambda: servers.check_agents(database, tenant),
        "waits": lambda: servers.check_waits(database, tenant),
    }
    if name in of_rows or client is None:
        return of_rows.get(name)
    return {
        "workers": lambda: servers.check_workers(client, database, tenant),
        "stuck": lambda: servers.check_stuck(client),
    }[name]


def _of_executions(scope: Scope, name: str, *, repair: bool) -> Callable[[], Awaitable[Check]] | None:
    database, tenant, client = scope.database, scope.tenant, scope.client
    if name == "progress":
        return lambda: executions.check_progress(scope)
    if client is None:
        return None
    if name == "tasks":
        return lambda: check_tasks(scope, client, repair=repair)
    if name == "strays":
        return lambda: executions.check_strays(client, database, tenant, repair=repair)
    return lambda: executions.check_executions(client, database, tenant, repair=repair)


async def surviving(work: Callable[[], Awaitable[Check]]) -> Check:
    """A check, or that a server went away while it was made."""
    try:
        return await work()
    except Exception as error:
        if not (is_away(error) or isinstance(error, RPCError | ServerUnavailable)):
            raise
        return Check("servers", False, f"a server stopped answering: {error}")


async def _drift(scope: Scope) -> Check:
    found = await find_drift(scope.database)
    if found:
        detail = "the schema is not what its revision made; undo what was changed by hand, or restore it from a backup"
        return Check("drift", False, detail, found, count=len(found))
    return Check("drift", True, "tables, columns, indexes and functions are those of this version")


async def _orphans(scope: Scope, *, repair: bool) -> Check:
    tally = Tally(ORPHANS, "every row has its session", repair=repair)
    async for finding in find_orphans(scope):
        await tally.add(finding)
    return tally.check()


async def _stage_rows(scope: Scope, *, repair: bool) -> Check:
    tally, after = Tally(STAGE_ROWS, "every stage session can be written to, and has its state", repair=repair), ""
    while sessions := await page_stage_ids(scope.database, scope.tenant, after=after, limit=_PAGE):
        for finding in await find_stage_faults(scope, sessions):
            await tally.add(finding)
        after = sessions[-1]
    return tally.check()


async def _one(scope: Scope, check: PageCheck, *, repair: bool) -> Check:
    return (await _pages(scope, [check], repair=repair))[0]


async def _of_pages(scope: Scope, checks: Sequence[PageCheck], *, repair: bool) -> list[Check]:
    """The checks of sessions' rows, or that a server went away while they were made."""
    made: list[Check] = []

    async def work() -> Check:
        made.extend(await _pages(scope, checks, repair=repair))
        return made[0]

    return made if not checks or (away := await surviving(work)) in made else [away]


async def _pages(scope: Scope, checks: Sequence[PageCheck], *, repair: bool) -> list[Check]:
    """Make checks of all sessions, a page at a time, each check after the one before: what that mends it sees mended."""
    tallies = [Tally(check.name, check.well, repair=repair) for check in checks]
    after = ""
    while sessions := await page_ids(scope.database, scope.tenant, after=after, limit=_PAGE):
        for check, tally in zip(checks, tallies, strict=True):
            for finding in await check.find(scope, sessions):
                await tally.add(finding)
        after = sessions[-1]
    return [tally.check() for tally in tallies]
