"""A folded log is told on from any number: what was told of a content block before it was folded is not told again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from perdure.runtime.unfolding import Unfolding, split_at
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
def test_a_reader_goes_on_from_any_number_in_any_number_of_blocks(said: list[Said], data: st.DataObject) -> None:
    """It had told up to some number, and had read some further; another, or itself, goes on from the folded log."""
    log = [delta(seq, index, text) for seq, (index, text) in enumerate(said, 1)]
    told = data.draw(st.integers(0, len(log)), label="told")
    read = data.draw(st.integers(0, len(log)), label="read by who goes on")
    unfolding = Unfolding()
    new: list[Said] = []
    for row in [*log[:read], *(row for row in folded(log) if row.seq > read)]:
        for part in split_at(row, told):
            whole = unfolding.new_in(part)
            assert whole.folded_from is None
            if whole.seq > told:
                new.append(content(whole))
    assert {index: text for index, text in by_block(new).items() if text} == by_block(said[told:])


def test_media_is_cut_by_bytes() -> None:
    """Base64 of a part is no part of the base64."""
    log = [delta(1, 0, "ab", "image_delta"), delta(2, 0, "cde", "image_delta"), delta(3, 0, "f", "image_delta")]
    (whole,) = folded(log)
    first, rest = split_at(whole, 1)
    assert (first.seq, content(first)) == (1, (0, encode_base64(b"ab")))
    assert (rest.seq, content(rest)) == (3, (0, encode_base64(b"cdef")))


def test_a_folded_block_says_how_long_its_deltas_were_and_their_numbers_only_where_others_are_between() -> None:
    one, two = (delta(seq, 0, "a" * seq) for seq in (1, 2))
    assert folded([one, two])[0].data["folded"] == {"from": 1, "to": 2, "lengths": [1, 2]}
    log = [one, delta(2, 1, "b"), delta(3, 0, "a")]
    assert folded(log)[-1].data["folded"] == {"from": 1, "to": 3, "lengths": [1, 1], "seqs": [1, 3]}


def test_what_was_folded_again_still_says_the_lengths_of_all() -> None:
    (once,) = folded([delta(1, 0, "one "), delta(2, 0, "two ")])
    (twice,) = folded([once, delta(3, 0, "three")])
    assert twice.data["folded"] == {"from": 1, "to": 3, "lengths": [4, 4, 5]}
    assert [content(row) for row in split_at(twice, 1)] == [(0, "one "), (0, "two three")]


def test_only_what_reaches_over_a_number_is_split() -> None:
    (row,) = folded([delta(3, 0, "one "), delta(4, 0, "two")])
    assert [split_at(row, seq) for seq in (2, 4, 9)] == [[row]] * 3
    alone = delta(3, 0, "one ")
    assert split_at(alone, 3) == [alone]


def test_what_was_folded_before_lengths_were_kept_stays_whole() -> None:
    """Its reader has had none of it, or all."""
    (row,) = folded([delta(1, 0, "one "), delta(2, 0, "two")])
    before = replace(row, data={**row.data, "folded": {"from": 1, "to": 2}})
    assert split_at(before, 1) == [before]
