"""One pool of connections to PostgreSQL, and what to do when it is away.

Core statements go through `transaction()`, or through `reading()` if they read and each stands for itself; the hot functions
go through `call()`, one round trip on the driver's own connection. `keep_trying` is for a write that must not be lost once its effect is paid.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

import asyncpg
from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.errors import InvalidInput, PerdureError
from perdure.store.connections import Connection, Connections
from perdure.store.keyring import NO_KEYS, Keyring
from perdure.store.opened import Opened
from perdure.store.sealing import Seal
from perdure.uap.session_key import SessionKey
from perdure.upp.json_value import JSONObject

T = TypeVar("T")

_AWAY = (
    OSError,
    EOFError,
    TimeoutError,
    PoolTimeout,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)


_NO_TEXT = (
    "a name, an id or a note has NUL or half of a surrogate pair in it, which PostgreSQL does not keep; leave it out"
)


class Database:
    """The store's connections. Safe to share between tasks of one loop."""

    def __init__(self, url: str, *, pool_size: int = 10, keyring: Keyring = NO_KEYS) -> None:
        """Prepare a pool; nothing is connected yet.

        Args:
            url: `postgresql://user:password@host:port/database`.
            pool_size: connections kept; as many again are opened under load.
            keyring: opens what is sealed. What is written is sealed if it has a key.

        Raises:
            InvalidInput: not a PostgreSQL URL.
        """
        self._url = _driver_url(url)
        self.keyring = keyring
        self._connections = Connections(self._url, size=pool_size, keyring=keyring)

    @property
    def address(self) -> str:
        """Host, port and database, without the password."""
        return f"{self._url.host}:{self._url.port or 5432}/{self._url.database}"

    def dsn(self) -> str:
        """The URL as the bare driver wants it, with the password."""
        return self._url.set(drivername="postgresql").render_as_string(hide_password=False)

    async def connect_alone(self) -> asyncpg.Connection[asyncpg.Record]:
        """A connection beside the pool, for one who listens, or opens nothing. Its caller ends it.

        It is made in a task of its own: the driver leaves errors to the collector when it is cancelled on the way.
        """
        making = asyncio.create_task(asyncpg.connect(self.dsn(), timeout=3), name="connect to PostgreSQL")
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            (made,) = await asyncio.gather(making, return_exceptions=True)
            if not isinstance(made, BaseException):
                made.terminate()
            raise

    def seal(self, key: SessionKey) -> Seal:
        """What seals a session's values."""
        return Seal(self.keyring, key)

    def open_body(self, body: bytes) -> bytes:
        """A body that came packed into JSON. Raises as a read of it would."""
        opened = Opened(self.keyring)
        plain = opened.body(body)
        opened.check(None)
        return plain

    @asynccontextmanager
    async def transaction(self, of: SessionKey | str | None = None) -> AsyncGenerator[AsyncConnection]:
        """A Core connection in a transaction: committed at the end of the block, rolled back on an error.

        Args:
            of: the session, or the tenant, to which all belongs that the block reads; None asks nothing.

        Raises:
            KeyMissing: at the end of the block: something that was read is sealed under a key that this process lacks.
            DamagedSession: likewise: it was changed, or sealed for another session or tenant.
        """
        async with self._taken() as connection, connection.core.begin():
            with _opening(connection.opened, of):
                yield connection.core

    @asynccontextmanager
    async def reading(self, of: SessionKey | str | None = None) -> AsyncGenerator[AsyncConnection]:
        """A Core connection for reads, each of which stands for itself; nothing is sent to begin or end a transaction.

        Arguments and errors are those of `transaction`.
        """
        async with self._taken() as connection:
            with _opening(connection.opened, of), connection.autocommit():
                yield connection.core
            await connection.core.rollback()  # of what SQLAlchemy thinks that it has begun

    @asynccontextmanager
    async def driver(self, of: SessionKey | str | None = None) -> AsyncGenerator[asyncpg.Connection[asyncpg.Record]]:
        """The driver's own connection, outside any transaction. Arguments and errors are those of `transaction`."""
        async with self._taken() as connection:
            with _opening(connection.opened, of):
                yield connection.driver

    async def call(self, function: str, *arguments: Any) -> JSONObject:
        """Call one of the store's SQL functions; its transaction is its own.

        Args:
            function: its name in the schema, for example `save_answer_v1`.
            arguments: in order, tenant and session first; JSON arguments as text. JSON comes back as Python values.
        """
        return await self._call(SessionKey(arguments[0], arguments[1]), function, arguments)

    async def call_for_tenant(self, function: str, tenant: str, *arguments: Any) -> JSONObject:
        """Call one of those that name no session: the tenant comes first. Else as `call`."""
        return await self._call(tenant, function, (tenant, *arguments))

    async def _call(self, of: SessionKey | str, function: str, arguments: Sequence[Any]) -> JSONObject:
        places = ", ".join(f"${n}" for n in range(1, len(arguments) + 1))
        async with self._taken() as connection:
            with _opening(connection.opened, of):
                answer = await connection.driver.fetchval(f"select perdure.{function}({places})", *arguments)
        return cast(JSONObject, answer)

    @asynccontextmanager
    async def _taken(self) -> AsyncGenerator[Connection]:
        """A connection for the block. One that has broken is dropped, and said to be away by an error that `is_away` knows.

        When a server dies in the middle of a call the driver may raise nearly anything, also errors of its own state.

        Raises:
            InvalidInput: a column's text was to be, or to be looked for, what PostgreSQL cannot have as one.
        """
        connection = await self._connections.take()
        try:
            yield connection
        except BaseException as error:
            broken = connection.driver.is_closed() or isinstance(error, asyncpg.InternalClientError)
            broken = broken and not isinstance(error, PerdureError)
            await self._connections.drop(connection, broken=broken)
            if _is_of_text(error):
                raise InvalidInput(_NO_TEXT) from error
            if broken and isinstance(error, Exception) and not is_away(error):
                raise ConnectionError(f"the connection to PostgreSQL broke: {type(error).__name__}: {error}") from error
            raise
        await self._connections.give_back(connection)

    async def close(self) -> None:
        """Close every connection."""
        await self._connections.close()


