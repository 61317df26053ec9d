"""Checks 19 to 33 of UAMP 1.0's events: changing and ending sessions, several on one connection, capabilities."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from tests.conformance.test_uamp_events import TOOL, lives, told_by
from tests.conformance.uamp_agents import MIRROR, gate, plan
from tests.conformance.uamp_client import HTTP, WS, Line, Talk, new_id
from tests.conformance.uamp_server import UampServer, new_gate

NOT_FOUND = "session_not_found"


async def held(talk: Talk, word: str = "one") -> tuple[str, str]:
    """Have a session begin a response that says a word and waits: the response, and the gate at which it waits."""
    at = new_gate()
    response = await talk.begin(plan({"say": [f"{word} ", gate(at), f"after {word}"]}))
    await talk.hear("response.delta", where=lambda event: event["delta"].get("text") == f"{word} ")
    return response, at


async def test_check_19_a_new_token_leaves_a_running_response_alone(uamp: UampServer, line: Line) -> None:
    """One that is worth nothing is refused, and the session is as it was."""
    talk = await line.open()
    response, at = await held(talk)
    await talk.send("session.update", token=uamp.tokens["ann"])
    updated = await talk.hear("session.updated")
    assert updated["session_id"] == talk.id
    wrong = await talk.send("session.update", token="pdk_0123456789abcdef_wrong")
    assert (await talk.refusal(wrong)).code == "unauthorized"
    uamp.open_gate(at)
    assert (await talk.end_of(response)).text == "one after one"
    await lives(line, talk)


async def test_check_19_a_session_update_changes_the_configuration(line: Line) -> None:
    """Instructions of the session, for the responses that come."""
    talk = await line.open(config={"instructions": "Be long."})
    await talk.send("session.update", session={"instructions": "Be brief."})
    await talk.hear("session.updated")
    system = (await talk.ask(MIRROR)).json["system"]
    assert system.endswith("Be brief.")
    assert "Be long." not in system


async def test_check_20_a_new_payment_token_pays_for_what_comes(uamp: UampServer, line: Line) -> None:
    """The first response is paid by the token of session.create, the next by that of session.update."""
    costs = plan({"say": "well", "usage": [10, 5, 0]})
    talk = await line.open(agent="paid", payment_token=await uamp.funded("5"))
    await talk.ask(costs)
    told = await talk.hear("payment.balance", where=lambda event: event["balance"] != "5")
    assert Decimal(told["balance"]) == Decimal("4.98")
    await talk.send("session.update", payment_token=await uamp.funded("7"))
    await talk.hear("session.updated")
    await talk.ask(costs)
    told = await talk.hear("payment.balance", where=lambda event: Decimal(event["balance"]) not in (5, 7))
    assert Decimal(told["balance"]) == Decimal("6.98")
    assert "payment.required" not in talk.types


async def test_check_21_session_end_cancels_its_response_and_closes_it_alone(uamp: UampServer, line: Line) -> None:
    """First the response is cancelled, then the end is told; the other session goes on."""
    talk, other = await line.open(), await line.open()
    response, _ = await held(talk)
    theirs, at = await held(other)
    await talk.send("session.end", reason="user_left")
    ended = await talk.hear("session.end")
    assert ended["session_id"] == talk.id
    assert ended["reason"] == "user_left"
    answer = await talk.end_of(response)
    assert answer.end["type"] == "response.cancelled"
    assert [item["text"] for item in answer.end["partial_output"]] == [answer.told]
    assert answer.told == "one "
    assert talk.types[-2:] == ["response.cancelled", "session.end"]
    uamp.open_gate(at)
    assert (await other.end_of(theirs)).text == "one after one"
    await lives(line, other)
    assert talk.types[-1] == "session.end"


async def test_check_22_after_session_end_events_are_refused(line: Line) -> None:
    """A second session.end is harmless."""
    talk, other = await line.open(), await line.open()
    await talk.send("session.end")
    await talk.hear("session.end")
    late = await talk.text("too late")
    refusal = await talk.refusal(late)
    assert refusal.code == NOT_FOUND
    told_by(line, refusal, "session.error", 404)
    again = await talk.send("session.end")
    await lives(line, other)
    assert talk.types.count("session.end") == 1
    assert again not in json.dumps([line.heard, [*line.refused]])


@asynccontextmanager
async def impatient(uamp: UampServer) -> AsyncGenerator[None]:
    """While it lasts there is a process that ends silent sessions soon, whichever process their clients are at."""
    api = uamp.new_api(PERDURE_UAMP_IDLE="1")
    try:
        await asyncio.to_thread(api.wait_ready)
        yield
    finally:
        await asyncio.to_thread(api.kill)


@pytest.mark.parametrize("kind", [WS, HTTP])
async def test_check_23_the_server_ends_a_silent_session(uamp: UampServer, kind: str) -> None:
    """With reason "timeout"; not one whose response goes on."""
    async with uamp.line(kind) as line:
        busy = await line.open()
        response, at = await held(busy)  # before anybody is impatient: no session is busy as soon as it is open
        silent = await line.open()
        async with impatient(uamp):
            ended = await silent.hear("session.end")
            assert ended["reason"] == "timeout"
            refused = await silent.text("too late")
            assert (await silent.refusal(refused)).code == NOT_FOUND
            assert "session.end" not in busy.types
            uamp.open_gate(at)
            assert (await busy.end_of(response)).text == "one after one"
            await busy.hear("session.end")


async def test_check_24_two_sessions_have_two_ids(line: Line) -> None:
    """Whatever they have in common."""
    chat = new_id()
    talks = [await line.open(chat=chat, event_id="evt_1" if n == 0 else None) for n in range(3)]
    assert len({talk.id for talk in talks}) == 3


async def test_check_24_sessions_are_opened_in_the_order_in_which_they_were_asked_for(line: Line) -> None:
    """So that a client that knows no `in_reply_to` knows which is which."""
    chats = [f"chat {n} {new_id()}" for n in range(6)]
    asked = [line.create_event(chat=chat, agent=["assistant", "changing"][n % 2]) for n, chat in enumerate(chats)]
    for event in asked:
        await line.create(event)
    for event in asked:
        await line.wait(lambda told, event=event: told.get("in_reply_to") == event["event_id"])
    if line.kind == WS:
        assert [event["chat"] for event in line.heard if event["type"] == "session.created"] == chats


async def test_check_25_interleaved_responses_carry_their_session(uamp: UampServer, line: Line) -> None:
    """Two responses run at once; each of their events names its session."""
    talks = [await line.open() for _ in range(2)]
    running = [await held(talk, word) for talk, word in zip(talks, ("anna", "otto"), strict=True)]
    for _, at in reversed(running):
        uamp.open_gate(at)
    for talk, (response, _), word in zip(talks, running, ("anna", "otto"), strict=True):
        assert (await talk.end_of(response)).text == f"{word} after {word}"
        for event in line.heard:
            if event.get("response_id") == response:
                assert event["session_id"] == talk.id


async def test_check_26_a_conversation_is_seen_in_its_session_alone(line: Line) -> None:
    """Neither what was said nor instructions of one are in the other's."""
    talk, other = await line.open(config={"instructions": "Secret: lilac."}), await line.open()
    await talk.ask("my secret is mauve")
    seen = json.dumps((await other.ask(MIRROR)).json)
    assert "mauve" not in seen
    assert "lilac" not in seen
    assert "mauve" in json.dumps((await talk.ask(MIRROR)).json)


