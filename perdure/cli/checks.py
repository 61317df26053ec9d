"""What `perdure doctor` looks at. A check never raises for what it is to find; it says so."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from sqlalchemy import select, text
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.runtime.shown import iso
from perdure.runtime.temporal import RPC_TIMEOUT, is_open
from perdure.store.database import Database
from perdure.store.runs import find_run
from perdure.store.tables import agents, runs
from perdure.store.waits import open_waits
from perdure.uap.session_key import SessionKey

_POLLING_S = 90  # a worker's poll is held for 60 s and renewed
_MOST_SHOWN = 100
_MOST_RUNS = 1000
_AT_ONCE = 20
_STUCK = 'ExecutionStatus = "Running" AND TemporalReportedProblems IS NOT NULL'
_INVALID_INDEXES = """
select format('%I.%I', n.nspname, c.relname) from pg_index i
  join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = 'perdure' and not i.indisvalid order by 1
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at.

    Attributes:
        name: a stable word.
        ok: nothing is wrong with it.
        detail: what was seen, and what to do if it is wrong.
        found: what the detail counts, at most `_MOST_SHOWN`.
    """

    name: str
    ok: bool
    detail: str
    found: list[str] = field(default_factory=list[str])


async def check_agents(database: Database, tenant: str) -> Check:
    """Which agents workers have registered."""
    async with database.transaction() as connection:
        query = select(agents.c.name, agents.c.task_queue, agents.c.seen_at).where(agents.c.tenant_id == tenant)
        rows = (await connection.execute(query.order_by(agents.c.name))).all()
    if not rows:
        return Check("agents", True, "none registered; `perdure worker MODULE:APP` registers its own")
    found = [f"{row.name} on {row.task_queue}, registered {iso(row.seen_at)}" for row in rows]
    return Check("agents", True, f"{len(found)} registered", found[:_MOST_SHOWN])


async def check_workers(client: Client, database: Database, tenant: str) -> Check:
    """Whether somebody serves the task queues of the registered agents."""
    async with database.transaction() as connection:
        query = select(agents.c.task_queue).where(agents.c.tenant_id == tenant).distinct()
        queues = (await connection.execute(query.order_by(agents.c.task_queue))).scalars().all()
    idle = [queue for queue in queues if not await _is_served(client, queue)]
    if idle:
        return Check("workers", False, "no worker serves these task queues: `perdure worker MODULE:APP`", idle)
    return Check("workers", True, "every task queue is served", list(queues))


async def _is_served(client: Client, queue: str) -> bool:
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    answer = await client.workflow_service.describe_task_queue(request, timeout=RPC_TIMEOUT)
    return any(time.time() - poller.last_access_time.seconds < _POLLING_S for poller in answer.pollers)


async def check_stuck(client: Client) -> Check:
    """Executions whose workflow task fails again and again: what only another deploy can cure."""
    try:
        found = [execution.id async for execution in client.list_workflows(_STUCK, limit=_MOST_SHOWN)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return Check("stuck", True, "this server does not mark stuck executions (TemporalReportedProblems is unknown)")
    if found:
        return Check(
            "stuck", False, "their workflow code fails on the workers' version: roll back, or deploy a cure", found
        )
    return Check("stuck", True, "no execution is stuck")


async def check_executions(client: Client, database: Database, tenant: str) -> Check:
    """Runs that are open in the rows and have no open execution. A worker's sweep adopts them within a minute."""
    async with database.transaction() as connection:
        query = select(runs.c.session_id, runs.c.id).where(runs.c.tenant_id == tenant, runs.c.ended_at.is_(None))
        rows = (await connection.execute(query.order_by(runs.c.started_at).limit(_MOST_RUNS))).all()
    gate = asyncio.Semaphore(_AT_ONCE)

    async def is_lost(session: str, run: str) -> bool:
        async with gate:
            if await is_open(client, SessionKey(tenant, session)):
                return False
            return (await find_run(database, tenant, run)).ended_at is None  # else it ended while we looked

    lost = await asyncio.gather(*(is_lost(row.session_id, row.id) for row in rows))
    found = [f"run {row.id} of session {row.session_id}" for row, gone in zip(rows, lost, strict=True) if gone]
    if found:
        return Check(
            "executions", False, "open runs without an open execution; a worker goes on with them", found[:_MOST_SHOWN]
        )
    return Check("executions", True, f"{len(rows)} open runs, each with its execution")


async def check_indexes(database: Database) -> Check:
    """Indexes that a broken build has left behind: they cost writes and serve no read."""
    async with database.transaction() as connection:
        found = list((await connection.execute(text(_INVALID_INDEXES))).scalars().all())
    if found:
        return Check("indexes", False, "invalid; rebuild each with `reindex index concurrently NAME`", found)
    return Check("indexes", True, "all are valid")


async def check_waits(database: Database, tenant: str) -> Check:
    """How many questions have no answer yet; nothing is wrong with that."""
    count = len(await open_waits(database, tenant))
    return Check("waits", True, f"{count} unanswered" + ("; `perdure waits list` shows them" if count else ""))
