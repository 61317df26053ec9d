"""Media of a conversation by its ids: told to the model, found again, handed on."""

from __future__ import annotations

from typing import Any, cast

import pytest

from perdure.errors import InvalidInput
from perdure.uap.attachments import attached, task_message, told_ids
from perdure.uap.content_refs import content_path
from perdure.uap.ids import derive_id
from perdure.uap.scaffold import prompt_message
from perdure.upp.content import AudioBlock, DocumentBlock, ImageBlock, TextBlock
from perdure.upp.media_source import Base64Source, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolResult
from perdure.upp.tool_media import ToolMedia

STORED, NAMED, MADE, SOUND = (derive_id("test", name) for name in ("stored", "named", "made", "sound"))
REFERENCE = ImageBlock(UrlSource(content_path(STORED)), "image/png")
INLINE = ImageBlock(Base64Source("aGk="), "image/png")
AUDIO = AudioBlock(b"hi", "audio/wav")


class Contents:
    """Media that is stored."""

    max_bytes = 1000

    def __init__(self, *media: ToolMedia) -> None:
        self._media = {item.content_id: item for item in media}

    async def find(self, content_id: str) -> ToolMedia | None:
        found = self._media.get(content_id.lower())
        return found and ToolMedia(found.media_type, content_id=found.content_id, filename=found.filename)

    async def read(self, content_id: str) -> ToolMedia | None:
        return self._media.get(content_id.lower())


KEPT = Contents(
    ToolMedia("image/png", b"png", content_id=STORED),
    ToolMedia("image/png", b"made", content_id=MADE),
    ToolMedia("audio/wav", b"sound", content_id=SOUND),
)


def conversation() -> list[Message]:
    items: Any = [None, None, {"content_id": NAMED}]
    made = {"result": "done", "content_items": [
        {"type": "image", "content_id": MADE, "media_type": "image/png"},
        {"type": "audio", "content_id": SOUND, "media_type": "audio/wav"},
    ]}  # fmt: skip
    return [
        UserMessage([TextBlock("see"), REFERENCE, INLINE], metadata={"uamp": {"items": items}}),
        AssistantMessage("painting"),
        ToolResultMessage([ToolResult("c", cast(Any, made))]),
        AssistantMessage([TextBlock("there"), INLINE], id="answer"),
        UserMessage("thanks", id="last"),
    ]


def test_a_model_is_told_the_ids_behind_the_media() -> None:
    """Of what it made itself in the user's next message; what has none stays the very object."""
    given = conversation()
    told = told_ids(given)
    assert told[0].blocks()[:3] == given[0].blocks()
    assert told[0].blocks()[3:] == [
        TextBlock(f"[content ids of the media in this message, in order: {STORED}, {NAMED}]")
    ]
    assert told[1:4] == given[1:4]
    assert all(one is other for one, other in zip(told[1:4], given[1:4], strict=True))
    own = derive_id("answer", "content", 1)
    assert told[4].text == f"thanks\n\n[content ids of the media that you made before, in order: {own}]"
    assert (told[4].id, told[0].metadata) == ("last", given[0].metadata)


def test_a_strategy_s_own_words_are_left_as_they_are() -> None:
    given = [AssistantMessage([INLINE]), prompt_message("think"), UserMessage("go on")]
    told = told_ids(given)
    assert told[1] is given[1]
    assert "that you made before" in told[2].text


async def test_media_is_found_by_each_of_its_ids() -> None:
    own = derive_id("answer", "content", 1)
    blocks = await attached(conversation(), [STORED.upper(), NAMED, MADE, SOUND, own, NAMED], KEPT)
    assert blocks[:3] == [REFERENCE, INLINE, ImageBlock(UrlSource(content_path(MADE)), "image/png")]
    assert blocks[3:] == [AudioBlock(b"sound", "audio/wav"), INLINE]
    assert await attached([], None, None) == []


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([NAMED[:-1] + "0"], f"no content .* to attach; it has {STORED}, {NAMED}, {MADE}, {SOUND}"),
        ("x", "must be a list of content ids"),
        ([1], "must be a list of content ids"),
        (["x"] * 33, "33 attachments are too many; 32"),
    ],
)
async def test_what_is_not_there_cannot_be_attached(ids: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        await attached(conversation(), ids, KEPT)


async def test_what_is_gone_cannot_be_attached() -> None:
    for ident in (STORED, MADE):
        with pytest.raises(InvalidInput, match="never stored, or is deleted"):
            await attached(conversation(), [ident], Contents())
    with pytest.raises(InvalidInput, match="cannot be reached"):
        await attached(conversation(), [MADE], None)


def test_a_task_keeps_the_ids_of_its_media() -> None:
    """So that whoever does it can hand it on under the same."""
    document = DocumentBlock(UrlSource(content_path(STORED)), "application/pdf")
    message = task_message("read", [STORED, NAMED, STORED], [document, AUDIO])
    assert message.blocks() == [TextBlock("read"), document, AUDIO]
    line = f"[content ids of the media in this message, in order: {STORED}, {NAMED}]"
    assert told_ids([message])[0].blocks()[-1] == TextBlock(line)
    assert task_message("plain", None, []).to_json()["content"] == UserMessage("plain").to_json()["content"]
