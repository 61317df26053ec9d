"""Content items, and messages made of them. Source: UAMP 1.0, sections 8.4 and 8.5."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from perdure.protocols.uamp_events.media import Media
from perdure.protocols.uamp_events.wire import WireModel


class TextItem(WireModel):
    """Text; it has no content id."""

    type: Literal["text"] = "text"
    text: str


class ImageItem(WireModel):
    """An image."""

    type: Literal["image"] = "image"
    image: Media
    format: str | None = None
    detail: str | None = None
    alt_text: str | None = None
    content_id: str | None = None


class AudioItem(WireModel):
    """Sound."""

    type: Literal["audio"] = "audio"
    audio: Media
    format: str | None = None
    duration_ms: int | float | None = None
    content_id: str | None = None


class VideoItem(WireModel):
    """Moving pictures."""

    type: Literal["video"] = "video"
    video: Media
    format: str | None = None
    duration_ms: int | float | None = None
    thumbnail: str | None = None
    content_id: str | None = None


class FileItem(WireModel):
    """A file of any kind."""

    type: Literal["file"] = "file"
    file: Media
    filename: str
    mime_type: str
    size_bytes: int | None = None
    content_id: str | None = None


class CalledTool(WireModel):
    """A call of a tool; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


class ToolCallItem(WireModel):
    """A tool call inside content; nested, as the specification has it."""

    type: Literal["tool_call"] = "tool_call"
    tool_call: CalledTool


class ToolAnswer(WireModel):
    """What a tool returned; `result` is JSON text."""

    call_id: str
    result: str
    is_error: bool | None = None
    content_items: list[ContentItem] | None = None


class ToolResultItem(WireModel):
    """A tool's result inside content."""

    type: Literal["tool_result"] = "tool_result"
    tool_result: ToolAnswer


MediaItem: TypeAlias = ImageItem | AudioItem | VideoItem | FileItem
ContentItem: TypeAlias = Annotated[
    TextItem | ImageItem | AudioItem | VideoItem | FileItem | ToolCallItem | ToolResultItem,
    Field(discriminator="type"),
]


class FunctionCall(WireModel):
    """Name and JSON text of the arguments, as OpenAI nests them."""

    name: str
    arguments: str


class MessageToolCall(WireModel):
    """A tool call of an assistant message: nested as OpenAI's, or flat as a tool_call item's."""

    id: str
    type: str | None = None
    function: FunctionCall | None = None
    name: str | None = None
    arguments: str | None = None

    def called(self) -> CalledTool:
        """The call, whichever form it came in."""
        name = self.function.name if self.function else self.name or ""
        arguments = self.function.arguments if self.function else self.arguments or "{}"
        return CalledTool(id=self.id, name=name, arguments=arguments)


class WireMessage(WireModel):
    """A message of a conversation that is handed over whole."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    content_items: list[ContentItem] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[MessageToolCall] | None = None

    def items(self) -> list[ContentItem]:
        """Its content as items; `content` alone is one text item."""
        if self.content_items is not None:
            return list(self.content_items)
        return [TextItem(text=self.content)] if self.content else []

    def text(self) -> str:
        """Its text."""
        if self.content is not None:
            return self.content
        return "\n\n".join(item.text for item in self.items() if isinstance(item, TextItem))


ToolAnswer.model_rebuild()
