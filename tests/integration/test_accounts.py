"""What runs use, what they may, and what they leave: the same in a workflow as in process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from perdure import session
from perdure.errors import LimitExceeded
from perdure.inprocess import InProcessHost
from perdure.runtime.rebuild import rebuild_session
from perdure.runtime.session_document import session_json_bytes
from perdure.runtime.sessions import Sessions
from perdure.uap import host
from perdure.uap.agent import Agent
from perdure.uap.options import RunOptions
from perdure.uap.session import Session
from perdure.uap.session_key import SessionKey
from perdure.upp.errors import UPPError
from perdure.upp.messages import Message, UserMessage
from perdure.upp.turn import Turn
from tests.integration.accounted_agents import (
    AGENTS,
    CALL_COSTS,
    PRICES,
    asks,
    calls,
    cured,
    custom_leader,
    custom_replaced,
    custom_watched,
    limited,
    noted,
    plain,
    said,
    summing,
    watched,
    wondering,
)  # fmt: skip
from tests.integration.serving import serving
from tests.integration.stack import Stack, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
HOSTS = pytest.mark.parametrize("durable", [False, True], ids=["in process", "durable"])


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def served(stack: Stack) -> AsyncGenerator[Sessions, None]:
    async with serving(stack, "accounts", AGENTS, prices=PRICES) as sessions:
        yield sessions


@pytest_asyncio.fixture(loop_scope="module")
async def here(stack: Stack, durable: bool) -> AsyncGenerator[None, None]:
    """The host under test."""
    noted.clear()
    cured.clear()
    if durable:
        async with stack.connect():
            yield
    else:
        with host.connected(InProcessHost(PRICES)):
            yield


def texts(chat: Session) -> list[str]:
    return [message.text for message in chat.thread_tree.history()]


async def totals(sessions: Sessions, own: str) -> dict[str, Any]:
    """A session's row, as far as it adds up runs."""
    sql = "select usage, usage_by_agent, steps, runs from perdure.sessions where id = $1"
    async with sessions.database.driver() as connection:
        row = await connection.fetchrow(sql, own)
    assert row is not None
    return dict(row)


# -- 1. another turn than the run's own --------------------------------------------------------------------------


async def test_a_turn_that_middleware_made_is_rebuilt_to_the_byte(served: Sessions) -> None:
    handle = await served.submit("replaced", said([calls("note", key="a")], "its own"))
    turn = await handle.result()
    assert turn.response.text == "in its place"
    key = SessionKey(served.tenant, handle.session)
    document = await session_json_bytes(served.database, key)
    before = await run_rows(served, handle.session)
    async with served.database.driver() as connection:
        for table in ("runs", "checkpoints", "tool_calls"):
            await connection.execute(f"delete from perdure.{table} where session_id = $1", handle.session)
    await rebuild_session(served.client, served.database, key)
    assert await run_rows(served, handle.session) == before
    assert before[0]["turn_sha"]
    assert await session_json_bytes(served.database, key) == document
    assert (await handle.result()).to_json() == turn.to_json()
    assert (await rebuild_session(served.client, served.database, key)).runs == 0


async def run_rows(sessions: Sessions, own: str) -> list[dict[str, Any]]:
    async with sessions.database.driver() as connection:
        rows = await connection.fetch("select * from perdure.runs where session_id = $1 order by ordinal", own)
    return [dict(row) for row in rows]


# -- 2. what middleware uses -------------------------------------------------------------------------------------


@HOSTS
async def test_what_a_summary_uses_is_the_runs(durable: bool, here: None) -> None:
    """By agent path, in what middleware is told was spent, and in the session's sum."""
    chat = session(summing)
    for text in ("one", "two"):
        await chat.run(text)
    used = {path: usage.total_tokens for path, usage in chat.usage_by_agent.items()}
    summary = used.pop("summing#memory")
    assert used == {"summing": 30}
    assert chat.usage.total_tokens == 30 + summary
    assert (chat.usage_by_agent["summing#memory"].cost or 0) > 0
    assert [item[1] for item in noted] == [0, summary]


