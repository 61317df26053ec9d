"""The tool calls of a stream, put together from their pieces as all kinds of servers send them."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.upp.json_value import JSONValue, dumps
from perdure.upp.providers._tool_calls import new_call_id
from perdure.upp.providers.openai_completions.schema import Call
from perdure.upp.stream import StreamEvent, tool_call_delta


@dataclass(slots=True)
class _Part:
    """One call, so far."""

    index: int | None
    given_id: str
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


class CallFold:
    """The calls of one message, so far, in the order in which they began."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._parts: list[_Part] = []

    def add(self, piece: Call) -> StreamEvent:
        """Returns the event of a piece, after adding it to its call."""
        name = (piece.function.name if piece.function else None) or ""
        position = self._position(piece, name)
        part = self._parts[position]
        part.name = part.name or name
        given = piece.function.arguments if piece.function else None
        text = dumps(given).decode() if isinstance(given, dict) else given or ""
        part.arguments.append(text)
        return tool_call_delta(part.id, part.name, text, position)

    def whole(self) -> list[JSONValue]:
        """Returns the calls as a whole answer has them."""
        return [
            {"id": part.id, "function": {"name": part.name, "arguments": "".join(part.arguments)}}
            for part in self._parts
        ]

    def _position(self, piece: Call, name: str) -> int:
        """Returns where the piece's call stands; a new one is begun if it belongs to none.

        The index says it. Servers that send none, or the same for all calls, begin each with a new id and a name.
        """
        for position in reversed(range(len(self._parts))):
            part = self._parts[position]
            if piece.index is not None and part.index is not None and part.index != piece.index:
                continue
            if not self._begins_another(piece, name, part):
                return position
            if piece.index is None:
                break
        given = piece.id or ""
        taken = {part.id for part in self._parts}
        own = given if given and given not in taken else new_call_id(self._provider)
        self._parts.append(_Part(piece.index, given, own))
        return len(self._parts) - 1

    @staticmethod
    def _begins_another(piece: Call, name: str, part: _Part) -> bool:
        if piece.id:
            return piece.id != part.given_id and bool(name)
        return piece.index is None and bool(name)
