"""Messages."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from perdure.upp.content import ImageBlock, ReasoningBlock, TextBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.json_value import JSONValue, dumps, loads
from perdure.upp.media_source import UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, message_from_json
from perdure.upp.tool_call import ToolCall, ToolResult
from tests.unit.upp import strategies as upp

WHEN = datetime(2026, 1, 6, 17, 27, tzinfo=UTC)
IMAGE = ImageBlock(UrlSource("https://x.y/z.png"), "image/png")


@given(upp.messages)
def test_a_message_survives_json(message: Message) -> None:
    """Id, timestamp, metadata and content are read back equal."""
    assert message_from_json(loads(dumps(message.to_json()))) == message


@given(upp.messages)
def test_a_message_is_written_the_same_again(message: Message) -> None:
    """The bytes of a stored message have one form, so its hash holds."""
    data = dumps(message.to_json())
    assert dumps(message_from_json(loads(data)).to_json()) == data


@given(upp.messages)
def test_a_message_can_be_copied(message: Message) -> None:
    """Copies and pickles are equal."""
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301  # our own bytes


def test_a_string_is_one_text_block() -> None:
    """The usual way to write a message."""
    assert UserMessage("hi").content == [TextBlock("hi")]
    assert AssistantMessage("hi").content == [TextBlock("hi")]


def test_strings_may_stand_between_blocks() -> None:
    """Text beside media needs no block of its own."""
    assert UserMessage([IMAGE, "explain"]).content == [IMAGE, TextBlock("explain")]


def test_a_new_message_has_a_uuid4_and_a_time() -> None:
    """What the caller does not give is drawn."""
    before = datetime.now(UTC)
    message = UserMessage("hi")
    assert uuid.UUID(message.id).version == 4
    assert abs((message.timestamp - before).total_seconds()) < 60
    assert message.id != UserMessage("hi").id


def test_given_values_are_kept() -> None:
    """An id of a vendor stays; time is cut to milliseconds."""
    moment = WHEN.replace(microsecond=123_999)
    message = AssistantMessage("hi", id="msg_01", timestamp=moment, metadata={"anthropic": {"model": "m"}})
    assert message.id == "msg_01"
    assert message.timestamp == WHEN.replace(microsecond=123_000)
    assert message.metadata == {"anthropic": {"model": "m"}}


def test_an_empty_id_is_kept() -> None:
    """Only None means that an id is drawn."""
    assert UserMessage("hi", id="").id == ""


def test_a_message_cannot_be_changed() -> None:
    """Messages are shared between threads and caches."""
    message = UserMessage("hi")
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.id = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_message_can_be_replaced_in_part() -> None:
    """dataclasses.replace keeps the other fields."""
    message = AssistantMessage([ReasoningBlock("r")], [ToolCall("c", "t", {})], id="a", timestamp=WHEN)
    other = dataclasses.replace(message, id="b")
    assert other == AssistantMessage([ReasoningBlock("r")], [ToolCall("c", "t", {})], id="b", timestamp=WHEN)


def test_the_callers_lists_are_copied() -> None:
    """A list that goes on growing does not change the message."""
    content = ["a"]
    metadata: dict[str, dict[str, object]] = {"app": {"tags": ["x"]}}
    message = UserMessage(content, metadata=metadata)
    content.append("b")
    metadata["app"]["tags"] = []
    assert message.text == "a"
    assert message.metadata == {"app": {"tags": ["x"]}}


def test_text_is_joined_by_blank_lines_without_reasoning() -> None:
    """Reasoning is not text."""
    message = AssistantMessage([ReasoningBlock("r"), "a", "b"])
    assert message.text == "a\n\nb"
    assert message.reasoning == [ReasoningBlock("r")]


def test_media_are_listed_by_kind() -> None:
    """Each kind has its own list."""
    message = UserMessage([IMAGE, "x"])
    assert (message.images, message.documents, message.audio, message.video) == ([IMAGE], [], [], [])


@pytest.mark.parametrize(("calls", "expected"), [(None, False), ([], False), ([ToolCall("c", "t", {})], True)])
def test_an_empty_list_is_no_tool_call(calls: list[ToolCall] | None, expected: bool) -> None:
    """has_tool_calls means at least one."""
    assert AssistantMessage("", calls).has_tool_calls is expected


def test_the_text_of_results_is_text_or_json() -> None:
    """A string result stands for itself, anything else for its JSON."""
    message = ToolResultMessage([ToolResult("a", "plain"), ToolResult("b", {"x": [1]}), ToolResult("c", None)])
    assert message.text == 'plain\n\n{"x":[1]}\n\nnull'


def test_the_json_of_a_user_message() -> None:
    """Names and order are MessageJSON's."""
    message = UserMessage("hi", id="m", timestamp=WHEN, metadata={"uap": {"k": 1}})
    assert list(message.to_json().items()) == [
        ("id", "m"),
        ("type", "user"),
        ("content", [{"type": "text", "text": "hi"}]),
        ("metadata", {"uap": {"k": 1}}),
        ("timestamp", "2026-01-06T17:27:00.000Z"),
    ]


def test_the_json_of_results_has_empty_content() -> None:
    """A tool result message writes content as [] for strict readers."""
    value = ToolResultMessage([ToolResult("c", 1)], id="m", timestamp=WHEN).to_json()
    assert value["content"] == []
    assert value["results"] == [{"toolCallId": "c", "result": 1, "isError": False}]


@pytest.mark.parametrize("kind", ["user", "assistant", "tool_result"])
def test_content_and_results_may_be_absent(kind: str) -> None:
    """What the specification's schema does not require may be missing."""
    message = message_from_json({"type": kind, "id": "m", "timestamp": "2026-01-06T17:27:00Z"})
    assert message.text == ""
    assert message.type == kind


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"type": "system"}, "unknown type 'system'; known are user, assistant, tool_result"),
        ({"id": None}, "'id'"),
        ({"timestamp": "never"}, "timestamp"),
        ({"content": "text"}, "'content'"),
        ({"metadata": []}, "'metadata'"),
    ],
)
def test_what_is_no_message_is_an_invalid_request(change: dict[str, JSONValue], problem: str) -> None:
    """A message that cannot be read says why."""
    value: dict[str, JSONValue] = {"type": "user", "id": "m", "content": [], "timestamp": "2026-01-06T17:27:00Z"}
    with pytest.raises(UPPError, match=problem) as caught:
        message_from_json(value | change)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("content", [[1], [None], [{"type": "text", "text": "x"}], [b"x"]])
def test_content_that_is_no_block_is_refused(content: Any) -> None:
    """A mistake shows where it is made, not when the message is stored."""
    with pytest.raises(UPPError, match="content must be text or content blocks"):
        UserMessage(content)


@pytest.mark.parametrize("metadata", [{"app": {1: "x"}}, {"app": {"f": print}}])
def test_metadata_that_is_not_json_is_refused(metadata: Any) -> None:
    """Metadata is stored with the message, so it must be JSON from the start."""
    with pytest.raises(UPPError, match=r"message metadata: \$\.app"):
        UserMessage("hi", metadata=metadata)


def test_metadata_whose_namespace_is_no_object_is_refused() -> None:
    """Adapters read their own namespace; what is no object there would break each later request."""
    with pytest.raises(UPPError, match="the namespace 'anthropic' must be an object") as raised:
        message_from_json({**UserMessage("x").to_json(), "metadata": {"anthropic": 5}})
    assert raised.value.code is ErrorCode.INVALID_REQUEST
