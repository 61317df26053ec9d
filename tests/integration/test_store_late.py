"""Writers that should be dead: an attempt that was itself a second one, and a note about a run that is over."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from perdure.runtime.addresses import find_keyring
from perdure.store.answers import Writer, append_deltas, read_delta_text
from perdure.store.database import Database
from perdure.uap.events import run_event
from perdure.uap.ids import answer_id, new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from tests.integration.stack import Stack
from tests.integration.store_story import Story


@pytest.fixture
async def session(stack: Stack) -> AsyncGenerator[Story]:
    """A session of its own."""
    database = Database(stack.addresses.database_url, pool_size=2, keyring=find_keyring())
    yield Story(database, SessionKey("late", new_id()))
    await database.close()


async def stream(session: Story, run: str, text: str, *, attempt: int, first: int) -> str:
    """One batch of an attempt as `DeltaLog` sends it: every batch of a repeated attempt says that it takes over."""
    message = answer_id(run, 1)
    delta: JSONObject = {"message": message, "index": 0, "delta": {"text": text}}
    events: list[JSONObject] = [{"s": "upp", "t": "text_delta", "p": 1, "a": attempt, "d": delta}]
    if attempt > 1 and first == 0:
        events.insert(0, {**run_event("message.reset", {"message": message, "attempt": attempt}), "p": 1})
    return await append_deltas(
        session.database,
        Writer(session.key, run, session.execution),
        message,
        token=f"{session.execution}.{attempt}",
        reset=attempt > 1,
        first=first,
        events=events,
        pending=[],
    )


async def test_an_attempt_that_took_over_is_overtaken_itself(session: Story) -> None:
    """The second attempt still streams when the third has begun: its text is refused, not mixed in."""
    run = await session.run()
    assert await stream(session, run, "first ", attempt=1, first=0) == "won"
    assert await stream(session, run, "second ", attempt=2, first=0) == "won"
    assert await stream(session, run, "third ", attempt=3, first=0) == "won"
    assert await stream(session, run, "second goes on ", attempt=2, first=2) == "late"
    assert await stream(session, run, "third goes on", attempt=3, first=2) == "won"
    text = await read_delta_text(session.database, session.key, run, answer_id(run, 1))
    assert text == "third third goes on"


async def test_nothing_is_said_of_a_run_behind_its_end(session: Story) -> None:
    """A note of an execution that had lost its run long ago is no event of that run: its last one is the terminal one."""
    run = await session.run()
    await session.end(run)
    await session.note("run.parked", run, status="parked", execution="another")
    assert await session.kinds() == ["run.queued", "run.started", "run.completed"]
