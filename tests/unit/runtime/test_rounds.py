"""Rounds of work beside a process's own: one that fails is told of, and ends nothing."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest

from perdure.errors import ServerUnavailable
from perdure.runtime.event_stream import StreamClosed
from perdure.runtime.rounds import repeat, seldom


class Works:
    """Works of which the first raises each time, and the second counts its rounds."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self._count = 0
        self.enough = asyncio.Event()

    async def fail(self) -> None:
        raise self._error

    async def count(self) -> None:
        self._count += 1
        if self._count == 3:
            self.enough.set()


async def rounds_of(error: Exception) -> None:
    """Three rounds in which one work raises."""
    works = Works(error)
    task = asyncio.create_task(repeat((works.fail, works.count), timedelta(), jitter=0.5))
    async with asyncio.timeout(30):
        await works.enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_is_logged_and_the_next_round_made(caplog: pytest.LogCaptureFixture) -> None:
    """What nobody expected is an error in the log, with its traceback, and ends neither its round nor those after it."""
    with caplog.at_level(logging.INFO):
        await rounds_of(TypeError("unsupported operand"))
    (record, *_) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "sweep.round_failed")
    assert record.exc_info is not None


@pytest.mark.parametrize("error", [ServerUnavailable("away"), ConnectionResetError("gone"), StreamClosed("leaving")])
async def test_a_server_that_is_away_is_no_error_nor_is_leaving(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a round does nothing, and nobody is alarmed."""
    with caplog.at_level(logging.INFO):
        await rounds_of(error)
    assert {record.levelno for record in caplog.records} == {logging.INFO}


async def test_what_keeps_is_done_in_the_first_round_and_then_in_each_third() -> None:
    """Two that are made of one function count their own rounds."""
    done: list[str] = []

    async def work() -> None:
        done.append("kept")

    first, second = seldom(work, every=3), seldom(work, every=3)
    for _ in range(7):
        done.append("round")
        await first()
    await second()
    assert done == [*["round", "kept", "round", "round"] * 2, "round", "kept", "kept"]
