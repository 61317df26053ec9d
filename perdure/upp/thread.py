"""A conversation as a list of messages that grows. Source: UPP-1.2, Thread."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from perdure.upp.content import AssistantContent, AssistantMedia, UserContent, UserMedia
from perdure.upp.json_field import read_list, read_object, read_optional_str, read_str
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.messages import AssistantMessage, Message, MessageRole, UserMessage, message_from_json
from perdure.upp.timestamp import format_timestamp, now, parse_timestamp, to_milliseconds
from perdure.upp.turn import Turn


class Thread:
    """An ordered, growing list of messages; every change but the first fill moves `updated_at`.

    Attributes:
        id: a UUIDv4 unless given.
        created_at: UTC, at millisecond precision.
        updated_at: UTC, at millisecond precision.
    """

    def __init__(
        self,
        messages: Iterable[Message] = (),
        *,
        id: str | None = None,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
    ) -> None:
        self._messages = list(messages)
        self.id = str(uuid.uuid4()) if id is None else id
        self.created_at = now() if created_at is None else to_milliseconds(created_at)
        self.updated_at = self.created_at if updated_at is None else to_milliseconds(updated_at)

    @property
    def messages(self) -> list[Message]:
        """The messages, oldest first, as a copy."""
        return list(self._messages)

    @property
    def length(self) -> int:
        """The number of messages; `len(thread)` too."""
        return len(self._messages)

    def append(self, turn: Turn) -> Thread:
        """Adds all messages of a turn; returns the thread itself."""
        return self.push(*turn.messages)

    def push(self, *messages: Message) -> Thread:
        """Adds messages; returns the thread itself."""
        self._messages.extend(messages)
        self.updated_at = now()
        return self

    def user(self, content: str | UserMedia | UserContent | Sequence[str | UserMedia | UserContent]) -> Thread:
        """Adds a new user message; returns the thread itself."""
        return self.push(UserMessage(content))

    def assistant(
        self, content: str | AssistantMedia | AssistantContent | Sequence[str | AssistantMedia | AssistantContent]
    ) -> Thread:
        """Adds a new assistant message; returns the thread itself."""
        return self.push(AssistantMessage(content))

    def filter(self, type: MessageRole | str) -> list[Message]:
        """Returns the messages of a type, oldest first."""
        return [message for message in self._messages if message.type == type]

    def tail(self, count: int) -> list[Message]:
        """Returns the last `count` messages, oldest first; none for 0 or less."""
        return self._messages[-count:] if count > 0 else []

    def slice(self, start: int | None = None, end: int | None = None) -> Thread:
        """Returns a new thread, with an id of its own, that holds a range of the messages as Python slices do."""
        return Thread(self._messages[start:end])

    def clear(self) -> Thread:
        """Removes all messages; returns the thread itself."""
        self._messages.clear()
        self.updated_at = now()
        return self

    def to_messages(self) -> list[Message]:
        """Returns the messages, oldest first, as a copy."""
        return list(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __bool__(self) -> bool:
        return True  # an empty thread is a thread: `thread or other` must not drop it

    def to_json(self) -> JSONObject:
        """Returns UPP's ThreadJSON."""
        return {
            "id": self.id,
            "messages": [message.to_json() for message in self._messages],
            "createdAt": format_timestamp(self.created_at),
            "updatedAt": format_timestamp(self.updated_at),
        }

    @classmethod
    def from_json(cls, value: JSONValue) -> Thread:
        """Returns the thread of a ThreadJSON; absent dates are now, as UAP's own example leaves them out.

        Raises:
            UPPError: INVALID_REQUEST if the value is no such object or a message cannot be read.
        """
        source, what = read_object(value, "thread"), "thread"
        created, updated = (read_optional_str(source, name, what) for name in ("createdAt", "updatedAt"))
        return cls(
            [message_from_json(item) for item in read_list(source, "messages", what)],
            id=read_str(source, "id", what),
            created_at=None if created is None else parse_timestamp(created),
            updated_at=None if updated is None else parse_timestamp(updated),
        )
