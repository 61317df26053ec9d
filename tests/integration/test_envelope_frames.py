"""Frames of exchanges as rows: numbered once by whoever streams, given out by the window, dropped only if nobody had them."""

from __future__ import annotations

import asyncio

import pytest

from perdure.protocols.uamp_envelope.delta import Delta
from perdure.protocols.uamp_envelope.error import UAMPError
from perdure.protocols.uamp_envelope.lifecycle import State, Step
from perdure.store.database import Database
from perdure.store.envelopes.flow import acknowledge
from perdure.store.envelopes.frames import drop_unsent, frames_in, save_frames, take_frames
from perdure.store.envelopes.rows import ExchangeRow
from perdure.store.envelopes.settling import advance, hold_exchange
from tests.integration.envelope_story import EnvelopeStory, frames

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def envelopes(database: Database) -> EnvelopeStory:
    """A tenant without envelopes."""
    return EnvelopeStory(database)


async def taken(envelopes: EnvelopeStory, row: ExchangeRow, after: int, window: int = 4, limit: int = 100) -> list[int]:
    """The numbers of the frames that a consumer may have."""
    found = await take_frames(envelopes.database, envelopes.tenant, row.id, after=after, window=window, limit=limit)
    assert found is not None
    return [frame.seq for frame in found[1]]


async def test_frames_come_back_as_they_were_made(envelopes: EnvelopeStory) -> None:
    """Byte for byte, with their place in the log; those that are not the next ones are refused."""
    row = await envelopes.opened(delta_window=4)
    made = frames(row, "progress", "chunk")
    async with envelopes.database.transaction(envelopes.tenant) as connection:
        held = await hold_exchange(connection, envelopes.tenant, row.id)
        assert held is not None
        assert held == row
        saved = await save_frames(connection, held, made, log_seq=7, log_place={"part": 5, "of": 9})
        moved = await save_frames(connection, saved, [], log_seq=9)
    assert (saved.next_seq, saved.log_seq, saved.log_place, saved.is_over) == (2, 7, {"part": 5, "of": 9}, False)
    assert (moved.next_seq, moved.log_seq, moved.log_place) == (2, 9, saved.log_place)
    found = await take_frames(envelopes.database, envelopes.tenant, row.id, after=-1, window=4, limit=10)
    assert found is not None
    assert (found[1], found[0].sent) == (made, 1)
    assert [frame.to_bytes() for frame in found[1]] == [frame.to_bytes() for frame in made]
    over = await envelopes.framed(row, "chunk", "done")
    assert (over.next_seq, over.is_over) == (4, True)
    for wrong in (frames(row, "chunk"), frames(over, "chunk"), [*frames(moved, "done", "chunk")]):
        with pytest.raises(ValueError, match="exchange"):
            await saving(envelopes, row, wrong)
    assert await envelopes.count("envelope_frames") == 4


async def saving(envelopes: EnvelopeStory, row: ExchangeRow, made: list[Delta]) -> None:
    """Add frames to an exchange."""
    async with envelopes.database.transaction(envelopes.tenant) as connection:
        held = await hold_exchange(connection, envelopes.tenant, row.id)
        assert held is not None
        await save_frames(connection, held, made)


async def test_the_window_lets_frames_out(envelopes: EnvelopeStory) -> None:
    """Four, and four more for an ACK of the fourth; the terminal one is held back only by those before it."""
    row = await envelopes.opened()
    await envelopes.framed(row, *["chunk"] * 9, "done")
    assert await taken(envelopes, row, -1, limit=3) == [0, 1, 2]
    assert await taken(envelopes, row, 2) == [3]
    assert await taken(envelopes, row, 3) == [], "not the terminal one either"
    assert await taken(envelopes, row, -1) == [0, 1, 2, 3], "another consumer has the same"
    assert (await acknowledge(envelopes.database, envelopes.tenant, row.id, 3)).acked == 3
    assert await taken(envelopes, row, 3) == [4, 5, 6, 7]
    await acknowledge(envelopes.database, envelopes.tenant, row.id, 4)
    assert await taken(envelopes, row, 7) == [8, 9], "a terminal one needs no room"
    assert await taken(envelopes, row, 9) == []
    assert await take_frames(envelopes.database, envelopes.tenant, "gone", after=-1, window=4, limit=9) is None


async def test_what_was_not_given_out_cannot_be_acknowledged(envelopes: EnvelopeStory) -> None:
    """A repeated or late ACK changes nothing."""
    row = await envelopes.opened()
    await envelopes.framed(row, *["chunk"] * 6)
    await taken(envelopes, row, -1)
    for seq in (4, 6, 2**53):
        with pytest.raises(UAMPError) as refused:
            await acknowledge(envelopes.database, envelopes.tenant, row.id, seq)
        assert refused.value.code == "4.00"
    for seq, acked in ((2, 2), (2, 2), (1, 2), (3, 3)):
        assert (await acknowledge(envelopes.database, envelopes.tenant, row.id, seq)).acked == acked
    with pytest.raises(UAMPError) as unknown:
        await acknowledge(envelopes.database, envelopes.tenant, "gone", 0)
    assert unknown.value.code == "4.04"


async def test_a_cancel_drops_what_nobody_had(envelopes: EnvelopeStory) -> None:
    """The terminal frame has the number after the last one that was given out, also if another terminal one was made."""
    row = await envelopes.opened()
    await envelopes.framed(row, *["chunk"] * 5, "done")
    assert await taken(envelopes, row, -1) == [0, 1, 2, 3]
    async with envelopes.database.transaction(row.key) as connection:
        held = await hold_exchange(connection, envelopes.tenant, row.id)
        assert held is not None
        left = await drop_unsent(connection, held)
        assert (left.next_seq, left.is_over) == (4, False)
        before = await frames_in(connection, envelopes.tenant, row.id, after=-1, upto=left.next_seq, limit=100)
        assert [frame.seq for frame in before] == [0, 1, 2, 3]
        over = await save_frames(connection, left, frames(left, "cancel"))
        ended = await advance(connection, over, Step.CANCEL, now=envelopes.now)
    assert (ended.state, ended.next_seq, ended.is_over) == (State.CANCELLED, 5, True)
    assert await taken(envelopes, row, 3) == [4]
    async with envelopes.database.transaction(row.key) as connection:
        held = await hold_exchange(connection, envelopes.tenant, row.id)
        assert held is not None
        assert await drop_unsent(connection, held) == held, "all were given out"


async def test_whoever_streams_makes_the_frames_once(envelopes: EnvelopeStory) -> None:
    """Many at once number without gaps, and all give out the same."""
    row = await envelopes.opened()

    async def one(n: int) -> list[Delta]:
        await envelopes.framed(row, "chunk", "chunk", text=f"by {n}")
        found = await take_frames(envelopes.database, envelopes.tenant, row.id, after=-1, window=100, limit=100)
        assert found is not None
        return found[1]

    seen = await asyncio.gather(*(one(n) for n in range(8)))
    longest = max(seen, key=len)
    assert [frame.seq for frame in longest] == list(range(16))
    assert all(frames == longest[: len(frames)] for frames in seen)
