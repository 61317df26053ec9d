"""Who listens is told of new events after they are stored: of many at once together, and of an end at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from statistics import median

import pytest
import pytest_asyncio

from perdure.store.database import Database
from perdure.store.events import CHANNEL, END_MARK, Announcer
from perdure.uap.ids import new_id
from perdure.uap.session_key import SessionKey

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Listener:
    """A connection that listens; sessions of other tests are not its own."""

    tenant: str
    heard: list[list[str]] = field(default_factory=list[list[str]])
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        own = [line for line in str(payload).splitlines() if line.startswith(f"{self.tenant}/")]
        if own:
            self.heard.append(own)
            self.news.set()

    async def until(self, key: SessionKey, mark: str = "") -> float:
        """Until the session was named; the time then."""
        while not any(f"{key.tenant}/{key.session}{mark}" in lines for lines in self.heard):
            self.news.clear()
            await self.news.wait()
        return asyncio.get_running_loop().time()

    def key(self) -> SessionKey:
        return SessionKey(self.tenant, new_id())


@pytest_asyncio.fixture(loop_scope="module")
async def listener(database: Database) -> AsyncGenerator[Listener]:
    """It listens."""
    listening = Listener(f"tenant-{new_id()}")
    async with database.driver() as connection:
        await connection.add_listener(CHANNEL, listening.hear)
        yield listening
        await connection.remove_listener(CHANNEL, listening.hear)


@pytest_asyncio.fixture(loop_scope="module")
async def announcer(database: Database) -> AsyncGenerator[Announcer]:
    """Of one process."""
    made = Announcer(database)
    yield made
    await made.close()


async def test_answers_and_results_of_many_runs_are_announced_together(
    listener: Listener, announcer: Announcer
) -> None:
    """Each is a transaction of the database, and wakes whoever listens."""
    keys = [listener.key() for _ in range(60)]
    began = asyncio.get_running_loop().time()
    for key in keys:
        announcer.changed(key, calm=True)
        await asyncio.sleep(0.002)
    took = asyncio.get_running_loop().time() - began
    for key in keys:
        await listener.until(key)
    assert sum(len(lines) for lines in listener.heard) == 60
    assert len(listener.heard) <= took / 0.02 + 2


@pytest.mark.parametrize("kind", ["ended", "changed"])
async def test_what_somebody_waits_for_is_not_held_up_by_what_can_wait(
    listener: Listener, announcer: Announcer, kind: str
) -> None:
    """In the median of some tries, each right behind another announcement."""
    waited: dict[str, list[float]] = {"calm": [], kind: []}
    for number in range(30):
        before, key, calm = listener.key(), listener.key(), number % 2 == 0
        announcer.changed(before)
        began = await listener.until(before)
        if kind == "ended" and not calm:
            announcer.ended(key)
        else:
            announcer.changed(key, calm=calm)
        told = await listener.until(key, END_MARK if kind == "ended" and not calm else "")
        waited["calm" if calm else kind].append(told - began)
        await asyncio.sleep(0.03)
    assert median(waited[kind]) < median(waited["calm"])
