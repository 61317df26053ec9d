"""The pool's connections: none is left to nobody, whenever its caller goes."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.store.database import Database
from tests.integration.stack import Stack

_STEP_S = 0.001
_MOMENTS = 40


async def test_a_cancel_while_a_connection_is_made_leaves_none_open(stack: Stack) -> None:
    """At each moment of its making: what is made all the same is closed with the pool."""
    for moment in range(_MOMENTS):
        opened = Database(stack.addresses.database_url, pool_size=2)
        asking = asyncio.create_task(opened.call("unblock_bucket_v1", "nobody", "nothing"))
        await asyncio.sleep(moment * _STEP_S)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await opened.close()
    gc.collect()  # a connection that nobody has closed says so here, which is an error


async def test_a_cancel_while_a_listener_connects_leaves_nothing_behind(stack: Stack) -> None:
    """Likewise of a connection beside the pool: none stays open, and no error of the driver is left to the collector."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    opened = Database(stack.addresses.database_url)
    for moment in range(_MOMENTS):
        connecting = asyncio.create_task(opened.connect_alone())
        await asyncio.sleep(moment * _STEP_S / 4)
        connecting.cancel()
        (made,) = await asyncio.gather(connecting, return_exceptions=True)
        if not isinstance(made, BaseException):
            made.terminate()
    await asyncio.sleep(0)
    gc.collect()
    assert not told


async def test_reads_stand_for_themselves_and_leave_the_connection_as_it_was(stack: Stack) -> None:
    """In a transaction `now()` stands still; one connection serves all, after a read that fails too."""
    opened = Database(stack.addresses.database_url, pool_size=1)
    try:
        for fails in (False, True, False):
            async with opened.reading() as connection:
                assert await _now(connection) != await _now(connection)
            async with opened.transaction() as connection:
                assert await _now(connection) == await _now(connection)
            if fails:
                with pytest.raises(DBAPIError):
                    async with opened.reading() as connection:
                        await connection.execute(text("select 1 / 0"))
    finally:
        await opened.close()


async def _now(connection: AsyncConnection) -> object:
    return await connection.scalar(text("select now()"))
