"""Sessions whose index is made again: an agent whose inputs say what it does, and what its rows are before and after."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, delete, select, update
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.service import RPCError, RPCStatusCode

from perdure import App, agent
from perdure.execution import loop
from perdure.runtime.rebuild import RebuildReport, rebuild_session
from perdure.runtime.session_document import session_json_bytes
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.store.database import Database
from perdure.store.tables import checkpoints, runs, sessions, thread_nodes, tool_calls
from perdure.uap.options import RunOptions
from perdure.uap.session_key import SessionKey
from perdure.upp import LLMRequest, ToolCall, tool
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.stack import Stack, eventually

INDEX = (runs, checkpoints, tool_calls, thread_nodes)
NAME = os.environ.get("PERDURE_TEST_AGENT", "rebuilt")
APP = "tests.integration.rebuilt_sessions:app"
NOTHING = RebuildReport(runs=0, checkpoints=0, tool_calls=0, nodes=0)


# -- what runs: the input's JSON says what the model does ----------------------------------------------------------------


async def _model(request: LLMRequest) -> Answer:
    """Does what the input says.

    {"steps", "calls" a step, "size" of texts, "tool", "gate": a file that tools wait for, "held": {an answer's number: a
    file that the model waits for}, "broken": the number of the answer that fails}.
    """
    last = max(place for place, message in enumerate(request.messages) if message.type == "user")
    spec = json.loads(request.messages[last].text)
    given = sum(1 for message in request.messages[last:] if message.type == "assistant")
    await _wait_for(spec.get("held", {}).get(str(given), ""))
    if given == spec.get("broken"):
        raise UPPError("the model is out of order", ErrorCode.INVALID_REQUEST, "scripted")
    filler = "é" * spec.get("size", 0)
    if given >= spec.get("steps", 1):
        return Answer(text="done " + filler)
    arguments = {"filler": filler, "gate": spec.get("gate", "")}
    name = spec.get("tool", "work")
    return Answer(tool_calls=[ToolCall(f"c{n}", name, arguments) for n in range(spec.get("calls", 1))])


async def _wait_for(gate: str) -> None:
    """Wait until the file is there."""
    while gate and not os.access(gate, os.F_OK):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


@tool
async def work(filler: str, gate: str) -> str:
    """Returns what it got."""
    await _wait_for(gate)
    return filler + "\ud800\0"


@tool(effect="once")
async def once(filler: str, gate: str) -> str:
    """Never runs twice."""
    await _wait_for(gate)
    return filler


@tool(effect="idempotent")
def fail(filler: str, gate: str) -> str:
    """Raises."""
    raise ValueError(f"no {filler[:3]}")


app = App(
    agents=[agent(name=NAME, model=scripted(_model), tools=[work, once, fail], execution=loop(max_iterations=500))]
)


# -- what is done to them, and waited for -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """Everything that a rebuild may touch, and the document; but not whether a run is folded, which a worker does meanwhile."""

    rows: dict[str, list[dict[str, Any]]]
    session: dict[str, Any]
    document: bytes


async def take_snapshot(database: Database, key: SessionKey) -> Snapshot:
    async with database.transaction() as connection:
        rows: dict[str, list[dict[str, Any]]] = {}
        for table in INDEX:
            columns = [column for column in table.c if column is not runs.c.folded]
            query = select(*columns).where(table.c.session_id == key.session).order_by(*table.primary_key)
            rows[table.name] = [dict(row) for row in (await connection.execute(query)).mappings()]
        query = select(sessions).where(sessions.c.id == key.session)
        session = dict((await connection.execute(query)).mappings().one())
    return Snapshot(rows, session, await session_json_bytes(database, key))


async def wipe(database: Database, key: SessionKey, *tables: Table) -> None:
    """Delete a session's rows, and with those of its runs what its own row holds of them."""
    async with database.transaction() as connection:
        for table in tables:
            await connection.execute(delete(table).where(table.c.session_id == key.session))
        if runs in tables:
            nothing: dict[str, Any] = {"current_node": None, "status": "?", "runs": 0, "steps": 0, "usage": {}}
            await connection.execute(
                update(sessions).where(sessions.c.id == key.session).values(**nothing, updated_at=sessions.c.created_at)
            )


async def submit(using: Sessions, name: str = NAME, session: str | None = None, **spec: Any) -> RunHandle:
    options = RunOptions(max_steps=spec.pop("max_steps", None))
    return await using.submit(name, json.dumps(spec), session=session, options=options)


