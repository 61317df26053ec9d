"""Checks of what serves the sessions: agents, workers, the workers' code, indexes; and how much waits for people."""

from __future__ import annotations

import time
from functools import partial

from sqlalchemy import select
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.runtime.checks.check import MOST_SHOWN, Check, Finding, Tally
from perdure.runtime.shown import iso
from perdure.runtime.temporal import RPC_TIMEOUT
from perdure.store.database import Database
from perdure.store.filterable_keys import COMPLETE, list_filterable
from perdure.store.invalid_indexes import find_invalid, mend_index
from perdure.store.tables import agents
from perdure.store.waits import open_waits

_POLLING_S = 90  # a worker's poll is held for 60 s and renewed
_STUCK = 'ExecutionStatus = "Running" AND TemporalReportedProblems IS NOT NULL'


async def check_agents(database: Database, tenant: str) -> Check:
    """Which agents workers have registered."""
    async with database.transaction(tenant) as connection:
        query = select(agents.c.name, agents.c.task_queue, agents.c.seen_at).where(agents.c.tenant_id == tenant)
        rows = (await connection.execute(query.order_by(agents.c.name))).all()
    if not rows:
        return Check("agents", True, "none registered; `perdure worker MODULE:APP` registers its own")
    found = [f"{row.name} on {row.task_queue}, registered {iso(row.seen_at)}" for row in rows]
    return Check("agents", True, f"{len(found)} registered", found[:MOST_SHOWN], count=len(found))


async def check_workers(client: Client, database: Database, tenant: str) -> Check:
    """Whether somebody serves the task queues of the registered agents."""
    async with database.transaction(tenant) as connection:
        query = select(agents.c.task_queue).where(agents.c.tenant_id == tenant).distinct()
        queues = (await connection.execute(query.order_by(agents.c.task_queue))).scalars().all()
    idle = [queue for queue in queues if not await is_served(client, queue)]
    if idle:
        detail = "no worker serves these task queues: `perdure worker MODULE:APP`"
        return Check("workers", False, detail, idle, count=len(idle))
    return Check("workers", True, "every task queue is served", list(queues))


async def is_served(client: Client, queue: str) -> bool:
    """Whether a worker has asked for workflow tasks of a queue lately."""
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
        found = [execution.id async for execution in client.list_workflows(_STUCK, limit=MOST_SHOWN)]
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        return Check("stuck", True, "this server does not mark stuck executions (TemporalReportedProblems is unknown)")
    if found:
        detail = "their workflow code fails on the workers' version: roll back, or deploy a cure"
        return Check("stuck", False, detail, found, count=len(found))
    return Check("stuck", True, "no execution is stuck")


async def check_indexes(database: Database, *, repair: bool) -> Check:
    """Indexes that a broken build has left behind: they cost writes and serve no read."""
    tally = Tally("indexes", "all are valid", repair=repair)
    for index in await find_invalid(database):
        what = f"index {index.name} is invalid: its build was cut off"
        remedy = f"`{index.cure}` makes it anew" if index.known else f"`{index.cure}` takes it away"
        await tally.add(Finding(what, f"{remedy}; --repair does it", mend=partial(mend_index, database, index)))
    return tally.check()


async def check_filters(database: Database) -> Check:
    """By which metadata lists can be filtered, and for which of it sessions are still gone through; nothing is wrong with that."""
    keys = await list_filterable(database)
    open_keys = [key for key, state in keys.items() if state != COMPLETE]
    found = [f"{key}: {state}" for key, state in keys.items()]
    if open_keys:
        detail = f"{len(open_keys)} of {len(keys)} keys are not complete; lists by them are refused until a worker has filled them"
        return Check("filters", True, detail, found, count=len(open_keys))
    return Check(
        "filters", True, f"{len(keys)} keys of metadata" if keys else "lists are filtered by no metadata", found
    )


async def check_waits(database: Database, tenant: str) -> Check:
    """How many questions have no answer yet; nothing is wrong with that."""
    count = len(await open_waits(database, tenant))
    return Check("waits", True, f"{count} unanswered" + ("; `perdure waits list` shows them" if count else ""))
