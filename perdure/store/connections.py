"""The connections to PostgreSQL of one process: SQLAlchemy's pool, and before it those that were used last.

To take a connection from the pool and to give it back costs five times what a call of one of the store's functions does. So
those that a block has left in order wait beside the pool, open, for the next block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import asyncpg
from sqlalchemy import URL, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from perdure.store.json_text import escaped_json
from perdure.store.keyring import Keyring
from perdure.store.opened import Opened, install
from perdure.store.sealing import OPTION

_OPENED = "perdure_opened"


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection that a block has for itself.

    Attributes:
        core: SQLAlchemy's.
        driver: the driver's own, below it.
        opened: what was opened of what it read.
        adapted: SQLAlchemy's view of the driver's.
    """

    core: AsyncConnection
    driver: asyncpg.Connection[asyncpg.Record]
    opened: Opened
    adapted: DBAPIConnection

    @contextmanager
    def autocommit(self) -> Generator[None]:
        """Have each statement of the block stand for itself.

        Not by an execution option: each use of one leaves a callback with a connection until it goes back to the pool.
        """
        self.adapted.autocommit = True
        try:
            yield
        finally:
            self.adapted.autocommit = False


class Connections:
    """Safe to share between tasks of one loop."""

    def __init__(self, url: URL, *, size: int, keyring: Keyring) -> None:
        """Nothing is connected yet.

        Args:
            url: of the driver.
            size: connections kept; as many again are opened under load.
            keyring: opens what is sealed.
        """
        self._engine: AsyncEngine = create_async_engine(
            url,
            pool_size=size,
            max_overflow=size,
            pool_timeout=15,
            connect_args={"timeout": 10, "command_timeout": 30},
            json_serializer=escaped_json,
            execution_options={OPTION: keyring},
        )
        self._keyring = keyring
        self._size = size
        self._ready: list[Connection] = []
        self._is_closed = False
        self._closing: set[asyncio.Task[None]] = set()
        event.listen(self._engine.sync_engine, "connect", self._connected)
        event.listen(self._engine.sync_engine, "checkout", _refuse_closed)

    async def take(self) -> Connection:
        """A connection, whose taker calls `give_back` or `drop`."""
        while self._ready:
            connection = self._ready.pop()
            if not connection.driver.is_closed():
                return connection
            await _closed(connection)
        return await self._from_pool()

    async def give_back(self, connection: Connection) -> None:
        """What was left in order waits for the next taker; where enough wait already it goes back to the pool."""
        if self._is_closed or connection.driver.is_closed() or len(self._ready) >= self._size:
            await _closed(connection)
        else:
            self._ready.append(connection)

    async def drop(self, connection: Connection, *, broken: bool) -> None:
        """Have the pool put in order what was left in the middle of something, and replace what is broken."""
        if broken:
            await connection.core.invalidate()
        await _closed(connection)

    async def close(self) -> None:
        """Close every connection; those in use when their blocks end."""
        self._is_closed = True
        while self._ready:
            await self._ready.pop().core.close()
        await asyncio.gather(*self._closing)
        await self._engine.dispose()

    async def _from_pool(self) -> Connection:
        """One of the pool's, in a task of its own: cancelled while it is set up it would be nobody's, and stay open."""
        core = self._engine.connect()
        making = asyncio.create_task(_made(core), name="connect to PostgreSQL")
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            closing = asyncio.create_task(_close_made(core, making), name="give a connection back")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            raise

    def _connected(self, connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        opened = record.info[_OPENED] = Opened(self._keyring)
        cast(Any, connection).run_async(lambda driver: install(driver, opened))  # type: ignore[no-untyped-call]


async def _made(core: AsyncConnection) -> Connection:
    await core.start()
    raw = await core.get_raw_connection()
    driver = cast("asyncpg.Connection[asyncpg.Record]", raw.driver_connection)
    adapted = raw.dbapi_connection
    assert adapted is not None, "it was made a moment ago"
    return Connection(core, driver, cast(Opened, raw.info[_OPENED]), adapted)


async def _closed(connection: Connection) -> None:
    """Give it back to the pool, whoever is cancelled meanwhile."""
    await asyncio.shield(asyncio.create_task(connection.core.close()))


async def _close_made(core: AsyncConnection, making: asyncio.Task[Connection]) -> None:
    """Give a connection back to the pool as soon as it is made, if it is made."""
    (made,) = await asyncio.gather(making, return_exceptions=True)
    if not isinstance(made, BaseException):
        await core.close()


def _refuse_closed(connection: DBAPIConnection, _record: object, _proxy: object) -> None:
    """Have the pool replace its connections when one has died while it was idle."""
    driver = cast("asyncpg.Connection[asyncpg.Record]", cast(Any, connection).driver_connection)
    if driver.is_closed():
        raise InvalidatePoolError("the server closed this connection")
