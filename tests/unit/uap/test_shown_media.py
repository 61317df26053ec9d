"""What a tool returned for the model to see stands behind its results, as far as the model takes it."""

from __future__ import annotations

from datetime import UTC, datetime

from perdure.uap.shown_media import media_to_show, with_shown_media
from perdure.upp.content import ImageBlock, TextBlock
from perdure.upp.media_source import Base64Source
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.provider import LLMCapabilities
from perdure.upp.tool_call import ToolResult
from perdure.upp.tool_media import ToolContent, ToolMedia

A, B, C = (f"550e8400-e29b-41d4-a716-44665544000{place}" for place in range(3))
SEEING = LLMCapabilities(image_input=True)


def thread() -> list[Message]:
    """Two tools have returned: one an image and sound for the model to see, one an image for people."""
    seen = ToolContent(
        (ToolMedia("image/png", b"x", content_id=A), ToolMedia("audio/wav", b"y", content_id=B)), for_model=True
    )
    unseen = ToolContent((ToolMedia("image/png", b"z", content_id=C),))
    results = [ToolResult("1", seen.result("ok")), ToolResult("2", unseen.result(None)), ToolResult("3", "text")]
    made = ToolResultMessage(results, id="m", timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    return [UserMessage("Look."), AssistantMessage("I do."), made, AssistantMessage("Done.")]


def test_only_what_is_for_the_model_is_shown() -> None:
    messages = thread()
    assert media_to_show(messages) == [A, B]
    media = {A: ToolMedia("image/png", b"x", content_id=A), B: ToolMedia("audio/wav", b"y", content_id=B)}
    told = with_shown_media(messages, media, SEEING)
    assert [*told[:3], told[4]] == messages
    assert all(kept is given for kept, given in zip([*told[:3], told[4]], messages, strict=True))
    assert isinstance(told[3], UserMessage)
    assert told[3].content == [
        TextBlock(f"[content {A}]"),
        ImageBlock(Base64Source("eA=="), "image/png"),
        TextBlock(f"[content {B} is audio/wav, which you cannot see]"),
    ]
    assert with_shown_media(messages, media, SEEING)[3] == told[3]


def test_what_is_gone_is_told_in_words() -> None:
    """A conversation goes on although media that it showed was deleted."""
    told = with_shown_media(thread(), {}, SEEING)
    assert told[3].text == f"[content {A} is not there any more]\n\n[content {B} is not there any more]"


def test_without_such_results_nothing_is_added() -> None:
    messages: list[Message] = [UserMessage("x"), ToolResultMessage([ToolResult("1", {"shown_to_model": True})])]
    assert with_shown_media(messages, {}, SEEING) == messages
