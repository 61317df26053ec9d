"""What a stream has told of an answer as it came: its texts and its reasoning, block by block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from perdure.protocols.uamp_events.text_purity import TextPurity
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import AssistantMessage

Kind = Literal["text", "reasoning"]


@dataclass(slots=True)
class LiveBlock:
    """One block.

    Attributes:
        kind: what it holds.
        id: what it is called in the stream.
        raw: what the model said, in pieces.
        shown: what was told of it.
        is_open: more may come.
    """

    kind: Kind
    id: str
    raw: list[str] = field(default_factory=list[str])
    shown: list[str] = field(default_factory=list[str])
    is_open: bool = True
    _purity: TextPurity = field(default_factory=TextPurity)

    @property
    def text(self) -> str:
        """All that the model said."""
        return "".join(self.raw)

    def take(self, text: str) -> list[JSONObject]:
        """The chunks of the next piece."""
        self.raw.append(text)
        return self._show(self._purity.take(text))

    def end(self) -> list[JSONObject]:
        """The chunks that end it; none if it has ended."""
        if not self.is_open:
            return []
        self.is_open = False
        return [*self._show(self._purity.rest()), {"type": f"{self.kind}-end", "id": self.id}]

    def _show(self, text: str) -> list[JSONObject]:
        if not text:
            return []
        self.shown.append(text)
        return [{"type": f"{self.kind}-delta", "id": self.id, "delta": text}]


@dataclass(slots=True)
class LiveAnswer:
    """The blocks of one answer, by index and kind."""

    blocks: dict[tuple[int, Kind], LiveBlock] = field(default_factory=dict[tuple[int, Kind], LiveBlock])

    def take(self, message: str, index: int, kind: Kind, text: str) -> list[JSONObject]:
        """The chunks of a piece of a block, which begins with its first piece."""
        block = self.blocks.get((index, kind))
        begin: list[JSONObject] = []
        if block is None:
            block = self.blocks[index, kind] = LiveBlock(kind, f"{message}-{index}-{kind}")
            begin = [{"type": f"{kind}-start", "id": block.id}]
        return [*begin, *block.take(text)]

    def end(self, index: int | None = None) -> list[JSONObject]:
        """The chunks that end one block, or all."""
        ending = [block for (place, _), block in self.blocks.items() if index in (None, place)]
        return [chunk for block in ending for chunk in block.end()]

    def told(self, kind: Kind) -> list[LiveBlock]:
        """The blocks of a kind, in order."""
        return [self.blocks[place] for place in sorted(self.blocks) if place[1] == kind]

    def agrees(self, message: AssistantMessage) -> bool:
        """Whether the stored answer says what was told of it, as far as anything was."""
        said = "".join(block.text for block in self.told("text"))
        thought = [block.text for block in self.told("reasoning")]
        stored = [block.text for block in message.reasoning if block.text]
        return (not said or said == message.text) and (not thought or thought == stored)
