"""Inputs that say what the thread is to be before them: in the order of the inbox, once, and on a branch where it must be."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from temporalio.client import WorkflowHistory

from perdure import connect, session
from perdure.errors import InvalidInput, KeyConflict, LimitExceeded
from perdure.runtime.checks.check import Check, Scope
from perdure.runtime.checks.examination import NAMES, OF_SERVERS, examine
from perdure.runtime.rebuild import rebuild_session
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.session_document import session_json_bytes
from perdure.runtime.sessions import Sessions
from perdure.store.agents import register_agents
from perdure.store.events import Event, read_events
from perdure.store.runs import list_runs
from perdure.uap.app import App
from perdure.uap.ids import new_id, root_node_id
from perdure.uap.open_calls import NOT_CARRIED_OUT
from perdure.uap.options import RunOptions
from perdure.uap.session_document import read_session
from perdure.uap.session_key import SessionKey
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.json_value import loads
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, message_from_json
from perdure.upp.tool_call import ToolCall, ToolResult
from perdure.worker.replay import replay
from tests.integration.durable_sessions import plain_agent, told
from tests.integration.facts import check_session
from tests.integration.serving import agent_row, serving
from tests.integration.stack import Stack, WorkerProcess, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

POINTS = ["make_change.storing", "make_change.stored", "begin_run.storing", "begin_run.storing#2", "begin_run.stored"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(stack: Stack) -> AsyncGenerator[Sessions, None]:
    async with serving(stack, "rewrite", [plain_agent()], tenant="rewrite") as served:
        yield served


async def tree(sessions: Sessions, session: str) -> ThreadTree:
    return read_session(await sessions.document(session)).tree


def texts(found: ThreadTree, node: str | None = None) -> list[str]:
    return [item.text for item in found.history(node)]


async def talked(sessions: Sessions, *inputs: str) -> str:
    """A session in which these were answered."""
    session = new_id()
    for text in inputs:
        await (await sessions.submit("tree", text, session=session, create=True)).result()
    return session


def again(messages: list[Message]) -> list[Message]:
    """The same said anew: other ids and times."""
    documents = [message.to_json() for message in messages]
    return [message_from_json({**one, "id": new_id(), "timestamp": "2020-01-01T00:00:00.000Z"}) for one in documents]


async def rewrites(sessions: Sessions, session: str) -> list[Event]:
    events = await read_events(sessions.database, SessionKey(sessions.tenant, session), after=0)
    return [event for event in events if event.type == "session.changed"]


async def test_a_thread_that_the_client_repeats_goes_on_where_it_is(sessions: Sessions) -> None:
    """Other ids and times are no difference; the model sees each message once."""
    session = await talked(sessions, "one", told(steps=2))
    found = await tree(sessions, session)
    thread = again(found.history())
    turn = await (await sessions.submit("tree", "three", session=session, thread=thread)).result()
    after = await tree(sessions, session)
    assert turn.response.text == f"after {len(thread) + 1} messages: done"
    assert list(after.nodes) == [root_node_id(session)]
    assert [item.id for item in after.history()[: len(thread)]] == [item.id for item in found.history()]
    (event,) = await rewrites(sessions, session)
    assert (event.data["kind"], event.data["kept"], event.data["added"]) == ("rewrite", len(thread), 0)


async def test_a_thread_without_its_last_turn_goes_on_on_a_branch(sessions: Sessions) -> None:
    """What was left out stays on its node; the next input goes on from the branch."""
    session = await talked(sessions, "one", "two")
    root = root_node_id(session)
    thread = again((await tree(sessions, session)).history()[:2])
    turn = await (await sessions.submit("tree", "two, better", session=session, thread=thread)).result()
    assert turn.response.text == "after 3 messages: done"
    turn = await (await sessions.submit("tree", "three", session=session)).result()
    assert turn.response.text == "after 5 messages: done"
    found = await tree(sessions, session)
    assert (found.current.parent_id, found.current.fork_index) == (root, 2)
    assert texts(found)[:4] == ["one", "after 1 messages: done", "two, better", "after 3 messages: done"]
    assert texts(found, root)[2] == "two"


async def test_a_thread_that_was_edited_is_what_the_model_sees(sessions: Sessions) -> None:
    """Its tools' results too; a call without any is answered by an error, so that vendors take the thread."""
    session = await talked(sessions, "one", "two")
    edited: list[Message] = [
        UserMessage("one"),
        AssistantMessage("after 1 messages: DONE"),
        UserMessage("work"),
        AssistantMessage("", [ToolCall("a", "work", {"n": 1}), ToolCall("b", "work", {"n": 2})]),
        ToolResultMessage([ToolResult("b", {"rows": 2})]),
        AssistantMessage("worked"),
    ]
    turn = await (await sessions.submit("tree", "and now", session=session, thread=edited)).result()
    found = await tree(sessions, session)
    history = found.history()
    assert turn.response.text == "after 7 messages: done"
    assert (found.current.fork_index, len(history)) == (1, 8)
    results = cast(ToolResultMessage, history[4]).results
    assert [(one.tool_call_id, one.result) for one in results] == [("a", NOT_CARRIED_OUT), ("b", {"rows": 2})]
    turn = await (await sessions.submit("tree", "more", session=session, thread=again(history))).result()
    assert turn.response.text == "after 9 messages: done"
    assert len((await tree(sessions, session)).nodes) == 2


