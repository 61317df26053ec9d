"""Sessions as ThreadProtocol's threads: out through the library, the API and the command line, and in again."""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from collections.abc import Iterator
from typing import Any, cast

import pytest

from perdure import agent
from perdure.errors import InvalidInput, UnknownAgent, UnknownSession
from perdure.protocols.threadprotocol.canonical import canonical_bytes, canonical_hash
from perdure.protocols.threadprotocol.models import Thread
from perdure.protocols.threadprotocol.problem import InvalidThread
from perdure.protocols.threadprotocol.validation import problems_of, read_thread
from perdure.runtime.threads.incoming import ThreadReading
from perdure.uap.ids import new_id, root_node_id
from perdure.upp import LLMRequest, ToolCall, tool
from perdure.upp.json_value import JSONValue
from perdure.upp.providers.script import Answer
from perdure.upp.providers.scripted import scripted
from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.durable_sessions import plain_agent
from tests.integration.serving import serving
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.test_api_runs import scripted as script
from tests.integration.waiting import APP, asked, call, new_name, submit

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def clerks(stack: Stack) -> Iterator[WorkerProcess]:
    """A worker that no test kills."""
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def api(stack: Stack, steady_worker: WorkerProcess) -> Iterator[ApiProcess]:
    """A server that no test kills."""
    process = ApiProcess(stack).wait_ready()
    yield process
    process.kill()


def sound(threads: list[Thread]) -> list[dict[str, Any]]:
    """Their JSON; each holds to every rule, and reading it changes nothing."""
    shown = [cast("dict[str, Any]", thread.to_json()) for thread in threads]
    for thread, body in zip(threads, shown, strict=True):
        assert not [problem for problem in problems_of(body) if problem.severity == "error"]
        assert canonical_bytes(read_thread(body)) == canonical_bytes(thread)
    return shown


def kinds(thread: dict[str, Any]) -> list[str]:
    return [action["action_type"] for action in thread["actions"]]


async def test_a_conversation_and_its_fork_are_threads(api: ApiProcess) -> None:
    """Over HTTP, twice the same bytes, with the hash of the canonical form; the fork is a thread of its own."""
    async with api.client() as client:
        opened = checked(await client.post("/sessions", json={"agent": "actor", "title": "Tale"}), 201)["session"]
        await client.post(f"/sessions/{opened}/runs", json={"input": script("one"), "mode": "wait"})
        branch = str(uuid.uuid4())
        checked(await client.post(f"/sessions/{opened}/fork", json={"name": "other", "id": branch}))
        checked(await client.post(f"/sessions/{opened}/checkout", json={"node": branch}))
        await client.post(f"/sessions/{opened}/runs", json={"input": script("two"), "mode": "wait"})
        first = await client.get(f"/sessions/{opened}/thread")
        again = await client.get(f"/sessions/{opened}/thread", params={"form": "canonical"})
        every = checked(await client.get(f"/sessions/{opened}/threads"))["threads"]
        missing = await client.get(f"/sessions/{opened}/thread", params={"node": "nobody"})
    thread = read_thread(checked(first))
    assert again.content == canonical_bytes(thread)
    assert first.headers["threadprotocol-hash"] == again.headers["threadprotocol-hash"] == canonical_hash(thread)
    assert [one["thread_id"] for one in every][1] == thread.thread_id
    assert every[1]["parent_thread_id"] == every[0]["thread_id"]
    assert (every[0]["title"], every[1]["title"]) == ("Tale", "Tale / other")
    assert kinds(every[0])[:3] == ["user_message", "system.agent_join", "assistant_message"]
    said = next(action for action in every[0]["actions"] if action["action_type"] == "assistant_message")
    assert (said["content"], said["finish_reason"]) == ("one", "stop")
    assert said["usage"]["total_tokens"] == said["usage"]["input_tokens"] + said["usage"]["output_tokens"]
    assert code_of(missing, 404) == "unknown_node"


