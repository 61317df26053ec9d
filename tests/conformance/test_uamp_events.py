"""Checks 1 to 18 of UAMP 1.0's events: what every event has, what is no event, and how sessions are opened.

Each is made over a WebSocket and over HTTP with server-sent events, by one script.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.conformance.uamp_agents import FORMED, MIRROR, SYSTEM
from tests.conformance.uamp_client import WS, Line, Refusal, Talk, new_id
from tests.conformance.uamp_server import UampServer

EXTRA: dict[str, Any] = {"x_unknown": {"deep": [1, {"er": None}]}, "x_flag": True}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "pick_color",
        "description": "Have the user pick a color.",
        "parameters": {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]},
    },
}


def told_by(line: Line, refusal: Refusal, kind: str, status: int) -> None:
    """A refusal is an event of this type, or an answer with this status."""
    if line.kind == WS:
        assert refusal.event is not None
        assert refusal.event["type"] == kind
    else:
        assert refusal.status == status
    assert refusal.message


async def lives(line: Line, talk: Talk) -> None:
    """A session still answers."""
    assert (await talk.ask("are you there")).text == "echo: are you there"


async def test_check_01_every_event_has_a_type_and_an_id_of_its_own(line: Line) -> None:
    """The client looks at each event that comes; here many came."""
    talk, other = await line.open(), await line.open()
    for session in (talk, other):
        assert (await session.ask("one two three")).text == "echo: one two three"
    await talk.send("input.text")
    await talk.pause()
    assert len(line.heard) > 15
    assert len({event["event_id"] for event in line.heard}) == len(line.heard)


async def test_check_02_timestamps_are_milliseconds(line: Line) -> None:
    """Whole ones since the epoch."""
    before = time.time() * 1000
    talk = await line.open()
    await talk.ask("hello")
    after = time.time() * 1000
    for event in talk.heard:
        assert type(event["timestamp"]) is int
        assert before - 1000 <= event["timestamp"] <= after + 1000


async def test_check_03_an_unknown_event_has_no_reply(line: Line) -> None:
    """And the connection lives: the next event is taken."""
    talk = await line.open()
    await talk.send("conversation.item.create", item={"type": "message"})
    await talk.send("extension.message", namespace="x", payload={})
    await talk.pause()
    assert talk.types == ["session.created", "capabilities", "capabilities"]
    await lives(line, talk)


async def test_check_04_unknown_fields_are_ignored_in_every_event(line: Line) -> None:
    """In each of the client's events, and in the objects that they hold."""
    talk = await line.open(config={**EXTRA, "tools": [{**TOOL, **EXTRA}]}, **EXTRA)
    await talk.send("session.update", session={"instructions": "Be brief.", **EXTRA}, **EXTRA)
    await talk.hear("session.updated")
    await talk.send("client.capabilities", capabilities={"modalities": ["text"], **EXTRA}, **EXTRA)
    await talk.send("capabilities.query", **EXTRA)
    await talk.hear("capabilities")
    await talk.text("look", **EXTRA)
    await talk.send("input.image", image={"url": "https://example.com/a.png", **EXTRA}, **EXTRA)
    await talk.send("input.audio", audio="AAAA", format="wav", is_final=True, **EXTRA)
    await talk.send("input.video", video="AAAA", format="mp4", **EXTRA)
    await talk.send("input.file", file="aGk=", filename="a.txt", mime_type="text/plain", **EXTRA)
    await talk.send("input.typing", is_typing=True, **EXTRA)
    await talk.send("message.read", message_id="m", **EXTRA)
    await talk.send("response.cancel", **EXTRA)
    for kind in ("voice.accept", "voice.decline", "voice.end"):
        await talk.send(kind, **EXTRA)
    call = new_id()
    await talk.send("voice.invite", call_id=call, voice=EXTRA, **EXTRA)
    assert (await talk.hear("voice.accept", "voice.decline"))["call_id"] == call
    await talk.send("payment.submit", payment={"scheme": "token", "token": "ptok_none", **EXTRA}, **EXTRA)
    await talk.hear("payment.error")
    await talk.send("ping", **EXTRA)
    await talk.hear("pong")
    unknown = await talk.send("tool.result", call_id="none", result="x", **EXTRA)
    assert (await talk.refusal(unknown)).code == "unknown_call_id"
    answer = await talk.ask(MIRROR, response={"instructions": "Be exact.", **EXTRA}, **EXTRA)
    kinds = [item["type"] for item in answer.json["messages"][-1]["items"]]
    assert kinds == ["text", "image", "audio", "video", "document", "text"]
    await talk.send("session.end", **EXTRA)
    await talk.hear("session.end")
    assert "x_unknown" not in json.dumps(line.heard)


