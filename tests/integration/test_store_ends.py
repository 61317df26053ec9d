"""Ends of runs on a real PostgreSQL: one for each run, and what comes after it is refused."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from perdure.store import runs
from perdure.store.sessions import read_session
from perdure.store.waits import answer_wait, open_waits, read_wait
from perdure.upp.json_value import JSONObject
from tests.integration.store_story import NOW, USAGE, Story, checkpoint, results, step_start, thrice

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_end_run_ends_a_run_once(story: Story) -> None:
    """The first end stands; one that says otherwise is told the first and changes nothing."""
    run = await story.run()
    first, second, third = await thrice(story, lambda: story.end(run))
    rows = await story.rows()
    other = await story.end(run, "failed", step=9, cycles=9)
    assert await story.rows() == rows
    assert (first["kind"], first["status"]) == ("won", "completed")
    for later in (second, third, other):
        told = {name: later[name] for name in ("kind", "status", "step", "usage", "cycles", "error")}
        assert told == {
            "kind": "stored", "status": "completed", "step": 1, "usage": USAGE, "cycles": 1, "error": None,
        }  # fmt: skip
        assert datetime.fromisoformat(str(later["at"])) == NOW
    session = await read_session(story.database, story.key)
    assert (session.status, session.active_run, session.runs, session.steps) == ("idle", None, 1, 1)
    assert session.usage == USAGE
    await story.check()


async def test_ends_at_once_have_one_winner(story: Story) -> None:
    """Of ten ends at the same moment one writes the terminal event."""
    run = await story.run()
    ends = await asyncio.gather(*(story.end(run, ("completed", "failed", "cancelled")[n % 3]) for n in range(10)))
    won = [str(end["status"]) for end in ends if end["kind"] == "won"]
    assert len(won) == 1
    assert {str(end["status"]) for end in ends} == set(won)
    await story.check()


async def test_writers_that_come_after_the_end_are_refused(story: Story) -> None:
    """What comes late changes nothing but the count of answers and results that came late."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.end(run)
    rows = await story.rows()
    pending = [step_start(2), checkpoint(run, 1)]
    assert [await story.save(run, pending=pending), await story.save(run, 2)] == ["late", "late"]
    assert [(await story.result(run, pending=pending)).kind for _ in range(2)] == ["late", "late"]
    assert [await story.deltas(run, "late", pending=pending) for _ in range(2)] == ["late", "late"]
    assert [(await story.claim(run)).state for _ in range(2)] == ["late", "late"]
    rows["session_heads"][0]["late_results"] = 4
    assert await story.rows() == rows
    assert (await read_session(story.database, story.key)).late_results == 4


async def test_writers_of_a_run_that_is_over_do_not_disturb_the_next(story: Story) -> None:
    """While the next run is open, whoever still writes for the last one is late."""
    old = await story.run()
    await story.save(old, calls=1)
    await story.end(old)
    run = await story.run("and then?")
    await story.save(run, calls=1)
    rows = await story.rows()
    assert await story.save(old, 2) == "late"
    assert (await story.result(old)).kind == "late"
    assert await story.deltas(old, "late", 2) == "late"
    assert (await story.claim(old)).state == "late"
    assert (await story.end(old, "cancelled"))["kind"] == "stored"
    rows["session_heads"][0]["late_results"] = 2
    assert await story.rows() == rows


