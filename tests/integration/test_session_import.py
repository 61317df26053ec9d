"""Sessions as documents: out in bounded pieces, in whole or not at all, and the same again on the other side."""

from __future__ import annotations

import copy
import json
import tracemalloc
import uuid
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
import pytest_asyncio

from perdure.errors import InvalidInput, UnknownAgent, UnknownSession
from perdure.runtime.rebuild import rebuild_session
from perdure.runtime.session_document import session_json_bytes
from perdure.runtime.sessions import Sessions
from perdure.uap.ids import new_id, root_node_id
from perdure.uap.session import Session
from perdure.uap.session_document import read_session
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONValue, dumps, loads
from perdure.upp.messages import AssistantMessage, UserMessage
from tests.integration.durable_sessions import make_database, plain_agent, react_agent, told
from tests.integration.serving import serving
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(stack: Stack) -> AsyncGenerator[Sessions, None]:
    async with serving(stack, "durable-here", [plain_agent(), react_agent()], tenant="here") as served:
        yield served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there(stack: Stack) -> AsyncGenerator[Sessions, None]:
    """Another database, with nothing in it."""
    url = await make_database(stack, f"there_{uuid.uuid4().hex}")
    async with serving(stack, "durable-there", [plain_agent(), react_agent()], url=url, tenant="there") as served:
        yield served


async def exported(sessions: Sessions, session: str) -> bytes:
    return b"".join([piece async for piece in sessions.export(session)])


def example(session: str) -> dict[str, Any]:
    """The specification's own example, with messages where it has dots. Source: UAP-1.0 section 13.5."""
    said = [
        {"id": "m1", "type": "user", "content": [{"type": "text", "text": "go"}], "timestamp": "2024-01-15T10:30:00.000Z"},
        {"id": "m2", "type": "assistant", "content": [{"type": "text", "text": "gone"}],
         "timestamp": "2024-01-15T10:31:00.000Z", "metadata": {"vendor": {"x": [1, None]}}},
    ]  # fmt: skip
    return {
        "version": "1.0.0", "id": session, "agentId": "agent_xyz789",
        "createdAt": "2024-01-15T10:30:00.000Z", "updatedAt": "2024-01-15T10:35:00.000Z",
        "threadTree": {
            "rootId": "node_root", "currentId": "node_branch1",
            "nodes": [
                {"id": "node_root", "parentId": None, "name": "main", "thread": {"id": "thread_001", "messages": said},
                 "children": ["node_branch1"], "metadata": {}},
                {"id": "node_branch1", "parentId": "node_root", "name": "alternative",
                 "thread": {"id": "thread_002", "messages": []}, "children": [], "metadata": {}},
            ],
        },
        "checkpoints": [
            {"id": "cp_001", "sessionId": session, "timestamp": "2024-01-15T10:32:00.000Z", "step": 3,
             "threadId": "node_root",
             "state": {"step": 3, "messages": said, "metadata": {"taskComplete": False},
                       "reasoning": ["First, I need to...", "Now I should..."]},
             "subAgentStates": {}, "metadata": {}},
        ],
        "metadata": {"task": "Implement feature X"},
    }  # fmt: skip


def as_read(document: JSONValue) -> dict[str, Any]:
    """The document as our reader understands it; a thread without dates is of now."""
    return cast("dict[str, Any]", Session.from_json(document, plain_agent()).to_json())


