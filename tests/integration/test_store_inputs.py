"""Inputs on a real PostgreSQL: each is taken once, in its order, by the agent that owns the session."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import KeyConflict
from perdure.store.beginning import Begun
from perdure.store.sessions import read_session
from perdure.store.withdrawing import withdraw
from tests.integration.store_story import NOW, Story, thrice

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_repeated_submit_is_one_input(story: Story) -> None:
    """The same key answers with the same run, and says that it was known."""
    first, second, third = await thrice(story, lambda: story.submit("hello", key="k"))
    assert [first.repeated, second.repeated, third.repeated] == [False, True, True]
    assert first.run == second.run == third.run
    assert await story.kinds() == ["run.queued"]
    with pytest.raises(KeyConflict):
        await story.submit("something else", key="k")


async def test_begin_run_takes_an_input_once(story: Story) -> None:
    """The first call makes run, message and event; the others find the open run as it was begun."""
    accepted = await story.submit("hello")
    first, second, third = await thrice(story, story.begin)
    assert [first.kind, second.kind, third.kind] == ["new", "adopted", "adopted"]
    assert {(begun.row or {})["run"] for begun in (first, second, third)} == {accepted.run}
    assert await story.kinds() == ["run.queued", "run.started"]
    assert [item.message.text for item in await story.thread()] == ["hello"]
    other = await story.begin(execution="execution-2", spec={"name": "other"})
    assert (other.row or {})["execution"] == "execution-1"
    assert (other.row or {})["spec"] == {"name": "s"}


async def test_begin_run_takes_inputs_in_order(story: Story) -> None:
    """Each end frees the session for the next input, until there is none."""
    accepted = [await story.submit(f"input {n}") for n in range(3)]
    taken: list[Any] = []
    while (begun := await story.begin()).kind != "nothing":
        taken.append((begun.row or {})["run"])
        await story.end(taken[-1])
    assert taken == [item.run for item in accepted]
    assert await story.begin() == Begun("nothing")
    await story.check()


async def test_begin_run_names_the_agent_that_owns_the_session(story: Story) -> None:
    """A workflow of another agent takes nothing."""
    await story.submit("hello")
    rows = await story.rows()
    assert await story.begin(agent="stranger") == Begun("agent", agent="teller")
    assert await story.rows() == rows


async def test_an_input_for_later_holds_up_no_other(story: Story) -> None:
    """An input that is not due is passed over, and taken once it is."""
    later = await story.submit("later", not_before=NOW + timedelta(hours=1))
    sooner = await story.submit("sooner")
    begun = await story.begin()
    assert (begun.row or {})["run"] == sooner.run
    await story.end(sooner.run)
    assert (await story.begin()).kind == "nothing"
    begun = await story.begin(now=NOW + timedelta(hours=1))
    assert (begun.row or {})["run"] == later.run


async def test_a_withdrawn_input_is_taken_by_nobody(story: Story) -> None:
    """Taking back what is queued happens once, with a terminal event; what has begun is not taken back."""
    begun = await story.run()
    queued = await story.submit("never mind")
    assert await thrice(story, lambda: withdraw(story.database, story.key, queued.run)) == [True, False, False]
    assert not await withdraw(story.database, story.key, begun)
    await story.end(begun)
    assert (await story.begin()).kind == "nothing"
    assert [event.run for event in await story.events() if event.type == "run.cancelled"] == [queued.run]


async def test_a_paused_session_gives_nothing(story: Story) -> None:
    """While it is paused no input is taken, but an open run is still found; after that the queue goes on."""
    run = await story.run()
    await story.submit("next")
    await story.note("session.paused", paused=True)
    adopted = await story.begin()
    assert (adopted.kind, adopted.paused) == ("adopted", True)
    await story.end(run)
    assert await story.begin() == Begun("nothing", paused=True)
    assert (await read_session(story.database, story.key)).status == "paused"
    await story.note("session.resumed", paused=False)
    assert (await story.begin()).kind == "new"
