"""Thread trees of stored sessions: forked, checked out, merged and restored in the order of the inbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
import pytest_asyncio

from perdure.errors import InvalidInput, KeyConflict, RunActive, UnknownSession
from perdure.runtime.rebuild import rebuild_session
from perdure.runtime.session_document import session_json_bytes
from perdure.runtime.sessions import Sessions
from perdure.store.checkpoints import current_checkpoint, read_checkpoints
from perdure.store.events import read_events
from perdure.uap.ids import new_id, root_node_id
from perdure.uap.session_document import read_session
from perdure.uap.session_key import SessionKey
from perdure.uap.thread_tree import ThreadTree
from perdure.upp.errors import UPPError
from perdure.upp.messages import AssistantMessage, UserMessage
from tests.integration.durable_sessions import plain_agent, react_agent, told
from tests.integration.serving import serving
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sessions(stack: Stack) -> AsyncGenerator[Sessions, None]:
    async with serving(stack, "durable-trees", [plain_agent(), react_agent()], tenant="trees") as served:
        yield served


async def document(sessions: Sessions, session: str) -> dict[str, Any]:
    return cast("dict[str, Any]", await sessions.document(session))


async def tree(sessions: Sessions, session: str) -> ThreadTree:
    return read_session(await sessions.document(session)).tree


def texts(found: ThreadTree, node: str | None = None) -> list[str]:
    return [item.text for item in found.history(node)]


async def test_a_branch_goes_on_from_where_it_was_made(sessions: Sessions) -> None:
    """Neither sees what the other is told later; the current node is the one that was checked out."""
    first = await sessions.submit("tree", "one")
    await first.result()
    root = root_node_id(first.session)
    branch = await sessions.fork(first.session, root, "another way")
    await (await sessions.submit("tree", "two", session=first.session)).result()
    moved = await sessions.checkout(first.session, branch)
    turn = await (await sessions.submit("tree", "three", session=first.session)).result()
    found = await tree(sessions, first.session)
    assert (moved["current"], found.current.id, found.current.name) == (branch, branch, "another way")
    assert texts(found) == ["one", "after 1 messages: done", "three", "after 3 messages: done"]
    assert texts(found, root) == ["one", "after 1 messages: done", "two", "after 3 messages: done"]
    assert turn.response.text == "after 3 messages: done"


async def test_changes_stand_in_the_order_of_the_inputs(sessions: Sessions) -> None:
    """One that was handed in behind a run is made behind it."""
    first = await sessions.submit("tree", told(steps=3))
    branch = await sessions.fork(first.session, root_node_id(first.session))
    await first.result()
    found = await tree(sessions, first.session)
    assert found.nodes[branch].fork_index == len(found.root.thread) == 8


async def test_a_merge_adds_what_is_lacking(sessions: Sessions) -> None:
    first = await sessions.submit("tree", "one")
    await first.result()
    root, session = root_node_id(first.session), first.session
    branch = await sessions.fork(session, root)
    await sessions.checkout(session, branch)
    await (await sessions.submit("tree", "two", session=session)).result()
    merged = await sessions.merge(session, branch, root)
    found = await tree(sessions, session)
    assert texts(found, root) == texts(found, branch)
    assert found.root.metadata["mergedFrom"] == [branch]
    assert (merged["node"], found.current.id) == (root, branch)


@pytest.mark.parametrize(
    ("kind", "detail", "message"),
    [
        ("fork", {"node": "nowhere"}, "Node not found: nowhere"),
        ("checkout", {"node": "nowhere"}, "Node not found: nowhere"),
        ("merge", {"source": "nowhere", "target": "nowhere"}, "Node not found: nowhere"),
        ("restore", {"checkpoint": "none"}, "Checkpoint not found: none"),
    ],
)
async def test_what_cannot_be_done_is_refused_whole(
    sessions: Sessions, kind: str, detail: dict[str, Any], message: str
) -> None:
    first = await sessions.submit("tree", "one")
    await first.result()
    before = await sessions.document(first.session)
    with pytest.raises(InvalidInput, match=message):
        await sessions.change(first.session, kind, detail)
    assert await sessions.document(first.session) == before


async def test_the_same_key_is_the_same_change(sessions: Sessions) -> None:
    first = await sessions.submit("tree", "one")
    root = root_node_id(first.session)
    made = [await sessions.fork(first.session, root, key="k") for _ in range(2)]
    assert made[0] == made[1]
    assert len((await tree(sessions, first.session)).nodes) == 2
    with pytest.raises(KeyConflict):
        await sessions.checkout(first.session, root, key="k")


async def test_a_change_that_waits_can_be_taken_back(sessions: Sessions) -> None:
    first = await sessions.submit("tree", "one")
    await first.result()
    await sessions.pause(first.session)
    recorded = await sessions.change(first.session, "fork", {"node": root_node_id(first.session)}, wait_s=0.2)
    assert recorded["state"] == "recorded"
    assert (await sessions.cancel(first.session, run=str(recorded["run"]))).state == "cancelled"
    await sessions.resume(first.session)
    await (await sessions.submit("tree", "two", session=first.session)).result()
    assert len((await tree(sessions, first.session)).nodes) == 1


@pytest.mark.parametrize("name", ["tree", "reasoner"])
async def test_every_checkpoint_of_a_long_run_can_be_restored(sessions: Sessions, name: str) -> None:
    """The history ends where it was taken, the session goes on from it, and the branch that was left stays."""
    steps = 30 if name == "tree" else 6
    first = await sessions.submit(name, told(steps=steps - 1))
    await first.result()
    session, root = first.session, root_node_id(first.session)
    recorded = read_session(await sessions.document(session))
    left = texts(recorded.tree, root)
    assert len(recorded.checkpoints.items) == steps
    places: dict[str, str] = {}
    for checkpoint in recorded.checkpoints.items:
        restored = await sessions.restore(session, checkpoint.id)
        assert await current_id(sessions, session) == checkpoint.id
        turn = await (await sessions.submit(name, "and then", session=session)).result()
        if name == "tree":
            assert turn.response.text == f"after {len(checkpoint.spoken) + 1} messages: done"
        places[checkpoint.id] = str(restored["node"])
    after = read_session(await sessions.document(session))
    for before, now in zip(recorded.checkpoints.items, after.checkpoints.items, strict=False):
        assert now.to_json() == before.to_json()
        history = [item.id for item in after.tree.history(places[before.id])]
        assert history[:-2] == [item.id for item in before.spoken]
    assert texts(after.tree, root) == left


async def current_id(sessions: Sessions, session: str) -> str | None:
    key = SessionKey(sessions.tenant, session)
    async with sessions.database.transaction() as connection:
        found = await current_checkpoint(connection, key, await read_checkpoints(connection, key))
    return None if found is None else found.id


async def test_an_untouched_checkpoint_is_restored_where_it_is(sessions: Sessions) -> None:
    first = await sessions.submit("tree", told(steps=2))
    await first.result()
    checkpoints = (await document(sessions, first.session))["checkpoints"]
    await sessions.restore(first.session, checkpoints[-1]["id"])
    assert len((await tree(sessions, first.session)).nodes) == 1
    earlier = [(await sessions.restore(first.session, checkpoints[0]["id"]))["current"] for _ in range(2)]
    assert earlier[0] == earlier[1] != root_node_id(first.session)


async def test_a_failed_run_goes_on_from_its_last_checkpoint(sessions: Sessions) -> None:
    """Here to the same end: no step is done again."""
    first = await sessions.submit("tree", told(steps=5, fail=3))
    with pytest.raises(UPPError, match="out of order"):
        await first.result()
    session = first.session
    assert texts(await tree(sessions, session)) == []
    again = await sessions.resume_run(session)
    with pytest.raises(UPPError, match="out of order"):
        await again.result()
    checkpoints = (await document(sessions, session))["checkpoints"]
    assert [item["step"] for item in checkpoints] == [1, 2, 3]


@pytest.mark.parametrize("name", ["tree", "reasoner"])
async def test_a_run_goes_on_from_any_checkpoint_to_the_same_end(sessions: Sessions, name: str) -> None:
    """Its turn holds what was said before, with its tools' results; a finished run gives its turn again."""
    first = await sessions.submit(name, told(steps=3))
    whole = await first.result()
    session = first.session
    checkpoints = (await document(sessions, session))["checkpoints"]
    for checkpoint in checkpoints:
        turn = await (await sessions.resume_run(session, checkpoint["id"])).result()
        assert [item.text for item in turn.messages] == [item.text for item in whole.messages]
        assert [item.result for item in turn.tool_executions] == [item.result for item in whole.tool_executions]
        assert (turn.usage.to_json(), turn.cycles) == (whole.usage.to_json(), whole.cycles)
    after = await document(sessions, session)
    assert len(after["checkpoints"]) == 4 + 3 + 2 + 1
    if name == "reasoner":
        assert len(after["checkpoints"][-1]["state"]["reasoning"]) == 4


