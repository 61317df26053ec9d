"""Open executions held against rows, in both directions: what differs, and what makes them agree.

A run that is active without an open execution is woken, and adopted by the execution which that starts; so is a stage
session with an action that was begun. An execution that is open for a session that is gone is ended, and so is one that is
at rest while the session's rows hold nothing to run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from perdure.errors import UnknownRun, UnknownSession
from perdure.runtime.session_servers import address_of
from perdure.runtime.stage_signals import wake_stage
from perdure.runtime.temporal import RPC_TIMEOUT, is_open, is_running, wake
from perdure.store.database import Database
from perdure.store.faults import BUSY as LEFT
from perdure.store.faults import GONE as AGREED
from perdure.store.faults import MENDED
from perdure.store.open_runs import BUSY, GONE, IDLE, OpenRun, claimed, read_standings
from perdure.store.runs import find_run
from perdure.store.sessions import find_address
from perdure.store.stages.standings import BegunAction, read_stage_standings
from perdure.uap.session_key import SessionKey

YOUNG = timedelta(seconds=30)
"""What is younger is left alone: it may be on its way."""

_AT_ONCE = 20
_STANDINGS = {"session": read_standings, "stage": read_stage_standings}
_REASONS = {GONE: "its session is gone", IDLE: "its session's rows hold nothing to run"}


@dataclass(frozen=True, slots=True)
class StrayExecution:
    """An open execution that nothing holds open: `standing` is `GONE` or `IDLE`, `kind` "session" or "stage"."""

    key: SessionKey
    run_id: str
    standing: str
    kind: str = "session"

    @property
    def workflow_id(self) -> str:
        """Of the workflow."""
        return self.key.stage_workflow_id if self.kind == "stage" else self.key.workflow_id


async def find_lost(client: Client, database: Database, runs: Sequence[OpenRun]) -> list[OpenRun]:
    """Of these runs those that are open without an open execution.

    Raises:
        RPCError: Temporal does not answer.
    """
    gate = asyncio.Semaphore(_AT_ONCE)

    async def is_lost(run: OpenRun) -> bool:
        async with gate:
            if await is_open(client, run.key):
                return False
            try:
                return (await find_run(database, run.key.tenant, run.id)).ended_at is None  # else it ended meanwhile
            except UnknownRun:
                return False

    lost = await asyncio.gather(*(is_lost(run) for run in runs))
    return [run for run, gone in zip(runs, lost, strict=True) if gone]


async def wake_lost(client: Client, database: Database, key: SessionKey) -> str:
    """Wake a session whose run has no execution; of several processes one does.

    Returns:
        What came of it, as of a fault.

    Raises:
        ServerUnavailable: Temporal does not answer.
        RPCError: likewise.
    """
    async with claimed(database, key) as mine:
        if not mine or await is_open(client, key):
            return AGREED
        try:
            address = await find_address(database, key)
        except UnknownSession:
            return "not repaired: no worker has registered its agent"
        await wake(client, address_of(key, address))
    return MENDED


async def find_lost_stages(client: Client, actions: Sequence[BegunAction]) -> list[BegunAction]:
    """Of these actions those whose session has no open execution.

    Raises:
        RPCError: Temporal does not answer.
    """
    gate = asyncio.Semaphore(_AT_ONCE)

    async def is_open_now(action: BegunAction) -> bool:
        async with gate:
            return await is_running(client, action.key.stage_workflow_id)

    found = await asyncio.gather(*(is_open_now(action) for action in actions))
    return [action for action, is_open_one in zip(actions, found, strict=True) if not is_open_one]


async def wake_lost_stage(client: Client, database: Database, action: BegunAction) -> str:
    """Wake a stage session whose action has no execution; of several processes one does.

    Returns:
        What came of it, as of a fault.

    Raises:
        ServerUnavailable: Temporal does not answer.
        RPCError: likewise.
    """
    async with claimed(database, action.key) as mine:
        if not mine or await is_running(client, action.key.stage_workflow_id):
            return AGREED
        if action.task_queue is None:
            return "not repaired: no worker has registered its workflow"
        await wake_stage(client, action.key, action.task_queue)
    return MENDED


async def find_strays(
    client: Client, database: Database, executions: Sequence[WorkflowExecution], *, young: timedelta = YOUNG
) -> list[StrayExecution]:
    """Of these executions those that nothing holds open.

    Args:
        client: Temporal's.
        database: the store.
        executions: open ones, of whatever workflow; only sessions' are looked at.
        young: an execution, or a session's last write, that is younger is left alone.

    Raises:
        RPCError: Temporal does not answer.
    """
    now = datetime.now(UTC)
    strays: list[StrayExecution] = []
    for kind, read in _STANDINGS.items():
        old = {
            key: one
            for one in executions
            if now - one.start_time >= young and (key := key_of(one.id, kind)) is not None
        }
        standings = await read(database, old, quiet=young)
        strays += [
            StrayExecution(key, old[key].run_id, found, kind) for key, found in standings.items() if found != BUSY
        ]
    return [stray for stray in strays if stray.standing == GONE or await _is_at_rest(client, stray)]


async def end_stray(client: Client, database: Database, stray: StrayExecution, *, young: timedelta = YOUNG) -> str:
    """End an execution if nothing holds it open still; of several processes one does.

    Returns:
        What came of it, as of a fault.

    Raises:
        RPCError: Temporal does not answer.
    """
    async with claimed(database, stray.key) as mine:
        if not mine:
            return LEFT
        if (await _STANDINGS[stray.kind](database, [stray.key], quiet=young)).get(stray.key) != stray.standing:
            return AGREED
        if stray.standing == IDLE and not await _is_at_rest(client, stray):
            return AGREED
        handle = client.get_workflow_handle(stray.workflow_id, run_id=stray.run_id)
        try:
            await handle.terminate(reason=_REASONS[stray.standing], rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return AGREED
    return MENDED


async def _is_at_rest(client: Client, stray: StrayExecution) -> bool:
    """Whether an execution waits with nothing on its way: whatever it was told it has heeded."""
    handle = client.get_workflow_handle(stray.workflow_id, run_id=stray.run_id)
    try:
        found = await handle.describe(rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return False
    raw = found.raw_description
    busy = raw.HasField("pending_workflow_task") or raw.pending_activities or raw.pending_children
    return found.close_time is None and not busy


def key_of(workflow: str, kind: str) -> SessionKey | None:
    """The session of a workflow's id; None if it is no session's of that kind."""
    named, _, rest = workflow.partition("/")
    tenant, _, session = rest.partition("/")
    return SessionKey(tenant, session) if named == kind and tenant and session else None
