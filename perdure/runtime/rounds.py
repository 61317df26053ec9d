"""Work that a process does again and again beside its own, whatever becomes of one round of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from itertools import count
from typing import NoReturn

from temporalio.service import RPCError

from perdure.errors import ServerUnavailable
from perdure.runtime.event_stream import StreamClosed
from perdure.store.database import is_away
from perdure.upp.chance import CHANCE

logger = logging.getLogger(__name__)


async def repeat(
    works: Sequence[Callable[[], Awaitable[object]]], period: timedelta, *, jitter: float = 0.0
) -> NoReturn:
    """Do a round of each work, one after the other, each `period`, until cancelled.

    A server that is away only makes a round do nothing, and so does leaving while one follows events. Any other error is
    a fault of ours: it is logged as `sweep.round_failed`, and the next round is made all the same, for sessions depend on it.

    Args:
        works: each makes one round.
        period: from the end of a round to the next.
        jitter: share of the period by which that varies, so that processes do not keep step.
    """
    while True:
        for work in works:
            await _attempt(work)
        await asyncio.sleep(period.total_seconds() * CHANCE.uniform(1 - jitter, 1 + jitter))


def seldom(work: Callable[[], Awaitable[object]], *, every: int = 5) -> Callable[[], Awaitable[None]]:
    """A work for `repeat` that is done in its first round and then in each `every`-th: what keeps for hours costs little."""
    rounds = count()

    async def now_and_then() -> None:
        if next(rounds) % every == 0:
            await work()

    return now_and_then


async def _attempt(work: Callable[[], Awaitable[object]]) -> None:
    try:
        await work()
    except (RPCError, ServerUnavailable) as error:
        logger.info("sweep.temporal_away %s", error)
    except StreamClosed:
        logger.info("sweep.leaving")
    except Exception as error:
        if is_away(error):
            logger.info("sweep.database_away %s", type(error).__name__)
        else:
            logger.exception("sweep.round_failed")
