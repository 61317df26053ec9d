"""Answers on a real PostgreSQL: stored once, with the records that ride on them, and never by an overtaken attempt."""

from __future__ import annotations

from collections import Counter

import pytest

from perdure.store.answers import read_delta_text
from perdure.uap.ids import answer_id
from tests.integration.store_story import AT, Story, checkpoint, step_start, thrice

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_save_answer_stores_an_answer_once(story: Story) -> None:
    """The first call stores message, calls and events; the others, though they bring another answer, change nothing."""
    run = await story.run()
    assert await thrice(story, lambda: story.save(run, calls=2)) == ["won", "stored", "stored"]
    rows = await story.rows()
    assert await story.save(run, calls=3, text="said otherwise") == "stored"
    assert await story.rows() == rows
    assert [(row["index"], row["state"]) for row in rows["tool_calls"]] == [(0, "pending"), (1, "pending")]
    assert [item.message.text for item in await story.thread()] == ["tell me", "said"]
    assert await story.kinds() == ["run.queued", "run.started", "action"]


async def test_a_large_answer_is_kept_beside_its_row(story: Story) -> None:
    """A body beyond 64 KiB is a payload, stored once and read as if it were in its row."""
    run = await story.run()
    long = "long " * 20_000
    assert await thrice(story, lambda: story.save(run, text=long)) == ["won", "stored", "stored"]
    rows = await story.rows()
    assert [row["body"] for row in rows["messages"] if row["type"] == "assistant"] == [None]
    assert len(rows["payloads"]) == 1
    assert (await story.thread())[-1].message.text == long


async def test_records_that_ride_on_several_writes_are_written_once(story: Story) -> None:
    """A step's start and checkpoint that a repeated or later write brings again make no second row or event."""
    run = await story.run()
    pending = [step_start(1), checkpoint(run, 1), step_start(2)]
    await story.save(run, calls=1, pending=pending)
    rows = await story.rows()
    assert await story.save(run, calls=1, pending=pending) == "stored"
    await story.deltas(run, "", pending=pending)
    await story.note("", run, events=[], pending=pending)
    for name in ("checkpoints", "events", "runs"):
        assert (await story.rows())[name] == rows[name]
    await story.result(run, pending=pending)
    await story.end(run, pending=pending)
    kinds = Counter(await story.kinds())
    assert (kinds["step_start"], kinds["step_end"], kinds["checkpoint"]) == (2, 1, 1)
    await story.check()


async def test_a_record_of_a_lost_task_is_answered_as_it_was_written(story: Story) -> None:
    """The same checkpoint with a later time changes no row, and the writer is told the row's."""
    run = await story.run()
    first = [step_start(1), checkpoint(run, 1)]
    again = [step_start(1), checkpoint(run, 1, at="2031-01-01T00:00:00.000Z")]
    assert (await story.note("noted", run, pending=first))[2] == first
    assert (await story.note("noted", run, pending=again))[2] == first
    assert (await story.end(run, pending=again))["pending"] == first
    assert (await story.end(run, pending=again))["pending"] == first
    assert [row["at"] for row in (await story.rows())["checkpoints"]] == [AT]


async def test_deltas_are_not_doubled(story: Story) -> None:
    """A batch that is sent again, or sent after a later one, is known."""
    run = await story.run()
    assert await thrice(story, lambda: story.deltas(run, "one two")) == ["won"] * 3
    assert await thrice(story, lambda: story.deltas(run, "three", first=2)) == ["won"] * 3
    rows = await story.rows()
    assert await story.deltas(run, "one two") == "won"
    assert await story.rows() == rows
    assert await read_delta_text(story.database, story.key, run, answer_id(run, 1)) == "onetwothree"


async def test_deltas_of_an_overtaken_attempt_are_refused(story: Story) -> None:
    """Once a later attempt has taken the answer over, what the earlier one still sends is late."""
    run = await story.run()
    await story.deltas(run, "old")
    assert await thrice(story, lambda: story.deltas(run, "new", token="try-2", reset=True)) == ["won"] * 3
    rows = await story.rows()
    assert await story.deltas(run, "old again", first=1) == "late"
    assert await story.rows() == rows
    assert await story.deltas(run, "er", token="try-2", first=2) == "won"
    assert await read_delta_text(story.database, story.key, run, answer_id(run, 1)) == "newer"


async def test_deltas_of_an_answer_that_is_whole_are_refused(story: Story) -> None:
    """An attempt that still streams when its step is over, and the next one streams, adds nothing and resets nothing."""
    run = await story.run()
    await story.deltas(run, "zombie")
    await story.deltas(run, "good", token="try-2", reset=True)
    await story.save(run, calls=1)
    await story.result(run)
    await story.deltas(run, "second step", step=2)
    rows = await story.rows()
    assert await story.deltas(run, "zombie", first=1) == "late"
    assert await story.rows() == rows
    assert await story.deltas(run, "second step", step=2) == "won"
    assert await story.rows() == rows
