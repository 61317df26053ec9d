"""`ask` in a thread of the caller's, `query` in one of its own."""

from __future__ import annotations

from typing import cast

import pytest

from perdure.errors import InvalidInput
from perdure.uap.conversations import QueryResult, ask, query
from perdure.uap.session import Session, session
from perdure.upp.errors import UPPError
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage, Message, UserMessage
from perdure.upp.thread import Thread
from perdure.upp.tool_call import ToolCall
from tests.conformance.uap_session_stage import Talker, texts


def queries(of: Session) -> dict[str, JSONObject]:
    return cast("dict[str, JSONObject]", of.metadata["queries"])


async def test_ask_appends_the_turn_to_the_thread_and_returns_it() -> None:
    thread = Thread()
    turn = await ask(Talker().agent(), "look", thread)
    assert thread.messages == turn.messages
    assert texts(turn.messages) == ["look", "look", "seen w0", "re: look"]


async def test_ask_goes_on_after_what_the_thread_holds() -> None:
    talker, thread = Talker(), Thread()
    await ask(talker.agent(), "one", thread)
    await ask(talker.agent(), UserMessage("two"), thread)
    assert talker.told[-1] == ["one", "re: one", "two"]
    assert texts(thread.messages) == ["one", "re: one", "two", "re: two"]


async def test_ask_without_a_thread_begins_anew() -> None:
    talker = Talker()
    await ask(talker.agent(), "one")
    await ask(talker.agent(), "two")
    assert talker.told[-1] == ["two"]


async def test_ask_that_fails_leaves_the_thread_as_it_was() -> None:
    talker, thread = Talker(), Thread()
    await ask(talker.agent(), "one", thread)
    before = thread.to_json()
    with pytest.raises(UPPError, match="broken"):
        await ask(talker.agent(), "break", thread)
    assert thread.to_json() == before


async def test_ask_answers_open_calls_of_the_thread_with_errors() -> None:
    """In what the model is told; the thread is the caller's."""
    said: list[Message] = [UserMessage("go"), AssistantMessage("", [ToolCall("c", "look", {})])]
    talker, thread = Talker(), Thread(said)
    await ask(talker.agent(), "on", thread)
    assert [text for text in talker.told[-1] if "not carried out" in text]
    assert texts(thread.messages) == ["go", "look", "on", "re: on"]


async def test_query_has_a_thread_of_its_own() -> None:
    result = await query(Talker().agent(), "one")
    assert result.thread.messages == result.turn.messages
    assert result.thread_id == result.thread.id
    assert (await query(Talker().agent(), "one")).thread_id != result.thread_id


async def test_query_goes_on_in_its_thread_without_end() -> None:
    talker = Talker()
    result = await query(talker.agent(), "one")
    second = await result.continue_("two")
    third = await second.continue_(UserMessage("three"))
    assert talker.told[-1] == ["one", "re: one", "two", "re: two", "three"]
    assert result.thread_id == second.thread_id == third.thread_id
    assert texts(third.turn.messages) == ["three", "re: three"]


async def test_a_second_continuation_of_one_result_sees_the_first() -> None:
    talker = Talker()
    result = await query(talker.agent(), "one")
    await result.continue_("two")
    await result.continue_("three")
    assert talker.told[-1] == ["one", "re: one", "two", "re: two", "three"]


async def test_a_continuation_has_the_name_of_the_specification() -> None:
    result = await query(Talker().agent(), "one")
    followed = await getattr(result, "continue")("two")
    assert isinstance(followed, QueryResult)
    assert texts(followed.thread.messages) == ["one", "re: one", "two", "re: two"]


async def test_a_continuation_that_fails_leaves_the_thread_as_it_was() -> None:
    result = await query(Talker().agent(), "one")
    with pytest.raises(UPPError, match="broken"):
        await result.continue_("break")
    assert texts(result.thread.messages) == ["one", "re: one"]
    assert (await result.continue_("two")).turn.response.text == "re: two"


async def test_a_query_inside_a_session_is_part_of_its_document() -> None:
    """With what was said in it last; the session's own thread knows nothing of it."""
    other, results = Talker().agent(), list[QueryResult]()

    @tool
    async def research(word: str) -> str:
        """Research."""
        results.append(await query(other, word))
        return results[-1].turn.response.text

    running = session(Talker(tool_name="research").agent(tools=[research]))
    await running.run("look")
    (result,) = results
    assert queries(running) == {result.thread_id: result.thread.to_json()}
    assert texts(running.thread_tree.history()) == ["look", "research", "re: w0", "re: look"]
    await result.continue_("more")
    kept = Thread.from_json(queries(Session.from_json(running.to_json(), other))[result.thread_id])
    assert texts(kept.messages) == ["w0", "re: w0", "more", "re: more"]


async def test_a_query_can_be_given_its_session() -> None:
    running = session(Talker().agent())
    first = await query(Talker().agent(), "one", session=running)
    second = await query(Talker().agent(), "two", session=running)
    assert set(queries(running)) == {first.thread_id, second.thread_id}


async def test_a_query_takes_nothing_of_the_users() -> None:
    """Metadata of that name that is no object is the user's; refused before the model is asked."""
    talker, running = Talker(), session(Talker().agent(), metadata={"queries": "mine"})
    with pytest.raises(InvalidInput, match="'queries'"):
        await query(talker.agent(), "one", session=running)
    assert (talker.told, running.metadata) == ([], {"queries": "mine"})


async def test_a_query_outside_a_run_is_part_of_no_session() -> None:
    running = session(Talker().agent())
    await running.run("one")
    await query(running.agent, "two")
    assert running.metadata == {}