@contextmanager
def _opening(opened: Opened, of: SessionKey | str | None) -> Generator[None]:
    """Let a block end with the error if something that it read did not open: it went on with an empty value."""
    opened.begin()
    try:
        yield
    except Exception:
        opened.check(None)
        raise
    opened.check(of)


def is_away(error: BaseException) -> bool:
    """Whether an error means that the server was away or busy, so that the same call may succeed later."""
    if isinstance(error, OperationalError | PoolTimeout):
        return True
    if isinstance(error, DBAPIError):
        cause = error.orig.__cause__ if error.orig is not None else None
        return error.connection_invalidated or (cause is not None and is_away(cause))
    return isinstance(error, _AWAY)


def _is_of_text(error: BaseException) -> bool:
    """Whether an error means that an argument is text with NUL, or with half of a surrogate pair."""
    cause = error.orig.__cause__ if isinstance(error, DBAPIError) and error.orig is not None else error
    if isinstance(cause, asyncpg.CharacterNotInRepertoireError):
        return True
    return isinstance(cause, asyncpg.DataError) and isinstance(cause.__cause__, UnicodeEncodeError)


async def keep_trying(
    write: Callable[[], Awaitable[T]], *, deadline: timedelta, beat: Callable[[], object] = lambda: None
) -> T:
    """Repeat a write that is safe to repeat until it succeeds, as long as only the server's absence stops it.

    Args:
        write: makes one try.
        deadline: how long to go on; the last error is raised then.
        beat: called before each pause, so that an activity is not given up meanwhile.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline.total_seconds()
    pause = 0.1
    while True:
        try:
            return await write()
        except Exception as error:
            if not is_away(error) or loop.time() + pause > end:
                raise
            beat()
            await asyncio.sleep(pause)
            pause = min(pause * 1.6, 1.0)


def _driver_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except Exception as error:
        raise InvalidInput("the database URL cannot be read; write postgresql://user:password@host:port/db") from error
    scheme = parsed.drivername.partition("+")[0]
    if scheme not in ("postgresql", "postgres"):
        raise InvalidInput(f"the database URL is for {scheme!r}; only postgresql:// works")
    return parsed.set(drivername="postgresql+asyncpg")
