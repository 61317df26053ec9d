"""The two forms in which an agent is given what it runs on: an input, or a history and an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from perdure.errors import InvalidInput
from perdure.upp.messages import Message, UserMessage
from perdure.upp.thread import Thread

History: TypeAlias = Sequence[Message] | Thread


def read_input(first: History | str | Message, second: str | Message | None) -> tuple[list[Message], Message]:
    """The history, as a list of its own, and the message.

    Raises:
        InvalidInput: the arguments are not (input) or (history, input).
    """
    if second is None:
        if not isinstance(first, str | Message):
            raise InvalidInput("a history alone lacks the input: give (history, input)")
        return [], _message(first)
    if isinstance(first, str | Message):
        raise InvalidInput("(history, input) takes a list of messages or a Thread first")
    messages = first.messages if isinstance(first, Thread) else first
    return list(messages), _message(second)


def _message(value: str | Message) -> Message:
    return UserMessage(value) if isinstance(value, str) else value
