"""Messages: what a conversation consists of.

Constructing a message without `id` or `timestamp` draws them, so workflow code always passes both. Mapping messages
to a vendor's wire is the providers' part. Source: UPP-1.2, messages.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, cast

from perdure.upp.content import (
    AssistantContent,
    AssistantMedia,
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    UserContent,
    UserMedia,
    VideoBlock,
    block_from_json,
)
from perdure.upp.json_field import invalid, read_list, read_object, read_optional_object, read_str
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.message_parts import Metadata, copy_metadata, to_blocks
from perdure.upp.timestamp import format_timestamp, now, parse_timestamp, to_milliseconds
from perdure.upp.tool_call import ToolCall, ToolResult


class MessageRole(StrEnum):
    """The `type` of a message."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL_RESULT = "tool_result"


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """What all messages have. Every message is a user's, an assistant's or a tool result message.

    This is no `abc.ABC`, which would make each `isinstance` that says no five times as slow: whole conversations are
    looked through before each model call.

    Attributes:
        id: the vendor's id where there is one, else a UUIDv4.
        timestamp: UTC, at millisecond precision.
        metadata: one object per namespace; namespaces that nobody here knows are kept.
    """

    type: ClassVar[MessageRole]
    id: str
    timestamp: datetime
    metadata: dict[str, JSONObject] | None

    def __init__(self) -> None:
        raise TypeError("a message is a UserMessage, an AssistantMessage or a ToolResultMessage")

    def blocks(self) -> Sequence[ContentBlock]:
        """Returns the content as blocks; a tool result message has one text block per result."""
        raise NotImplementedError

    def to_json(self) -> JSONObject:
        """Returns UPP's MessageJSON: `toolCalls` only if there is such a list, `content` empty for tool results."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """All text blocks, joined by a blank line; reasoning is not text."""
        return "\n\n".join(block.text for block in self.blocks() if isinstance(block, TextBlock))

    @property
    def reasoning(self) -> list[ReasoningBlock]:
        """The reasoning blocks, in order."""
        return [block for block in self.blocks() if isinstance(block, ReasoningBlock)]

    @property
    def images(self) -> list[ImageBlock]:
        """The image blocks, in order."""
        return [block for block in self.blocks() if isinstance(block, ImageBlock)]

    @property
    def documents(self) -> list[DocumentBlock]:
        """The document blocks, in order."""
        return [block for block in self.blocks() if isinstance(block, DocumentBlock)]

    @property
    def audio(self) -> list[AudioBlock]:
        """The audio blocks, in order."""
        return [block for block in self.blocks() if isinstance(block, AudioBlock)]

    @property
    def video(self) -> list[VideoBlock]:
        """The video blocks, in order."""
        return [block for block in self.blocks() if isinstance(block, VideoBlock)]


@dataclass(frozen=True, slots=True, init=False)
class UserMessage(Message):
    """What the user says; a string stands for one text block and media for its block, also inside a list."""

    type: ClassVar[MessageRole] = MessageRole.USER
    content: list[ContentBlock]

    def __init__(
        self,
        content: str | UserMedia | UserContent | Sequence[str | UserMedia | UserContent],
        *,
        id: str | None = None,
        timestamp: datetime | None = None,
        metadata: Metadata | None = None,
    ) -> None:
        _set_common(self, id, timestamp, metadata)
        object.__setattr__(self, "content", to_blocks(content))

    def blocks(self) -> Sequence[ContentBlock]:
        return self.content

    def to_json(self) -> JSONObject:
        return _head(self, self.content) | _tail(self)


@dataclass(frozen=True, slots=True, init=False)
class AssistantMessage(Message):
    """What the model says.

    Attributes:
        content: reasoning blocks come before text blocks.
        tool_calls: the calls that the model asks for, in its order; None if the vendor sent no such list.
    """

    type: ClassVar[MessageRole] = MessageRole.ASSISTANT
    content: list[ContentBlock]
    tool_calls: list[ToolCall] | None

    def __init__(
        self,
        content: str | AssistantMedia | AssistantContent | Sequence[str | AssistantMedia | AssistantContent],
        tool_calls: Sequence[ToolCall] | None = None,
        *,
        id: str | None = None,
        timestamp: datetime | None = None,
        metadata: Metadata | None = None,
    ) -> None:
        _set_common(self, id, timestamp, metadata)
        object.__setattr__(self, "content", to_blocks(content))
        object.__setattr__(self, "tool_calls", None if tool_calls is None else list(tool_calls))

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model asks for at least one call."""
        return bool(self.tool_calls)

    def blocks(self) -> Sequence[ContentBlock]:
        return self.content

    def to_json(self) -> JSONObject:
        calls: JSONObject = {}
        if self.tool_calls is not None:
            calls["toolCalls"] = [call.to_json() for call in self.tool_calls]
        return _head(self, self.content) | calls | _tail(self)


