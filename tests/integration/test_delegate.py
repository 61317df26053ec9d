"""`delegate`: tasks and media handed to other agents, durable and in process alike."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest

from perdure import agent, delegate
from perdure.errors import InvalidInput
from perdure.protocols.uamp_events.delegated import forwarded_thinking
from perdure.runtime.delegated_thinking import ChildThought, follow_thinking
from perdure.runtime.rebuild import rebuild_session
from perdure.runtime.session_document import session_document, session_json_bytes
from perdure.runtime.sessions import Sessions
from perdure.store.events import Event
from perdure.store.messages import read_messages
from perdure.store.runs import find_run
from perdure.uap.agent import Agent
from perdure.uap.content_refs import content_path
from perdure.uap.ids import root_node_id
from perdure.uap.session_key import SessionKey
from perdure.upp.content import AudioBlock, ImageBlock, TextBlock
from perdure.upp.media_source import Base64Source, UrlSource
from perdure.upp.messages import Message, UserMessage
from perdure.upp.turn import Turn
from tests.integration.delegating_agents import PIXEL, hand, lead, own, told
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_sub_agents import children_of, is_closed, log_of, usage_row

APP = "tests.integration.delegating_agents:app"
NOWHERE = "0f8fad5b-d9cb-4f7e-a7a1-b6c1d5d0a3e2"


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Iterator[WorkerProcess]:
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


@asynccontextmanager
async def both(stack: Stack, who: Agent, message: str | Message) -> AsyncGenerator[tuple[Turn, Turn, Sessions]]:
    """A run in this process and the same through Temporal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERDURE_TEST_LEDGER", str(stack.ledger))
        here = await who.run(message)
        async with stack.connect() as sessions:
            yield here, await who.run(message), sessions


def results(turn: Turn) -> list[tuple[Any, bool]]:
    return [(item.result, item.is_error) for item in turn.tool_executions]


async def last_session(sessions: Sessions) -> str:
    """The session of the run that began last, of those that no agent has called."""
    sql = "select id from perdure.sessions where tenant_id = $1 and parent_session is null order by created_at desc limit 1"
    async with sessions.database.driver() as connection:
        return str(await connection.fetchval(sql, sessions.tenant))


async def test_agents_do_their_tasks_side_by_side(stack: Stack, worker: WorkerProcess) -> None:
    """Each by its name, in a session of its own; their answers are the results, and their usage is kept by path."""
    name = uuid.uuid4().hex
    calls = [hand("researcher", told(name, "found")), hand("fine_viewer", "look")]
    async with both(stack, lead, told(name, calls, "all is done")) as (here, there, sessions):
        session = await last_session(sessions)
        children = await children_of(sessions, session)
        _, by_agent = await usage_row(sessions, session)
    assert results(here) == results(there) == [("found", False), ("look", False)]
    assert there.response.text == "all is done"
    assert (here.usage, here.cycles) == (there.usage, there.cycles)
    paths = ["lead/delegate:fine_viewer", "lead/delegate:researcher"]
    assert sorted(child["agent"] for child in children) == paths
    assert sorted(by_agent) == ["lead", *paths]
    await check_session(stack, session)


async def test_a_task_of_any_length_reaches_its_agent(stack: Stack, worker: WorkerProcess) -> None:
    """The workflow sees a preview of the call and knows by it who is asked."""
    name = uuid.uuid4().hex
    async with both(stack, lead, told(name, [hand("fine_viewer", "word " * 4000)], "done")) as (here, there, _):
        assert results(here) == results(there) == [("word " * 4000, False)]


async def test_agents_hand_on_what_was_handed_to_them(stack: Stack, worker: WorkerProcess) -> None:
    """Down to the depth that is allowed; what each has used counts on the whole path."""
    name = uuid.uuid4().hex
    inner = told(name, [hand("digger", told(name, "gold")), {"tool": "digger", "arguments": {"task": "more"}}], "dug")
    async with both(stack, lead, told(name, [hand("researcher", inner)], "done")) as (here, there, sessions):
        session = await last_session(sessions)
        usage, by_agent = await usage_row(sessions, session)
        document: Any = await session_document(sessions.database, SessionKey(sessions.tenant, session))
    above = "lead/delegate:researcher"
    assert results(here) == results(there) == [("dug", False)]
    assert sorted(by_agent) == ["lead", above, f"{above}/delegate:digger", f"{above}/digger"]
    assert usage["outputTokens"] == sum(item["outputTokens"] for item in by_agent.values())
    assert list(document["checkpoints"][-1]["subAgentStates"]) == ["call_0_0"]


