"""What the arguments of `generate` and `stream` mean, and which media a provider cannot take."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    UserContent,
    VideoBlock,
)
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.inference import check_media, read_inputs
from perdure.upp.media import Image
from perdure.upp.media_source import Base64Source, TextSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMCapabilities
from perdure.upp.thread import Thread

IMAGE = ImageBlock(Base64Source("aa=="), "image/png")
DOCUMENT = DocumentBlock(TextSource("text"), "text/plain")
AUDIO = AudioBlock(b"a", "audio/wav")
VIDEO = VideoBlock(b"a", "video/mp4")
HISTORY: list[Message] = [UserMessage("one"), AssistantMessage("two")]
UNABLE = LLMCapabilities()


@pytest.mark.parametrize("history", [HISTORY, tuple(HISTORY), Thread(HISTORY)])
def test_a_history_comes_first(history: Any) -> None:
    """A list of messages or a thread; the messages themselves are passed on."""
    read = read_inputs(history, ["three"])
    assert [id(message) for message in read.history] == [id(message) for message in HISTORY]
    assert [message.text for message in read.inputs] == ["three"]


@pytest.mark.parametrize("history", [[], (), Thread()])
def test_an_empty_history_is_a_history(history: Any) -> None:
    """The first message of a conversation needs no special case."""
    read = read_inputs(history, ["one"])
    assert (read.history, [message.text for message in read.inputs]) == ([], ["one"])


def test_a_history_needs_no_input() -> None:
    """Its last message is what the model answers."""
    read = read_inputs(HISTORY, [])
    assert (read.history, read.inputs) == (HISTORY, [])


def test_a_history_is_copied() -> None:
    """What is added here is not added there."""
    history = list(HISTORY)
    read_inputs(history, []).history.append(UserMessage("three"))
    assert history == HISTORY


def test_each_input_is_a_message_of_its_own() -> None:
    """Text, blocks and media become user messages, messages are kept as they are."""
    message, results = UserMessage("four"), ToolResultMessage([])
    read = read_inputs("one", [TextBlock("two"), IMAGE, Image.from_block(IMAGE), message, results])
    assert read.history == []
    made, kept = read.inputs[:4], read.inputs[4:]
    assert [item.content for item in made if isinstance(item, UserMessage)] == [
        [TextBlock("one")],
        [TextBlock("two")],
        [IMAGE],
        [IMAGE],
    ]
    assert kept == [message, results]


@pytest.mark.parametrize("empty", [[], Thread()])
def test_nothing_to_send_is_refused(empty: Any) -> None:
    """An empty history and no input."""
    with pytest.raises(UPPError, match="give at least one input") as caught:
        read_inputs(empty, [])
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([None], "an input must be text, a message, a content block or media, got None"),
        ([7], "got a value of type int; a history goes first"),
        ([b"bytes"], "got a value of type bytes"),
        ([{"type": "text", "text": "hi"}], "got a value of type dict"),
        (["one", HISTORY], "got a value of type list; a history goes first"),
        ([["one", "two"]], "item 0 is a value of type str; give inputs one by one"),
        ([[*HISTORY, "three"], "four"], "item 2 is a value of type str"),
        ([[HISTORY[0].to_json()]], "item 0 is a value of type dict.*message_from_json"),
        ([ReasoningBlock("hm")], "only models write reasoning"),
    ],
)
def test_what_is_neither_is_refused_by_its_type(arguments: list[Any], problem: str) -> None:
    """The error says what was given, where, and what to do."""
    with pytest.raises(UPPError, match=problem) as caught:
        read_inputs(arguments[0], arguments[1:])
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("block", "kind", "able"),
    [
        (IMAGE, "image", LLMCapabilities(image_input=True)),
        (DOCUMENT, "document", LLMCapabilities(document_input=True)),
        (AUDIO, "audio", LLMCapabilities(audio_input=True)),
        (VIDEO, "video", LLMCapabilities(video_input=True)),
        (BinaryBlock(b"a", "image/webp"), "image", LLMCapabilities(image_input=True)),
        (BinaryBlock(b"a", "application/pdf"), "document", LLMCapabilities(document_input=True)),
        (BinaryBlock(b"a", "audio/ogg"), "audio", LLMCapabilities(audio_input=True)),
        (BinaryBlock(b"a", "video/ogg"), "video", LLMCapabilities(video_input=True)),
    ],
)
def test_media_needs_its_capability(block: UserContent, kind: str, able: LLMCapabilities) -> None:
    """With it they pass; without, the error names provider, kind and message."""
    messages = [UserMessage("one"), UserMessage(["see", block], id="m")]
    check_media(messages, able, "fake")
    with pytest.raises(UPPError, match=f"provider 'fake' takes no {kind} input, and message m") as caught:
        check_media(messages, UNABLE, "fake")
    assert (caught.value.code, caught.value.provider) == (ErrorCode.INVALID_REQUEST, "fake")


@pytest.mark.parametrize(
    "message",
    [
        UserMessage([TextBlock("one"), BinaryBlock(b"a", "application/zip"), BinaryBlock(b"a", "")]),
        AssistantMessage([IMAGE, AUDIO, VIDEO]),
    ],
)
def test_what_no_capability_is_about_passes(message: Message) -> None:
    """Binary of other kinds is the adapter's to judge, and what models made is not checked."""
    check_media([message], UNABLE, "fake")