async def test_messages_may_stand_before_an_input(sessions: Sessions) -> None:
    session = await talked(sessions, "one")
    before = [AssistantMessage("I said this elsewhere")]
    turn = await (await sessions.submit("tree", "two", session=session, before=before)).result()
    assert turn.response.text == "after 4 messages: done"
    turn = await (await sessions.submit("tree", "new", session=session, thread=[], before=before)).result()
    assert turn.response.text == "after 2 messages: done"
    found = await tree(sessions, session)
    assert texts(found) == ["I said this elsewhere", "new", "after 2 messages: done"]
    assert texts(found, root_node_id(session))[2:4] == ["I said this elsewhere", "two"]


@pytest.mark.parametrize("named", [True, False])
async def test_a_session_may_open_so(sessions: Sessions, named: bool) -> None:
    session = new_id() if named else None
    thread: list[Message] = [UserMessage("before"), AssistantMessage("yes?")]
    handles = [
        await sessions.submit("tree", "one", session=session, create=named, key=f"opens {named}", thread=again(thread))
        for _ in range(2)
    ]
    handle = handles[0]
    assert handles[1].id == handle.id
    assert (await handle.result()).response.text == "after 3 messages: done"
    found = await tree(sessions, handle.session)
    assert (list(found.nodes), len(found.history())) == ([root_node_id(handle.session)], 4)


async def test_it_comes_to_it_in_the_order_of_the_inputs(sessions: Sessions) -> None:
    """What is kept is known when its turn comes: what was submitted before has been said by then, and is asked for."""
    session = await talked(sessions, "one")
    await sessions.pause(session)
    first = await sessions.submit("tree", "two", session=session)
    thread = [
        *again((await tree(sessions, session)).history()),
        UserMessage("two"),
        AssistantMessage("after 3 messages: done"),
    ]
    second = await sessions.submit("tree", "three", session=session, thread=thread)
    third = await sessions.submit("tree", "four", session=session)
    waiting = await list_runs(sessions.database, SessionKey(sessions.tenant, session))
    assert [run.id for run in waiting[1:]] == [first.id, second.id, third.id]
    assert (await second.status()).status == "queued"
    await sessions.resume(session)
    answers = [(await handle.result()).response.text for handle in (first, second, third)]
    assert answers == [f"after {count} messages: done" for count in (3, 5, 7)]
    assert list((await tree(sessions, session)).nodes) == [root_node_id(session)]


async def test_it_may_interrupt_what_runs(stack: Stack) -> None:
    """The run is cancelled before the thread is made; one that has said nothing leaves nothing."""
    name, worker = uuid.uuid4().hex, WorkerProcess(stack).wait_ready()
    slow, short = ({"name": name, "steps": 0, "latency": latency} for latency in (60, 0))
    async with stack.connect() as sessions:
        running = await sessions.submit("worker", json.dumps(slow))
        await stack.until_entries(name, "model")
        handle = await sessions.submit(
            "worker", json.dumps(short), session=running.session, policy="interrupt", thread=[UserMessage("else")]
        )
        assert (await ended(running), await ended(handle)) == ("cancelled", "completed")
        found = await tree(sessions, running.session)
    worker.kill()
    assert texts(found) == ["else", json.dumps(short), "done "]
    await check_session(stack, running.session)