async def test_such_a_session_is_whole(stack: Stack, worker: WorkerProcess) -> None:
    """The rows that are made of its history are the same again, to the byte."""
    name = uuid.uuid4().hex
    calls = [hand("researcher", told(name, "found")), hand("nobody", "x"), hand("fine_viewer", "word " * 500)]
    async with stack.connect() as sessions:
        handle = await sessions.submit("lead", told(name, calls, "done"))
        await handle.result()
        await eventually(lambda: is_closed(sessions, handle.session))
        key = SessionKey(sessions.tenant, handle.session)
        before = await session_json_bytes(sessions.database, key)
        async with sessions.database.driver() as connection:
            for table in ("runs", "checkpoints", "tool_calls"):
                await connection.execute(f"delete from perdure.{table} where session_id = $1", handle.session)
        report = await rebuild_session(sessions.client, sessions.database, key)
        assert await session_json_bytes(sessions.database, key) == before
    assert (report.runs, report.tool_calls) == (1, 3)


def input_with_media(name: str, *script: Any) -> UserMessage:
    image = ImageBlock(Base64Source("aW1hZ2U="), "image/png")
    named = AudioBlock(b"sound", "audio/wav")
    items: Any = [None, None, {"content_id": "11111111-2222-4333-8444-555555555555"}]
    return UserMessage([TextBlock(told(name, *script)), image, named], metadata={"uamp": {"items": items}})


@pytest.mark.parametrize("who", [lead, own], ids=["lead", "own"])
async def test_media_is_handed_on_by_its_id(stack: Stack, worker: WorkerProcess, who: Agent) -> None:
    """What the user sent, which the model knows by the ids that it is told, and what a tool has made."""
    name = uuid.uuid4().hex
    script = [
        [{"tool": "paint", "arguments": {"words": "sea"}}],
        [hand("fine_viewer", "what is it?", "$2", "$1", "$0", "$1")],
    ]
    message = input_with_media(name, *script, "seen")
    async with both(stack, who, message) as (here, there, sessions):
        (child,) = await children_of(sessions, await last_session(sessions))
        key = SessionKey(sessions.tenant, child["session"])
        (given, *_) = await read_messages(sessions.database, key, root_node_id(key.session))
    assert results(here)[1] == results(there)[1]
    answer, is_error = results(there)[1]
    assert not is_error
    assert [part.split(" ")[0] for part in str(answer).split("; ")] == ["what", "image", "audio", "image"]
    assert [block.type for block in given.message.blocks()] == ["text", "image", "audio", "image"]
    painted = results(there)[0][0]["content_items"][0]["content_id"]
    assert cast(ImageBlock, given.message.blocks()[1]).source == UrlSource(content_path(painted)), "by reference"
    assert given.size_bytes < 2000
    kept = cast(Any, (given.message.metadata or {})["uamp"])["items"]
    assert [item and item["content_id"] for item in kept][:3] == [None, painted, "11111111-2222-4333-8444-555555555555"]