async def test_an_approval_is_told_before_its_result(stack: Stack, clerks: WorkerProcess) -> None:
    """Who approved which call; one that was rejected is none."""
    name = new_name()
    async with stack.connect() as sessions:
        handle = await submit(sessions, name, [call("pay", name, 5)], [call("pay", name, 6)], "done")
        (wait,) = await asked(sessions, handle)
        await sessions.answer(wait.id, {"decision": "approve"}, by="Ada")
        (wait,) = await asked(sessions, handle)
        await sessions.answer(wait.id, {"decision": "reject", "reason": "no"}, by="Ada")
        await handle.result()
        (thread,) = sound(await sessions.threads(handle.session))
    assert kinds(thread) == [
        *("user_message", "system.agent_join", "tool_call", "system.tool_grant", "tool_return"),
        *("tool_call", "tool_return", "assistant_message"),
    ]
    grant, returned = thread["actions"][3], thread["actions"][4]
    assert grant["data"]["granted_by"] == "Ada"
    assert (grant["data"]["tool_name"], grant["data"]["tool_call_id"]) == ("pay", returned["tool_call_id"])
    assert "edited" not in grant["data"]


@tool
async def look(at: str) -> str:
    """Look."""
    return at


@tool
async def hear(what: str) -> str:
    """Hear."""
    return what


async def test_another_deploy_is_told_before_its_first_run(stack: Stack) -> None:
    """Which tools came and went; a deploy that changed nothing is not told."""

    def deployed(*tools: Any) -> Any:
        return agent(name="changing", model=scripted(lambda _: Answer("done")), tools=list(tools))

    tenant, session = f"deploys-{uuid.uuid4().hex}", new_id()
    threads: list[Thread] = []
    for place, tools in enumerate([(look,), (look,), (look, hear), (hear,)]):
        async with serving(stack, f"deploy-{place}", [deployed(*tools)], tenant=tenant) as sessions:
            if place == 0:
                await sessions.open("changing", session=session)
            await (await sessions.submit("changing", "go", session=session)).result()
            threads = await sessions.threads(session)
    (thread,) = sound(threads)
    assert kinds(thread) == [
        *("user_message", "system.agent_join", "assistant_message", "user_message", "assistant_message"),
        *("system.config_update", "user_message", "assistant_message"),
        *("system.config_update", "user_message", "assistant_message"),
    ]
    updates = [
        action["data"]["changes"] for action in thread["actions"] if action["action_type"] == "system.config_update"
    ]
    assert updates == [{"tools": {"added": ["hear"]}}, {"tools": {"removed": ["look"]}}]


async def test_threads_come_back_as_a_session_that_goes_on(stack: Stack) -> None:
    """A tree of two threads: the same messages and the same tree, and the next run sees them."""
    tenant = f"back-{uuid.uuid4().hex}"
    async with serving(stack, "thread-import", [plain_agent()], tenant=tenant) as sessions:
        handle = await sessions.submit(plain_agent().name or "", "first")
        await handle.result()
        branch = await sessions.fork(handle.session, root_node_id(handle.session), "branch")
        await sessions.checkout(handle.session, branch)
        await (await sessions.submit(plain_agent().name or "", "second", session=handle.session)).result()
        before = sound(await sessions.threads(handle.session))
        value = cast(JSONValue, list(reversed(copy.deepcopy(before))))
        session, read = await sessions.import_threads(value, plain_agent().name or "")
        assert session != handle.session
        assert (read.problems, read.left_out) == ({}, 1 + 1)
        after = sound(await sessions.threads(session))
        assert [_core(thread) for thread in after] == [_core(thread) for thread in before]
        document = await sessions.document(session)
        assert document["metadata"] == {"title": before[0]["title"]}
        turn = await (await sessions.submit(plain_agent().name or "", "third", session=session)).result()
        assert turn.response.text


def _core(thread: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(action["action_type"], action.get("content"), action.get("message_id")) for action in thread["actions"]]


def two_agents() -> dict[str, Any]:
    """A thread of two agents, Fred and Anna."""
    fred, anna, at = str(uuid.uuid4()), str(uuid.uuid4()), "2025-01-15T10:00:00.000Z"
    registry = {
        ident: {"agent_id": ident, "agent_identifier": name, "agent_name": name.title(), "created_at": at}
        for ident, name in ((fred, "fred"), (anna, "anna"))
    }
    actions: list[dict[str, Any]] = [
        {"action_type": "user_message", "content": "hello"},
        {"action_type": "assistant_message", "agent_id": fred, "content": "I am Fred"},
        {"action_type": "assistant_message", "agent_id": anna, "content": "I am Anna"},
    ]
    numbered = [{**action, "timestamp": at, "sequence": place} for place, action in enumerate(actions, 1)]
    return {
        "version": "1.0.0", "thread_id": str(uuid.uuid4()), "created_at": at, "updated_at": at, "title": "Two",
        "agents": registry, "actions": numbered,
    }  # fmt: skip


