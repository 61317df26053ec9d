"""Who repeats a conversation has other ids and times than we: what counts is what was said."""

from __future__ import annotations

import pytest

from perdure.uap.same_said import says_nothing, says_same
from perdure.uap.stage_place import StagePlace, stage_result
from perdure.upp.content import AudioBlock, DocumentBlock, ImageBlock, ReasoningBlock, TextBlock, VideoBlock
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from perdure.upp.tool_call import ToolCall, ToolResult

STORED = "0f8fad5b-d9cb-4f7e-a7a1-b6c1d5d0a3e2"


def image(url: str) -> ImageBlock:
    return ImageBlock(UrlSource(url), "image/png")


def results(*values: ToolResult) -> ToolResultMessage:
    return ToolResultMessage(list(values))


SAME: dict[str, tuple[Message, Message]] = {
    "text": (UserMessage("hello"), UserMessage("hello", metadata={"uamp": {"name": "Ann"}})),
    "text in blocks, run on": (AssistantMessage([TextBlock("a"), TextBlock("b")]), AssistantMessage("ab")),
    "text in blocks, apart": (AssistantMessage([TextBlock("a"), TextBlock("b")]), AssistantMessage("a\n\nb")),
    "reasoning": (AssistantMessage([ReasoningBlock("hm"), TextBlock("yes")]), AssistantMessage("yes")),
    "calls": (
        AssistantMessage("", [ToolCall("c", "add", {"a": 1, "b": 2})]),
        AssistantMessage("", [ToolCall("c", "add", {"b": 2, "a": 1})]),
    ),
    "call id": (AssistantMessage("", [ToolCall("c", "add", {})]), AssistantMessage("", [ToolCall("d", "add", {})])),
    "result's call id": (results(ToolResult("c", 1)), results(ToolResult("d", 1))),
    "arguments as text": (
        AssistantMessage("", [ToolCall("c", "add", {"a": [1.5, None]})]),
        AssistantMessage("", [ToolCall("c", "add", '{"a": [1.5, null]}')]),
    ),
    "results": (results(ToolResult("c", {"x": 1})), results(ToolResult("c", '{"x":1}'))),
    "a number's text": (results(ToolResult("c", "42")), results(ToolResult("c", 42))),
    "a stage's words": (
        results(ToolResult("c", stage_result("paid", StagePlace("done", "f" * 64)))),
        results(ToolResult("c", "paid")),
    ),
    "a signed URL": (
        UserMessage([image(f"/api/content/{STORED}")]),
        UserMessage([image(f"https://here.example/api/content/{STORED.upper()}?expires=1&signature=x")]),
    ),
    "bytes": (
        UserMessage([ImageBlock(Base64Source("aGk="), "image/png")]),
        UserMessage([ImageBlock(BytesSource(b"hi"), "image/jpeg")]),
    ),
    "a document": (
        UserMessage([DocumentBlock(TextSource("hi"), "text/plain")]),
        UserMessage([DocumentBlock(Base64Source("aGk="), "application/pdf", "title")]),
    ),
}
OTHER: dict[str, tuple[Message, Message]] = {
    "role": (UserMessage("hello"), AssistantMessage("hello")),
    "text": (UserMessage("hello"), UserMessage("hello ")),
    "tool": (AssistantMessage("", [ToolCall("c", "add", {})]), AssistantMessage("", [ToolCall("c", "sub", {})])),
    "arguments": (AssistantMessage("", [ToolCall("c", "a", {})]), AssistantMessage("", [ToolCall("c", "a", "{")])),
    "one call more": (AssistantMessage("yes", [ToolCall("c", "add", {})]), AssistantMessage("yes")),
    "result": (results(ToolResult("c", "yes")), results(ToolResult("c", "no"))),
    "an error": (results(ToolResult("c", "yes")), results(ToolResult("c", "yes", is_error=True))),
    "one result more": (results(ToolResult("c", 1), ToolResult("d", 1)), results(ToolResult("c", 1))),
    "one image more": (UserMessage(["see", image("https://a.example/1")]), UserMessage("see")),
    "another image": (UserMessage([image("https://a.example/1")]), UserMessage([image("https://a.example/2")])),
    "another kind": (UserMessage([AudioBlock(b"hi", "audio/wav")]), UserMessage([VideoBlock(b"hi", "video/mp4")])),
    "bytes": (UserMessage([AudioBlock(b"hi", "audio/wav")]), UserMessage([AudioBlock(b"ho", "audio/wav")])),
    "no base64": (
        UserMessage([ImageBlock(Base64Source("?"), "image/png")]),
        UserMessage([ImageBlock(Base64Source("!"), "image/png")]),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_says_the_same(name: str) -> None:
    one, other = SAME[name]
    assert says_same(one, other)
    assert says_same(other, one)


@pytest.mark.parametrize("name", OTHER)
def test_what_does_not(name: str) -> None:
    one, other = OTHER[name]
    assert not says_same(one, other)
    assert not says_same(other, one)


def test_an_answer_that_was_cut_before_its_first_word_says_nothing() -> None:
    assert says_nothing(AssistantMessage([ReasoningBlock("hm")]))
    assert says_nothing(AssistantMessage(""))
    assert not says_nothing(AssistantMessage("", [ToolCall("c", "add", {})]))
    assert not says_nothing(UserMessage([image("https://a.example/1")]))
