"""Many viewers whose connections break at random, over two API processes of which one is killed half-way."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx
import pytest

from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.events import read_events
from perdure.uap.options import RunOptions
from tests.integration.event_api import ApiProcess, Viewer
from tests.integration.stack import Stack, WorkerProcess
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = 30
AT_ONCE = 10
BREAKS_PER_RUN = 10
OPENING_BYTES = 2063
"""What comes first on each connection, before any event."""


async def watch(viewer: Viewer, client: httpx.AsyncClient, urls: list[str], chance: random.Random, breaks: int) -> None:
    """Read to the end of the run; on the way the viewer leaves `breaks` times, and comes back to any server."""
    while not viewer.ended:
        leaves = viewer.connects < breaks
        await viewer.read(client, chance.choice(urls), seconds=0.2 + chance.random() * 0.3 if leaves else None)
        if not leaves and not viewer.ended:
            await asyncio.sleep(0.1)  # the server was killed, or ended the stream


async def log(sessions: Sessions, handle: RunHandle) -> list[dict[str, Any]]:
    events = await read_events(sessions.database, handle.accepted.key, after=0)
    return [event.to_json() for event in events if event.run == handle.id]


async def test_every_viewer_ends_with_the_same_complete_sequence(stack: Stack, steady_worker: WorkerProcess) -> None:
    """And hardly a byte is sent twice: 2,000 breaks over 200 runs at full scale."""
    chance = random.Random(8)
    first, second = ApiProcess(stack), ApiProcess(stack)
    count = scaled(200)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    try:
        async with stack.connect() as sessions, httpx.AsyncClient(limits=limits) as client:
            urls = [await first.url(), await second.url()]
            done = needed = received = breaks = 0
            while done < count:
                share = min(AT_ONCE, count - done)
                talk = RunOptions(params={"words": WORDS})
                handles = [await sessions.submit("talker", "talk", options=talk) for _ in range(share)]
                viewers = [Viewer(f"/api/runs/{handle.id}/events") for handle in handles for _ in range(2)]
                watching = asyncio.gather(
                    *(watch(viewer, client, urls, chance, BREAKS_PER_RUN // 2) for viewer in viewers)
                )
                if done + share >= count / 2 and len(urls) == 2:
                    await asyncio.sleep(0.7)
                    first.kill()
                    del urls[0]
                async with asyncio.timeout(120):
                    await watching
                for place, handle in enumerate(handles):
                    events = await log(sessions, handle)
                    for viewer in viewers[2 * place : 2 * place + 2]:
                        assert viewer.events == events
                        needed += viewer.size
                        received += viewer.received - viewer.connects * OPENING_BYTES
                        breaks += viewer.connects - 1
                done += share
            assert len(urls) == 1
            assert breaks >= count * BREAKS_PER_RUN / 2
            assert received <= 1.1 * needed
    finally:
        first.kill()
        second.kill()
