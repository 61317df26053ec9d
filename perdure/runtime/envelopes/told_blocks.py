"""How much of a run's content blocks is told: what lets frames go on inside a block that was folded meanwhile."""

from __future__ import annotations

from base64 import b64decode
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from perdure.store.events import Event
from perdure.store.folding import TEXTS
from perdure.upp.json_value import JSONObject, encode_base64
from perdure.upp.stream import StreamEventType

_DATA = "data"

Lengths: TypeAlias = dict[str, int]


class ToldBlocks:
    """The length of each open content block of one run, by the rows that brought it."""

    def __init__(self) -> None:
        """Begin before the first row."""
        self._given: dict[str, list[tuple[int, int]]] = {}  # by block: a row, and the length with it
        self._closed: dict[str, int] = {}

    def count(self, row: Event) -> None:
        """Take in a row as it was mapped: of a folded one what was new in it."""
        if row.type == StreamEventType.MESSAGE_STOP:
            message = f"{row.data.get('message')}/"
            self._closed.update({block: row.seq for block in self._given if block.startswith(message)})
        found = _content(row)
        if found is not None:
            block, _, content = found
            given = self._given.setdefault(block, [])
            given.append((row.seq, _length(given, row.seq) + len(content)))

    def upto(self, seq: int) -> Lengths:
        """By block, the length with the rows up to one; blocks that were closed by then are forgotten."""
        for block in [block for block, closed in self._closed.items() if closed <= seq]:
            del self._closed[block]
            self._given.pop(block, None)
        lengths = {block: _length(given, seq) for block, given in self._given.items()}
        return {block: length for block, length in lengths.items() if length}

    def split(self, row: Event, seq: int, lengths: Mapping[str, int]) -> list[Event]:
        """A folded row that reaches over a number, as the part up to that and the rest; any other row as it is.

        So is one of a block that was counted up to that number: `Unfolding` takes off what was read.

        Args:
            row: as it was read.
            seq: up to which row all is told.
            lengths: by block, how much that was: `upto(seq)` of whoever told it.
        """
        found, start = _content(row), row.folded_from
        if found is None or start is None or not start <= seq < row.seq:
            return [row]
        block, name, content = found
        if _length(self._given.get(block, []), row.seq) >= lengths.get(block, 0):
            return [row]
        before = _length(self._given.get(block, []), start - 1)
        had = min(len(content), max(0, lengths.get(block, 0) - before))
        told = _with(row, name, content[:had], {"folded": {"from": start, "to": seq}})
        return [replace(told, seq=seq), _with(row, name, content[had:], {})]


def _length(given: Sequence[tuple[int, int]], seq: int) -> int:
    """The length with the rows up to one."""
    place = bisect_right(given, seq, key=lambda item: item[0])
    return given[place - 1][1] if place else 0


def _content(row: Event) -> tuple[str, str, str | bytes] | None:
    delta = row.data.get("delta")
    if row.source != "upp" or not isinstance(delta, dict) or "message" not in row.data:
        return None
    name = TEXTS.get(row.type, _DATA)
    content = delta.get(name)
    if not isinstance(content, str):
        return None
    block = f"{row.data['message']}/{row.data.get('index', 0)}/{row.type}/{row.attempt}"
    return block, name, b64decode(content) if name == _DATA else content


def _with(row: Event, name: str, content: str | bytes, folded: JSONObject) -> Event:
    kept = {key: value for key, value in row.data.items() if key != "folded"}
    text = encode_base64(content) if isinstance(content, bytes) else content
    delta: JSONObject = {**cast(JSONObject, row.data["delta"]), name: text}
    return replace(row, data={**kept, "delta": delta, **folded})