# -- 3. a stream that is aborted before any answer ----------------------------------------------------------------


@HOSTS
async def test_reading_4_50_what_was_aborted_before_any_answer_leaves_nothing(durable: bool, here: None) -> None:
    chat = session(plain)
    await chat.run("one")
    stream = chat.stream(said({"wait": True}))

    async def abort() -> None:
        await eventually(_is_waiting, what="the model was asked")
        stream.abort()

    aborting = asyncio.create_task(abort())
    turn = await stream
    await aborting
    assert [str(message.type) for message in turn.messages] == ["user", "assistant"]
    assert texts(chat) == ["one", "re: one"]
    await chat.run("two")
    assert texts(chat) == ["one", "re: one", "two", "re: two"]


async def _is_waiting() -> bool:
    return "waiting" in noted


# -- 4. queries inside a run -------------------------------------------------------------------------------------


@HOSTS
async def test_reading_4_31_a_query_that_a_tool_asks_is_kept_by_the_runs_session(durable: bool, here: None) -> None:
    """Two at once: neither is lost."""
    chat = session(wondering, metadata={"mine": 1})
    turn = await chat.run(said([calls("wonder", what="why"), calls("wonder", what="how")], "well"))
    assert [item.result for item in turn.tool_executions] == ["re: why", "re: how"]
    kept: Any = chat.metadata["queries"]
    assert sorted(thread["messages"][1]["content"][0]["text"] for thread in kept.values()) == ["re: how", "re: why"]
    assert all(thread["id"] == ident for ident, thread in kept.items())
    assert chat.metadata["mine"] == 1
    assert texts(chat)[-1] == "well"


# -- 5. budgets over sub-agents ----------------------------------------------------------------------------------


async def outcome(agent: Agent, text: str, options: RunOptions | None = None) -> tuple[str, str | None, list[Any]]:
    noted.clear()
    with pytest.raises(LimitExceeded) as raised:
        await agent.run(text, options=options)
    return str(raised.value), raised.value.code, list(noted)


async def test_a_budget_ends_a_parent_whose_sub_agent_used_most_of_it(stack: Stack) -> None:
    """At its next step, with the same numbers in both hosts."""
    text = said([asks("child", [calls("note", key="a")], [calls("note", key="b")], "dug")], "never")
    with host.connected(InProcessHost(PRICES)):
        in_process = await outcome(limited, text)
    async with stack.connect():
        durable = await outcome(limited, text)
    assert durable == in_process
    assert durable[:2] == ("the run took 60 tokens, its budget is 50", "max_tokens")
    assert [item[:2] for item in durable[2]] == [[1, 0], [("dug", False)]]


@pytest.mark.parametrize("money", [CALL_COSTS, CALL_COSTS * 3], ids=["for itself", "for one sub-agent"])
async def test_a_sub_agent_for_which_no_money_is_left_is_an_error_result(stack: Stack, money: Any) -> None:
    text = said([asks("child", "dug")], [asks("child", "again")], "never")
    options = RunOptions(max_cost=money)
    with host.connected(InProcessHost(PRICES)):
        in_process = await outcome(watched, text, options)
    async with stack.connect():
        durable = await outcome(watched, text, options)
    assert durable == in_process
    (refused, is_error) = durable[2][-1][0]
    assert is_error
    assert "its limit is" in refused


# -- 6 and 7. runs that go on from a checkpoint -------------------------------------------------------------------


