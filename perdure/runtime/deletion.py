"""Ending and deleting what Temporal keeps of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.errors import ServerUnavailable
from perdure.runtime.temporal import RPC_TIMEOUT

_REASON = "the session is being deleted"
_PAUSE_S = 0.1
_QUIET_LOOKS = 2
_AT_ONCE = 20


async def end_execution(client: Client, workflow_id: str) -> None:
    """Terminate a session's open execution; its activities learn of it by their heartbeats.

    Raises:
        ServerUnavailable: Temporal does not answer.
    """
    try:
        await client.get_workflow_handle(workflow_id).terminate(reason=_REASON, rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        _pass_unknown(error)


async def delete_executions(client: Client, workflow_ids: Sequence[str]) -> int:
    """Have Temporal delete all executions of sessions, some at a time, and return how many there were.

    Raises:
        ServerUnavailable: Temporal does not answer; do it again.
    """
    count = 0
    for start in range(0, len(workflow_ids), _AT_ONCE):
        share = (_delete_of(client, workflow) for workflow in workflow_ids[start : start + _AT_ONCE])
        for deleted in await asyncio.gather(*share, return_exceptions=True):
            if isinstance(deleted, BaseException):
                raise deleted
            count += deleted
    return count


async def _delete_of(client: Client, workflow_id: str) -> int:
    """Have Temporal delete all executions of a session. It takes its time for that.

    The list of a session's executions may be a moment late, so it is asked until it has told nothing new twice.
    """
    known: set[str] = set()
    quiet = 0
    while quiet < _QUIET_LOOKS:
        found = {execution async for execution in _executions(client, workflow_id)} - known
        for execution in found:
            await _delete(client, workflow_id, execution)
        known |= found
        quiet = 0 if found else quiet + 1
        if quiet < _QUIET_LOOKS:
            await asyncio.sleep(_PAUSE_S)
    return len(known)


async def _executions(client: Client, workflow_id: str) -> AsyncGenerator[str]:
    """Run ids of what there is: the last execution, which is known at once, and those that are listed."""
    try:
        yield (await client.get_workflow_handle(workflow_id).describe(rpc_timeout=RPC_TIMEOUT)).run_id
    except RPCError as error:
        _pass_unknown(error)
    name = workflow_id.replace("\\", "\\\\").replace("'", "\\'")  # an imported session's id may hold anything
    try:
        async for execution in client.list_workflows(f"WorkflowId = '{name}'", rpc_timeout=RPC_TIMEOUT):
            yield execution.run_id
    except RPCError as error:
        _pass_unknown(error)


async def _delete(client: Client, workflow_id: str, execution: str) -> None:
    request = DeleteWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=execution),
    )
    try:
        await client.workflow_service.delete_workflow_execution(request, timeout=RPC_TIMEOUT)
    except RPCError as error:
        _pass_unknown(error)


def _pass_unknown(error: RPCError) -> None:
    if error.status != RPCStatusCode.NOT_FOUND:
        raise ServerUnavailable(f"Temporal does not delete: {str(error).splitlines()[0]}") from error
