"""Tool calls on a real PostgreSQL: each is taken by one worker, and its result is stored once."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections import Counter

import pytest

from perdure.store.answers import SavedAnswer, save_answer
from perdure.store.database import Database
from perdure.store.tool_calls import CallState, Saved
from perdure.uap.ids import new_id, results_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import dumps, sha256_hex
from tests.integration.store_story import Story, results, thrice

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_claim_call_takes_a_pending_call_once(story: Story) -> None:
    """The first to claim finds it pending, all others find it running; a look takes nothing."""
    run = await story.run()
    await story.save(run, calls=1)
    assert [item.state for item in await thrice(story, lambda: story.claim(run, claim=False))] == ["pending"] * 3
    assert [item.state for item in await thrice(story, lambda: story.claim(run))] == ["pending", "running", "running"]
    states = await asyncio.gather(*(story.claim(run, attempt=n) for n in range(2, 7)))
    assert {item.state for item in states} == {"running"}
    assert {item.attempt for item in states} == {1}


@pytest.mark.parametrize("paused", [False, True])
async def test_a_call_may_be_marked_with_its_answer(story: Story, paused: bool) -> None:
    """In one transaction; unless the session is paused, as the answer says: then nothing is to be called."""
    run = await story.run()
    await story.set_head(paused=paused)
    row = story.answer(run, calls=2)
    row = dataclasses.replace(row, calls=[row.calls[0], {**row.calls[1], "mark": 3}])
    saved = await save_answer(story.database, story.writer(run), row, [], [])
    assert saved == SavedAnswer("won", paused)
    found = [await story.claim(run, index, claim=False) for index in range(2)]
    assert [(call.state, call.attempt) for call in found] == [
        ("pending", 0),
        ("pending", 0) if paused else ("running", 3),
    ]
    again = await save_answer(story.database, story.writer(run), row, [], [])
    assert again == SavedAnswer("stored", paused)


async def test_claims_at_once_have_one_winner(story: Story) -> None:
    """Of ten attempts that claim a call at the same moment one finds it pending."""
    run = await story.run()
    await story.save(run, calls=1)
    states = await asyncio.gather(*(story.claim(run, attempt=n) for n in range(10)))
    assert Counter(item.state for item in states) == {"pending": 1, "running": 9}


async def test_save_result_stores_a_result_once(story: Story) -> None:
    """The first result stays; who brings another is told the first."""
    run = await story.run()
    await story.save(run, calls=1)
    first, second, third = await thrice(story, lambda: story.result(run, value={"n": 1}))
    rows = await story.rows()
    other = await story.result(run, value="another", is_error=True, attempt=2)
    assert await story.rows() == rows
    body = dumps({"n": 1})
    known = CallState("done", sha256=sha256_hex(body), size=len(body), duration_ms=7, attempt=1)
    made = next(row for row in rows["messages"] if row["type"] == "tool_result")
    assert first == Saved("won", batch=results_id(run, 1), batch_sha256=made["sha256"])
    assert [second, third, other] == [Saved("stored", known)] * 3
    claimed = await story.claim(run)
    assert claimed == known
    assert (await story.kinds())[-2:] == ["tool_execution_end", "observation"]
    assert [result.result for result in (await results(story))] == [{"n": 1}]


async def test_twenty_results_at_once_make_one_message(story: Story) -> None:
    """The last of a batch, whichever it is, makes the one tool-result message; the event numbers have no gap."""
    run = await story.run()
    await story.save(run, calls=20)
    saved = await asyncio.gather(*(story.result(run, n % 20, value=n % 20) for n in range(40)))
    assert Counter(item.kind for item in saved) == {"won": 20, "stored": 20}
    batches = [(item.batch, item.batch_sha256) for item in saved if item.batch is not None]
    messages = await story.thread()
    assert [item.message.type for item in messages] == ["user", "assistant", "tool_result"]
    assert batches == [(results_id(run, 1), messages[-1].sha256)]
    assert [(result.tool_call_id, result.result) for result in await results(story)] == [
        (f"call-{n}", n) for n in range(20)
    ]
    kinds = Counter(await story.kinds())
    assert (kinds["tool_execution_end"], kinds["observation"]) == (20, 1)
    await story.end(run)
    await story.check()


async def test_results_at_once_of_several_sessions_do_not_wait_for_each_other(database: Database) -> None:
    """Six sessions that store the same result at once each keep their own copy of it."""
    stories = [Story(database, SessionKey(f"tenant-{uuid.uuid4().hex}", new_id())) for _ in range(6)]

    async def whole(story: Story) -> None:
        run = await story.run()
        await story.save(run, calls=2)
        await asyncio.gather(story.result(run, 0), story.result(run, 1))
        await story.end(run)
        await story.check()
        assert len((await story.rows())["payloads"]) == 1

    await asyncio.gather(*(whole(story) for story in stories))


@pytest.mark.parametrize(
    "name", ['quoted "call"', "new\nline", "é漢😀", "nul\0", "lone \ud800", "\ufdd0d800", "back\\u0000slash"]
)
async def test_a_vendor_may_name_its_calls_as_it_likes(story: Story, name: str) -> None:
    """The tool-result message that SQL makes refers to each call by exactly the id that the model gave."""
    run = await story.run()
    await story.save(run, calls=[name])
    await story.result(run)
    assert [result.tool_call_id for result in await results(story)] == [name]
