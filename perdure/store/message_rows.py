"""Messages that no run makes: a history that a session begins with, an import, copies on another branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.json_text import escaped_json
from perdure.store.sealing import seal_in
from perdure.store.tables import messages, payloads
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import dumps, sha256_hex
from perdure.upp.messages import Message, ToolResultMessage

KEEP_BYTES = 65536
_BATCH = 200

_COPY = """
insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256, usage, stop,
                              scaffold)
select m.tenant_id, m.session_id, c.made, :node, cast(:first as integer) + c.n - 1, :run, m.step, m.type, m.body, m.sha256,
       m.usage, m.stop, m.scaffold and cast(:run as text) is not null
  from unnest(cast(:sources as text[]), cast(:ids as text[])) with ordinality as c(source, made, n)
  join perdure.messages m on m.tenant_id = :tenant and m.session_id = :session and m.id = c.source
"""


def stored_body(message: Message) -> bytes:
    """A message as its row holds it. Tool results are read as the database writes them, see `read_body`."""
    document = message.to_json()
    return escaped_json(document).encode() if isinstance(message, ToolResultMessage) else dumps(document)


async def put_messages(
    connection: AsyncConnection,
    key: SessionKey,
    node: str,
    rows: Sequence[tuple[str, Message]],
    *,
    first: int = 0,
    **values: Any,
) -> None:
    """Write messages at the end of a node.

    Args:
        connection: in a transaction.
        key: the session.
        node: the thread node.
        rows: row id and message, oldest first.
        first: position of the first.
        values: columns that all rows have besides.
    """
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        bodies = [stored_body(message) for _, message in batch]
        seal = seal_in(connection, key)
        await put_payloads(connection, key, [body for body in bodies if len(body) > KEEP_BYTES])
        await connection.execute(
            insert(messages),
            [
                {
                    "tenant_id": key.tenant,
                    "session_id": key.session,
                    "id": ident,
                    "node_id": node,
                    "position": first + start + place,
                    "run_id": None,
                    "step": 0,
                    "type": str(message.type),
                    "body": seal.body(body) if len(body) <= KEEP_BYTES else None,
                    "sha256": sha256_hex(body),
                    **values,
                }
                for place, ((ident, message), body) in enumerate(zip(batch, bodies, strict=True))
            ],
        )


async def put_payloads(connection: AsyncConnection, key: SessionKey, bodies: Sequence[bytes]) -> None:
    """Put bodies into the claim check; those that are there stay."""
    seal = seal_in(connection, key)
    for body in bodies:
        row = {
            "tenant_id": key.tenant, "session_id": key.session, "sha256": sha256_hex(body), "bytes": seal.body(body),
        }  # fmt: skip
        await connection.execute(upsert(payloads).values(row).on_conflict_do_nothing())


async def copy_messages(
    connection: AsyncConnection,
    key: SessionKey,
    node: str,
    rows: Sequence[tuple[str, str]],
    *,
    first: int,
    run: str | None = None,
) -> None:
    """Copy messages to the end of another node; their bodies do not leave the database.

    Args:
        connection: in a transaction.
        key: the session.
        node: where to.
        rows: id of the row, and of its copy, in order.
        first: position of the first.
        run: whose the copies are; only in a run do a strategy's own messages stay what they are.
    """
    if rows:
        await connection.execute(
            text(_COPY),
            {
                "tenant": key.tenant,
                "session": key.session,
                "node": node,
                "first": first,
                "run": run,
                "sources": [source for source, _ in rows],
                "ids": [made for _, made in rows],
            },
        )
