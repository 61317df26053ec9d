"""The keys of sessions' metadata by which lists can be filtered: what a deployment allows, and how far each is.

A key that is added is complete once the sessions that were there before it have been gone through, which `label_filling`
does. Until then a list by it would be half an answer, so there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import FilterIncomplete, InvalidInput
from perdure.store.database import Database
from perdure.store.json_text import escaped_json
from perdure.store.tables import filterable_keys
from perdure.upp.json_value import JSONValue

EVERYBODY = "*"
ADDED, FILLING, COMPLETE, REMOVED = "added", "filling", "complete", "removed"
VARIABLE = "PERDURE_FILTERABLE_METADATA"

_LOCK = text("lock table perdure.filterable_keys in share row exclusive mode")
_ASKED = text("""
select w.key, k.state, perdure.label_value_v1(w.value) as value
  from json_each(cast(:wanted as json)) w
  left join perdure.filterable_keys k on k.tenant_id = '*' and k.key = w.key and k.state <> 'removed'
""")


async def set_filterable(database: Database, keys: Collection[str]) -> None:
    """Have lists be filtered by these keys and no others. Harmless if it is so already; a key that stays keeps its rows.

    Args:
        database: the store.
        keys: of sessions' metadata.
    """
    async with database.transaction() as connection:
        await connection.execute(_LOCK)
        found = await connection.execute(select(filterable_keys.c.key, filterable_keys.c.state))
        known = {row.key: row.state for row in found}
        for key in sorted(keys):
            if known.get(key) in (None, REMOVED):
                await connection.execute(delete(filterable_keys).where(filterable_keys.c.key == key))
                row = {"tenant_id": EVERYBODY, "key": key, "state": ADDED, "after_tenant": "", "after_session": ""}
                await connection.execute(insert(filterable_keys).values(row))
        others = (filterable_keys.c.key.not_in(list(keys)), filterable_keys.c.state != REMOVED)
        await connection.execute(update(filterable_keys).where(*others).values(state=REMOVED, horizon=None))


async def list_filterable(database: Database) -> dict[str, str]:
    """The keys by which lists can be filtered, each with its state: `ADDED`, `FILLING` or `COMPLETE`."""
    async with database.reading() as connection:
        return await _states(connection)


async def known_values(connection: AsyncConnection, wanted: Mapping[str, JSONValue]) -> dict[str, str]:
    """What labels are compared with, by key; all of these keys are complete.

    Args:
        connection: of a transaction.
        wanted: values of metadata by key, each a text, a number or a boolean.

    Raises:
        InvalidInput: lists cannot be filtered by one of the keys, or by such a value.
        FilterIncomplete: sessions that are there already are still gone through for one of the keys.
    """
    for key, value in wanted.items():
        if not isinstance(value, str | int | float):
            raise InvalidInput(
                f"metadata {key[:40]!r}: lists are filtered by a text, a number, true or false, nothing else"
            )
    try:
        asked = escaped_json(dict(wanted))
    except ValueError as error:
        raise InvalidInput("metadata: lists are filtered by numbers that JSON has") from error
    rows = (await connection.execute(_ASKED, {"wanted": asked})).all()
    for row in rows:
        if row.state is None:
            raise InvalidInput(await _refusal(connection, row.key))
    for row in rows:
        if row.state != COMPLETE:
            raise FilterIncomplete(
                f"metadata {row.key!r}: the sessions that were there before this key became filterable are still gone "
                "through; try again in a while, and see that a worker or API process runs, which does it"
            )
    return {row.key: row.value for row in rows}


async def _refusal(connection: AsyncConnection, key: str) -> str:
    known = ", ".join(await _states(connection)) or "no key"
    return (
        f"metadata {key[:40]!r}: lists cannot be filtered by this key, but by {known}; to allow it, name it in "
        f"{VARIABLE} and run `perdure migrate`"
    )


async def _states(connection: AsyncConnection) -> dict[str, str]:
    query = select(filterable_keys.c.key, filterable_keys.c.state).where(filterable_keys.c.state != REMOVED)
    rows = (await connection.execute(query.order_by(filterable_keys.c.key))).all()
    return {row.key: row.state for row in rows}
