"""A stage session driven by its rows and signals, as the runtime does it, and looked at by its rows and histories."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from temporalio.client import Client, WorkflowExecution, WorkflowHandle

from perdure.protocols.uaip.reply import Reply
from perdure.runtime.sessions import Sessions
from perdure.runtime.stage_signals import signal_stage, wake_stage
from perdure.store.database import Database
from perdure.store.stages.accepting import accept_action
from perdure.store.stages.actions import action_page, find_action
from perdure.store.stages.definitions import find_workflow
from perdure.store.stages.opening import open_session
from perdure.store.stages.rows import ActionRow, StageSessionRow
from perdure.store.stages.sessions import find_session, read_state
from perdure.store.stages.waits import answer_wait
from perdure.uaip.action import Action, ActionKind
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue
from tests.integration.stack import Stack, eventually

APP = "tests.integration.stage_house:app"
QUEUE = "stage-house"


class Visit:
    """One session of the house."""

    def __init__(self, sessions: Sessions, row: StageSessionRow) -> None:
        self.sessions = sessions
        self.key: SessionKey = row.key
        self.task_queue = row.task_queue

    @classmethod
    async def begin(cls, sessions: Sessions, workflow: str = "house") -> Visit:
        """A new session of a workflow, once a worker has registered that."""

        async def served() -> Any:
            return await find_workflow(sessions.database, sessions.tenant, workflow)

        found = await eventually(served, what=f"workflow {workflow}")
        return cls(sessions, await open_session(sessions.database, sessions.tenant, found))

    @property
    def database(self) -> Database:
        return self.sessions.database

    @property
    def client(self) -> Client:
        return self.sessions.client

    @property
    def id(self) -> str:
        return self.key.session

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        """Its execution, the last if several were."""
        return self.client.get_workflow_handle(self.key.stage_workflow_id)

    async def send(self, action: Action, *, key: str | None = None, wake: bool = True) -> ActionRow:
        """Store an action, and have it done."""
        accepted = await accept_action(self.database, self.key, action, idempotency_key=key)
        if accepted.wake and wake:
            await wake_stage(self.client, self.key, self.task_queue)
        return accepted.row

    async def settled(self, row: ActionRow) -> Reply:
        """The reply to an action, once there is one."""

        async def reply() -> Reply | None:
            found = await find_action(self.database, self.key, row.id)
            return None if found is None else found.reply

        return await eventually(reply, what=f"the reply to {row.action.name}")

    async def call(self, task: str, **arguments: JSONValue) -> Reply:
        """Call a task and wait for its reply."""
        return await self.settled(await self.send(calling(task, **arguments)))

    async def go(self, stage: str) -> Reply:
        return await self.settled(await self.send(Action(ActionKind.STAGE_TRANSITION, stage)))

    async def put(self, **updates: JSONValue) -> Reply:
        return await self.settled(await self.send(Action(ActionKind.STATE_INPUT, updates=updates)))

    async def answer(self, row: ActionRow, answer: JSONObject, *, reason: str = "", tell: bool = True) -> None:
        """Answer what an action waits for, once it waits."""
        await self.until_state(row, "waiting")
        await answer_wait(self.database, self.key, row.id, answer, by="somebody", reason=reason)
        if tell:
            await self.signal("answer")

    async def signal(self, name: str, value: Any = None) -> None:
        await signal_stage(self.client, self.key, self.task_queue, name, value)

    async def pause(self) -> None:
        """Pause it, and wait until no execution has it in hand: what is stored from now on waits for a signal."""
        await self.signal("pause", {"id": "p"})
        await self.until_status("paused")
        await self.executions()

    async def until_state(self, row: ActionRow, state: str) -> ActionRow:
        """The action once its row has that state."""

        async def found() -> ActionRow | None:
            now = await find_action(self.database, self.key, row.id)
            return now if now is not None and now.state == state else None

        return await eventually(found, what=f"{row.action.name} is {state}")

    async def row(self) -> StageSessionRow:
        found = await find_session(self.database, self.key)
        assert found is not None
        return found

    async def until_status(self, status: str) -> StageSessionRow:
        async def found() -> StageSessionRow | None:
            row = await self.row()
            return row if row.session.status == status else None

        return await eventually(found, what=f"session is {status}")

    async def state(self) -> JSONObject:
        return await read_state(self.database, self.key)

    async def history(self) -> list[ActionRow]:
        return await action_page(self.database, self.key, limit=100)

    async def events(self) -> list[str]:
        """The types of its events, in order."""
        query = "select type from perdure.events where tenant_id = $1 and session_id = $2 order by seq"
        async with self.database.driver() as connection:
            return [row["type"] for row in await connection.fetch(query, self.key.tenant, self.key.session)]

    async def settled_once(self) -> bool:
        """Whether every action is settled, and was said to be exactly once."""
        told = (await self.events()).count("stage.action_settled")
        return told == sum(row.state == "settled" for row in await self.history()) == (await self.row()).session.taken

    async def details(self) -> str:
        """What Temporal's page of its execution says."""
        raw = await self.handle.query("__temporal_workflow_metadata")
        return str(raw.current_details)

    async def executions(self) -> list[WorkflowExecution]:
        """Its executions, oldest first, once all of them are closed; Temporal's lists may lag behind the last one."""
        query = f"WorkflowId = '{self.key.stage_workflow_id}'"

        async def closed() -> list[WorkflowExecution] | None:
            last = await self.handle.describe()
            found = [item async for item in self.client.list_workflows(query)]
            is_whole = last.close_time is not None and last.run_id in {item.run_id for item in found}
            return found if is_whole and all(item.close_time is not None for item in found) else None

        return sorted(await eventually(closed, what="the end of its executions"), key=lambda item: item.start_time)


def error_of(reply: Reply) -> tuple[str, str]:
    """Type and message of what a task raised."""
    error = cast("dict[str, str]", reply.body["error"])
    return error["type"], error["message"]


def calling(task: str, **arguments: JSONValue) -> Action:
    """The call of a task."""
    return Action(ActionKind.METHOD_CALL, task, arguments=arguments)


@asynccontextmanager
async def visiting(stack: Stack, workflow: str = "house") -> AsyncGenerator[Visit]:
    """A new session, over a connection of its own."""
    async with stack.connect() as sessions:
        yield await Visit.begin(sessions, workflow)
