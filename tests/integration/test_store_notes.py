"""Notes and waits on a real PostgreSQL: written once, asked once, answered once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.store import runs
from perdure.store.sessions import read_session
from perdure.store.waits import answer_wait, open_waits, read_wait
from perdure.uap.ids import answer_id, wait_id
from tests.integration.store_story import Story, thrice

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_note_is_written_once(story: Story) -> None:
    """A note that is repeated, also after a later one, changes nothing; another execution names its own."""
    run = await story.run()
    assert [item[0] for item in await thrice(story, lambda: story.note("noted", run, number=2))] == ["won"] * 3
    await story.note("noted", run, number=1, paused=True)
    rows = await story.rows()
    await story.note("noted", run, number=2, paused=False)
    assert await story.rows() == rows
    await story.note("noted", run, number=1, execution="execution-2")
    assert (await story.kinds()).count("noted") == 3


async def test_a_note_says_how_the_run_stands(story: Story) -> None:
    """A run is parked and running again, and the session paused and not, as the notes say."""
    run = await story.run()
    await thrice(story, lambda: story.note("run.parked", run, number=1, status="parked", paused=True))
    assert (await runs.find_run(story.database, story.key.tenant, run)).status == "parked"
    assert (await read_session(story.database, story.key)).status == "paused"
    await story.note("run.resumed", run, number=2, status="running", paused=False)
    assert (await runs.find_run(story.database, story.key.tenant, run)).status == "running"
    assert (await read_session(story.database, story.key)).status == "running"


async def test_an_open_wait_is_reused(story: Story) -> None:
    """Whoever parks on the same call again waits for the same answer; another call has a wait of its own."""
    run = await story.run()
    await story.save(run, calls=2)
    own = wait_id(answer_id(run, 1), 0)
    assert [await story.ask(run), await story.ask(run), await story.ask(run, number=0)] == [own] * 3
    other = await story.ask(run, 1)
    assert {wait.id for wait in await open_waits(story.database, story.key.tenant)} == {own, other}
    assert other == wait_id(answer_id(run, 1), 1)


async def test_an_answer_is_handed_out_once(story: Story) -> None:
    """The first claim after the answer gets it, the next ones get none."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.claim(run)
    wait = await story.ask(run)
    assert (await story.claim(run)).answer is None
    await answer_wait(story.database, story.key.tenant, str(wait), {"outcome": "not_run"}, "somebody")
    claimed = await asyncio.gather(*(story.claim(run, attempt=n) for n in range(2, 7)))
    assert [item.answer for item in claimed if item.answer is not None] == [{"outcome": "not_run"}]
    assert (await read_wait(story.database, story.key.tenant, str(wait))).answered_by == "somebody"


async def test_after_a_used_answer_there_is_a_new_wait(story: Story) -> None:
    """Where the answer was handed out and nothing came of it, the next question has an id of its own."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.claim(run)
    own = wait_id(answer_id(run, 1), 0)
    found: list[Any] = []
    for n in range(3):
        found.append(await story.ask(run))
        await answer_wait(story.database, story.key.tenant, found[-1], {"outcome": str(n)}, "somebody")
        assert (await story.claim(run)).answer == {"outcome": str(n)}
    assert found == [own, f"{own}-1", f"{own}-2"]


async def test_a_question_that_is_repeated_after_its_answer_is_not_asked_again(story: Story) -> None:
    """A lost workflow task parks once more on a wait that was answered meanwhile: the answer counts, and is handed out."""
    run = await story.run()
    await story.save(run, calls=1)
    await story.claim(run)
    wait = await story.ask(run, number=1)
    await answer_wait(story.database, story.key.tenant, str(wait), {"outcome": "not_run"}, "somebody")
    assert await story.ask(run, number=1) == wait
    assert await open_waits(story.database, story.key.tenant) == []
    assert (await story.claim(run)).answer == {"outcome": "not_run"}


async def test_an_answer_that_the_run_has_not_heard_of_stays_to_be_told(story: Story) -> None:
    """Who answered died before it could say so: another call's parking does not count as the run's having heard."""
    run = await story.run()
    await story.save(run, calls=2)
    first = str(await story.ask(run, 0))
    await answer_wait(story.database, story.key.tenant, first, {"outcome": "not_run"}, "somebody")
    await story.ask(run, 1)
    undelivered = [row["id"] for row in (await story.rows())["waits"] if row["answered_at"] and not row["delivered"]]
    assert undelivered == [first]