async def test_a_sub_agents_thread_names_the_one_that_it_was_called_from(stack: Stack) -> None:
    """Its agent is the sub-agent, its parent the thread of the caller's node."""

    def below(request: LLMRequest) -> Answer:
        return Answer(f"below: {request.messages[-1].text}")

    def above(request: LLMRequest) -> Answer:
        asked = request.messages[-1].type == "user"
        return Answer("", [ToolCall("c1", "digger", {"task": "dig"})]) if asked else Answer("done")

    digger = agent(name="digger", model=scripted(below))
    boss = agent(name="boss", model=scripted(above), tools=[digger])
    async with serving(stack, "thread-sub", [boss], tenant=f"sub-{uuid.uuid4().hex}") as sessions:
        handle = await sessions.submit("boss", "go")
        called = [str(event.data["session"]) async for event in handle.events() if event.type == "child.started"]
        (own,) = sound(await sessions.threads(handle.session))
        (sub,) = sound(await sessions.threads(called[0]))
    assert (sub["parent_thread_id"], "parent_thread_id" in own) == (own["thread_id"], False)
    assert kinds(sub) == ["user_message", "system.agent_join", "assistant_message"]
    assert sub["actions"][-1]["content"].startswith("below: ")


async def test_of_several_agents_one_goes_on(stack: Stack) -> None:
    """It is named, or has the session's agent's name; what others said is said to it, with their names."""
    async with serving(stack, "thread-agents", [plain_agent()], tenant=f"two-{uuid.uuid4().hex}") as sessions:
        name = plain_agent().name or ""
        with pytest.raises(InvalidInput, match=r"as which of its agents.*anna, fred"):
            await sessions.import_threads(two_agents(), name)
        session, _ = await sessions.import_threads(two_agents(), name, reading=ThreadReading("anna"))
        (thread,) = sound(await sessions.threads(session))
        told = [action["content"] for action in thread["actions"] if action["action_type"] != "system.agent_join"]
        assert "{agent:Fred}: I am Fred" in json.dumps(told)
        assert told[-1] == "I am Anna"
        with pytest.raises(UnknownAgent):
            await sessions.import_threads(two_agents(), "nobody")
        with pytest.raises(UnknownSession):
            await sessions.threads(new_id())


async def test_a_broken_thread_is_refused_with_all_that_is_wrong_or_mended(api: ApiProcess) -> None:
    """Nothing is stored of it; leniently it is, and the answer says what was mended."""
    broken = two_agents()
    broken["actions"][1]["sequence"] = 9
    broken["actions"][2]["agent_id"] = "nobody"
    body = {"agent": "actor", "threads": [broken], "as_agent": "fred"}
    async with api.client() as client:
        refused = await client.post("/sessions/import-threads", json=body)
        assert code_of(refused, 422) == "invalid_thread"
        rules = {problem["rule"] for problem in refused.json()["problems"]}
        paths = {problem["path"] for problem in refused.json()["problems"]}
        assert len(rules) >= 2, rules
        assert {"actions[2].agent_id"} <= paths, paths
        made = checked(await client.post("/sessions/import-threads", json={**body, "lenient": True}), 201)
        assert made["mended"][broken["thread_id"]]
        thread = checked(await client.get(f"/sessions/{made['session']}/thread"))
        same = {**body, "lenient": True, "session": made["session"]}
        assert code_of(await client.post("/sessions/import-threads", json=same), 422) == "invalid_input"
    assert kinds(thread)[0] == "user_message"


async def test_a_thread_is_not_read_while_it_is_written(stack: Stack, clerks: WorkerProcess) -> None:
    """Threads that are read while runs go on are sound, each as it stood at one moment."""
    name = new_name()
    async with stack.connect() as sessions:
        steps = [[call("pay_small", name, 1)] for _ in range(8)]
        handle = await submit(sessions, name, *steps, "done")
        seen: list[int] = []
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(handle.result())
            while not waiting.done():
                seen += [len(thread["actions"]) for thread in sound(await sessions.threads(handle.session))]
                await asyncio.sleep(0.01)
        (thread,) = sound(await sessions.threads(handle.session))
    assert seen == sorted(seen)
    assert kinds(thread).count("tool_return") == len(steps)
    with pytest.raises(InvalidThread):
        read_thread({**thread, "version": "2"})
