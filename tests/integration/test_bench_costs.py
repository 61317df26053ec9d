"""What runs have left behind is counted to the event, over executions, sub-agents and earlier runs."""

from __future__ import annotations

import os
import uuid

from temporalio.client import Client

from perdure.runtime.bench_costs import read_before, read_costs
from perdure.runtime.history_size import last_history
from perdure.store.database import Database
from perdure.store.run_trees import read_trees
from perdure.store.stored_size import stored_bytes
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import sha256_hex
from tests.integration.rebuilt_sessions import ended, executions, submit
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.store_story import Story
from tests.integration.sub_agents import ask
from tests.integration.test_sub_agents import children_of, lead, usage_row

APP = "tests.integration.sub_agents:app"


async def count_events(client: Client, key: SessionKey, execution: str | None = None) -> int:
    """How many events Temporal has of an execution."""
    return len((await client.get_workflow_handle(key.workflow_id, run_id=execution).fetch_history()).events)


async def test_sub_agents_count(stack: Stack) -> None:
    """Steps, calls, tokens, history and rows are those of the run and of all that it called, to any depth."""
    worker = WorkerProcess(stack, APP).wait_ready()
    try:
        name = uuid.uuid4().hex
        async with stack.connect() as sessions:
            inner = ask("explorer", name, [ask("digger", name, "gold")], "found")
            handle = await lead(sessions, name, [inner], "all done")
            await handle.result()
            costs = await read_costs(sessions, [handle.id], {})
            usage, _ = await usage_row(sessions, handle.session)
            tree = await read_trees(sessions.database, sessions.tenant, [handle.id])
            events = sum([await count_events(sessions.client, run.key, run.execution) for run in tree])
            own = {run.id: run for run in tree}[handle.id]
            children = await children_of(sessions, handle.session)
    finally:
        worker.kill()
    assert len(tree) == 3
    assert children[0]["run"] in {run.id for run in tree}
    assert (costs.steps, costs.model_calls, costs.tool_calls) == (5, 5, 2)
    assert (own.steps, own.model_calls, own.tool_calls) == (2, 2, 1)
    assert (costs.input_tokens, costs.output_tokens) == (usage["inputTokens"], usage["outputTokens"])
    assert costs.cost is None
    assert costs.history_events == events
    assert costs.history_bytes > 1000 * len(tree)


async def test_a_run_over_several_executions_counts_all_of_them(stack: Stack, rebuilt_worker: WorkerProcess) -> None:
    """Executions between a run's first and last are found by their histories; those before a benchmark are left out."""
    async with stack.connect() as sessions:
        first = await submit(sessions, steps=31)
        assert await ended(first) == "completed"
        key = SessionKey(sessions.tenant, first.session)
        costs = await read_costs(sessions, [first.id], {})

        async def listed() -> list[str] | None:
            found = await executions(sessions, key)
            return found if len(found) >= 3 else None

        made = await eventually(listed, what="the executions in Temporal's list")
        assert costs.history_events == sum([await count_events(sessions.client, key, one) for one in made])
        before = await read_before(sessions, first.session)
        assert before.stored_bytes == costs.stored_bytes
        second = await submit(sessions, session=first.session, steps=31)
        assert await ended(second) == "completed"
        again = await read_costs(sessions, [second.id], {first.session: before})
        total = await read_costs(sessions, [first.id, second.id], {})
        assert again.history_events == total.history_events - costs.history_events
        assert again.stored_bytes == total.stored_bytes - costs.stored_bytes
        assert await last_history(sessions.client, SessionKey(sessions.tenant, str(uuid.uuid4()))) is None


async def test_rows_are_counted_as_they_are_stored(database: Database, story: Story) -> None:
    """A body that cannot be compressed counts its bytes and little more; other sessions count nothing."""
    await story.submit("x")
    key, body = story.key, os.urandom(10_000)
    before = await stored_bytes(database, key.tenant, [key.session])
    async with database.driver() as connection:
        sql = "insert into perdure.payloads (tenant_id, session_id, sha256, bytes) values ($1, $2, $3, $4)"
        await connection.execute(sql, key.tenant, key.session, sha256_hex(body), body)
    grown = await stored_bytes(database, key.tenant, [key.session]) - before
    assert 10_000 < grown < 10_300
    assert before > 0
    assert await stored_bytes(database, key.tenant, [str(uuid.uuid4())]) == 0
    assert await stored_bytes(database, "another tenant", [key.session]) == 0