async def test_a_late_note_neither_parks_nor_asks(story: Story) -> None:
    """A note about a run that is over leaves the run's status and opens no wait."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.end(run)
    assert await story.ask(run, pending=[step_start(2), checkpoint(run, 1)]) is None
    assert (await runs.find_run(story.database, story.key.tenant, run)).status == "completed"
    assert await open_waits(story.database, story.key.tenant) == []
    assert (await story.rows())["checkpoints"] == []


async def test_an_end_settles_the_calls_that_are_open(story: Story) -> None:
    """A call without a result gets the given text as an error; one that has its result keeps it."""
    run = await story.run()
    await story.save(run, calls=3)
    await story.claim(run, 0)
    await story.result(run, 1, value="was run")
    await thrice(story, lambda: story.end(run, "cancelled"))
    assert [(result.result, result.is_error) for result in await results(story)] == [
        ("it was not run", True),
        ("was run", False),
        ("it was not run", True),
    ]
    last = (await story.thread())[-1]
    assert last.message.metadata == {"perdure": {"settled": True}}
    assert last.message.timestamp == NOW
    told = [event.data.get("settled") for event in await story.events() if event.type == "observation"]
    assert told == [True]
    assert (await story.kinds())[-1] == "run.cancelled"
    await story.check()


async def test_an_end_keeps_the_answer_that_came_in_part(story: Story) -> None:
    """A partial answer is stored once, and never in place of one that became whole."""
    run = await story.run()
    whole, part = story.answer(run), story.answer(run, text="part of")
    place: JSONObject = {"id": part.id, "position": part.position, "step": 1, "sha256": part.sha256}
    await thrice(story, lambda: story.end(run, "cancelled", partial=place, partial_body=part.body))
    assert [item.message.text for item in await story.thread()] == ["tell me", "part of"]
    again = await story.run("again")
    whole = story.answer(again)
    place = {"id": whole.id, "position": whole.position, "step": 1, "sha256": part.sha256}
    await story.save(again)
    await story.end(again, "cancelled", partial=place, partial_body=part.body)
    assert [item.message.text for item in await story.thread()] == ["tell me", "part of", "again", "said"]
    await story.check()


async def test_an_end_closes_the_waits_of_its_run(story: Story) -> None:
    """Nobody is asked any more what a run that is over waited for."""
    run = await story.run()
    await story.save(run, calls=1)
    wait = str(await story.ask(run))
    await story.end(run, "cancelled")
    assert await open_waits(story.database, story.key.tenant) == []
    assert (await read_wait(story.database, story.key.tenant, wait)).answer == {"outcome": "ended"}


async def test_an_end_leaves_no_answer_to_be_told(story: Story) -> None:
    """An answer that came just before its run was cancelled is not told to the session again and again."""
    run = await story.run()
    await story.save(run, calls=1)
    wait = str(await story.ask(run))
    await answer_wait(story.database, story.key.tenant, wait, {"outcome": "not_run"}, "somebody")
    await story.end(run, "cancelled")
    assert [(row["delivered"], row["answer"]) for row in (await story.rows())["waits"]] == [
        (True, {"outcome": "not_run"})
    ]


async def test_the_messages_of_a_failed_run_leave_the_thread(story: Story) -> None:
    """The next run starts behind them, in another epoch, and does not see them."""
    failed = await story.run("bad")
    await story.save(failed, calls=2)
    await story.result(failed)
    await thrice(story, lambda: story.end(failed, "failed"))
    assert await story.thread() == []
    await story.submit("good")
    row = (await story.begin()).row or {}
    assert (row["start"], row["epoch"]) == (3, 1)
    await story.save(str(row["run"]))
    await story.end(str(row["run"]))
    assert [(item.position, item.message.text) for item in await story.thread()] == [(3, "good"), (4, "said")]
    assert [item.position for item in await story.thread(discarded=True)] == [0, 1, 2, 3, 4]
    await story.check()


@pytest.mark.parametrize("why", ["unknown", "deleting"])
async def test_a_session_that_is_gone_takes_no_write(story: Story, why: str) -> None:
    """Where there is no session, or it is being deleted, every write of a step answers so and leaves nothing."""
    run = "no-run"
    story.positions[run] = 0
    if why == "deleting":
        run = await story.run()
        await story.save(run, calls=1)
        await story.set_head(deleting=True)
    rows = await story.rows()
    assert (await story.begin()).kind == "gone"
    assert await story.save(run, 2, calls=1) == "gone"
    assert await story.deltas(run, "words", 2) == "gone"
    assert (await story.claim(run)).state == "gone"
    assert (await story.result(run)).kind == "gone"
    assert await story.note("noted", run, status="parked", paused=True) == ("gone", None, [])
    if why == "unknown":
        assert (await story.end(run))["kind"] == "gone"
    assert await story.rows() == rows