async def test_check_27_among_several_sessions_one_must_be_named(line: Line) -> None:
    """An event that names none is applied to none."""
    talks = [await line.open() for _ in range(2)]
    event = {"type": "input.text", "event_id": new_id(), "text": "whose?"}
    await line.send(event)
    refusal = await line.refusal(event["event_id"])
    assert refusal.code == ("session_id_required" if line.kind == WS else "session_required")
    told_by(line, refusal, "response.error", 400)
    for talk in talks:
        assert "whose?" not in json.dumps((await talk.ask(MIRROR)).json)


async def test_check_28_an_unknown_session_is_an_error(uamp: UampServer, line: Line) -> None:
    """Also one of somebody else; the others live."""
    talk = await line.open()
    async with uamp.line(line.kind, "bob") as another:
        theirs = await another.open()
        for session in (new_id(), "no-such", theirs.id):
            event = {"type": "input.text", "event_id": new_id(), "text": "mine"}
            await line.send(event, session=session)
            refusal = await line.refusal(event["event_id"])
            assert refusal.code == NOT_FOUND
            told_by(line, refusal, "session.error", 404)
        assert "mine" not in json.dumps((await theirs.ask(MIRROR)).json)
    await lives(line, talk)


async def test_check_29_each_session_has_its_own_token(uamp: UampServer, line: Line) -> None:
    """Two users on one connection stay two; what becomes of one's token is nothing to the other."""
    chat = new_id()
    ann, bob = [await line.open(chat=chat, token=uamp.tokens[user]) for user in ("ann", "bob")]
    await ann.send("input.typing", is_typing=True)
    assert (await bob.hear("presence.typing"))["user_id"] == "ann"
    await bob.send("input.typing", is_typing=True)
    assert (await ann.hear("presence.typing"))["user_id"] == "bob"
    wrong = await bob.send("session.update", token="pdk_0123456789abcdef_wrong")
    assert (await bob.refusal(wrong)).code == "unauthorized"
    other = await ann.send("session.update", token=uamp.tokens["bob"])
    assert (await ann.refusal(other)).code == "unauthorized", "a session stays its user's"
    await lives(line, ann)


