"""What becomes frames of a stream: pieces, joined where one follows the other.

Text that follows on text becomes one chunk: a consumer that reads slowly is sent fewer frames, not later ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from perdure.protocols.uamp_envelope.delta import DeltaType, text_chunk
from perdure.protocols.uamp_envelope.strict_json import MAX_SAFE_INTEGER
from perdure.upp.json_value import JSONObject, JSONValue, dumps

CHUNK_CHARS = 32 * 1024
CHUNK_BYTES = 48 * 1024
"""Of media in one chunk: 64 KiB of base64."""

_LEVELS = 32
_MAX_FLOAT = 1e15
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Medium:
    """Media of an answer.

    Attributes:
        item: which of them, from 0.
        mime: its type.
        size: in bytes.
        base64: the media, if the log has it.
        content: its id, if it is stored.
    """

    item: int
    mime: str
    size: int
    base64: str = field(default="", repr=False)
    content: str | None = None


@dataclass(frozen=True, slots=True)
class MediaCut:
    """The bytes of one chunk: `CHUNK_BYTES` of them, or fewer at the end."""

    medium: Medium
    start: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What becomes one frame, or with its neighbours a part of one.

    Attributes:
        type: of the frame.
        payload: likewise.
        joins: what it is of, if it joins a neighbour of the same name: their `text` becomes one.
        cut: the bytes that it carries besides, read when it is numbered.
    """

    type: DeltaType
    payload: JSONObject = field(default_factory=dict[str, JSONValue], repr=False)
    joins: str | None = None
    cut: MediaCut | None = None

    @property
    def text(self) -> str:
        """What there is to be joined."""
        return str(self.payload["text"]) if self.joins is not None else ""


def text_pieces(text: str) -> list[Piece]:
    """Text as pieces, none longer than a chunk may be."""
    return [Piece(DeltaType.CHUNK, text_chunk(cut), "text") for cut in _cuts(text)]


def thinking_pieces(text: str) -> list[Piece]:
    """What the agent thinks, likewise."""
    return [replace(progress("thinking", text=cut), joins="thinking") for cut in _cuts(text)]


def media_pieces(medium: Medium) -> list[Piece]:
    """Media as pieces; their bytes are not among them yet."""
    payload: JSONObject = {"mime": medium.mime, "item": medium.item}
    starts = range(0, medium.size, CHUNK_BYTES)
    return [Piece(DeltaType.CHUNK, payload, cut=MediaCut(medium, start)) for start in starts]


def progress(stage: str, **facts: JSONValue) -> Piece:
    """News of how far it is; facts that are None are left out."""
    told = {name: plain(value) for name, value in facts.items() if value is not None}
    return Piece(DeltaType.PROGRESS, {"stage": stage, **told})


@dataclass(slots=True)
class _Frame:
    """Pieces that become one frame."""

    pieces: list[Piece]
    chars: int

    def takes(self, piece: Piece) -> bool:
        first = self.pieces[0]
        joins = first.joins is not None and first.joins == piece.joins
        return joins and self.chars + len(piece.text) <= CHUNK_CHARS

    def made(self) -> Piece:
        if len(self.pieces) == 1:
            return self.pieces[0]
        text = "".join(piece.text for piece in self.pieces)
        return replace(self.pieces[0], payload={**self.pieces[0].payload, "text": text})


class JoinedPieces:
    """Pieces in order, as the frames that they become."""

    def __init__(self, pieces: Iterable[Piece] = ()) -> None:
        """Begin with some."""
        self._frames: list[_Frame] = []
        self.add(pieces)

    def __len__(self) -> int:
        """How many frames they become."""
        return len(self._frames)

    def add(self, pieces: Iterable[Piece]) -> None:
        """More pieces."""
        for piece in pieces:
            if self._frames and self._frames[-1].takes(piece):
                self._frames[-1].pieces.append(piece)
                self._frames[-1].chars += len(piece.text)
            else:
                self._frames.append(_Frame([piece], len(piece.text)))

    def fits(self, pieces: Sequence[Piece], room: int) -> bool:
        """Whether no more frames than there is room for are there with more pieces."""
        tail = JoinedPieces()
        tail._frames = [_Frame([frame.pieces[0]], frame.chars) for frame in self._frames[-1:]]
        tail.add(pieces)
        return len(self) + len(tail) - len(self._frames[-1:]) <= room

    def made(self) -> list[Piece]:
        """One piece for each frame."""
        return [frame.made() for frame in self._frames]


def plain_text(text: str) -> str:
    """Text that every reader of JSON can have: a lone surrogate becomes U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def plain(value: JSONValue, *, levels: int = _LEVELS) -> JSONValue:
    """A value that every reader of JSON understands alike: what a frame cannot hold becomes text that says the same.

    Args:
        value: of a log.
        levels: of nesting that are kept.
    """
    match value:
        case str():
            return plain_text(value)
        case bool() | None:
            return value
        case int():
            return value if abs(value) <= MAX_SAFE_INTEGER else str(value)
        case float():
            return value if abs(value) <= _MAX_FLOAT else repr(value)
        case _ if levels == 0:
            return plain_text(dumps(value).decode("utf-8", "replace"))
        case list():
            return [plain(item, levels=levels - 1) for item in value]
        case dict():
            return {plain_text(name): plain(item, levels=levels - 1) for name, item in value.items()}


def plain_object(value: JSONObject) -> JSONObject:
    """Likewise, of an object."""
    return cast(JSONObject, plain(value))


def _cuts(text: str) -> list[str]:
    return [plain_text(text[start : start + CHUNK_CHARS]) for start in range(0, len(text), CHUNK_CHARS)]
