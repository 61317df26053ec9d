"""What the sweep looks at when there is more than it looks at in one round."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from perdure.store.agents import AgentRow, register_agents
from perdure.store.database import Database
from perdure.store.inputs import submit
from perdure.store.submission import Submission
from perdure.store.sweep import find_due
from perdure.store.tables import inputs
from perdure.upp.messages import UserMessage
from tests.integration.durable_sessions import make_database
from tests.integration.stack import Stack

TENANT = "swept"
ROUNDS = 60
LAST = "ffffffff-ffff-4fff-bfff-ffffffffffff"
"""By its id as by its time."""


async def test_sessions_that_nobody_serves_hold_up_no_other(stack: Stack) -> None:
    """150 of an agent whose workers are gone for good, all older: the one that is served has its turn all the same."""
    database = Database(await make_database(stack, f"swept_{uuid.uuid4().hex}"))
    try:
        rows = [AgentRow(name, name, "SessionWorkflow", name, {"name": name, "id": name}) for name in ("gone", "here")]
        await register_agents(database, TENANT, rows)
        for number in range(150):
            await submit(database, Submission(TENANT, "gone", "gone", UserMessage("hello"), str(number)))
        mine = Submission(TENANT, "here", "here", UserMessage("hello"), "mine", session=LAST, create=True)
        served = await submit(database, mine)
        async with database.transaction(TENANT) as connection:
            long_ago = datetime.now(UTC) - timedelta(minutes=1)
            await connection.execute(update(inputs).values(created_at=long_ago))
        found = [{item.key for item in await find_due(database)} for _ in range(ROUNDS)]
    finally:
        await database.close()
    assert {len(keys) for keys in found} == {100}
    assert any(served.key in keys for keys in found)
