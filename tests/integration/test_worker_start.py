"""What a worker checks before it serves, and what of users' code may be how it is. Rows of public failures by name."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel
from temporalio import workflow
from temporalio.client import Client

from perdure import App, agent
from perdure.activities import contracts
from perdure.activities.services import Services
from perdure.errors import ServerError
from perdure.runtime.temporal import connect_temporal
from perdure.store.database import Database
from perdure.store.events import Announcer
from perdure.store.message_cache import MessageCache
from perdure.upp import ToolCall, tool
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import ToolResultMessage
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from perdure.worker.build import WorkerOptions, build_worker, perdure_plugin
from tests.integration.serving import serving
from tests.integration.stack import Stack


class Order(BaseModel):
    """A model that refers to one defined below it."""

    lines: list[Line]
    note: Note | None = None


class Line(BaseModel):
    """A line of an order."""

    article: str
    amount: int


@dataclass
class Note:
    """Something said of an order."""

    text: str


@tool(effect="none")
def total(order: Order) -> int:
    """Count what is ordered."""
    return sum(line.amount for line in order.lines)


ORDER: JSONObject = {
    "lines": [{"article": "nut", "amount": 2}, {"article": "bolt", "amount": 3}],
    "note": {"text": "soon"},
}


def services_of(database: Database) -> Services:
    """What a worker has, with an app of one agent."""
    app = App(agents=[agent(name="plain", model=scripted(["hi"]))])
    return Services(database=database, announcer=Announcer(database), cache=MessageCache(database), app=app)


async def test_s48_a_worker_that_lacks_an_activity_does_not_start(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workflows would schedule what nobody serves; it says which, before it takes any task."""
    monkeypatch.setattr(contracts, "ACTIVITIES", (*contracts.ACTIVITIES, "perdure.forgotten"))
    client = await connect_temporal(stack.addresses.temporal, "default", plugins=[perdure_plugin()])
    database = Database(stack.addresses.database_url)
    try:
        with pytest.raises(ServerError, match=r"does not serve perdure\.forgotten; install one whole version"):
            build_worker(client, services_of(database), WorkerOptions())
    finally:
        await database.close()


async def test_s48_a_worker_with_another_converter_does_not_start(stack: Stack) -> None:
    """It could read no payload of a session, and every task would be tried for ever."""
    client = await Client.connect(stack.addresses.temporal)
    database = Database(stack.addresses.database_url)
    try:
        with pytest.raises(ServerError, match="payload converter DefaultPayloadConverter"):
            build_worker(client, services_of(database), WorkerOptions())
    finally:
        await database.close()


async def test_l65_models_with_forward_references_work_in_a_second_worker(stack: Stack) -> None:
    """Each worker builds the tool's schema and arguments for itself, the second like the first."""
    for number in (1, 2):
        model = scripted([Answer("", tool_calls=[ToolCall("c", "total", {"order": ORDER})]), "counted"])
        clerk = agent(name=f"clerk-{uuid.uuid4().hex}", model=model, tools=[total])
        async with serving(stack, f"l65-{number}-{uuid.uuid4().hex}", [clerk]) as sessions:
            handle = await sessions.submit(str(clerk.name), "Count.")
            turn = await handle.result()
        (results,) = [message for message in turn.messages if isinstance(message, ToolResultMessage)]
        assert [(one.result, one.is_error) for one in results.results] == [(5, False)]


async def test_s31_a_plain_function_is_never_run_by_workflow_code(stack: Stack, tmp_path: Path) -> None:
    """A tool that does I/O without saying so is an activity all the same; a sync one has a thread of its own."""
    seen: list[tuple[str, bool, bool]] = []

    def note(kind: str) -> str:
        file = tmp_path / kind
        file.write_text(kind)
        seen.append((kind, workflow.in_workflow(), threading.current_thread() is threading.main_thread()))
        return file.read_text()

    @tool
    def plain() -> str:
        """Write a file."""
        return note("plain")

    @tool
    async def awaited() -> str:
        """Write a file."""
        return note("awaited")

    calls = [ToolCall("a", "plain", {}), ToolCall("b", "awaited", {}), ToolCall("c", "no_such_tool", {})]
    writer = agent(
        name=f"writer-{uuid.uuid4().hex}", model=scripted([Answer("", tool_calls=calls), "ok"]), tools=[plain, awaited]
    )
    async with serving(stack, f"s31-{uuid.uuid4().hex}", [writer]) as sessions:
        turn = await (await sessions.submit(str(writer.name), "Write.")).result()
    assert sorted(seen) == [("awaited", False, True), ("plain", False, False)]
    (results,) = [message for message in turn.messages if isinstance(message, ToolResultMessage)]
    told = {one.tool_call_id: (one.result, one.is_error) for one in results.results}
    assert (told["a"], told["b"]) == (("plain", False), ("awaited", False))
    assert told["c"][1], "S30: a tool of no kind that is known is told to the model, and the run goes on"
