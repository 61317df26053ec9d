"""Rolling a run back: what stood before it is checked out on a new branch. What the run said stays on its node."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.activities.loaded_tree import LoadedTree
from perdure.activities.services import Services
from perdure.store.answers import Writer
from perdure.store.change_inputs import Turn, take_turn
from perdure.store.inputs import CHANGED, emit, outcome_note
from perdure.store.tables import inputs, runs, sessions
from perdure.testing.crash import crash_point
from perdure.uap.events import run_event
from perdure.uap.ids import derive_id
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from perdure.upp.timestamp import format_timestamp

ROLLBACK = "rollback"
ROLLED_BACK = "rolledBack"


async def roll_back(services: Services, writer: Writer, ordinal: int) -> None:
    """Check out what stood before the target of an input, in one transaction, if the input's turn has come.

    Args:
        services: of this worker.
        writer: who writes.
        ordinal: the input's place; its row says afterwards that this is done, and it is taken next.
    """
    async with services.database.transaction(writer.key) as connection:
        turn = await take_turn(connection, writer.key, ordinal)
        if turn is None:
            return
        crash_point("roll_back.storing")
        await _check_out(connection, writer.key, turn)
    crash_point("roll_back.stored")
    services.announcer.changed(writer.key)


async def _check_out(connection: AsyncConnection, key: SessionKey, turn: Turn) -> None:
    own = (inputs.c.tenant_id == key.tenant, inputs.c.session_id == key.session, inputs.c.ordinal == turn.ordinal)
    target = await connection.scalar(select(inputs.c.target_run).where(*own))
    query = select(runs.c.node_id, runs.c.start_position).where(
        runs.c.tenant_id == key.tenant, runs.c.session_id == key.session, runs.c.id == target
    )
    run = (await connection.execute(query)).one()
    loaded = await LoadedTree.load(connection, key)
    older = loaded.slots(run.node_id).count_before(run.start_position)
    branch = loaded.tree.nodes[loaded.tree.branch(run.node_id, id=derive_id(turn.run, "node"), fork_index=older)]
    branch.metadata[ROLLED_BACK] = target
    loaded.tree.checkout(branch.id)
    changed = loaded.changed_nodes()
    await loaded.write(changed, turn.run)
    now = datetime.now(UTC)
    here = (sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
    await connection.execute(update(sessions).where(*here).values(current_node=branch.id, updated_at=now))
    told: JSONObject = {
        "input": turn.ordinal, "kind": ROLLBACK, "run": target, "node": branch.id, "current": branch.id,
        "nodes": [node.to_json() for node in changed], "at": format_timestamp(now),
    }  # fmt: skip
    await emit(connection, key, turn.run, [{**run_event(CHANGED, told), "n": outcome_note(turn.ordinal)}])
    await connection.execute(update(inputs).where(*own).values(detail={"node": branch.id}))