async def test_a_program_that_follows_the_session_sees_it(stack: Stack, sessions: Sessions) -> None:
    """Its tree is the stored one after each change, also where messages of no run came to a node that it knew."""
    opened = await talked(sessions, "one")
    async with connect(
        temporal_address=stack.addresses.temporal, database_url=stack.addresses.database_url, tenant=sessions.tenant
    ):
        chat = session(plain_agent(), id=opened)
        await chat.run("two")
        for thread in ([*again(chat.thread_tree.history()), AssistantMessage("more")], [UserMessage("else")]):
            await (await sessions.submit("tree", "three", session=opened, thread=thread)).result()
            await chat.run("four")
            stored = await tree(sessions, opened)
            assert texts(chat.thread_tree) == texts(stored)
            assert chat.thread_tree.to_json() == stored.to_json()


async def test_the_same_key_is_the_same_input(sessions: Sessions) -> None:
    session = await talked(sessions, "one", "two")
    thread = (await tree(sessions, session)).history()[:2]
    handles = [await sessions.submit("tree", "again", session=session, key="k", thread=again(thread)) for _ in range(2)]
    assert handles[0].id == handles[1].id
    await handles[0].result()
    repeated = await sessions.submit("tree", "again", session=session, key="k", thread=again(thread))
    assert (repeated.id, repeated.accepted.status) == (handles[0].id, "completed")
    assert len((await tree(sessions, session)).nodes) == 2
    assert len(await rewrites(sessions, session)) == 1
    for other in (thread[:1], None):
        with pytest.raises(KeyConflict):
            await sessions.submit("tree", "again", session=session, key="k", thread=other)


async def test_what_is_withdrawn_changes_nothing(sessions: Sessions) -> None:
    session = await talked(sessions, "one", "two")
    before = await session_json_bytes(sessions.database, SessionKey(sessions.tenant, session))
    await sessions.pause(session)
    handle = await sessions.submit("tree", "three", session=session, thread=[])
    assert (await sessions.cancel(session, run=handle.id)).state == "cancelled"
    await sessions.resume(session)
    assert (await handle.status()).status == "cancelled"
    now = loads(await session_json_bytes(sessions.database, SessionKey(sessions.tenant, session)))
    assert cast("dict[str, Any]", now)["threadTree"] == cast("dict[str, Any]", loads(before))["threadTree"]


async def test_a_run_s_options_are_its_own_afterwards(sessions: Sessions) -> None:
    session = await talked(sessions, "one")
    options = RunOptions(max_steps=1)
    handle = await sessions.submit("tree", told(steps=3), session=session, thread=[], options=options)
    with pytest.raises(LimitExceeded, match="took 1 steps"):
        await handle.result()
    plain = await sessions.submit("tree", "two", session=session, thread=[])
    assert (await plain.result()).response.text == "after 1 messages: done"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"thread": [ToolResultMessage([ToolResult("x", 1)])]}, "result of call 'x' stands behind no answer"),
        ({"before": [ToolResultMessage([ToolResult("x", 1)])]}, "result of call 'x' stands behind no answer"),
        ({"thread": [], "history": [UserMessage("a")]}, "not both"),
        ({"thread": [], "options": RunOptions(history=[])}, "not both"),
        ({"thread": [], "policy": "steer"}, "with a thread use 'enqueue'"),
        ({"before": [AssistantMessage("a")], "policy": "rollback"}, "with a thread use 'enqueue'"),
    ],
)
async def test_what_cannot_be_is_refused(sessions: Sessions, more: dict[str, Any], message: str) -> None:
    session = await talked(sessions, "one")
    with pytest.raises(InvalidInput, match=message):
        await sessions.submit("tree", "two", session=session, **more)
    assert len((await sessions.document(session))["threadTree"]["nodes"][0]["thread"]["messages"]) == 2  # type: ignore[index]


async def test_such_a_session_is_whole(sessions: Sessions) -> None:
    """It restores, goes on from a checkpoint, leaves as a document and comes back, and the doctor finds nothing."""
    session = await talked(sessions, told(steps=2), "two")
    key = SessionKey(sessions.tenant, session)
    found = await tree(sessions, session)
    thread = [*again(found.history()[:3]), AssistantMessage("I stop here")]
    await (await sessions.submit("tree", told(steps=1), session=session, thread=thread)).result()
    checkpoints = read_session(await sessions.document(session)).checkpoints.items
    await sessions.restore(session, checkpoints[0].id)
    await (await sessions.submit("tree", "from there", session=session)).result()
    await (await sessions.resume_run(session, checkpoints[-2].id)).result()
    assert await findings(sessions) == {}
    before = await session_json_bytes(sessions.database, key)
    other = Sessions(sessions.client, sessions.database, f"rewrite-{new_id()}")
    await register_agents(sessions.database, other.tenant, [agent_row(plain_agent(), "rewrite")])
    document = loads(b"".join([piece async for piece in sessions.export(session)]))
    assert await other.import_session(document, "tree") == session
    assert texts(await tree(other, session)) == texts(await tree(sessions, session))
    async with sessions.database.driver() as connection:
        for table in ("runs", "checkpoints", "tool_calls", "thread_nodes"):
            await connection.execute(f"delete from perdure.{table} where session_id = $1", session)
        await connection.execute("update perdure.sessions set current_node = null where id = $1", session)
    await rebuild_session(sessions.client, sessions.database, key)
    assert await session_json_bytes(sessions.database, key) == before


