"""Sub-agents of durable runs: child workflows with sessions of their own."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.activities.contracts import SANDBOXED_SESSION
from perdure.errors import UserError
from perdure.runtime.session_document import session_document
from perdure.runtime.sessions import RunHandle, Sessions
from perdure.runtime.temporal import is_open
from perdure.store.events import Event, read_events
from perdure.store.runs import find_run
from perdure.store.sessions import find_address
from perdure.store.waits import open_waits
from perdure.uap.options import RunOptions
from perdure.uap.recorded_usage import join_usage
from perdure.uap.session_key import SessionKey
from tests.integration.facts import check_session
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.sub_agents import ask, chief, editor
from tests.scale import allowed_s

APP = "tests.integration.sub_agents:app"


@pytest.fixture(scope="module")
def worker(stack: Stack) -> Iterator[WorkerProcess]:
    process = WorkerProcess(stack, APP).wait_ready()
    yield process
    process.kill()


async def lead(sessions: Sessions, name: str, *script: Any, agent: str = "chief", **more: Any) -> RunHandle:
    """Submit a script to an agent that has sub-agents."""
    options = more.pop("options", None)
    return await sessions.submit(agent, json.dumps({"name": name, "script": list(script), **more}), options=options)


async def log_of(sessions: Sessions, session: str) -> list[Event]:
    """A session's events."""
    return await read_events(sessions.database, SessionKey(sessions.tenant, session), after=0)


async def children_of(sessions: Sessions, session: str) -> list[dict[str, Any]]:
    """What a session's log says of the sub-agents that began, oldest first."""
    return [dict(event.data) for event in await log_of(sessions, session) if event.type == "child.started"]