async def ended(handle: RunHandle) -> str:
    async def check() -> str | None:
        row = await handle.status()
        return row.status if row.ended_at is not None else None

    return await eventually(check, what=f"the end of run {handle.id}")


async def event(handle: RunHandle, kind: str, step: int) -> None:
    async for item in handle.events():
        if item.type == kind and item.step == step:
            return


async def rebuild(using: Sessions, key: SessionKey) -> RebuildReport:
    return await rebuild_session(using.client, using.database, key)


async def executions(using: Sessions, key: SessionKey) -> list[str]:
    """Temporal run ids, oldest first."""
    found = [item async for item in using.client.list_workflows(f"WorkflowId = '{key.workflow_id}'")]
    return [item.run_id for item in sorted(found, key=lambda item: item.start_time)]


async def delete_execution(using: Sessions, key: SessionKey, execution: str) -> None:
    """Ask Temporal to delete a closed execution; it does so within half a minute."""
    await using.client.get_workflow_handle(key.workflow_id, run_id=execution).result()
    request = DeleteWorkflowExecutionRequest(
        namespace=using.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=key.workflow_id, run_id=execution),
    )
    await using.client.workflow_service.delete_workflow_execution(request)


async def has_history(using: Sessions, key: SessionKey, execution: str) -> bool:
    try:
        await using.client.get_workflow_handle(key.workflow_id, run_id=execution).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


@dataclass(frozen=True)
class Forgotten:
    """A session of two runs, what its rows are, and the execution of the first run, which Temporal deletes."""

    key: SessionKey
    before: Snapshot
    first: str
    lost: str


async def make_forgotten(stack: Stack) -> Forgotten:
    """Ask Temporal to delete the first run's execution, and have the session go on."""
    async with stack.connect() as using:
        first = await submit(using, steps=2)
        assert await ended(first) == "completed"
        key = SessionKey(using.tenant, first.session)
        lost = str((await first.status()).temporal_run_id)
        await delete_execution(using, key, lost)
        assert await ended(await submit(using, session=first.session, steps=1)) == "completed"
        return Forgotten(key, await take_snapshot(using.database, key), first.id, lost)


async def make_eventful(stack: Stack) -> tuple[SessionKey, Snapshot]:
    """Have runs of one session complete, fail and be cancelled, one after another."""
    async with stack.connect() as using:
        first = await submit(using, steps=2, calls=3, size=100_000)
        session = first.session
        assert await ended(first) == "completed"
        assert await ended(await submit(using, session=session, steps=3, max_steps=1)) == "failed"
        assert await ended(await submit(using, session=session, steps=3, broken=2)) == "failed"
        in_tool = await submit(using, session=session, steps=2, calls=2, gate="/nowhere")
        await event(in_tool, "step_start", 1)
        await event(in_tool, "tool_execution_start", 1)
        assert (await using.cancel(session, wait_s=60)).state == "cancelled"
        in_model = await submit(using, session=session, steps=2, held={1: "/nowhere"})
        await event(in_model, "observation", 1)
        await eventually(lambda: scheduled(using, in_model, 3), what="the second model call")
        assert (await using.cancel(session, wait_s=60)).state == "cancelled"
        assert await ended(await submit(using, session=session, steps=30)) == "completed"
        assert await ended(await submit(using, session=session, steps=1, tool="fail", calls=2)) == "completed"
        assert await ended(await submit(using, session=session, steps=1, tool="unknown")) == "completed"
        key = SessionKey(using.tenant, session)
        return key, await take_snapshot(using.database, key)


async def scheduled(using: Sessions, handle: RunHandle, count: int) -> bool:
    """Whether the run's execution has scheduled so many activities."""
    return await _count(using, handle, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) >= count


async def recorded(using: Sessions, handle: RunHandle, count: int) -> bool:
    """Whether so many local activities of the run's execution are in its history."""
    return await _count(using, handle, EventType.EVENT_TYPE_MARKER_RECORDED) >= count


async def _count(using: Sessions, handle: RunHandle, kind: EventType.ValueType) -> int:
    row = await handle.status()
    workflow = using.client.get_workflow_handle(row.key.workflow_id, run_id=row.temporal_run_id)
    return sum(1 for item in (await workflow.fetch_history()).events if item.event_type == kind)