@pytest.mark.parametrize("text", ["not json", "[1, 2", "[]", "7", '"ping"', "null", ""])
async def test_check_05_what_is_no_json_object_is_an_error(line: Line, text: str) -> None:
    """And the connection lives."""
    talk = await line.open()
    refusal = await line.refusal_of_raw(text, session=talk.id)
    assert refusal.code in ("invalid_json", "invalid_event")
    told_by(line, refusal, "response.error", 400)
    await lives(line, talk)


async def test_check_06_an_event_without_a_type_is_an_error(line: Line) -> None:
    """One without an id is given one."""
    talk = await line.open()
    for event in ({"event_id": new_id()}, {"event_id": new_id(), "type": 7}, {"event_id": new_id(), "type": None}):
        refusal = await line.refusal_of_raw(json.dumps(event), session=talk.id)
        assert refusal.code == "invalid_event"
        told_by(line, refusal, "response.error", 400)
    await line.send({"type": "input.text", "text": "nameless"}, session=talk.id)
    await line.send({"type": "response.create"}, session=talk.id)
    created = await talk.hear("response.created")
    assert (await talk.end_of(created["response_id"])).text == "echo: nameless"


async def test_check_07_an_event_before_session_create_is_refused(line: Line) -> None:
    """With the code that says what is missing."""
    event = {"type": "input.text", "event_id": new_id(), "text": "hello"}
    await line.send(event)
    refusal = await line.refusal(event["event_id"])
    assert refusal.code == "session_required"
    told_by(line, refusal, "response.error", 400)
    await lives(line, await line.open())


async def test_check_08_an_event_that_is_sent_twice_is_applied_once(line: Line) -> None:
    """An input, a session.create, and what asks for a response."""
    ident, asking = new_id(), new_id()
    talk = await line.open()
    for _ in range(2):
        await talk.text("once", event_id=ident)
    await talk.text(MIRROR)
    for _ in range(2):
        await talk.send("response.create", event_id=asking)
    created = await talk.hear("response.created")
    answer = await talk.end_of(created["response_id"])
    (message,) = answer.json["messages"]
    assert [item["text"] for item in message["items"]] == ["once", MIRROR]
    await talk.send("response.create", event_id=asking)
    await talk.pause()
    assert talk.types.count("response.created") == talk.types.count("response.done") == 1
    assert "response.error" not in talk.types


async def test_check_09_any_text_is_an_event_id(line: Line) -> None:
    """As in the specification's examples; the server's own are UUIDs all the same."""
    talk = await line.open(event_id="evt_001")
    await talk.text("hello", event_id="evt_002")
    await talk.send("response.create", event_id="evt_003")
    created = await talk.hear("response.created")
    assert (await talk.end_of(created["response_id"])).text == "echo: hello"
    wrong = await talk.send("tool.result", event_id="ergebnis-ü", call_id="none", result="x")
    assert (await talk.refusal(wrong)).code == "unknown_call_id"


async def test_check_10_a_minimal_session_create_is_answered_in_order(line: Line) -> None:
    """session.created, then capabilities, before all else; without an agent it is the app's default one."""
    talk = await line.open()
    assert talk.types == ["session.created", "capabilities"]
    assert talk.created["agent"] == "assistant"
    assert talk.capabilities["session_id"] == talk.id


