"""The pool's connections: none is left to nobody, whenever its caller goes."""

from __future__ import annotations

import asyncio
import gc

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
