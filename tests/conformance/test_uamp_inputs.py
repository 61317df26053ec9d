"""Checks 34 to 43 of UAMP 1.0's events: what a client sends of a turn, and what the model is given of it."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import uuid
from typing import Any

import httpx
import pytest

from tests.conformance.test_uamp_events import lives, told_by
from tests.conformance.uamp_agents import MIRROR, SYSTEM
from tests.conformance.uamp_client import Line, Talk, new_id
from tests.conformance.uamp_server import UampServer

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FAR = "https://example.com/picture.png"


def coded(data: bytes) -> str:
    """Bytes as the wire has them."""
    return base64.b64encode(data).decode()


def sha256(data: bytes) -> str:
    """As the mirror tells them."""
    return hashlib.sha256(data).hexdigest()


async def given(talk: Talk, **fields: Any) -> list[dict[str, Any]]:
    """The messages that the model is given."""
    return (await talk.ask(MIRROR, **fields)).json["messages"]


def hashes(message: dict[str, Any]) -> list[str | None]:
    """Of a message's media, the hash of each one's bytes."""
    found: list[str | None] = []
    for item in message["items"]:
        source = item.get("source", item)
        found.append(source.get("sha256"))
    return found


async def upload(uamp: UampServer, data: bytes, media_type: str, user: str = "ann") -> str:
    """The id of media that was uploaded."""
    headers = {"Authorization": f"Bearer {uamp.tokens[user]}", "Content-Type": media_type}
    async with httpx.AsyncClient(base_url=uamp.url, headers=headers, timeout=60) as http:
        response = await http.post("/api/content", content=data)
    assert response.is_success, response.text
    return str(response.json()["content_id"])


async def test_check_34_inputs_alone_have_no_response(line: Line) -> None:
    """They wait for response.create."""
    talk = await line.open()
    await talk.text("hello")
    await talk.send("input.image", image=coded(PIXEL), format="png")
    await talk.send("input.audio", audio=coded(b"sound"), format="wav", is_final=True)
    await talk.pause()
    assert talk.types == ["session.created", "capabilities", "capabilities"]


async def test_check_35_consecutive_inputs_are_one_message_in_order(line: Line) -> None:
    """Text, an image and text."""
    talk = await line.open()
    await talk.text("before")
    await talk.send("input.image", image=coded(PIXEL), format="png")
    (message,) = await given(talk)
    assert message["role"] == "user"
    assert [item["type"] for item in message["items"]] == ["text", "image", "text"]
    assert [item.get("text") for item in message["items"]] == ["before", None, MIRROR]


async def test_check_36_system_texts_are_instructions_and_assistant_texts_are_history(line: Line) -> None:
    """In the session from then on."""
    talk = await line.open(config={"instructions": "Be kind."})
    await talk.text("Answer in French.", role="system")
    await talk.text("What is your name?")
    await talk.text("I am Bertrand.", role="assistant")
    answer = (await talk.ask(MIRROR)).json
    assert answer["system"].startswith(SYSTEM)
    assert answer["system"].endswith("Be kind.\n\nAnswer in French.")
    said = [(message["role"], [item["text"] for item in message["items"]]) for message in answer["messages"]]
    assert said == [("user", ["What is your name?"]), ("assistant", ["I am Bertrand."]), ("user", [MIRROR])]
    later = (await talk.ask(MIRROR)).json
    assert later["system"] == answer["system"]
    assert len(later["messages"]) == len(said) + 2


async def test_check_37_messages_stand_in_place_of_the_history(line: Line) -> None:
    """For the turn, and for those that go on from it; the text is not said twice."""
    talk = await line.open()
    await talk.ask("forget me")
    told = [
        {"role": "system", "content": "Talk of flowers."},
        {"role": "user", "content": "Roses?"},
        {"role": "assistant", "content": "Red.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "assistant", "content": "And sunny."},
        {"role": "user", "content": MIRROR},
    ]  # fmt: skip
    await talk.text(MIRROR, messages=told)
    answer = (await talk.ask()).json
    messages = answer["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool_result", "assistant", "user"]
    assert messages[1]["calls"] == [{"id": "c1", "tool": "weather"}]
    assert messages[2]["results"][0]["result"] == "sunny"
    assert [item["text"] for item in messages[-1]["items"]] == [MIRROR]
    assert "Talk of flowers." in answer["system"]
    assert "forget me" not in json.dumps(messages)
    await talk.text("more", messages=told[:2])
    again = await given(talk)
    assert [item["text"] for message in again for item in message["items"]] == ["Roses?", "more", MIRROR]


@pytest.mark.parametrize("form", ["base64", "data", "object", "far"])
async def test_check_38_images_reach_the_model(line: Line, form: str) -> None:
    """By value and by address, with their format and detail."""
    image: Any = {
        "base64": coded(PIXEL), "data": f"data:image/png;base64,{coded(PIXEL)}", "object": {"url": FAR}, "far": FAR
    }[form]  # fmt: skip
    talk = await line.open()
    await talk.send("input.image", image=image, format="png", detail="high")
    (message,) = await given(talk)
    block = message["items"][0]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    if form in ("base64", "data"):
        assert hashes(message)[0] == sha256(PIXEL)
    else:
        assert block["source"]["url"] == FAR
    assert message["metadata"]["uamp"]["items"][0]["detail"] == "high"


async def test_check_38_an_uploaded_image_reaches_the_model_as_bytes(uamp: UampServer, line: Line) -> None:
    """By the URL under which it is; one that is not there ends the response with an error."""
    ident = await upload(uamp, PIXEL, "image/png")
    talk = await line.open()
    await talk.send("input.image", image=f"/api/content/{ident}")
    (message,) = await given(talk)
    assert hashes(message)[0] == sha256(PIXEL)
    other = await line.open()
    unknown = new_id()
    await other.send("input.image", image={"url": f"/api/content/{unknown}"})
    await other.text("look")
    await other.send("response.create")
    error = (await other.hear("response.error"))["error"]
    assert unknown in error["message"]


async def test_check_39_chunks_of_audio_are_one_clip(line: Line) -> None:
    """Byte for byte, however long each is; the turn ends one that has no end."""
    sound = bytes(range(256)) * 5
    talk = await line.open()
    cuts = [0, 7, 500, len(sound)]
    for begin, end in itertools.pairwise(cuts):
        await talk.send("input.audio", audio=coded(sound[begin:end]), format="wav", is_final=end == len(sound))
    await talk.send("input.audio", audio=coded(b"endless"), format="mp3", is_final=False)
    await talk.send("input.audio", audio=coded(b" sound"), format="mp3", is_final=False)
    (message,) = await given(talk)
    clips = [item for item in message["items"] if item["type"] == "audio"]
    assert [clip["sha256"] for clip in clips] == [sha256(sound), sha256(b"endless sound")]
    assert [clip["mimeType"] for clip in clips] == ["audio/wav", "audio/mpeg"]


async def test_check_40_video_reaches_the_model(line: Line) -> None:
    """With its format."""
    film = b"moving pictures" * 100
    talk = await line.open()
    await talk.send("input.video", video=coded(film), format="mp4")
    (message,) = await given(talk)
    video = message["items"][0]
    assert (video["type"], video["mimeType"], video["sha256"]) == ("video", "video/mp4", sha256(film))


async def test_check_41_files_reach_the_model(line: Line) -> None:
    """With their name and type; without a type they are refused."""
    paper = b"%PDF-1.4 paper"
    talk = await line.open()
    await talk.send("input.file", file=coded(paper), filename="paper.pdf", mime_type="application/pdf")
    for missing in ("filename", "mime_type"):
        fields = {"file": coded(paper), "filename": "x.pdf", "mime_type": "application/pdf"}
        del fields[missing]
        refusal = await talk.refusal(await talk.send("input.file", **fields))
        assert refusal.code == "invalid_event"
        assert missing in refusal.message
        told_by(line, refusal, "response.error", 400)
    (message,) = await given(talk)
    file = message["items"][0]
    assert (file["type"], file["mimeType"], file["title"]) == ("document", "application/pdf", "paper.pdf")
    assert hashes(message) == [sha256(paper), None]


async def test_check_42_media_has_a_content_id(uamp: UampServer, line: Line) -> None:
    """The one that it was given, else the one of its URL, else a new UUID; text has none."""
    own, uploaded = new_id(), await upload(uamp, PIXEL, "image/png")
    talk = await line.open()
    await talk.text("look")
    await talk.send("input.image", image=coded(PIXEL), format="png", content_id=own)
    await talk.send("input.image", image=f"/api/content/{uploaded}")
    await talk.send("input.image", image=FAR, format="png", content_id="the client's own")
    await talk.send("input.image", image=FAR, format="png")
    await talk.send("input.audio", audio=coded(b"sound"), format="wav", is_final=True)
    (message,) = await given(talk)
    extras: list[dict[str, Any] | None] = message["metadata"]["uamp"]["items"]
    told = [None if extra is None else extra.get("content_id") for extra in extras]
    assert told[:4] == [None, own, uploaded, "the client's own"]
    assert all(uuid.UUID(ident) for ident in told[4:6])
    assert len(set(told)) == 6
    assert told[6] is None, "text"
    again = await given(talk)
    assert again[0]["metadata"] == message["metadata"], "they stay"


async def test_check_43_typing_reaches_the_others_and_not_the_sender(uamp: UampServer, line: Line) -> None:
    """Those of the same chat, as presence.typing; what the field with the chat was called once is taken, too."""
    chat = new_id()
    async with uamp.line(line.kind, "bob") as another:
        ann, bob, elsewhere = await line.open(chat=chat), await another.open(chat=chat), await another.open()
        await ann.send("input.typing", is_typing=True, chat_id=chat)
        typing = await bob.hear("presence.typing")
        assert (typing["user_id"], typing["is_typing"], typing["chat_id"]) == ("ann", True, chat)
        await ann.send("input.typing", is_typing=False, conversation_id=chat)
        assert (await bob.hear("presence.typing"))["is_typing"] is False
        await ann.pause()
        assert "presence.typing" not in [*ann.types, *elsewhere.types]
    await lives(line, ann)
