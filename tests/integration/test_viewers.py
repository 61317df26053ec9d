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
from tests.integration.api_server import ApiProcess
from tests.integration.event_api import SocketViewer, Viewer
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.scale import scaled
from tests.seeds import drawn

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = 60
AT_ONCE = 10
BREAKS = 5
"""Of each viewer; a run has three."""
ASKED = 10
"""Breaks of a run, which three viewers have together whatever comes when."""
OPENING_BYTES = 2063
"""What comes first on each connection of a stream of server-sent events, before any event."""


async def watch(viewer: Viewer, client: httpx.AsyncClient, urls: list[str], chance: random.Random) -> None:
    """Read to the end of the run; on the way the viewer leaves `BREAKS` times, at any moment, and comes back to any server."""
    leaving = 0
    while not viewer.ended:
        if leaving < BREAKS:
            leaving += 1
            await viewer.read(client, chance.choice(urls), seconds=chance.uniform(0.05, 0.4))
        elif not await viewer.read(client, chance.choice(urls)) and not viewer.ended:
            await asyncio.sleep(0.1)  # the server was killed, or ended the stream


async def log(sessions: Sessions, handle: RunHandle) -> list[dict[str, Any]]:
    events = await read_events(sessions.database, handle.accepted.key, after=0)
    return [event.to_json() for event in events if event.run == handle.id]


async def begun(sessions: Sessions) -> tuple[RunHandle, list[Viewer]]:
    """A run that talks, and those who watch it: its own stream, its session's, and the session's by a socket."""
    handle = await sessions.submit("talker", "talk", options=RunOptions(params={"words": WORDS}))
    session = f"/api/sessions/{handle.session}/events"
    return handle, [Viewer(f"/api/runs/{handle.id}/events"), Viewer(session, leaves=True), SocketViewer(session)]


def opening(viewer: Viewer) -> int:
    """Bytes that came before the events, at most."""
    return 0 if isinstance(viewer, SocketViewer) else viewer.connects * OPENING_BYTES


async def until_seen(viewers: list[Viewer]) -> None:
    """Return once half of the viewers have been told something, and none of them the end."""

    async def found() -> bool:
        return sum(len(viewer.events) > 3 for viewer in viewers) >= len(viewers) / 2

    await eventually(found, what="that viewers are in the middle")


async def test_every_viewer_ends_with_the_same_complete_sequence(stack: Stack, steady_worker: WorkerProcess) -> None:
    """And hardly a byte is sent twice: 2,000 breaks over 200 runs at full scale; one server is killed half-way."""
    chance = drawn("breaks of viewers")
    first, second = ApiProcess(stack), ApiProcess(stack)
    count = scaled(200)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    try:
        async with stack.connect() as sessions, httpx.AsyncClient(limits=limits) as client:
            urls = [first.wait_ready().url, second.wait_ready().url]
            done = needed = received = breaks = 0
            while done < count:
                runs = await asyncio.gather(*(begun(sessions) for _ in range(min(AT_ONCE, count - done))))
                viewers = [viewer for _, watching in runs for viewer in watching]
                watching = asyncio.gather(*(watch(viewer, client, urls, chance) for viewer in viewers))
                if done + len(runs) >= count / 2 and len(urls) == 2:
                    await until_seen(viewers)
                    first.kill()
                    del urls[0]
                async with asyncio.timeout(240):
                    await watching
                for handle, own in runs:
                    events = await log(sessions, handle)
                    assert [viewer.events for viewer in own] == [events] * len(own)
                needed += sum(viewer.size for viewer in viewers)
                received += sum(viewer.received - opening(viewer) for viewer in viewers)
                breaks += sum(viewer.connects - 1 for viewer in viewers)
                done += len(runs)
            assert len(urls) == 1
            assert breaks >= count * ASKED
            assert received <= 1.1 * needed
    finally:
        first.kill()
        second.kill()
