"""A folded log is told on from any number: what was told of a content block before it was folded is not told again."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from perdure.runtime.envelopes.told_blocks import ToldBlocks
from perdure.runtime.unfolding import Unfolding
from perdure.store.events import Event
from perdure.store.folding import Folder
from perdure.upp.json_value import JSONObject, encode_base64

NOW = datetime(2030, 1, 1, tzinfo=UTC)
Said = tuple[int, str]


def delta(seq: int, index: int, text: str, kind: str = "text_delta") -> Event:
    """A row of a content block."""
    name = "data" if kind == "image_delta" else "text"
    said = encode_base64(text.encode()) if name == "data" else text
    data: JSONObject = {"message": "m", "index": index, "delta": {name: said}}
    return Event("s", seq, "r", 1, 1, "upp", kind, data, NOW, size=len(text))


def folded(log: list[Event]) -> list[Event]:
    """The log as it is once it is folded."""
    folder = Folder("r")
    for row in log:
        folder.add(row)
    folds = folder.finish()
    gone = {seq for fold in folds for seq in fold.removed}
    whole = {fold.seq: fold.data for fold in folds}
    return [
        Event("s", row.seq, "r", 1, 1, row.source, row.type, whole.get(row.seq, row.data), NOW)
        for row in log
        if row.seq not in gone
    ]


def content(row: Event) -> Said:
    """What a row brings, of which block."""
    found = row.data["delta"]
    assert isinstance(found, dict)
    return int(str(row.data["index"])), str(found.get("text", found.get("data")))


def by_block(rows: list[Said]) -> dict[int, str]:
    """All that each block has."""
    blocks: dict[int, str] = {}
    for index, text in rows:
        blocks[index] = blocks.get(index, "") + text
    return blocks


SAID = st.lists(st.tuples(st.integers(0, 2), st.text(min_size=1, max_size=4)), min_size=1, max_size=25)


@given(SAID, st.data())
def test_it_goes_on_from_any_number_in_any_number_of_blocks(said: list[Said], data: st.DataObject) -> None:
    """A reader had told up to some number, and had mapped some further; another, or itself, goes on from the folded log."""
    log = [delta(seq, index, text) for seq, (index, text) in enumerate(said, 1)]
    told = data.draw(st.integers(0, len(log)), label="told")
    mapped = data.draw(st.integers(0, len(log)), label="mapped by who goes on")
    teller = ToldBlocks()
    for row in log[:told]:
        teller.count(row)
    lengths = teller.upto(told)
    blocks, unfolding = ToldBlocks(), Unfolding()
    new: list[Said] = []
    read = [*log[:mapped], *(row for row in folded(log) if row.seq > mapped)]
    for row in read:
        for part in blocks.split(row, told, lengths):
            whole = unfolding.new_in(part)
            blocks.count(whole)
            if whole.seq > told:
                new.append(content(whole))
    assert {index: text for index, text in by_block(new).items() if text} == by_block(said[told:])
    everything = ToldBlocks()
    for row in log:
        everything.count(row)
    assert blocks.upto(len(log)) == everything.upto(len(log))


def test_who_has_mapped_more_than_was_told_has_it_once() -> None:
    """A row that waits to be numbered is not told by the folded one too."""
    log = [delta(seq, 0, text) for seq, text in enumerate("abc", 1)]
    blocks, unfolding = ToldBlocks(), Unfolding()
    for row in log[:2]:
        blocks.count(unfolding.new_in(row))
    (whole,) = folded(log)
    (part,) = blocks.split(whole, 1, {"m/0/text_delta/1": 1})
    assert content(unfolding.new_in(part)) == (0, "c")


def test_media_is_cut_by_bytes() -> None:
    """Base64 of a part is no part of the base64."""
    log = [delta(1, 0, "ab", "image_delta"), delta(2, 0, "cde", "image_delta"), delta(3, 0, "f", "image_delta")]
    blocks = ToldBlocks()
    blocks.count(log[0])
    lengths = blocks.upto(1)
    (whole,) = folded(log)
    first, rest = ToldBlocks().split(whole, 1, lengths)
    assert (first.seq, content(first)) == (1, (0, encode_base64(b"ab")))
    assert (rest.seq, content(rest)) == (3, (0, encode_base64(b"cdef")))
    assert rest.folded_from is None


def test_a_block_that_is_closed_is_forgotten() -> None:
    """Once its message's stop is told: nothing folded can reach over that."""
    blocks = ToldBlocks()
    blocks.count(delta(1, 0, "word"))
    blocks.count(Event("s", 2, "r", 1, 1, "upp", "message_stop", {"message": "m", "index": 0, "delta": {}}, NOW))
    assert list(blocks.upto(1).values()) == [4]
    assert blocks.upto(2) == {}
