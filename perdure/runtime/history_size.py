"""How much history Temporal keeps of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.runtime.temporal import RPC_TIMEOUT
from perdure.uap.session_key import SessionKey

_PAUSE_S = 0.05
_REST_S = 5.0


@dataclass(frozen=True, slots=True)
class HistorySize:
    """Of one execution.

    Attributes:
        execution: its Temporal run id.
        events: how many its history has.
        size_bytes: of them, as Temporal counts them.
    """

    execution: str
    events: int
    size_bytes: int


async def last_history(client: Client, key: SessionKey) -> HistorySize | None:
    """The size of a session's last execution, as soon as it rests; None if Temporal has none.

    Raises:
        RPCError: Temporal does not answer.
    """
    try:
        return await _size(client, key, None)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return None


async def histories_since(
    client: Client, key: SessionKey, known: Collection[str], before: HistorySize | None
) -> list[HistorySize]:
    """The sizes of a session's executions since one of them; what that one had then is taken off.

    Args:
        client: Temporal's.
        key: the session.
        known: run ids of executions; with the last one and those before each of them these are all.
        before: where to begin; None for all.

    Raises:
        RPCError: Temporal does not answer.
    """
    last = await last_history(client, key)
    sizes = {} if last is None else {last.execution: last}
    waiting = [*sizes, *known]
    asked: set[str] = set()
    while waiting:
        execution = waiting.pop()
        if not execution or execution in asked:
            continue
        asked.add(execution)
        sizes[execution] = sizes.get(execution) or await _size(client, key, execution)
        if before is None or execution != before.execution:
            waiting.append(await _continued(client, key, execution))
    if before is not None and before.execution in sizes:
        now = sizes[before.execution]
        grown = (now.events - before.events, now.size_bytes - before.size_bytes)
        sizes[before.execution] = HistorySize(before.execution, *grown)
    return list(sizes.values())


async def _size(client: Client, key: SessionKey, execution: str | None) -> HistorySize:
    """Wait a while for an execution to rest: what ended its run is known before Temporal has taken it in."""
    handle = client.get_workflow_handle(key.workflow_id, run_id=execution)
    end = asyncio.get_running_loop().time() + _REST_S
    while True:
        found = await handle.describe(rpc_timeout=RPC_TIMEOUT)
        raw = found.raw_description
        busy = found.close_time is None and (raw.HasField("pending_workflow_task") or raw.pending_activities)
        if not busy or asyncio.get_running_loop().time() >= end:
            info = raw.workflow_execution_info
            return HistorySize(found.run_id, info.history_length, info.history_size_bytes)
        await asyncio.sleep(_PAUSE_S)


async def _continued(client: Client, key: SessionKey, execution: str) -> str:
    """The execution that this one goes on from, "" if none."""
    request = GetWorkflowExecutionHistoryRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=key.workflow_id, run_id=execution),
        maximum_page_size=1,
    )
    answer = await client.workflow_service.get_workflow_execution_history(request, timeout=RPC_TIMEOUT)
    return answer.history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
