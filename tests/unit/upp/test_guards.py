"""Type guards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.upp import guards
from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    TextBlock,
    VideoBlock,
)
from perdure.upp.media_source import UrlSource
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage, UserMessage

BLOCKS: list[tuple[Callable[[ContentBlock], bool], ContentBlock]] = [
    (guards.is_text_block, TextBlock("")),
    (guards.is_reasoning_block, ReasoningBlock("")),
    (guards.is_image_block, ImageBlock(UrlSource(""), "")),
    (guards.is_document_block, DocumentBlock(UrlSource(""), "")),
    (guards.is_audio_block, AudioBlock(b"", "")),
    (guards.is_video_block, VideoBlock(b"", "")),
    (guards.is_binary_block, BinaryBlock(b"", "")),
]
MESSAGES: list[tuple[Callable[[Message], bool], Message]] = [
    (guards.is_user_message, UserMessage("")),
    (guards.is_assistant_message, AssistantMessage("")),
    (guards.is_tool_result_message, ToolResultMessage([])),
]


@pytest.mark.parametrize(("guard", "own"), BLOCKS)
def test_a_block_guard_knows_its_own_type_only(guard: Callable[[ContentBlock], bool], own: ContentBlock) -> None:
    """Each guard holds for one type."""
    assert [block for _, block in BLOCKS if guard(block)] == [own]


@pytest.mark.parametrize(("guard", "own"), MESSAGES)
def test_a_message_guard_knows_its_own_type_only(guard: Callable[[Message], bool], own: Message) -> None:
    """Each guard holds for one type."""
    assert [message for _, message in MESSAGES if guard(message)] == [own]
