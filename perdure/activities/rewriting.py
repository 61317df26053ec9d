"""The thread that an input wants before it: what both have in common stays, the rest is written, on a branch if need be.

What stays and where a branch opens is `uap`'s part (`rewriting`). Here messages are read a page at a time, up to the first
that differs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.activities.loaded_tree import LoadedTree
from perdure.errors import DamagedSession
from perdure.store.change_inputs import Turn
from perdure.store.messages import messages_in
from perdure.store.rewrites import note_rewritten, read_rewrite
from perdure.store.tables import sessions
from perdure.uap.ids import derive_id
from perdure.uap.rewriting import CommonBeginning, rewrite_tree, way_of
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject
from perdure.upp.messages import Message
from perdure.upp.timestamp import format_timestamp

_PAGE = 100


async def rewrite(connection: AsyncConnection, key: SessionKey, turn: Turn, now: datetime, loaded: LoadedTree) -> None:
    """Make the thread what an input wants, in the transaction that holds the session's lock.

    Args:
        connection: of that transaction.
        key: the session.
        turn: the input, which is a message as any other afterwards.
        now: when.
        loaded: the session's tree.
    """
    wanted = await read_rewrite(connection, key, turn)
    kept = sum(count for _, count in way_of(loaded.tree))
    rest = list(wanted.before)
    if wanted.thread is not None:
        common = CommonBeginning(wanted.thread)
        async with aclosing(_history(connection, key, loaded)) as history:
            async for message in history:
                common.show(message)
                if common.ended:
                    break
        kept, rest = common.kept, [*common.rest, *rest]
    node = rewrite_tree(loaded.tree, kept, rest, branch_id=derive_id(turn.run, "node"))
    changed = loaded.changed_nodes()
    await loaded.write(changed, turn.run)
    await connection.execute(
        update(sessions)
        .where(sessions.c.tenant_id == key.tenant, sessions.c.id == key.session)
        .values(current_node=node, updated_at=now)
    )
    told: JSONObject = {
        "node": node, "current": node, "kept": kept, "added": len(rest), "nodes": [item.to_json() for item in changed],
        "at": format_timestamp(now),
    }  # fmt: skip
    await note_rewritten(connection, key, turn, told)


async def _history(connection: AsyncConnection, key: SessionKey, loaded: LoadedTree) -> AsyncGenerator[Message]:
    """The messages of the current history, oldest first, up to where one of them cannot be read any more."""
    for node, count in way_of(loaded.tree):
        slots = loaded.slots(node).kept[:count]
        for start in range(0, len(slots), _PAGE):
            page = slots[start : start + _PAGE]
            wanted = {slot.id for slot in page}
            try:
                found = await messages_in(connection, key, node, first=page[0].position, end=page[-1].position + 1)
            except DamagedSession:  # what nobody can read is nothing that a client has
                return
            for item in found:
                if item.id in wanted:
                    yield item.message