async def test_a_resumed_runs_totals_hold_each_model_call_once(stack: Stack, served: Sessions) -> None:
    """Also what its sub-agents had used; and a rebuild makes the same."""
    text = said([asks("child", "dug")], [calls("note", key="a")], "done")
    with host.connected(InProcessHost(PRICES)):
        chat = session(plain)
        await resumed_after_one_step(chat, text)
        in_process = {path: usage.total_tokens for path, usage in chat.usage_by_agent.items()}
    async with stack.connect():
        chat = session(plain)
        turn = await resumed_after_one_step(chat, text)
        assert {path: usage.total_tokens for path, usage in chat.usage_by_agent.items()} == in_process
    assert in_process == {"plain": 75, "plain/child": 15}
    assert turn.usage.total_tokens == 45
    row = await totals(served, chat.id)
    assert (row["steps"], row["runs"], row["usage"]) == (5, 2, {"inputTokens": 60, "outputTokens": 30})
    before = await run_rows(served, chat.id)
    async with served.database.driver() as connection:
        await connection.execute("delete from perdure.runs where session_id = $1", chat.id)
        await connection.execute("update perdure.sessions set steps = 0, usage_by_agent = null where id = $1", chat.id)
    await rebuild_session(served.client, served.database, SessionKey(served.tenant, chat.id))
    assert await totals(served, chat.id) == row
    assert await run_rows(served, chat.id) == before


async def resumed_after_one_step(chat: Session, text: str) -> Turn:
    await chat.run(text)
    await chat.restore(chat.checkpoints[0].id)
    return await chat.resume()


@HOSTS
async def test_a_resumed_run_that_fails_leaves_what_came_with_its_checkpoint(durable: bool, here: None) -> None:
    """What it added itself is gone, and the session goes on after the checkpoint."""
    chat = session(plain)
    text = said([calls("note", key="a")], [calls("note", key="b")], {"error": "INVALID_REQUEST", "until": "later"})
    with pytest.raises(UPPError):
        await chat.run(text)
    await chat.restore(chat.checkpoints[0].id)
    with pytest.raises(UPPError):
        await chat.resume()
    assert [str(message.type) for message in chat.thread_tree.history()] == ["user", "assistant", "tool_result"]
    cured.add("later")
    await chat.restore(chat.checkpoints[0].id)
    assert (await chat.resume()).response.text == "cured"


# -- 9. a stream that failed --------------------------------------------------------------------------------------


async def test_a_history_is_not_uploaded_again_after_a_stream_that_failed(stack: Stack, served: Sessions) -> None:
    async with stack.connect():
        history: list[Message] = list((await plain.run("one")).messages)
        with pytest.raises(UPPError):
            await plain.stream(history, said({"error": "INVALID_REQUEST"}))
        before = await count_sessions(served)
        turn = await plain.run(history, UserMessage("two"))
        assert turn.response.text == "re: two"
        assert await count_sessions(served) == before


async def count_sessions(sessions: Sessions) -> int:
    async with sessions.database.driver() as connection:
        return await connection.fetchval("select count(*) from perdure.sessions")


# -- 10. strategies of one's own, with middleware and with sub-agents ---------------------------------------------


@HOSTS
async def test_middleware_around_a_strategy_of_ones_own(durable: bool, here: None) -> None:
    """It is told of the steps, and its turn stands in the thread."""
    chat = session(custom_watched)
    turn = await chat.run(said([calls("note", key="a")], "done"))
    assert turn.response.text == "done"
    assert [item[:2] if isinstance(item[0], int) else item for item in noted] == [[1, 0], [("noted a", False)]]
    other = session(custom_replaced)
    turn = await other.run("one")
    assert (turn.response.text, texts(other)) == ("in its place", ["one", "in its place"])
    assert (await other.run("two")).response.text == "in its place"


@HOSTS
async def test_a_strategy_of_ones_own_has_sub_agents(durable: bool, here: None) -> None:
    """They are runs of their own, with events by path and usage of their own."""
    chat = session(custom_leader)
    text = said([asks("child", [calls("note", key="a")], "dug")], "led")
    stream = chat.stream(text, sub_agents=True)
    paths = {event.path async for event in stream}
    turn = await stream.turn
    assert (turn.response.text, [item.result for item in turn.tool_executions]) == ("led", ["dug"])
    assert paths == {(), ("child",)}
    used = {path: usage.total_tokens for path, usage in chat.usage_by_agent.items()}
    assert used == {"custom_leader": 30, "custom_leader/child": 30}
    turn = await chat.run(text)
    assert turn.response.text == "led"
