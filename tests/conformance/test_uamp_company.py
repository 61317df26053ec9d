"""Checks 73 to 79 of UAMP 1.0's events: voice invitations, who else is there, and the keep-alive."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.conformance.uamp_agents import TENTH_BYTES, gate, plan
from tests.conformance.uamp_client import Line, Talk, new_id
from tests.conformance.uamp_server import UampServer, new_gate


@asynccontextmanager
async def two(line: Line, uamp: UampServer) -> AsyncGenerator[tuple[Talk, Talk]]:
    """Ann and Bob in one chat, by the same transport."""
    chat = f"chat-{new_id()}"
    async with uamp.line(line.kind, "bob") as other:
        ann = await line.open(chat=chat)
        bob = await other.open(chat=chat)
        await ann.hear("presence.online")
        yield ann, bob


async def test_check_73_sound_is_told_with_its_length_and_its_words(line: Line) -> None:
    """In pieces, then how long it was; the transcript likewise, and whole in the end. The text is the same."""
    talk = await line.open(modalities=["text", "audio"])
    answer = await talk.ask(plan({"speak": 4, "say": "good morning to you"}))
    chunks = [base64.b64decode(event["audio"]) for event in answer.events if event["type"] == "audio.delta"]
    assert b"".join(chunks) == b"".join(bytes([number]) * TENTH_BYTES for number in range(4))
    (done,) = [event for event in answer.events if event["type"] == "audio.done"]
    assert done["duration_ms"] == 400
    (spoken,) = [event for event in answer.events if event["type"] == "transcript.done"]
    words = [event["transcript"] for event in answer.events if event["type"] == "transcript.delta"]
    assert "".join(words) == spoken["transcript"] == answer.told == answer.text == "good morning to you"
    kinds = [event["type"] for event in answer.events if event["type"].startswith(("audio", "transcript"))]
    assert kinds.index("audio.done") > max(place for place, kind in enumerate(kinds) if kind == "audio.delta")
    assert kinds[-1] == "transcript.done"
    (sound,) = [item for item in answer.done["output"] if item["type"] == "audio"]
    assert base64.b64decode(sound["audio"]) == b"".join(chunks)


async def test_check_73_no_sound_is_asked_for_where_none_is_made(line: Line) -> None:
    """Without a voice backend the modality is echoed, and refused where a response must have it."""
    talk = await line.open(modalities=["text", "audio"])
    assert talk.created["session"]["config"]["modalities"] == ["text", "audio"]
    refused = await talk.send("response.create", response={"modalities": ["audio"]})
    assert (await talk.refusal(refused)).code == "unsupported_modality"
    assert (await talk.ask("hello")).text == "echo: hello"


async def test_check_74_an_invitation_is_answered(line: Line) -> None:
    """Without a voice backend it is declined; the end of a call is told once; the session goes on."""
    talk, ident = await line.open(), new_id()
    await talk.send("voice.invite", call_id=ident)
    declined = await talk.hear("voice.accept", "voice.decline")
    assert (declined["type"], declined["call_id"]) == ("voice.decline", ident)
    assert declined["reason"] == "unsupported"
    await talk.send("voice.invite")
    assert (await talk.hear("voice.decline"))["call_id"]
    for _ in range(2):
        await talk.send("voice.end", call_id=ident)
    await talk.pause()
    assert "voice.end" not in talk.types, "no call was open"
    assert (await talk.ask("still there")).text == "echo: still there"


async def test_check_75_stray_answers_are_ignored(line: Line) -> None:
    """The server has invited nobody."""
    talk = await line.open()
    await talk.send("voice.accept", call_id=new_id())
    await talk.send("voice.decline", call_id=new_id(), reason="busy")
    await talk.send("voice.accept")
    await talk.pause()
    assert talk.types == ["session.created", "capabilities", "capabilities"]


async def test_check_76_others_are_told_who_comes_and_goes(line: Line, uamp: UampServer) -> None:
    """At a user's first connection and at the last one; nobody is told of itself."""
    chat = f"chat-{new_id()}"
    ann = await line.open(chat=chat)
    async with uamp.line(line.kind, "bob") as first:
        await first.open(chat=chat)
        came = await ann.hear("presence.online")
        assert (came["user_id"], came["chat_id"]) == ("bob", chat)
        async with uamp.line(line.kind, "bob") as second:
            again = await second.open(chat=chat)
            await again.pause()
        await ann.pause()
        assert "presence.offline" not in ann.types
    left = await ann.hear("presence.offline")
    assert (left["user_id"], left["chat_id"]) == ("bob", chat)
    assert ann.types.count("presence.online") == ann.types.count("presence.offline") == 1
    assert "presence.online" not in again.types


async def test_check_77_a_message_is_told_to_the_others_of_its_chat(line: Line, uamp: UampServer) -> None:
    """What was said and what was answered, as they are stored; nobody is told its own."""
    async with two(line, uamp) as (ann, bob):
        assert (await ann.ask("is anybody here?")).text == "echo: is anybody here?"
        said, answered = await bob.hear("message.created"), await bob.hear("message.created")
        assert (said["message"]["role"], said["message"]["content"]) == ("user", "is anybody here?")
        assert said["message"]["name"] == "ann"
        assert (answered["message"]["role"], answered["message"]["content"]) == (
            "assistant", "echo: is anybody here?",
        )  # fmt: skip
        for told in (said, answered):
            assert told["chat_id"] == ann.created["chat"]
            assert told["message"]["id"]
            assert 1e9 < told["message"]["created_at"] < 1e11, "seconds"
        assert said["message"]["id"] != answered["message"]["id"]
        await ann.pause()
        assert "message.created" not in ann.types
        assert "response.created" not in bob.types
        assert (await bob.ask("I am")).text == "echo: I am"
        assert (await ann.hear("message.created"))["message"]["content"] == "I am"


async def test_check_78_a_receipt_is_relayed(line: Line, uamp: UampServer) -> None:
    """To the others, with who has read what."""
    async with two(line, uamp) as (ann, bob):
        await ann.ask("read me")
        message = (await bob.hear("message.created"))["message"]["id"]
        await bob.send("message.read", chat_id=bob.created["chat"], message_id=message)
        read = await ann.hear("message.read")
        assert (read["message_id"], read["user_id"], read["chat_id"]) == (message, "bob", ann.created["chat"])
        await bob.pause()
        assert "message.read" not in bob.types


async def test_check_79_a_ping_is_answered_at_once(line: Line, uamp: UampServer) -> None:
    """Also while a response is made."""
    talk, name = await line.open(), new_gate()
    await talk.send("ping")
    await talk.hear("pong")
    response = await talk.begin(plan({"say": ["one ", gate(name), "two"]}))
    for _ in range(3):
        await talk.send("ping")
        await talk.hear("pong")
    assert "response.done" not in talk.types
    uamp.open_gate(name)
    assert (await talk.end_of(response)).text == "one two"
    assert talk.types.count("pong") == 4
