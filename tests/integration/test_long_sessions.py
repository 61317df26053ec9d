"""A run in a long session has PostgreSQL read as many rows as one in a short session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from perdure.migrations.migrate import migrate
from perdure.store.checkpoints import last_checkpoint
from perdure.store.completed_turns import completed_turn
from perdure.store.database import Database
from perdure.store.folding import EndedRun, fold_run
from perdure.store.runs import find_run
from perdure.uap.ids import answer_id, new_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from tests.integration.store_story import Story, checkpoint, step_start

LONG, SHORT = 100, 300
SLACK = 12
"""Rows that a page of an index may hold besides those that are looked for, of each table."""

READ = """
select relname::text as name, coalesce(idx_tup_fetch, 0) as fetched, coalesce(seq_tup_read, 0) as scanned
  from pg_stat_user_tables where schemaname = 'perdure'
"""
ENTRIES = "select relname::text as name, idx_tup_read as read from pg_stat_user_indexes where schemaname = 'perdure'"


async def whole_run(story: Story) -> EndedRun:
    """A run of one step with one tool call, its checkpoints, its turn read, its deltas folded."""
    run = await story.run()
    await story.deltas(run, "", pending=[step_start(1)], events=[_delta(run, word) for word in ["one", "two", "three"]])
    await story.save(run, 1, ["call"])
    await story.claim(run)
    await story.result(run)
    await story.save(run, 2, pending=[checkpoint(run, 1), step_start(2)])
    await story.end(run, pending=[checkpoint(run, 2)])
    row = await find_run(story.database, story.key.tenant, run)
    assert len((await completed_turn(story.database, row)).tool_executions) == 1
    assert await last_checkpoint(story.database, story.key, run) is not None
    assert row.first_seq is not None
    assert row.last_seq is not None
    ended = EndedRun(story.key, run, row.first_seq, row.last_seq)
    assert await fold_run(story.database, ended)
    return ended


async def rows_read(database: Database, work: Callable[[], Awaitable[None]]) -> Counter[str]:
    """How many rows and index entries of each table the server has read for `work`."""
    before = await _read(database)
    await work()
    return await _read(database) - before


async def _read(database: Database) -> Counter[str]:
    async with database.driver() as connection:
        await connection.execute("select pg_stat_force_next_flush()")
        rows = await connection.fetch(READ)
        entries = await connection.fetch(ENTRIES)
    found = Counter({row["name"]: row["fetched"] + row["scanned"] for row in rows})
    found.update({row["name"]: row["read"] for row in entries})
    return found


async def test_a_long_session_is_not_read_again_by_each_run(empty: str) -> None:
    """Most sessions are short, a few are long: no statement may take a session for a run of it."""
    database = Database(empty, pool_size=1)
    try:
        await migrate(database)
        long, short = _story(database), _story(database)
        first = {story.key: await whole_run(story) for story in (long, short)}
        for _ in range(LONG):
            await whole_run(long)
        for _ in range(SHORT):
            await whole_run(_story(database))
        async with database.driver() as connection:
            await connection.execute("analyze")
            await connection.execute("set enable_seqscan = off")  # small tables are read whole, however it is asked

        async def work(story: Story) -> None:
            await whole_run(story)
            await fold_run(database, first[story.key])  # it may be due long after

        for story in (short, long):  # plans are made
            for _ in range(6):
                await work(story)
        few = await rows_read(database, lambda: work(short))
        many = await rows_read(database, lambda: work(long))
        assert {name: (few[name], count) for name, count in many.items() if count > few[name] + SLACK} == {}
        assert few["runs"] > 0
    finally:
        await database.close()


def _delta(run: str, word: str) -> JSONObject:
    data: JSONObject = {"message": answer_id(run, 1), "index": 0, "delta": {"text": word}}
    return {"s": "upp", "t": "text_delta", "p": 1, "a": 1, "d": data}


def _story(database: Database) -> Story:
    return Story(database, SessionKey("tenant", new_id()))