async def usage_row(sessions: Sessions, session: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A session's usage and usage by agent."""
    sql = "select usage, usage_by_agent from perdure.sessions where id = $1"
    async with sessions.database.driver() as connection:
        row = await connection.fetchrow(sql, session)
    assert row is not None
    return row["usage"], row["usage_by_agent"]


def asked(stack: Stack, name: str) -> list[str]:
    """Whose models were asked, in order."""
    return [entry["who"] for entry in stack.entries(name, "model")]


async def test_parallel_sub_agents_start_together(stack: Stack, worker: WorkerProcess) -> None:
    """S25: Both run at the same time; their results stand in call order; their sessions are their own."""
    name, slow = uuid.uuid4().hex, uuid.uuid4().hex
    async with stack.connect() as sessions:
        calls = [ask("explorer", slow, "slow", held=0), ask("scout", name, "fast", held=0)]
        handle = await lead(sessions, name, calls, "both are back")
        for one in (slow, name):  # neither has answered, so the second was not asked after the first
            await eventually(lambda one=one: _count(stack, one, "explorer", 1), what="both asked")
        stack.release({"name": name})
        await eventually(lambda: _ended(sessions, handle.session, 1), what="the end of the second")
        stack.release({"name": slow})
        turn = await handle.result()
        children = await children_of(sessions, handle.session)
        log = await log_of(sessions, handle.session)
        begun = [await log_of(sessions, child["session"]) for child in children]
    assert turn.response.text == "both are back"
    assert [item.result for item in turn.tool_executions] == ["slow", "fast"]
    assert sorted(child["agent"] for child in children) == ["chief/explorer", "chief/scout"]
    ended = [event.data for event in log if event.type == "child.ended"]
    assert [str(data["call"]) for data in ended] == ["call_0_1", "call_0_0"]
    assert [data["status"] for data in ended] == ["completed", "completed"]
    for child, events in zip(children, begun, strict=True):
        (started,) = [event for event in events if event.type == "run.started"]
        assert started.data["parent"] == {
            "session": handle.session, "run": handle.id, "agent": "chief", "call": child["call"],
        }  # fmt: skip
        await check_session(stack, child["session"])
    await check_session(stack, handle.session)


async def test_usage_by_path_sums_to_the_session(stack: Stack, worker: WorkerProcess) -> None:
    """Own and sub-agents' tokens, three levels deep, are kept by path and add up."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        inner = ask("explorer", name, [ask("digger", name, "gold")], "found")
        handle = await lead(sessions, name, [inner], [ask("explorer", name, "again")], "all done")
        await handle.result()
        usage, by_agent = await usage_row(sessions, handle.session)
        document: Any = await session_document(sessions.database, SessionKey(sessions.tenant, handle.session))
    assert sorted(by_agent) == ["chief", "chief/explorer", "chief/explorer/digger"]
    for count in ("inputTokens", "outputTokens"):
        assert usage[count] == sum(item[count] for item in by_agent.values())
        assert all(item[count] > 0 for item in by_agent.values())
    states = [checkpoint["subAgentStates"] for checkpoint in document["checkpoints"]]
    assert [sorted(item) for item in states] == [["call_0_0"], ["call_0_0", "call_1_0"], ["call_0_0", "call_1_0"]]
    child = states[-1]["call_0_0"]
    assert [message["type"] for message in child["threadTree"]["nodes"][0]["thread"]["messages"]] == [
        "user", "assistant", "tool_result", "assistant",
    ]  # fmt: skip
    assert list(child["checkpoints"][-1]["subAgentStates"]) == ["call_0_0"]


async def test_a_sub_agent_without_a_model_has_its_parents(stack: Stack, worker: WorkerProcess) -> None:
    """The nearest one above it, with its own system prompt."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        calls = [ask("heir", name, "mine"), ask("explorer", name, [ask("heir", name, "ours")], "yes")]
        handle = await lead(sessions, name, calls, "done")
        turn = await handle.result()
    assert [item.result for item in turn.tool_executions] == ["mine", "yes"]
    heirs = {entry["who"] for entry in stack.entries(name, "model") if entry["system"] == "Inherit."}
    assert heirs == {"chief", "explorer"}


async def test_a_failing_sub_agent_is_an_error_result(stack: Stack, worker: WorkerProcess) -> None:
    """The parent's model is told and goes on; its sub-agent's run has failed."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        handle = await lead(sessions, name, [ask("explorer", name, {"error": "CONTEXT_LENGTH_EXCEEDED"})], "I see")
        turn = await handle.result()
        (child,) = await children_of(sessions, handle.session)
        row = await find_run(sessions.database, sessions.tenant, child["run"])
    (execution,) = turn.tool_executions
    assert execution.is_error
    assert "CONTEXT_LENGTH_EXCEEDED" in str(execution.result)
    assert (row.status, turn.response.text) == ("failed", "I see")


@pytest.mark.parametrize(
    ("agent", "call", "told"),
    [
        ("chief", {"tool": "explorer", "arguments": {}}, "needs a 'task'"),
        ("chief", {"tool": "explorer", "arguments": [1]}, "must be a JSON object"),
    ],
    ids=["no task", "no object"],
)
async def test_a_call_that_no_sub_agent_can_take_is_an_error_result(
    stack: Stack, worker: WorkerProcess, agent: str, call: Any, told: str
) -> None:
    """Nothing is begun for it."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        handle = await lead(sessions, name, [call], "then without", agent=agent)
        turn = await handle.result()
        assert await children_of(sessions, handle.session) == []
    assert told in str(turn.tool_executions[0].result)
    assert turn.tool_executions[0].is_error


async def test_a_sub_agent_below_the_depth_limit_is_an_error_result(stack: Stack, worker: WorkerProcess) -> None:
    """Its parent's model is told how deep it may go."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        inner = ask("explorer", name, [ask("digger", name, "never")], "too deep")
        handle = await lead(sessions, name, [inner], "done", agent="shallow")
        await handle.result()
        (child,) = await children_of(sessions, handle.session)
        run = await sessions.run(child["run"])
        turn = await run.result()
    assert "nested 2 deep, the limit is 1" in str(turn.tool_executions[0].result)
    assert asked(stack, name) == ["shallow", "explorer", "explorer", "shallow"]


async def test_cancel_reaches_three_levels_within_two_seconds(stack: Stack, worker: WorkerProcess) -> None:
    """L23, L24: One terminal event each, nothing written afterwards, and what they used counts."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        deepest = ask("digger", name, "never", held=0)
        handle = await lead(sessions, name, [ask("explorer", name, [deepest, deepest], "never")], "never")
        await eventually(lambda: _count(stack, name, "digger", 2), what="both diggers asked")
        (child,) = await children_of(sessions, handle.session)
        grandchildren = await children_of(sessions, child["session"])
        family = [handle.session, child["session"], *(item["session"] for item in grandchildren)]
        began = time.monotonic()
        assert (await sessions.cancel(handle.session, wait_s=60)).state == "cancelled"
        took, allowed = time.monotonic() - began, allowed_s(2.0)
        before = {session: len(await log_of(sessions, session)) for session in family}
        _, by_agent = await usage_row(sessions, handle.session)
        for session in family:
            await eventually(lambda session=session: is_closed(sessions, session), what="its execution closed")
        await asyncio.sleep(1)
        assert {session: len(await log_of(sessions, session)) for session in family} == before
    assert took < allowed
    assert len(family) == 4
    for session in family:
        facts = await check_session(stack, session)
        assert list(facts.runs.values()) == ["cancelled"]
    assert by_agent["chief/explorer"]["outputTokens"] >= 0


async def _ended(sessions: Sessions, session: str, count: int) -> bool:
    return [event.type for event in await log_of(sessions, session)].count("child.ended") >= count


async def _count(stack: Stack, name: str, who: str, count: int) -> bool:
    return asked(stack, name).count(who) >= count


async def is_closed(sessions: Sessions, session: str) -> bool:
    """Whether no execution of a session is open."""
    return not await is_open(sessions.client, SessionKey(sessions.tenant, session))


async def test_pause_holds_sub_agents_too(stack: Stack, worker: WorkerProcess) -> None:
    """Pausing the root pauses those that are open at their next call; resuming lets all go on."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        rounds = [[{"tool": "note", "arguments": {"name": name, "key": str(n)}}] for n in range(2)]
        handle = await lead(sessions, name, [ask("explorer", name, *rounds, "noted", held=0)], "done")
        await eventually(lambda: _count(stack, name, "explorer", 1))
        assert (await sessions.pause(handle.session, wait_s=60)).state == "paused"
        (child,) = await children_of(sessions, handle.session)

        async def told() -> bool:
            return "session.paused" in [event.type for event in await log_of(sessions, child["session"])]

        await eventually(told, what="the sub-agent is told to hold")
        stack.release({"name": name})

        async def held() -> bool:
            return (await find_run(sessions.database, sessions.tenant, child["run"])).status == "parked"

        await eventually(held, what="the sub-agent holds")
        assert stack.entries(name, "tool") == []
        assert (await sessions.resume(handle.session, wait_s=60)).state == "resumed"
        assert (await handle.result()).response.text == "done"
    facts = await check_session(stack, child["session"])
    kinds = [event.type for event in facts.events]
    assert (kinds.count("session.paused"), kinds.count("session.resumed")) == (1, 1)


async def test_a_sub_agent_is_paused_and_cancelled_alone(stack: Stack, worker: WorkerProcess) -> None:
    """By its own session's id; its parent is told that it was cancelled, and goes on."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        handle = await lead(sessions, name, [ask("explorer", name, "never", held=0)], "without it")
        await eventually(lambda: _count(stack, name, "explorer", 1))
        (child,) = await children_of(sessions, handle.session)
        assert (await sessions.pause(child["session"], wait_s=60)).state == "paused"
        assert (await sessions.resume(child["session"], wait_s=60)).state == "resumed"
        assert (await sessions.cancel(child["session"], wait_s=60)).state == "cancelled"
        turn = await handle.result()
    assert turn.response.text == "without it"
    assert "was cancelled" in str(turn.tool_executions[0].result)


async def test_a_run_may_not_cost_more_with_its_sub_agents(stack: Stack, worker: WorkerProcess) -> None:
    """A sub-agent's steps are limited as its parent's."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        rounds = [[{"tool": "note", "arguments": {"name": name, "key": str(n)}}] for n in range(3)]
        options = RunOptions(max_steps=2)
        handle = await lead(sessions, name, [ask("explorer", name, *rounds, "never")], "it could not", options=options)
        turn = await handle.result()
    assert turn.tool_executions[0].is_error
    assert "2 steps, its limit" in str(turn.tool_executions[0].result)


async def test_an_outside_input_to_a_sub_agents_session_is_refused(stack: Stack, worker: WorkerProcess) -> None:
    """Its one input is its parent's call."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        handle = await lead(sessions, name, [ask("explorer", name, "soon", latency=1)], "done")
        await eventually(lambda: _count(stack, name, "explorer", 1))
        (child,) = await children_of(sessions, handle.session)
        with pytest.raises(UserError, match=r"belongs to agent|is a sub-agent's"):
            await sessions.submit("chief", "hello", session=child["session"])
        await handle.result()


async def test_the_same_run_as_in_process(stack: Stack, worker: WorkerProcess) -> None:
    """Roles, texts and results of the parent's turn are those of `agent.run` without a connection."""
    name = uuid.uuid4().hex
    script = [
        [
            ask("explorer", name, [ask("digger", name, "gold")], "found"),
            ask("scout", name, {"error": "INVALID_REQUEST"}),
        ]
    ]
    given = json.dumps({"name": name, "script": [*script, "done"]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERDURE_TEST_LEDGER", str(stack.ledger))
        here = await chief.run(given)
        async with stack.connect():
            there = await chief.run(given)
    assert [message.type for message in here.messages] == [message.type for message in there.messages]
    assert [item.result for item in here.tool_executions] == [item.result for item in there.tool_executions]
    assert [item.is_error for item in there.tool_executions] == [False, True]
    assert (here.usage, here.cycles) == (there.usage, there.cycles)


async def test_a_parent_gets_what_the_sub_agents_middleware_left(stack: Stack, worker: WorkerProcess) -> None:
    """Not the answer that it was put in place of."""
    name = uuid.uuid4().hex
    given = json.dumps({"name": name, "script": [[ask("scribe", name, '{"said": "raw"}')], "done"]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERDURE_TEST_LEDGER", str(stack.ledger))
        here = await editor.run(given)
        async with stack.connect():
            there = await editor.run(given)
    assert [item.result for item in here.tool_executions] == [{"said": "checked"}]
    assert [item.result for item in there.tool_executions] == [{"said": "checked"}]


async def test_no_wait_of_another_session_is_listed(stack: Stack, worker: WorkerProcess) -> None:
    """A session without sub-agents that wait has no waits."""
    async with stack.connect() as sessions:
        assert await open_waits(sessions.database, sessions.tenant, str(uuid.uuid4())) == []


async def test_a_sub_agent_with_a_strategy_of_its_own_runs_in_the_sandbox(stack: Stack, worker: WorkerProcess) -> None:
    """Its session is served by the sandboxed twin, and so it is found when it is signalled."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        handle = await lead(sessions, name, [ask("loner", name, "in my way")], "done")
        turn = await handle.result()
        (child,) = await children_of(sessions, handle.session)
        key = SessionKey(sessions.tenant, child["session"])
        found = await sessions.client.get_workflow_handle(key.workflow_id).describe()
        address = await find_address(sessions.database, key)
    assert turn.tool_executions[0].result == "in my way"
    assert found.workflow_type == address.workflow_type == SANDBOXED_SESSION
    assert (address.name, address.task_queue) == ("chief/loner", "perdure")


async def test_many_sub_agents_of_one_step(stack: Stack, worker: WorkerProcess) -> None:
    """All end; what is left of them is an id each."""
    name = uuid.uuid4().hex
    async with stack.connect() as sessions:
        handle = await lead(sessions, name, [ask("scout", name, str(n)) for n in range(60)], "done")
        turn = await handle.result()
        _, by_agent = await usage_row(sessions, handle.session)
    assert [item.result for item in turn.tool_executions] == [str(n) for n in range(60)]
    assert sorted(by_agent) == ["chief", "chief/scout"]


USAGES: list[dict[str, Any]] = [
    {},
    {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5},
    {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5, "cost": "0.25"},
    {"inputTokens": 1, "totalTokens": 1, "cacheReadTokens": 9, "cost": "0.75"},
    {"inputTokens": 1, "totalTokens": 1, "cost": "12"},
]


async def test_the_database_adds_usage_up_as_the_workflow_does(stack: Stack) -> None:
    """Every pair of usages, under one path and under two."""
    async with stack.connect() as sessions, sessions.database.driver() as connection:
        for left, right in itertools.product(USAGES, USAGES):
            for path in ("a", "b"):
                one, other = {"a": left}, {path: right}
                sql = "select perdure.join_usage_v1($1::text::json, $2::text::json)"
                made = await connection.fetchval(sql, json.dumps(one), json.dumps(other))
                assert made == join_usage(one, other), (left, right)
