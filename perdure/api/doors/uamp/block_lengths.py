"""How much of a run's content blocks a reader has had: what lets it go on inside a block that was folded meanwhile."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import TypeAlias, cast

from perdure.protocols.uamp_events.event_place import Place
from perdure.store.events import Event
from perdure.store.folding import TEXTS
from perdure.upp.json_value import JSONObject, encode_base64

Block: TypeAlias = tuple[str, int, str]
_FOLDED = "folded"
_DATA = "data"


class BlockLengths:
    """The length so far of each content block of one run: characters of text, bytes of media."""

    def __init__(self) -> None:
        """Begin before the first row."""
        self._lengths: dict[Block, int] = {}

    def count(self, row: Event) -> int:
        """The length of a delta's block with this row, whole or folded; 0 of any other row."""
        found = _content(row)
        if found is None:
            return 0
        block, _, content = found
        start = self._lengths.get(block, 0)
        self._lengths[block] = start + len(content)
        return self._lengths[block]

    def split(self, row: Event, place: Place) -> list[Event]:
        """A row as it was for a reader that stands at a place: a folded one that reaches over it is what came before and the rest."""
        found, start = _content(row), row.folded_from
        if found is None or start is None or not start <= place.seq < row.seq:
            return [row]
        block, name, content = found
        had = min(len(content), max(0, place.offset - self._lengths.get(block, 0)))
        return [
            replace(_with(row, name, content[:had]), seq=place.seq),
            _with(row, name, content[had:]),
        ]


def _content(row: Event) -> tuple[Block, str, str | bytes] | None:
    delta = row.data.get("delta")
    if row.source != "upp" or not isinstance(delta, dict) or "message" not in row.data:
        return None
    name = TEXTS.get(row.type, _DATA)
    content = delta.get(name)
    if not isinstance(content, str):
        return None
    block = (str(row.data["message"]), cast(int, row.data.get("index", 0)), row.type)
    return block, name, b64decode(content) if name == _DATA else content


def _with(row: Event, name: str, content: str | bytes) -> Event:
    kept = {key: value for key, value in row.data.items() if key != _FOLDED}
    text = encode_base64(content) if isinstance(content, bytes) else content
    delta: JSONObject = {**cast(JSONObject, row.data["delta"]), name: text}
    return replace(row, data={**kept, "delta": delta})
