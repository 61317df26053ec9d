"""The conversation: messages by thread node and position."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from perdure.store.json_text import read_json
from perdure.store.payloads import checked, payloads_in, read_payloads
from perdure.uap.scaffold import scaffold_of
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject, JSONValue, loads
from perdure.upp.messages import Message, message_from_json

_SELECT = (
    "select m.position, m.id, m.run_id, m.step, m.sha256, m.type, m.usage, m.stop, m.discarded, m.scaffold, coalesce(m.body, p.bytes) as body "
    "from perdure.messages m left join perdure.payloads p on m.body is null and p.tenant_id = m.tenant_id "
    "and p.session_id = m.session_id and p.sha256 = m.sha256 where m.tenant_id = $1 and m.session_id = $2 "
)
_RANGE = (
    _SELECT + "and m.node_id = $3 and m.position >= $4 and ($5::integer is null or m.position < $5) "
    "and ($6 or not m.discarded) order by m.position"
)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message with its place, and the hash and size of its stored body; a model's also with its usage and stop.

    `discarded`: it is no part of the thread: of a failed run, a strategy's own, or replaced by a turn of the user's code.
    `unchecked`: nobody but its run may see it: the run's output guards have not seen it, or have refused it.
    """

    position: int
    id: str
    run: str | None
    step: int
    sha256: str
    size_bytes: int
    message: Message
    usage: JSONObject | None = None
    stop: str | None = None
    discarded: bool = False
    unchecked: bool = False

    @property
    def is_of_turn(self) -> bool:
        """Whether a turn of its run may have it: all of the thread, and the strategy's own, of which `run_turn` decides."""
        return not self.discarded or bool(scaffold_of(self.message))


async def read_messages(
    database: Database,
    key: SessionKey,
    node: str,
    *,
    first: int = 0,
    end: int | None = None,
    discarded: bool = False,
) -> list[StoredMessage]:
    """Messages of a node from position `first` up to, not including, `end`, oldest first.

    Args:
        database: the store.
        key: the session.
        node: the thread node.
        first: first position.
        end: position to stop before; None for all.
        discarded: also those of failed runs.

    Raises:
        DamagedSession: a body is missing or does not have its hash.
    """
    async with database.driver(key) as connection:
        rows = await connection.fetch(_RANGE, key.tenant, key.session, node, first, end, discarded)
    return await _hydrated(rows, lambda wanted: read_payloads(database, key, wanted))


async def messages_in(
    connection: AsyncConnection, key: SessionKey, node: str, *, first: int, end: int
) -> list[StoredMessage]:
    """As `read_messages`, within a transaction: who holds a connection does not wait for another."""
    raw = await connection.get_raw_connection()
    driver = cast("asyncpg.Connection[asyncpg.Record]", raw.driver_connection)
    rows = await driver.fetch(_RANGE, key.tenant, key.session, node, first, end, False)
    return await _hydrated(rows, lambda wanted: payloads_in(driver, key, wanted))


async def read_message(database: Database, key: SessionKey, message: str) -> StoredMessage | None:
    """One message by id, or None."""
    async with database.driver(key) as connection:
        rows = await connection.fetch(_SELECT + "and m.id = $3", key.tenant, key.session, message)
    found = await _hydrated(rows, lambda wanted: read_payloads(database, key, wanted))
    return found[0] if found else None


async def _hydrated(
    rows: Sequence[Any], bodies_of: Callable[[list[str]], Awaitable[dict[str, bytes]]]
) -> list[StoredMessage]:
    bodies = [checked(row["sha256"], row["body"], "message") for row in rows]
    documents = [read_body(row["type"], body) for row, body in zip(rows, bodies, strict=True)]
    wanted = [ref["sha256"] for document in documents for ref in _references(document)]
    results = await bodies_of(wanted) if wanted else {}
    for document in documents:
        fill(document, results)
    messages = [message_from_json(document) for document in documents]
    return [
        StoredMessage(
            position=row["position"],
            id=row["id"],
            run=row["run_id"],
            step=row["step"],
            sha256=row["sha256"],
            size_bytes=len(body) + sum(ref["size"] for ref in _references(document)),
            message=message,
            usage=row["usage"],
            stop=row["stop"],
            discarded=row["discarded"],
            unchecked=row["scaffold"] and not scaffold_of(message),
        )
        for row, body, document, message in zip(rows, bodies, documents, messages, strict=True)
    ]


def read_body(kind: str, body: bytes) -> JSONObject:
    """A message's stored body. That of tool results is put together in the database, from json columns."""
    if kind == "tool_result":
        return cast(JSONObject, read_json(body.decode("utf-8", "surrogatepass")))
    return cast(JSONObject, loads(body))


def _references(document: JSONObject) -> list[dict[str, Any]]:
    results = cast("list[dict[str, Any]]", document.get("results") or [])
    return [result["ref"] for result in results if "ref" in result]


def fill(document: JSONObject, results: Mapping[str, bytes]) -> None:
    """Put the results of a tool-result message where they belong, by hash."""
    for result in cast("list[dict[str, JSONValue]]", document.get("results") or []):
        ref = cast("dict[str, str] | None", result.get("ref"))
        if ref is not None:
            result["result"] = loads(results[ref["sha256"]])