async def test_check_30_capabilities_have_the_six_required_keys(line: Line) -> None:
    """The model is named by `id`."""
    talk = await line.open()
    told = talk.capabilities["capabilities"]
    kinds = {"id": str, "provider": str, "modalities": list, "supports_streaming": bool, "supports_thinking": bool,
             "supports_caching": bool}  # fmt: skip
    assert {name: type(told.get(name)) for name in kinds} == kinds
    assert "model_id" not in told
    assert "text" in told["modalities"]


async def test_check_31_capabilities_are_told_whenever_they_are_asked_for(uamp: UampServer, line: Line) -> None:
    """Also while a response is made."""
    talk = await line.open()
    await talk.send("capabilities.query")
    assert (await talk.hear("capabilities"))["capabilities"] == talk.capabilities["capabilities"]
    response, at = await held(talk)
    await talk.send("capabilities.query", model="planned")
    assert (await talk.hear("capabilities"))["capabilities"] == talk.capabilities["capabilities"]
    assert "response.done" not in talk.types
    uamp.open_gate(at)
    assert (await talk.end_of(response)).text == "one after one"


async def test_check_32_what_a_client_cannot_do_is_not_sent(line: Line) -> None:
    """A client may declare in part, and again."""
    thinking = plan({"think": "let me see", "say": "well"})
    talk = await line.open()
    await talk.ask(thinking)
    assert "thinking" in talk.types
    await talk.send("client.capabilities", capabilities={"modalities": ["text"], "supports_thinking": False})
    await talk.pause()
    before = talk.types.count("thinking")
    answer = await talk.ask(thinking)
    assert answer.text == "well"
    assert talk.types.count("thinking") == before
    await talk.send("client.capabilities", capabilities={"supports_thinking": True})
    await talk.ask(thinking)
    assert talk.types.count("thinking") > before
    declared: dict[str, Any] = {"id": "app", "provider": "web", "modalities": ["text"], "supports_thinking": False}
    quiet = await line.open(client_capabilities=declared)
    await quiet.ask(thinking)
    assert "thinking" not in quiet.types


async def test_check_33_a_new_model_is_told(uamp: UampServer, line: Line) -> None:
    """A deploy gives the agent another model: who is in a session with it is told what that can do."""
    model = f"model-{new_id()}"
    talk = await line.open(agent="changing", config={"tools": [TOOL]})
    first = talk.capabilities["capabilities"]["id"]
    assert first != model
    await talk.ask("before")
    uamp.worker.kill()
    uamp.worker = await asyncio.to_thread(lambda: uamp.new_worker(PERDURE_UAMP_MODEL=model).wait_ready())
    assert (await talk.ask("after")).text == "echo: after"
    told = [event["capabilities"]["id"] for event in talk.heard if event["type"] == "capabilities"]
    assert told == [first, model]
