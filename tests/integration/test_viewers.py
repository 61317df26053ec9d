"""Many viewers whose connections break at random, over two API processes of which one is killed half-way."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.store.events import read_events
from tests.conformance.uamp_agents import PRICES, gate, plan
from tests.integration.api_server import ApiProcess
from tests.integration.event_api import SocketViewer, Viewer
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.scale import scaled
from tests.seeds import drawn

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "tests.conformance.uamp_agents:app"
PARTS = 20
"""Of what a run says, in words of three; it goes on with each when the test lets it."""
AT_ONCE = 10
BREAKS = 5
"""Of each viewer; a run has three."""
ASKED = 3 * BREAKS
"""Breaks of a run, before which it does not end."""
OPENING_BYTES = 2063
"""What comes first on each connection of a stream of server-sent events, before any event."""


@pytest.fixture
def worker(stack: Stack, tmp_path: Path) -> Iterator[WorkerProcess]:
    """One whose runs wait for files in the test's folder."""
    environment = {"PERDURE_UAMP_GATES": str(tmp_path), "PERDURE_PRICES": json.dumps(PRICES)}
    process = WorkerProcess(stack, APP, **environment).wait_ready()
    yield process
    process.kill()


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


async def begun(sessions: Sessions, batch: str) -> tuple[RunHandle, list[Viewer]]:
    """A run that talks, and those who watch it: its own stream, its session's, and the session's by a socket."""
    said = [part for place in range(PARTS) for part in ("word " * 3, gate(f"{batch}-{place}"))]
    handle = await sessions.submit("assistant", plan({"say": [*said, "end"]}))
    session = f"/api/sessions/{handle.session}/events"
    return handle, [Viewer(f"/api/runs/{handle.id}/events"), Viewer(session, leaves=True), SocketViewer(session)]


def opening(viewer: Viewer) -> int:
    """Bytes that came before the events, at most."""
    return 0 if isinstance(viewer, SocketViewer) else viewer.connects * OPENING_BYTES


async def go_on(gates: Path, batch: str) -> None:
    """Let the runs of a batch say all but the last part, bit by bit."""
    for place in range(PARTS - 1):
        (gates / f"{batch}-{place}").touch()
        await asyncio.sleep(0.1)


async def until_left(viewers: list[Viewer]) -> None:
    """Return once every viewer has left as often as it is to."""

    async def all_left() -> bool:
        return all(viewer.connects > BREAKS for viewer in viewers)

    await eventually(all_left, what="that every viewer has left")


async def until_seen(viewers: list[Viewer]) -> None:
    """Return once half of the viewers have been told something, and none of them the end."""

    async def found() -> bool:
        return sum(len(viewer.events) > 3 for viewer in viewers) >= len(viewers) / 2

    await eventually(found, what="that viewers are in the middle")


async def test_every_viewer_ends_with_the_same_complete_sequence(
    stack: Stack, worker: WorkerProcess, tmp_path: Path
) -> None:
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
                batch = uuid.uuid4().hex
                runs = await asyncio.gather(*(begun(sessions, batch) for _ in range(min(AT_ONCE, count - done))))
                viewers = [viewer for _, watching in runs for viewer in watching]
                talking = asyncio.create_task(go_on(tmp_path, batch))
                watching = asyncio.gather(*(watch(viewer, client, urls, chance) for viewer in viewers))
                if done + len(runs) >= count / 2 and len(urls) == 2:
                    await until_seen(viewers)
                    first.kill()
                    del urls[0]
                await talking
                await until_left(viewers)
                (tmp_path / f"{batch}-{PARTS - 1}").touch()
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