async def test_going_on_from_no_checkpoint_is_refused(sessions: Sessions) -> None:
    session = await sessions.open("tree")
    with pytest.raises(InvalidInput, match="has no checkpoint"):
        await (await sessions.resume_run(session)).result()
    with pytest.raises(InvalidInput, match="Checkpoint not found"):
        await (await sessions.resume_run(session, "none")).result()
    turn = await (await sessions.submit("tree", "one", session=session)).result()
    assert turn.response.text == "after 1 messages: done"


async def test_a_session_opens_with_a_history_once(sessions: Sessions) -> None:
    said = [UserMessage("before"), AssistantMessage("yes?")]
    session = new_id()
    assert await sessions.open("tree", session=session, history=said, metadata={"a": 1}) == session
    assert await sessions.open("tree", session=session, history=said) == session
    turn = await (await sessions.submit("tree", "one", session=session)).result()
    assert turn.response.text == "after 3 messages: done"
    assert texts(await tree(sessions, session))[:3] == ["before", "yes?", "one"]
    with pytest.raises(KeyConflict, match="this history"):
        await sessions.open("tree", session=session, history=said[:1])
    with pytest.raises(UnknownSession, match="belongs to agent"):
        await sessions.open("reasoner", session=session)


async def test_an_input_brings_the_history_of_the_session_that_it_opens(sessions: Sessions) -> None:
    said = [UserMessage("before"), AssistantMessage("yes?")]
    handles = [await sessions.submit("tree", "one", key="history", history=said) for _ in range(2)]
    assert handles[0].id == handles[1].id
    assert (await handles[0].result()).response.text == "after 3 messages: done"
    with pytest.raises(KeyConflict):
        await sessions.submit("tree", "one", key="history", history=said[:1])


