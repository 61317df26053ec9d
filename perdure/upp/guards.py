"""Type guards of content blocks and messages; they go by `type`, as UPP says, and narrow for type checkers."""

from __future__ import annotations

from typing_extensions import TypeIs

from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    ContentBlock,
    ContentBlockType,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    VideoBlock,
)
from perdure.upp.messages import AssistantMessage, Message, MessageRole, ToolResultMessage, UserMessage


def is_text_block(block: ContentBlock) -> TypeIs[TextBlock]:
    """Whether the block is text."""
    return block.type == ContentBlockType.TEXT


def is_reasoning_block(block: ContentBlock) -> TypeIs[ReasoningBlock]:
    """Whether the block is reasoning."""
    return block.type == ContentBlockType.REASONING


def is_image_block(block: ContentBlock) -> TypeIs[ImageBlock]:
    """Whether the block is an image."""
    return block.type == ContentBlockType.IMAGE


def is_document_block(block: ContentBlock) -> TypeIs[DocumentBlock]:
    """Whether the block is a document."""
    return block.type == ContentBlockType.DOCUMENT


def is_audio_block(block: ContentBlock) -> TypeIs[AudioBlock]:
    """Whether the block is sound."""
    return block.type == ContentBlockType.AUDIO


def is_video_block(block: ContentBlock) -> TypeIs[VideoBlock]:
    """Whether the block is moving pictures."""
    return block.type == ContentBlockType.VIDEO


def is_binary_block(block: ContentBlock) -> TypeIs[BinaryBlock]:
    """Whether the block is bytes of another kind."""
    return block.type == ContentBlockType.BINARY


def is_user_message(message: Message) -> TypeIs[UserMessage]:
    """Whether the message is the user's."""
    return message.type == MessageRole.USER


def is_assistant_message(message: Message) -> TypeIs[AssistantMessage]:
    """Whether the message is the model's."""
    return message.type == MessageRole.ASSISTANT


def is_tool_result_message(message: Message) -> TypeIs[ToolResultMessage]:
    """Whether the message carries tool results."""
    return message.type == MessageRole.TOOL_RESULT
