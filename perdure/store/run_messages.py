"""The messages of one run, and what they used: what a run's turn is put together from."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from perdure.store.database import Database
from perdure.store.messages import StoredMessage, read_messages
from perdure.uap.session_key import SessionKey
from perdure.upp.usage import TokenUsage, aggregate_usage


async def read_run_messages(
    database: Database, key: SessionKey, run: str, node: str, *, first: int, end: int | None = None
) -> list[StoredMessage]:
    """A run's messages from position `first` up to, not including, `end`; discarded ones too, in order."""
    stored = await read_messages(database, key, node, first=first, end=end, discarded=True)
    return [item for item in stored if item.run == run]


def usage_of(stored: Iterable[StoredMessage]) -> TokenUsage:
    """What the answers among the messages used."""
    return aggregate_usage([TokenUsage.from_json(item.usage) for item in stored if item.usage])


async def read_usage(database: Database, key: SessionKey, messages: Collection[str]) -> TokenUsage:
    """What the answers of these row ids used."""
    sql = (
        "select usage from perdure.messages where tenant_id = $1 and session_id = $2 and id = any($3::text[]) "
        "and usage is not null"
    )
    async with database.driver(key) as connection:
        rows = await connection.fetch(sql, key.tenant, key.session, list(messages))
    return aggregate_usage([TokenUsage.from_json(row["usage"]) for row in rows])
