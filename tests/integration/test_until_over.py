"""Waiting for a run's end: whoever wants nothing but the result reads nothing of the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from perdure.errors import SessionGone
from perdure.runtime.event_stream import EventStream, StreamClosed
from perdure.store.database import Database
from perdure.store.events import Announcer
from tests.integration.agents import HELD
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.store_story import Story
from tests.integration.test_kills import spec, submit

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def stream(database: Database) -> AsyncGenerator[EventStream, None]:
    """A process that follows."""
    opened = EventStream(database)
    yield opened
    await opened.close()


class Waiting:
    """Somebody who waits for a run of a session; what it looks at is said here."""

    def __init__(self, stream: EventStream, story: Story) -> None:
        self.over, self.looks = False, 0
        self._looked = asyncio.Event()
        self.task = asyncio.create_task(stream.until(story.key, self._is_over))

    async def _is_over(self) -> bool:
        self.looks += 1
        self._looked.set()
        return self.over

    async def until_looked(self) -> None:
        """Until it has looked once more: it listens then."""
        self._looked.clear()
        await self._looked.wait()


@pytest.mark.parametrize("told", ["ended", "changed"])
async def test_an_end_is_heard(story: Story, stream: EventStream, told: str) -> None:
    """As such, and where a process of an older version only says that there is news."""
    await story.run()
    announcer, waiting = Announcer(story.database), Waiting(stream, story)
    await waiting.until_looked()
    waiting.over = True
    getattr(announcer, told)(story.key)
    await asyncio.wait_for(waiting.task, 60)
    await announcer.close()


async def test_news_of_a_run_that_goes_on_is_looked_at_once_a_second(story: Story, stream: EventStream) -> None:
    """However much there is of it."""
    await story.run()
    announcer, waiting = Announcer(story.database), Waiting(stream, story)
    await waiting.until_looked()
    before, began = waiting.looks, asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() < began + 1.5:
        announcer.changed(story.key)
        await asyncio.sleep(0.005)
    took = asyncio.get_running_loop().time() - began
    assert waiting.looks - before <= took + 2
    waiting.over = True
    announcer.ended(story.key)
    await asyncio.wait_for(waiting.task, 60)
    await announcer.close()


async def test_who_waits_hears_that_the_session_is_gone(story: Story, stream: EventStream) -> None:
    await story.run()
    gone = Waiting(stream, story)
    await gone.until_looked()
    async with story.database.driver() as connection:
        await connection.execute("delete from perdure.session_heads where session_id = $1", story.key.session)
    with pytest.raises(SessionGone):
        await asyncio.wait_for(gone.task, 60)


async def test_who_waits_is_told_when_the_process_leaves(story: Story, stream: EventStream) -> None:
    await story.run()
    waiting = Waiting(stream, story)
    await waiting.until_looked()
    await stream.close()
    with pytest.raises(StreamClosed):
        await asyncio.wait_for(waiting.task, 60)


async def test_a_result_needs_no_event(stack: Stack, steady_worker: WorkerProcess) -> None:
    """They are gone while the run goes on."""
    values = spec(steps=1, tool="none", seconds=HELD)
    async with stack.connect() as sessions:
        handle = await submit(sessions, values)
        result = asyncio.create_task(handle.result())
        await stack.until_entries(values["name"], "tool")
        async with sessions.database.driver() as connection:
            await connection.execute("delete from perdure.events where session_id = $1", handle.session)
        stack.release(values)
        assert (await asyncio.wait_for(result, 120)).response.text