async def test_check_11_session_created_tells_the_session(line: Line) -> None:
    """Its version, id, time in seconds, configuration and status."""
    config: dict[str, Any] = {
        "instructions": "Be kind.", "tools": [TOOL], "voice": {"voice_id": "alloy"}, "input_audio_format": "pcm16",
        "output_audio_format": "mp3", "turn_detection": {"type": "server_vad", "threshold": 0.5},
        "response_format": {"type": "text"}, "extensions": {"openai": {"temperature": 0.2}},
    }  # fmt: skip
    talk = await line.open(modalities=["text", "audio"], config=config)
    session = talk.created["session"]
    assert talk.created["uamp_version"] == "1.0"
    assert talk.created["session_id"] == session["id"]
    assert type(session["created_at"]) is int
    assert abs(session["created_at"] - time.time()) < 3600, "seconds"
    assert session["config"] == {"modalities": ["text", "audio"], **config}
    assert session["status"] == "active"


async def test_check_12_agent_and_chat_are_echoed(line: Line) -> None:
    """As the client wrote them."""
    chat = f"Raum {new_id()}"
    talk = await line.open(agent="changing", chat=chat)
    assert (talk.created["agent"], talk.created["chat"]) == ("changing", chat)


@pytest.mark.parametrize("version", ["1.0", "1.3", None])
async def test_check_13_any_minor_version_is_answered_with_ours(line: Line, version: str | None) -> None:
    """One who names none speaks 1.0."""
    talk = await line.open(uamp_version=version)
    assert talk.created["uamp_version"] == "1.0"


@pytest.mark.parametrize("version", ["2.0", "0.9", "1", "one"])
async def test_check_14_another_major_version_is_refused(line: Line, version: str) -> None:
    """There is no session then; the same connection may try again."""
    event = line.create_event(uamp_version=version)
    await line.create(event)
    refusal = await line.refusal(event["event_id"])
    assert refusal.code == "version_mismatch"
    told_by(line, refusal, "response.error", 400)
    if refusal.event is not None:
        assert refusal.event["error"]["details"] == {"supported": ["1.0"], "received": version}
    talk = await line.open()
    assert [event["type"] for event in line.heard if event["type"] == "session.created"] == ["session.created"]
    await lives(line, talk)


@pytest.mark.parametrize("user", ["nobody", "stranger", "reader"])
async def test_check_15_without_a_valid_token_there_is_no_session(uamp: UampServer, line: Line, user: str) -> None:
    """None, a wrong one, and one that may only read."""
    event = line.create_event(token=uamp.tokens.get(user, "pdk_0123456789abcdef_wrong"))
    if user == "nobody":
        del event["token"]
    await line.create(event)
    refusal = await line.refusal(event["event_id"])
    assert refusal.code == "unauthorized"
    told_by(line, refusal, "session.error", 401)
    assert "session.created" not in [event["type"] for event in line.heard]
    await lives(line, await line.open())


async def test_check_16_an_unknown_agent_is_offline(line: Line) -> None:
    """So says a session.error."""
    event = line.create_event(agent="nobody-serves-this")
    await line.create(event)
    refusal = await line.refusal(event["event_id"])
    assert refusal.code == "agent_offline"
    told_by(line, refusal, "session.error", 404)
    await lives(line, await line.open())


async def test_check_17_instructions_and_tools_reach_the_model(line: Line) -> None:
    """Instructions stand below the agent's own, tools beside its own."""
    talk = await line.open(config={"instructions": "Speak like a pirate.", "tools": [TOOL]})
    given = (await talk.ask(MIRROR)).json
    assert given["system"].startswith(SYSTEM)
    assert given["system"].endswith("Speak like a pirate.")
    tools = {tool["name"]: tool for tool in given["tools"]}
    assert tools["pick_color"] == TOOL["function"]
    assert "weather" in tools


async def test_check_18_a_response_format_is_kept(line: Line) -> None:
    """An object is JSON; with a schema it is one that fits."""
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "inhabitants": {"type": "integer"}},
        "required": ["city", "inhabitants"],
        "additionalProperties": False,
    }
    talk = await line.open(config={"response_format": {"type": "json_object"}})
    assert isinstance((await talk.ask(FORMED)).json, dict)
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    city = (await (await line.open(config={"response_format": form})).ask(FORMED)).json
    assert set(city) == {"city", "inhabitants"}
    assert type(city["inhabitants"]) is int
    assert (await (await line.open()).ask(FORMED)).text == "free text"