async def test_a_sub_agent_s_session_waits_for_the_run_that_called_it(sessions: Sessions) -> None:
    """While that is open nobody else speaks to it."""
    parent = await sessions.submit("tree", "one")
    await parent.result()
    child = await sessions.open("tree")
    async with sessions.database.driver() as connection:
        await connection.execute(
            "update perdure.sessions set parent_session = $1, parent_run = $2 where id = $3",
            parent.session, parent.id, child,
        )  # fmt: skip
        await connection.execute("update perdure.runs set ended_at = null where id = $1", parent.id)
    with pytest.raises(RunActive, match="sub-agent"):
        await sessions.submit("tree", "two", session=child)
    with pytest.raises(RunActive, match="sub-agent"):
        await sessions.checkout(child, root_node_id(child))
    async with sessions.database.driver() as connection:
        await connection.execute("update perdure.runs set ended_at = started_at where id = $1", parent.id)
    await (await sessions.submit("tree", "two", session=child)).result()


async def test_a_changed_tree_is_rebuilt_to_the_byte(sessions: Sessions) -> None:
    """Nodes from the event log, runs and calls that went on from a checkpoint from what they went on from."""
    first = await sessions.submit("tree", told(steps=3))
    await first.result()
    session, root = first.session, root_node_id(first.session)
    checkpoints = (await document(sessions, session))["checkpoints"]
    branch = await sessions.fork(session, root, "side")
    await sessions.checkout(session, branch)
    await (await sessions.submit("tree", "two", session=session)).result()
    await sessions.merge(session, branch, root)
    await sessions.restore(session, checkpoints[0]["id"])
    again = await sessions.resume_run(session, checkpoints[1]["id"])
    turn = await again.result()
    key = SessionKey(sessions.tenant, session)
    before = await session_json_bytes(sessions.database, key)
    rows = await index_rows(sessions, session)
    async with sessions.database.driver() as connection:
        for table in ("runs", "checkpoints", "tool_calls", "thread_nodes"):
            await connection.execute(f"delete from perdure.{table} where session_id = $1", session)
        await connection.execute(
            "update perdure.sessions set current_node = null, status = '?', runs = 0, steps = 0 where id = $1", session
        )
    await rebuild_session(sessions.client, sessions.database, key)
    assert await session_json_bytes(sessions.database, key) == before
    assert await index_rows(sessions, session) == rows
    assert (await again.result()).to_json() == turn.to_json()
    report = await rebuild_session(sessions.client, sessions.database, key)
    assert (report.runs, report.checkpoints, report.tool_calls, report.nodes) == (0, 0, 0, 0)


async def index_rows(sessions: Sessions, session: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    async with sessions.database.driver() as connection:
        for table in ("runs", "checkpoints", "tool_calls", "thread_nodes"):
            sql = f"select * from perdure.{table} where session_id = $1"
            rows = [dict(row) for row in await connection.fetch(sql, session)]
            found[table] = sorted(rows, key=repr)
        row = await connection.fetchrow("select * from perdure.sessions where id = $1", session)
        assert row is not None
        found["sessions"] = [dict(row)]
    return found


async def test_the_log_says_what_was_changed(sessions: Sessions) -> None:
    first = await sessions.submit("tree", "one")
    await first.result()
    branch = await sessions.fork(first.session, root_node_id(first.session))
    events = await read_events(sessions.database, SessionKey(sessions.tenant, first.session), after=0)
    (changed,) = [event for event in events if event.type == "session.changed"]
    nodes = cast("list[dict[str, Any]]", changed.data["nodes"])
    assert (changed.source, changed.data["kind"], changed.data["input"]) == ("run", "fork", 2)
    assert [node["id"] for node in nodes] == [branch]
