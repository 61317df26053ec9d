"""Actions of a stream that is still being read."""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure.protocols.threadprotocol.content import joined, text_part
from perdure.upp.json_value import JSONObject, JSONValue


@dataclass(slots=True)
class Block:
    """A text or a reasoning as its deltas come."""

    deltas: list[str] = field(default_factory=list[str])
    is_complete: bool = False

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self.deltas)


@dataclass(slots=True)
class Draft:
    """An action in the making.

    Attributes:
        action_type: of the action.
        refs: what it is called in the stream.
        step: number of the step that it is part of.
        fields: its members so far.
        said: of an assistant message or a thinking, its blocks and files in order.
    """

    action_type: str
    refs: list[str]
    step: int
    fields: JSONObject = field(default_factory=dict[str, JSONValue])
    said: list[Block | JSONObject] = field(default_factory=list[Block | JSONObject])

    @property
    def names(self) -> list[tuple[str, str]]:
        """Its type with each of its refs."""
        return [(self.action_type, ref) for ref in self.refs]

    @property
    def content(self) -> str | list[JSONObject]:
        """What its complete blocks and its files say."""
        complete = [item for item in self.said if not isinstance(item, Block) or item.is_complete]
        return joined([text_part(item.text) if isinstance(item, Block) else item for item in complete])

    @property
    def has_complete_block(self) -> bool:
        """Whether anything of it is there to stay."""
        return any(not isinstance(item, Block) or item.is_complete for item in self.said)
