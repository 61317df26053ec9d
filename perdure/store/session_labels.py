"""Labels: a session's values of the filterable keys of its metadata, in rows that lists walk by an index.

The database itself writes them with clear metadata, whoever writes that. What is sealed it cannot read, so the process that
seals metadata writes them too, after it, in the same transaction; what one has left out the sweep of any makes good.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.filterable_keys import REMOVED
from perdure.store.json_text import escaped_json
from perdure.store.sealing import seal_in
from perdure.store.tables import filterable_keys
from perdure.uap.session_key import SessionKey

_PUT = text("select perdure.put_labels_v1(:tenant, :session, cast(:metadata as json))")


async def label_sealed(connection: AsyncConnection, key: SessionKey, metadata: Mapping[str, Any]) -> None:
    """Write the labels of a session whose metadata was written in this transaction; nothing to do if that was not sealed.

    Which keys there are is asked after the metadata was written: a key of which this knows nothing is then filled later.

    Args:
        connection: of the transaction.
        key: the session.
        metadata: all of it, as it was before it was sealed.
    """
    if seal_in(connection, key).keyring:
        await put_labels(connection, {key: metadata}, await label_keys(connection))


async def label_keys(connection: AsyncConnection) -> list[str]:
    """The keys of which labels are written."""
    query = select(filterable_keys.c.key).where(filterable_keys.c.state != REMOVED)
    return list(await connection.scalars(query))


async def put_labels(
    connection: AsyncConnection, metadata: Mapping[SessionKey, Mapping[str, Any]], keys: Collection[str]
) -> None:
    """Have the labels of sessions be what their metadata says.

    Args:
        connection: of the transaction, which holds the sessions' rows.
        metadata: all of each session's; of it the database is shown no more than labels hold.
        keys: of `label_keys`.
    """
    if keys and metadata:
        rows = [{**key._asdict(), "metadata": escaped_json(_shown(given, keys))} for key, given in metadata.items()]
        await connection.execute(_PUT, rows)


def _shown(metadata: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {name: metadata[name] for name in keys if isinstance(metadata.get(name), str | int | float)}