@dataclass(frozen=True, slots=True, init=False)
class ToolResultMessage(Message):
    """The results of all calls of one assistant message, in call order."""

    type: ClassVar[MessageRole] = MessageRole.TOOL_RESULT
    results: list[ToolResult]

    def __init__(
        self,
        results: Sequence[ToolResult],
        *,
        id: str | None = None,
        timestamp: datetime | None = None,
        metadata: Metadata | None = None,
    ) -> None:
        _set_common(self, id, timestamp, metadata)
        object.__setattr__(self, "results", list(results))

    def blocks(self) -> Sequence[ContentBlock]:
        return [TextBlock(result.text) for result in self.results]

    def to_json(self) -> JSONObject:
        results: JSONObject = {"results": [result.to_json() for result in self.results]}
        return _head(self, []) | results | _tail(self)


def message_from_json(value: JSONValue) -> UserMessage | AssistantMessage | ToolResultMessage:
    """Returns the message of a MessageJSON; absent `content` and `results` are empty, unknown fields are ignored.

    Raises:
        UPPError: INVALID_REQUEST if the type is unknown or a required field is missing or of another type.
    """
    source, what = read_object(value, "message"), "message"
    kind = read_str(source, "type", what)
    id_, timestamp = read_str(source, "id", what), parse_timestamp(read_str(source, "timestamp", what))
    metadata = cast("dict[str, JSONObject] | None", read_optional_object(source, "metadata", what))
    content = [block_from_json(item) for item in read_list(source, "content", what)]
    match kind:
        case MessageRole.USER:
            user = cast("list[UserContent]", content)
            return UserMessage(user, id=id_, timestamp=timestamp, metadata=metadata)
        case MessageRole.ASSISTANT:
            calls = [ToolCall.from_json(item) for item in read_list(source, "toolCalls", what)]
            given = calls if source.get("toolCalls") is not None else None
            said = cast("list[AssistantContent]", content)
            return AssistantMessage(said, given, id=id_, timestamp=timestamp, metadata=metadata)
        case MessageRole.TOOL_RESULT:
            results = [ToolResult.from_json(item) for item in read_list(source, "results", what)]
            return ToolResultMessage(results, id=id_, timestamp=timestamp, metadata=metadata)
        case _:
            raise invalid(what, f"unknown type {kind!r}; known are {', '.join(MessageRole)}")


def _set_common(message: Message, id_: str | None, timestamp: datetime | None, metadata: Metadata | None) -> None:
    object.__setattr__(message, "id", str(uuid.uuid4()) if id_ is None else id_)
    object.__setattr__(message, "timestamp", now() if timestamp is None else to_milliseconds(timestamp))
    object.__setattr__(message, "metadata", None if metadata is None else copy_metadata(metadata))


def _head(message: Message, content: Sequence[ContentBlock]) -> JSONObject:
    return {"id": message.id, "type": str(message.type), "content": [block.to_json() for block in content]}


def _tail(message: Message) -> JSONObject:
    metadata: JSONObject = {} if message.metadata is None else {"metadata": cast(JSONObject, message.metadata)}
    return metadata | {"timestamp": format_timestamp(message.timestamp)}
