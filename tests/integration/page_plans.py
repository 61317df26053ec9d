"""What the server does for a page: the statements that the product sends, each explained with the values it was sent with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import asyncpg
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database

_SCANS = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Function Scan", "CTE Scan")
_WHOLE, _FEW = "Seq Scan", 10


@dataclass(frozen=True)
class Cost:
    """Of one page, measured by the server: its time, the rows that its scans met, and the tables that were read whole."""

    ms: float
    rows: float
    whole: list[str]


class Watched(Database):
    """Connections that note each statement with its values."""

    def __init__(self, url: str) -> None:
        super().__init__(url, pool_size=1)
        self.sent: list[tuple[str, Sequence[Any]]] = []

    @asynccontextmanager
    async def transaction(self, *given: Any, **named: Any) -> AsyncGenerator[AsyncConnection]:
        async with super().transaction(*given, **named) as connection:
            with self._noting(connection):
                yield connection

    @asynccontextmanager
    async def reading(self, *given: Any, **named: Any) -> AsyncGenerator[AsyncConnection]:
        async with super().reading(*given, **named) as connection:
            with self._noting(connection):
                yield connection

    @asynccontextmanager
    async def driver(self, *given: Any, **named: Any) -> AsyncGenerator[asyncpg.Connection[asyncpg.Record]]:
        async with super().driver(*given, **named) as connection:
            connection.add_query_logger(self._log)
            yield connection
            await asyncio.sleep(0)  # the driver tells of a statement in the loop's next round
            connection.remove_query_logger(self._log)

    @contextmanager
    def _noting(self, connection: AsyncConnection) -> Generator[None]:
        raw = connection.sync_connection
        event.listen(raw, "before_cursor_execute", self._note)
        yield
        event.remove(raw, "before_cursor_execute", self._note)

    def _note(self, *given: Any) -> None:
        self.sent.append((given[2], given[3]))

    def _log(self, query: Any) -> None:
        self.sent.append((query.query, query.args))

    async def cost(self, read: Callable[[Database], Awaitable[object]]) -> Cost:
        """What the server spends on what `read` sends."""
        self.sent = []
        await read(self)
        sent, plans = self.sent, list[dict[str, Any]]()
        async with super().driver() as connection:
            for statement, values in sent:
                found = await connection.fetchval(f"explain (analyze, format json) {statement}", *values)
                plans += cast("list[dict[str, Any]]", json.loads(found) if isinstance(found, str) else found)
        assert plans, "nothing was asked"
        nodes = [node for plan in plans for node in _nodes(plan["Plan"])]
        return Cost(
            ms=sum(plan["Planning Time"] + plan["Execution Time"] for plan in plans),
            rows=sum(_met(node) for node in nodes if node["Node Type"] in _SCANS),
            whole=[node["Relation Name"] for node in nodes if node["Node Type"] == _WHOLE and _met(node) > _FEW],
        )


def _met(node: dict[str, Any]) -> float:
    left_out = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return (node["Actual Rows"] + left_out) * node["Actual Loops"]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)
