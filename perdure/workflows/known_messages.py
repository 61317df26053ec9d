"""The messages that a strategy of the user's own may send: which of them are in the store, and under which name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.errors import StrategyError
from perdure.upp.json_value import JSONObject, dumps
from perdure.upp.messages import AssistantMessage, Message, ToolResultMessage

MOST_BYTES = 64 * 1024
"""Of one message of the strategy's own: it travels with each call that sends it, and histories keep it."""


@dataclass(frozen=True, slots=True)
class _Known:
    message: Message
    row: str = ""
    place: int = -1


class KnownMessages:
    """Messages of the store as the strategy was given them, cut.

    Vendors may use an id twice, and a strategy may change a message and keep its id, so the whole message is compared.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, list[_Known]] = {}
        self._rows: list[tuple[int, str]] = []

    def add_history(self, messages: Sequence[Message]) -> None:
        """Know the messages before the run."""
        for place, message in enumerate(messages):
            self._add(_Known(message, place=place))

    def add_row(self, message: Message, row: str, position: int) -> None:
        """Know a message of the run by the id of its row."""
        self._add(_Known(message, row=row))
        self._rows.append((position, row))

    @property
    def rows(self) -> list[str]:
        """The rows of the run, by position."""
        return [row for _, row in sorted(self._rows)]

    def row_of(self, message: Message) -> str | None:
        """The row of a message of the run."""
        known = self._find(message)
        return known.row or None if known is not None else None

    def text(self, text: str) -> dict[str, Any]:
        """A text that a model may have written: {"id": row of the answer that says it}, else {"text": itself}."""
        for known in self._in_run():
            if isinstance(known.message, AssistantMessage) and known.message.text == text:
                return {"id": known.row}
        return {"text": text}

    def part(self, items: Sequence[JSONObject]) -> dict[str, Any] | None:
        """Tool calls or results that a message of the run may hold: {"id": its row}, else {"items": themselves}."""
        if not items:
            return None
        for known in self._in_run():
            message = known.message
            calls = message.tool_calls or [] if isinstance(message, AssistantMessage) else []
            results = message.results if isinstance(message, ToolResultMessage) else []
            if [item.to_json() for item in (*calls, *results)] == items:
                return {"id": known.row}
        return {"items": items}

    def _in_run(self) -> list[_Known]:
        return [known for same in self._by_id.values() for known in same if known.row]

    def items(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The messages by name where they have one, see `perdure.activities.conversation.resolve`.

        Raises:
            StrategyError: one that has none is too long.
        """
        items: list[dict[str, Any]] = []
        for message in messages:
            known = self._find(message)
            if known is None:
                items.append({"message": _checked(message)})
            elif known.row:
                items.append({"id": known.row})
            elif items and items[-1].get("before", [0, -1])[1] == known.place:
                items[-1] = {"before": [items[-1]["before"][0], known.place + 1]}
            else:
                items.append({"before": [known.place, known.place + 1]})
        return items

    def _add(self, known: _Known) -> None:
        self._by_id.setdefault(known.message.id, []).append(known)

    def _find(self, message: Message) -> _Known | None:
        same = self._by_id.get(message.id, [])
        for known in same:
            if known.message is message:
                return known
        return next((known for known in same if known.message.to_json() == message.to_json()), None)


def _checked(message: Message) -> JSONObject:
    made = message.to_json()
    size = len(dumps(made))
    if size > MOST_BYTES:
        raise StrategyError(
            f"the strategy made a message of {size} bytes; in a durable run one of its own has at most {MOST_BYTES}. What "
            "is longer belongs into a tool's result, or into the input"
        )
    return made