async def findings(sessions: Sessions) -> dict[str, list[str]]:
    scope = Scope(sessions.database, sessions.tenant)
    names = [name for name in NAMES if name not in OF_SERVERS]  # what other tests have done to the servers is not meant
    checks: list[Check] = [check async for check in examine(scope, only=names, repair=False)]
    return {check.name: [one.what for one in check.findings] for check in checks if not check.ok}


async def test_its_history_replays(sessions: Sessions) -> None:
    session = await talked(sessions, "one", "two")
    handle = await sessions.submit("tree", told(steps=1), session=session, thread=[UserMessage("else")])
    await handle.result()
    closed = await sessions.client.get_workflow_handle(SessionKey(sessions.tenant, session).workflow_id).fetch_history()

    async def only() -> AsyncIterator[WorkflowHistory]:
        yield closed

    app, keyring = App(agents=[plain_agent()]), sessions.database.keyring
    (found,) = [one async for one in replay(app, only(), namespace="default", keyring=keyring)]
    assert (found.agent, found.difference) == ("tree", None)


@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_that_dies_there_makes_it_once(stack: Stack, tmp_path: Path, point: str) -> None:
    """Another worker finds the thread made, or makes it; nothing is written twice and nothing lost."""
    name = uuid.uuid4().hex
    text = json.dumps({"name": name, "steps": 1, "calls": 1, "tool": "none"})
    thread: list[Message] = [UserMessage("before"), AssistantMessage("yes?")]
    first = WorkerProcess(stack, PERDURE_CRASH_AT=point, PERDURE_CRASH_ONCE=str(tmp_path / "c")).wait_ready()
    async with stack.connect() as sessions:
        handle = await sessions.submit("worker", text, thread=thread, before=[AssistantMessage("indeed")])
        async with first.replaced_when_dead():
            assert await ended(handle) == "completed"
        changed = await rewrites(sessions, handle.session)
        history = texts(await tree(sessions, handle.session))
    assert len(changed) == 1
    assert history[:4] == ["before", "yes?", "indeed", text]
    assert len(history) == 7
    await check_session(stack, handle.session, name)


async def ended(handle: RunHandle) -> str:
    async def status() -> str | None:
        found = (await handle.status()).status
        return found if found in ("completed", "failed", "cancelled") else None

    return await eventually(status, what=f"the end of run {handle.id}")


async def test_a_message_that_cannot_be_read_is_left(sessions: Sessions) -> None:
    """The client's thread takes its place, on a branch."""
    opened = await talked(sessions, "one", "two")
    thread = again((await tree(sessions, opened)).history())
    change = "update perdure.messages set body = $2 where session_id = $1 and position = 1 and body = $3"
    async with sessions.database.driver() as connection:
        body = await connection.fetchval(
            "select body from perdure.messages where session_id = $1 and position = 1", opened
        )
        await connection.execute(change, opened, b"{}", body)
        turn = await (await sessions.submit("tree", "three", session=opened, thread=thread)).result()
        await connection.execute(change, opened, body, b"{}")
    assert turn.response.text == "after 5 messages: done"
    found = await tree(sessions, opened)
    assert texts(found)[:5] == ["one", "after 1 messages: done", "two", "after 3 messages: done", "three"]
    assert found.current.id != root_node_id(opened)


async def test_two_clients_at_once_each_get_their_thread(sessions: Sessions) -> None:
    """Whoever is second finds another thread than it knew, and has its own all the same."""
    session = await talked(sessions, "one", "two")
    thread = (await tree(sessions, session)).history()[:2]
    handles = await asyncio.gather(
        *(sessions.submit("tree", f"way {n}", session=session, thread=again(thread)) for n in range(4))
    )
    answers = [(await handle.result()).response.text for handle in handles]
    assert answers == ["after 3 messages: done"] * 4
    found = await tree(sessions, session)
    assert sorted(texts(found, node)[2] for node in found.nodes if node != root_node_id(session)) == [
        f"way {n}" for n in range(4)
    ]
