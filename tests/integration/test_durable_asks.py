"""`ask`, `query` and histories that callers keep: each goes on with the durable session that holds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from perdure import ask, query, session
from perdure.upp.messages import UserMessage
from perdure.upp.thread import Thread
from tests.conformance.uap_session_stage import said
from tests.integration.durable_talkers import AGENTS, TALKER, TALKS, rows
from tests.integration.serving import serving
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def worker(stack: Stack) -> AsyncGenerator[None, None]:
    async with serving(stack, "durable_sessions", AGENTS):
        yield


async def test_asks_of_one_thread_are_inputs_of_one_session(stack: Stack) -> None:
    thread = Thread()
    before = await counts(stack)
    async with stack.connect():
        for number in range(3):
            await ask(TALKS, f"ask {number}", thread)
    after = await counts(stack)
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 3, 6, 0]
    assert TALKER.told[-1] == ["ask 0", "re: ask 0", "ask 1", "re: ask 1", "ask 2"]


async def test_a_history_from_elsewhere_is_uploaded_once(stack: Stack) -> None:
    """Of a history of one message two inputs make a session of five messages."""
    thread = Thread([UserMessage("before")])
    before = await counts(stack)
    async with stack.connect():
        await ask(TALKS, "one", thread)
        await ask(TALKS, "two", thread)
    after = await counts(stack)
    assert [now - then for now, then in zip(after, before, strict=True)] == [1, 2, 5, 0]
    assert TALKER.told[-1] == ["before", "one", "re: one", "two"]


async def test_a_second_input_after_the_same_history_begins_a_session_of_its_own(stack: Stack) -> None:
    before = await counts(stack)
    async with stack.connect():
        history = list((await TALKS.run("one")).messages)
        await TALKS.run(history, "two")
        await TALKS.run(history, "three")
    after = await counts(stack)
    assert [now - then for now, then in zip(after, before, strict=True)] == [2, 3, 8, 0]
    assert TALKER.told[-1] == ["one", "re: one", "three"]


async def test_a_history_whose_session_has_gone_on_is_uploaded_again(stack: Stack) -> None:
    async with stack.connect() as sessions:
        first = await TALKS.run("one")
        ((own,),) = await rows(stack, "select id from perdure.sessions order by created_at desc limit 1")
        await (await sessions.submit("talks", "between", session=own)).result()
        await TALKS.run(list(first.messages), "two")
    assert TALKER.told[-1] == ["one", "re: one", "two"]


async def test_a_message_that_was_changed_under_its_id_is_told_as_it_is(stack: Stack) -> None:
    async with stack.connect():
        asked, answer = (await TALKS.run("one")).messages
        await TALKS.run([UserMessage("other", id=asked.id, timestamp=asked.timestamp), answer], "two")
    assert TALKER.told[-1] == ["other", "re: one", "two"]


async def counts(stack: Stack) -> list[int]:
    """Sessions, inputs, messages, and bytes of options."""
    (row,) = await rows(
        stack,
        "select (select count(*) from perdure.sessions), (select count(*) from perdure.inputs), "
        "(select count(*) from perdure.messages), (select coalesce(sum(length(options)), 0) from perdure.inputs)",
    )
    return [int(value) for value in row]


async def test_a_query_s_thread_is_kept_by_its_session(stack: Stack) -> None:
    """Reading 4.31 of UAP-1.0 section 9.2; also if the session is only attached to, and has others already."""
    async with stack.connect():
        chat = session(TALKS)
        first = await query(TALKS, "aside", session=chat)
        await chat.run("one")
        other = session(TALKS, id=chat.id)
        second = await query(TALKS, "beside", session=other)
        await second.continue_("more")
        await other.save()
        await chat.refresh()
        kept = chat.metadata["queries"]
        assert isinstance(kept, dict)
        assert set(kept) == {first.thread_id, second.thread_id}
        assert kept[second.thread_id] == second.thread.to_json()
        assert said(chat) == ["one", "re: one"]