def undated(document: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(document)
    for node in found["threadTree"]["nodes"]:
        del node["thread"]["createdAt"], node["thread"]["updatedAt"]
    return found


async def test_the_specification_s_example_is_imported_and_gone_on_with(here: Sessions) -> None:
    """Whatever its ids look like; a branch without a fork index goes on from all of its parent's thread."""
    session = f"sess_{uuid.uuid4().hex[:6]}"
    assert await here.import_session(example(session), "tree") == session
    out = cast("dict[str, Any]", await here.document(session))
    assert undated(out) == undated(as_read(example(session)))
    turn = await (await here.submit("tree", "one", session=session)).result()
    assert turn.response.text == "after 3 messages: done"
    await here.restore(session, "cp_001")
    assert [item.text for item in read_session(await here.document(session)).tree.history()] == ["go", "gone"]
    resumed = await (await here.resume_run(session, "cp_001")).result()
    assert [item.text for item in resumed.messages][:2] == ["go", "gone"]
    after = cast("dict[str, Any]", await here.document(session))
    assert after["checkpoints"][0] == as_read(example(session))["checkpoints"][0]
    assert after["checkpoints"][-1]["state"]["reasoning"] == ["First, I need to...", "Now I should..."]


async def test_a_session_goes_on_elsewhere_and_comes_out_the_same(here: Sessions, there: Sessions) -> None:
    """Exported, imported into an empty database, exported again to the byte; gone on with, only new parts differ."""
    first = await here.submit("tree", told(steps=4))
    await first.result()
    session = first.session
    branch = await here.fork(session, root_node_id(session), "side")
    await here.checkout(session, branch)
    await (await here.submit("tree", "on the side", session=session)).result()
    checkpoints = cast("list[dict[str, Any]]", (await here.document(session))["checkpoints"])
    await here.restore(session, checkpoints[1]["id"])
    out = await exported(here, session)
    assert await there.import_session(loads(out), "tree") == session
    assert await exported(there, session) == out
    assert out == dumps(as_read(loads(out)))
    turn = await (await there.submit("tree", "elsewhere", session=session)).result()
    assert turn.response.text == "after 6 messages: done"
    for checkpoint in checkpoints[:3]:
        whole = await (await there.resume_run(session, checkpoint["id"])).result()
        assert whole.response.text == "after 9 messages: done"
        assert len(whole.tool_executions) == 4
    after = cast("dict[str, Any]", loads(await exported(there, session)))
    before = cast("dict[str, Any]", loads(out))
    assert [item["id"] for item in after["checkpoints"][: len(before["checkpoints"])]] == [
        item["id"] for item in before["checkpoints"]
    ]
    known = {node["id"]: node["thread"]["messages"] for node in after["threadTree"]["nodes"]}
    for node in before["threadTree"]["nodes"]:
        assert known[node["id"]][: len(node["thread"]["messages"])] == node["thread"]["messages"]
    back = loads(dumps(after))
    cast("dict[str, Any]", back)["id"] = fresh = new_id()
    for checkpoint in cast("dict[str, Any]", back)["checkpoints"]:
        checkpoint["sessionId"] = fresh
    await here.import_session(back, "tree")
    assert await exported(here, fresh) == dumps(back)


async def test_an_imported_session_is_rebuilt_to_the_byte(here: Sessions, there: Sessions) -> None:
    """What it came with stands; what came here is made again."""
    first = await here.submit("reasoner", told(steps=2))
    await first.result()
    session = first.session
    checkpoints = cast("list[dict[str, Any]]", (await here.document(session))["checkpoints"])
    await there.import_session(await here.document(session), "reasoner")
    await (await there.resume_run(session, checkpoints[0]["id"])).result()
    key = SessionKey(there.tenant, session)
    before = await session_json_bytes(there.database, key)
    async with there.database.driver() as connection:
        calls = await connection.fetch("select * from perdure.tool_calls where session_id = $1", session)
        for table in ("runs", "tool_calls"):
            await connection.execute(f"delete from perdure.{table} where session_id = $1", session)
    await rebuild_session(there.client, there.database, key)
    assert await session_json_bytes(there.database, key) == before
    async with there.database.driver() as connection:
        again = await connection.fetch("select * from perdure.tool_calls where session_id = $1", session)
    assert sorted(map(repr, again)) == sorted(map(repr, calls))


def spoil(document: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    place: Any = document
    if path == ["id"]:
        document["checkpoints"] = []
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "told_at"),
    [
        (["version"], "2.0.0", "version:"),
        (["id"], "a\nb", "id:"),
        (["agentId"], "", "agentId:"),
        (["createdAt"], "yesterday", "createdAt:"),
        (["threadTree", "currentId"], "nowhere", r"threadTree\.currentId:"),
        (["threadTree", "nodes", 1, "parentId"], "nowhere", r"threadTree\.nodes\[1\]\.parentId:"),
        (["threadTree", "nodes", 0, "id"], "a\0b", r"threadTree"),
        (["checkpoints", 0, "state", "messages", 1], {"type": "none"}, r"checkpoints\[0\]\.state\.messages\[1\]:"),
        (["checkpoints", 0, "threadId"], "nowhere", r"checkpoints\[0\]\.threadId:"),
    ],
    ids=lambda value: ".".join(map(str, cast("list[object]", value))) if isinstance(value, list) else None,
)
async def test_a_bad_document_is_refused_with_its_path(
    here: Sessions, path: list[Any], value: Any, told_at: str
) -> None:
    """And nothing of it is written."""
    session = str(uuid.uuid4())
    bad = spoil(json.loads(json.dumps(example(session))), path, value)
    with pytest.raises(InvalidInput, match=f"^({told_at})"):
        await here.import_session(bad, "tree")
    with pytest.raises(UnknownSession):
        await here.document(session)


async def test_what_is_there_is_not_written_over(here: Sessions) -> None:
    first = await here.submit("tree", "one")
    await first.result()
    document = await here.document(first.session)
    with pytest.raises(InvalidInput, match=r"^id: there is a session"):
        await here.import_session(json.dumps(document), "tree")
    with pytest.raises(UnknownAgent):
        await here.import_session(document, "nobody")
    assert await here.document(first.session) == document


async def test_metadata_is_added_to_an_import(here: Sessions) -> None:
    session = f"sess_{uuid.uuid4().hex}"
    await here.import_session(example(session), "tree", metadata={"more": 1})
    assert (await here.document(session))["metadata"] == {"task": "Implement feature X", "more": 1}


async def test_a_large_export_takes_little_memory(here: Sessions) -> None:
    """Its pieces are its bytes, and far smaller than all of it."""
    size = 40_000
    said = [
        message
        for place in range(200)
        for message in (UserMessage(f"{place} " + "x" * size), AssistantMessage("y" * size))
    ]
    session = await here.open("tree", history=said)
    whole = await session_json_bytes(here.database, SessionKey(here.tenant, session))
    assert len(whole) > 15_000_000
    pieces, largest = 0, 0
    tracemalloc.start()
    try:
        async for piece in here.export(session):
            assert whole[pieces : pieces + len(piece)] == piece
            pieces += len(piece)
            largest = max(largest, len(piece))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert pieces == len(whole)
    assert largest < len(whole) / 5
    assert peak < len(whole) * 0.8
    assert read_session(loads(whole)).tree.root.thread.length == 400
