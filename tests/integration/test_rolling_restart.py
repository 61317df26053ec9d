"""Deploys under load: two workers are replaced one after the other, again and again, and no run notices."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.uap.options import RunOptions
from tests.integration.facts import TERMINAL, check_session, read_facts
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_kills import finish, spec, submit
from tests.scale import scaled

PERIOD_S = 10.0
AT_ONCE = 6
WORDS = 100
"""Of a streaming answer: some 5 s."""

MANY_WORDS = 20_000
"""Longer than all restarts together: each worker that has it in hand hands it back."""

GRACE = {"PERDURE_SHUTDOWN_GRACE": "9"}
"""Longer than any tool takes, so that no outcome is ever unknown."""


class Load:
    """Runs that are begun one after the other, `AT_ONCE` at a time: tools of 1 to 3 s, and long streams between them."""

    def __init__(self, stack: Stack, sessions: Sessions) -> None:
        self._stack = stack
        self._sessions = sessions
        self._chance = random.Random(35)
        self.over = asyncio.Event()
        self.worked: list[tuple[RunHandle, dict[str, Any]]] = []
        self.talked: list[RunHandle] = []
        self.statuses: list[str] = []

    async def run(self) -> None:
        """Begin runs until `over`, and return when all have ended."""
        async with asyncio.TaskGroup() as group:
            for place in range(AT_ONCE):
                group.create_task(self._talk() if place % 3 == 0 else self._work())

    async def _work(self) -> None:
        while not self.over.is_set():
            values = spec(steps=2, calls=2, latency=0.5, seconds=self._chance.uniform(1.0, 3.0))
            handle = await submit(self._sessions, values)
            self.worked.append((handle, values))
            self.statuses.append(await finish(self._sessions, handle, seconds=240))

    async def _talk(self) -> None:
        while not self.over.is_set():
            handle = await self._sessions.submit("talker", "talk", options=RunOptions(params={"words": WORDS}))
            self.talked.append(handle)
            self.statuses.append(await finish(self._sessions, handle, seconds=240))


@asynccontextmanager
async def two_workers(stack: Stack) -> AsyncGenerator[list[WorkerProcess], None]:
    """Both serve; the list is the caller's to change."""
    workers = [WorkerProcess(stack, **GRACE) for _ in range(2)]
    try:
        for worker in workers:
            await asyncio.to_thread(worker.wait_ready)
        yield workers
    finally:
        for worker in workers:
            worker.kill()


async def replace(stack: Stack, workers: list[WorkerProcess], place: int) -> None:
    """The next one serves before the old one is told to stop, as a deploy does it."""
    old = workers[place]
    following = WorkerProcess(stack, **GRACE)
    workers.append(following)
    await asyncio.to_thread(following.wait_ready)
    assert await asyncio.to_thread(old.terminate) == 0
    workers.remove(old)
    workers.remove(following)
    workers.insert(place, following)


async def resets_of(sessions: Sessions, handle: RunHandle) -> int:
    """How often a stream was handed back and begun anew; it has neither ended nor been called ended."""
    events = (await read_facts(sessions, handle.session)).events
    assert not [event.type for event in events if event.type in TERMINAL]
    return sum(event.type == "message.reset" for event in events)


async def test_s35_l42_a_rolling_restart_under_load(stack: Stack) -> None:
    """Every 10 s a worker is replaced, for 2 minutes at full scale: no run fails, none is cancelled, no effect is doubled."""
    restarts = max(2, scaled(12))
    async with two_workers(stack) as workers, stack.connect() as sessions:
        lasting = await sessions.submit("talker", "talk", options=RunOptions(params={"words": MANY_WORDS}))
        load = Load(stack, sessions)
        loading = asyncio.create_task(load.run())
        for place in itertools.islice(itertools.cycle((0, 1)), restarts):
            await asyncio.sleep(PERIOD_S if restarts > 2 else PERIOD_S / 4)  # the load's pace
            await replace(stack, workers, place)
        load.over.set()
        await loading

        async def handed_back() -> bool:
            return await resets_of(sessions, lasting) > 0

        await eventually(handed_back, what="a stream that was handed back")
        assert (await sessions.cancel(lasting.session, wait_s=60)).state == "cancelled"
    assert set(load.statuses) == {"completed"}
    assert len(load.statuses) == len(load.worked) + len(load.talked) >= AT_ONCE
    for handle, values in load.worked:
        await check_session(stack, handle.session, values["name"], storing_s=0.5)
        begun, done = (
            Counter(entry["key"] for entry in stack.entries(values["name"], kind)) for kind in ("tool", "tool_done")
        )
        assert begun == done == Counter(["0.0", "0.1", "1.0", "1.1"])
    for handle in (*load.talked, lasting):
        await check_session(stack, handle.session)