async def test_stored_content_is_found_in_later_turns(stack: Stack, worker: WorkerProcess) -> None:
    """Of any message of the thread, also where it is a reference."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        script = [[{"tool": "paint", "arguments": {"words": "sea"}}], "painted"]
        first = await sessions.submit("lead", told(name, *script))
        painted = cast(Any, (await first.result()).tool_executions[0].result)["content_items"][0]["content_id"]
        shown = UserMessage([TextBlock(told(name, "nice")), ImageBlock(UrlSource(content_path(painted)), "image/png")])
        await (await sessions.submit("lead", shown, session=first.session)).result()
        script = [[hand("fine_viewer", "what is it?", painted.upper())], "seen"]
        turn = await (await sessions.submit("lead", told(name, *script), session=first.session)).result()
    assert results(turn) == [(f"what is it?; image {hashlib.sha256(PIXEL + b'sea').hexdigest()[:8]}", False)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"agent": "nobody", "task": "x"}, "delegate knows no agent 'nobody'; it has researcher, fine_viewer"),
        ({"task": "x"}, "delegate knows no agent 'None'"),
        ({"agent": "researcher"}, "tool 'delegate' needs a 'task'"),
        ({"agent": "researcher", "task": "x", "attachments": [NOWHERE]}, f"no content '{NOWHERE}' to attach; it has no media"),
        ({"agent": "researcher", "task": "x", "attachments": NOWHERE}, "attachments must be a list of content ids"),
        ({"agent": "researcher", "task": "x", "attachments": [str(n) for n in range(33)]}, "33 attachments are too many"),
        ([1], "must be a JSON object"),
    ],
)  # fmt: skip
async def test_what_cannot_be_handed_on_is_an_error_result(
    stack: Stack, worker: WorkerProcess, arguments: Any, words: str
) -> None:
    """The model is told why, in the same words in process, and nothing is begun."""
    name = uuid.uuid4().hex
    message = told(name, [{"tool": "delegate", "arguments": arguments}], "then without")
    async with both(stack, lead, message) as (here, there, sessions):
        assert await children_of(sessions, await last_session(sessions)) == []
    assert results(here) == results(there)
    assert there.response.text == "then without"
    assert words in str(results(there)[0][0])
    assert results(there)[0][1]


async def test_the_model_is_told_which_content_there_is(stack: Stack, worker: WorkerProcess) -> None:
    name = uuid.uuid4().hex
    message = input_with_media(name, [hand("researcher", "x", NOWHERE)], "then without")
    async with both(stack, lead, message) as (here, there, _):
        assert results(here) == results(there)
        assert "it has " in str(results(there)[0][0])
        assert "11111111-2222-4333-8444-555555555555" in str(results(there)[0][0])


async def test_a_cancelled_run_takes_its_agents_along(stack: Stack, worker: WorkerProcess) -> None:
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        deepest = told(name, [hand("digger", told(name, "never", latency=60))], "never")
        handle = await sessions.submit("lead", told(name, [hand("researcher", deepest)], "never"))
        await stack.until_entries(name, "model", 3)
        assert (await sessions.cancel(handle.session, wait_s=60)).state == "cancelled"
        (child,) = await children_of(sessions, handle.session)
        (grandchild,) = await children_of(sessions, child["session"])
        for one in (handle.session, child["session"], grandchild["session"]):
            await eventually(lambda one=one: is_closed(sessions, one))
        assert (await find_run(sessions.database, sessions.tenant, grandchild["run"])).status == "cancelled"
    for one in (handle.session, child["session"], grandchild["session"]):
        facts = await check_session(stack, one)
        assert list(facts.runs.values()) == ["cancelled"]


async def thoughts(sessions: Sessions, started: Event, **more: Any) -> list[ChildThought]:
    async with aclosing(follow_thinking(sessions.stream, sessions.tenant, started, **more)) as found:
        return [thought async for thought in found]


async def test_what_agents_think_is_told_as_progress_of_the_call(stack: Stack, worker: WorkerProcess) -> None:
    """Of the agent and of those below it, live or afterwards, under the call of the run that is told; with the same ids."""
    name = uuid.uuid4().hex
    inner = told(
        name, [hand("digger", told(name, "gold", thinks="dig deeper"))], "dug", thinks="who could dig", latency=0.5
    )
    async with stack.connect() as sessions:
        handle = await sessions.submit("lead", told(name, [hand("researcher", inner)], "done"))

        async def begun() -> Event | None:
            return next((row for row in await log_of(sessions, handle.session) if row.type == "child.started"), None)

        started = await eventually(begun)
        live = await thoughts(sessions, started)
        await handle.result()
        after = await thoughts(sessions, started)
        late = await thoughts(sessions, started, since=live[-1].row.at)
    said = [forwarded_thinking(one.row, session_id="s", response_id="r", call_id=one.call) for one in live]
    deltas = [cast(Any, event).delta.tool_progress for event in said]
    assert {one.call_id for one in deltas} == {"call_0_0"}
    text = "".join(one.text for one in deltas)
    assert text.count("who could dig") == 2
    assert text.count("dig deeper") == 1
    again = [forwarded_thinking(one.row, session_id="s", response_id="r", call_id=one.call) for one in after]
    assert sorted(str(event and event.event_id) for event in again) == sorted(
        str(event and event.event_id) for event in said
    )
    assert late == []


async def test_an_agent_without_a_name_cannot_be_delegated_to() -> None:
    with pytest.raises(InvalidInput, match="needs a name"):
        delegate(agent(model=lead.model))
