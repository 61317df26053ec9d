"""What an inference is given: a history and inputs, in the forms that `generate` and `stream` take.

Source: UPP-1.2, LLMInstance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from perdure.upp.content import (
    AudioBlock,
    BinaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ReasoningBlock,
    StandsForBlock,
    UserContent,
    UserMedia,
    VideoBlock,
)
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.messages import Message, UserMessage
from perdure.upp.provider import LLMCapabilities
from perdure.upp.thread import Thread

InferenceInput: TypeAlias = str | Message | UserContent | UserMedia
History: TypeAlias = Sequence[Message] | Thread

_BINARY_KINDS = {"image": "image", "audio": "audio", "video": "video", "application/pdf": "document"}


@dataclass(frozen=True, slots=True)
class Conversation:
    """What was said before, and what is new; each oldest first."""

    history: list[Message]
    inputs: list[Message]


def read_inputs(first: object, rest: Sequence[object]) -> Conversation:
    """Returns what the arguments of `generate` and `stream` mean; each input becomes a message of its own.

    Args:
        first: a history (a Thread, or a list of messages, which may be empty) or an input.
        rest: the other inputs: text, messages, content blocks or media.

    Raises:
        UPPError: INVALID_REQUEST if an argument is neither, or nothing is to be sent.
    """
    history = _history(first)
    inputs = rest if history is not None else (first, *rest)
    read = Conversation(history or [], [_message(item) for item in inputs])
    if not read.history and not read.inputs:
        raise _invalid("the history is empty and there is no input; give at least one input after it")
    return read


def check_media(messages: Iterable[Message], capabilities: LLMCapabilities, provider: str) -> None:
    """Refuses media that the provider cannot take; binary blocks count as what their MIME type says.

    Raises:
        UPPError: INVALID_REQUEST if a user message holds such media.
    """
    able = {
        "image": capabilities.image_input,
        "document": capabilities.document_input,
        "audio": capabilities.audio_input,
        "video": capabilities.video_input,
    }
    for message in messages:
        for block in message.content if isinstance(message, UserMessage) else ():
            kind = _kind(block)
            if not able.get(kind, True):
                raise UPPError(
                    f"provider '{provider}' takes no {kind} input, and message {message.id} holds some; "
                    "leave it out or use a model of another provider",
                    ErrorCode.INVALID_REQUEST,
                    provider,
                )


def _history(first: object) -> list[Message] | None:
    messages = cast(object, getattr(first, "messages", None))
    given = cast(object, messages if isinstance(messages, list | tuple) else first)
    if not isinstance(given, list | tuple):
        return None
    read: list[Message] = []
    for index, item in enumerate(cast("Sequence[object]", given)):
        if not isinstance(item, Message):
            raise _invalid(
                f"the first argument is a list, so it is the history and holds messages only; item {index} is "
                f"{_named(item)}; give inputs one by one, and read stored messages with message_from_json"
            )
        read.append(item)
    return read


def _message(given: object) -> Message:
    if isinstance(given, Message):
        return given
    if isinstance(given, str):
        return UserMessage(given)
    if isinstance(given, ReasoningBlock):
        raise _invalid("a reasoning block is no input; only models write reasoning")
    if isinstance(given, UserContent | StandsForBlock):
        return UserMessage([cast("UserContent | UserMedia", given)])
    raise _invalid(
        f"an input must be text, a message, a content block or media, got {_named(given)}; a history goes first"
    )


def _kind(block: ContentBlock) -> str:
    match block:
        case ImageBlock():
            return "image"
        case DocumentBlock():
            return "document"
        case AudioBlock():
            return "audio"
        case VideoBlock():
            return "video"
        case BinaryBlock(mime_type=mime_type):
            return _BINARY_KINDS.get(mime_type) or _BINARY_KINDS.get(mime_type.partition("/")[0], "")
        case _:
            return ""


def _named(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _invalid(problem: str) -> UPPError:
    return UPPError(problem, ErrorCode.INVALID_REQUEST)
