"""What counts as a server that is away, and how long a write is tried."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from perdure.errors import InvalidInput, UnknownRun
from perdure.store.database import Database, is_away, keep_trying


class Adapted(Exception):
    """What SQLAlchemy's adapter makes of the driver's error."""


def wrapped(kind: type[DBAPIError], cause: BaseException | None, *, invalidated: bool = False) -> DBAPIError:
    """An error as SQLAlchemy raises it: around its adapter's, around the driver's own."""
    adapted = Adapted("adapted")
    adapted.__cause__ = cause
    return kind("select 1", {}, adapted, connection_invalidated=invalidated)


AWAY: list[BaseException] = [
    ConnectionRefusedError(),
    ConnectionResetError(),
    OSError(5, "Input/output error"),
    TimeoutError(),
    TimeoutError(),
    PoolTimeout(),
    asyncpg.ConnectionDoesNotExistError(),
    asyncpg.ConnectionFailureError(),
    asyncpg.InterfaceError("connection is closed"),
    asyncpg.CannotConnectNowError(),
    asyncpg.AdminShutdownError(),
    asyncpg.CrashShutdownError(),
    asyncpg.TooManyConnectionsError(),
    asyncpg.DeadlockDetectedError(),
    asyncpg.SerializationError(),
    wrapped(OperationalError, None),
    wrapped(DBAPIError, ConnectionResetError()),
    wrapped(DBAPIError, asyncpg.AdminShutdownError()),
    wrapped(InterfaceError, asyncpg.InterfaceError("connection is closed")),
    wrapped(DBAPIError, None, invalidated=True),
]
HERE: list[BaseException] = [
    ValueError("x"),
    KeyError("x"),
    RuntimeError("x"),
    UnknownRun("x"),
    asyncio.CancelledError(),
    asyncpg.UndefinedFunctionError(),
    asyncpg.UndefinedTableError(),
    asyncpg.UniqueViolationError(),
    asyncpg.PostgresSyntaxError(),
    asyncpg.InvalidPasswordError(),
    asyncpg.InvalidTextRepresentationError(),
    asyncpg.TooManyRowsError(),
    wrapped(ProgrammingError, asyncpg.UndefinedTableError()),
    wrapped(IntegrityError, asyncpg.UniqueViolationError()),
    wrapped(DBAPIError, None),
    wrapped(DBAPIError, ValueError("x")),
]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_a_server_that_is_away_or_busy_may_be_asked_again(error: BaseException) -> None:
    """The same call may succeed later, with nothing changed."""
    assert is_away(error)


@pytest.mark.parametrize("error", HERE, ids=lambda error: type(error).__name__)
def test_a_mistake_is_no_absence(error: BaseException) -> None:
    """A programming error, a refused value, a cancellation: no repetition cures them."""
    assert not is_away(error)


class Failing:
    """A write that fails so often, then succeeds."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.tries = 0

    async def __call__(self) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "written"


async def test_a_write_is_tried_until_the_server_is_back() -> None:
    """With a beat before each pause, so that its activity is not given up."""
    write = Failing(ConnectionResetError(), TimeoutError())
    beats: list[None] = []
    assert await keep_trying(write, deadline=timedelta(seconds=30), beat=lambda: beats.append(None)) == "written"
    assert (write.tries, len(beats)) == (3, 2)


async def test_a_mistake_is_not_tried_again() -> None:
    """It comes out at once."""
    write = Failing(asyncpg.UndefinedFunctionError())
    with pytest.raises(asyncpg.UndefinedFunctionError):
        await keep_trying(write, deadline=timedelta(seconds=30))
    assert write.tries == 1


async def test_the_deadline_ends_it_with_the_last_error() -> None:
    """Nothing is tried for ever."""
    write = Failing(*(ConnectionResetError(str(number)) for number in range(99)))
    with pytest.raises(ConnectionResetError) as raised:
        await keep_trying(write, deadline=timedelta(seconds=0.25))
    assert str(raised.value) == str(write.tries - 1)
    assert 2 <= write.tries <= 4


async def test_a_cancellation_ends_it() -> None:
    """Also in a pause."""
    write = Failing(*(ConnectionResetError() for _ in range(99)))
    paused = asyncio.Event()
    task = asyncio.create_task(keep_trying(write, deadline=timedelta(seconds=30), beat=paused.set))
    await paused.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("url", ["", "nonsense", "sqlite:///x", "mysql://u@h/d", "http://h"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    """Before anything is connected; a password in it is not shown."""
    with pytest.raises(InvalidInput, match="the database URL") as raised:
        Database(url)
    assert url == "" or url not in str(raised.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
async def test_the_usual_schemes_are_taken(scheme: str) -> None:
    """As settings accept them, hosting services give them and SQLAlchemy writes them."""
    database = Database(f"{scheme}://user:p%40ss@db.example:6000/perdure")
    assert database.address == "db.example:6000/perdure"
    assert database.dsn() == "postgresql://user:p%40ss@db.example:6000/perdure"
    assert "p%40ss" not in database.address
    await database.close()
