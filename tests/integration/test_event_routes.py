"""Event streams over HTTP: whatever happens to a connection, who resumes has every event, each once, and the end."""

from __future__ import annotations

import asyncio
import json
import random
import resource
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import pytest_asyncio

from perdure.runtime.event_stream import Lagging
from perdure.uap.session_key import SessionKey
from tests.integration.event_api import Viewer, serving
from tests.integration.event_stage import (
    NOBODY,
    PATIENCE,
    Served,
    narrow_socket,
    run_path,
    served_by,
    session_path,
    tasks_of_viewers,
)
from tests.integration.stack import Stack, eventually
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG_MIB = 5
IDLE_WAITS = 30


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(stack: Stack) -> AsyncGenerator[Served]:
    """One worker, and one API server, in this process."""
    async with served_by(stack) as made:
        yield made


async def test_l73_who_resumes_gets_what_was_missed(served: Served) -> None:
    """L73: From the number of the last event that came, not from now on."""
    handle = await served.run("slow_teller")
    viewer = Viewer(run_path(handle))
    assert not await viewer.read(served.client, served.url, most=2)
    assert not await viewer.read(served.client, served.url, most=3)
    await handle.result()
    await viewer.read_all(served.client, served.url)
    assert viewer.events == await served.log(handle.session)
    assert viewer.connects == 3


async def test_l74_one_who_leaves_takes_nothing_from_the_others(served: Served) -> None:
    """L74: Of two viewers one goes and comes back; both have everything."""
    handle = await served.run("slow_teller")
    stays, leaves = Viewer(run_path(handle)), Viewer(run_path(handle))
    staying = asyncio.create_task(stays.read_all(served.client, served.url))
    await leaves.read(served.client, served.url, most=2)
    await staying
    await leaves.read_all(served.client, served.url)
    assert stays.events == leaves.events == await served.log(handle.session)
    assert stays.connects == 1


async def test_l75_all_viewers_see_the_same(served: Served) -> None:
    """L75: Five viewers of one run."""
    handle = await served.run("slow_teller")
    viewers = [Viewer(run_path(handle)) for _ in range(5)]
    await asyncio.gather(*(viewer.read_all(served.client, served.url) for viewer in viewers))
    assert [viewer.events for viewer in viewers] == [await served.log(handle.session)] * 5


async def test_l76_who_comes_around_the_end_sees_the_end(served: Served) -> None:
    """L76: Some before it, some behind it; nobody waits for ever, and nobody ends without it."""
    chance = random.Random(76)
    for _ in range(scaled(100)):
        handle = await served.run(characters=10)
        ending = asyncio.create_task(handle.result())
        viewers = [Viewer(run_path(handle)) for _ in range(10)]

        async def come(viewer: Viewer, ending: asyncio.Task[Any] = ending) -> None:
            if chance.random() < 0.5:
                await asyncio.wait([ending])
            await asyncio.sleep(chance.random() * 0.01)
            async with asyncio.timeout(90):
                assert await viewer.read(served.client, served.url)

        await asyncio.gather(*(come(viewer) for viewer in viewers))
        await ending
        assert [viewer.ended for viewer in viewers] == [True] * 10


async def test_l77_a_filter_holds_over_a_reconnect_and_nothing_comes_twice(served: Served) -> None:
    """L77: The number to resume from moves past what the filter leaves out."""
    handle = await served.run("slow_teller", characters=60)
    viewer = Viewer(run_path(handle, types="run.*,step_start,step_end", sources="run,uap"))
    while not viewer.ended:
        await viewer.read(served.client, served.url, most=1)
    wanted = [
        e
        for e in await served.log(handle.session)
        if str(e["type"]).startswith("run.") or e["type"] in ("step_start", "step_end")
    ]
    assert viewer.events == wanted
    assert viewer.connects == len(wanted)


async def test_l77_a_filtered_viewer_is_told_where_it_stands(served: Served) -> None:
    """L77: So that it does not make the server read all of it again."""
    handle = await served.run()
    await handle.result()
    await served.emit(handle.session, 600)
    viewer = Viewer(session_path(handle.session, types="run.completed"))
    reading = asyncio.create_task(viewer.read(served.client, served.url))

    async def stands() -> bool:
        return viewer.last == str(len(await served.log(handle.session)))

    await eventually(stands, what="the number")
    reading.cancel()
    assert len(viewer.events) == 1


async def test_the_terminal_event_comes_whatever_the_filter(served: Served) -> None:
    handle = await served.run()
    viewer = Viewer(run_path(handle, types="nothing"))
    assert await viewer.read(served.client, served.url)
    assert [event["type"] for event in viewer.events] == ["run.completed"]


async def test_who_has_the_end_is_told_to_stay_away(served: Served) -> None:
    """A browser reconnects when a stream ends, unless the answer is 204."""
    handle = await served.run()
    viewer = Viewer(run_path(handle))
    await viewer.read_all(served.client, served.url)
    response = await served.client.get(served.url + viewer.path, headers={"Last-Event-ID": viewer.last}, timeout=60)
    assert response.status_code == 204


@asynccontextmanager
async def buffering_proxy(url: str, *, block: int, idle_s: float) -> AsyncGenerator[str, None]:
    """A proxy that hands on whole blocks of a response's body, and cuts connections that are idle for so long.

    The time is counted in many short waits: one in which this process stands still is no longer than another.
    """
    host, port = url.removeprefix("http://").split(":")

    def soon() -> float:
        return asyncio.get_running_loop().time() + idle_s / IDLE_WAITS

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, int(port))
        to_server.write((await reader.readuntil(b"\r\n\r\n")).replace(b"keep-alive", b"close"))
        writer.write(await from_server.readuntil(b"\r\n\r\n"))
        held, idle, end = bytearray(), 0, soon()
        try:
            while idle < IDLE_WAITS:
                try:
                    async with asyncio.timeout_at(end):
                        data = await from_server.read(4096)
                except TimeoutError:
                    idle, end = idle + 1, soon()
                    continue
                held += data
                while len(held) >= block or (held and not data):
                    writer.write(held[:block])
                    del held[:block]
                    idle, end = 0, soon()
                if not data:
                    return
        finally:
            to_server.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_l83_a_silent_tool_does_not_cost_the_stream(served: Served) -> None:
    """L83: 120 s of silence, scaled: through a proxy that buffers 2 KB and cuts what is idle for longer than a keep-alive."""
    async with buffering_proxy(served.url, block=2048, idle_s=3 * PATIENCE.silence_s) as url:
        handle = await served.run(tool="rest", arguments={"seconds": 8 * PATIENCE.silence_s})
        viewer = Viewer(run_path(handle))
        async with asyncio.timeout(90):
            await viewer.read(served.client, url)
    assert viewer.connects == 1
    assert viewer.events == await served.log(handle.session)


async def test_l84_a_stream_that_must_end_early_is_broken_off(stack: Stack, served: Served) -> None:
    """L84: Nobody takes the server's leaving for the run's end."""
    handle = await served.run("slow_teller", characters=20_000)  # never done before it is cancelled
    viewer = Viewer(run_path(handle))
    async with serving(stack) as (url, backend):
        reading = asyncio.create_task(viewer.read(served.client, url))

        async def reads() -> bool:
            return len(viewer.events) > 5

        await eventually(reads, what="some events")
        await backend.stream.close()
        assert await reading is False
    await served.sessions.cancel(handle.session)
    await viewer.read_all(served.client, served.url)
    assert viewer.events == await served.log(handle.session)


async def test_l85_viewers_who_leave_at_once_leave_nothing_behind(served: Served) -> None:
    """L85: Hundreds go in one moment; no task and no stream of theirs is left."""
    handle = await served.run()
    await handle.result()
    count = max(100, scaled(500))
    viewers = [Viewer(session_path(handle.session)) for _ in range(count)]

    async def stay(viewer: Viewer) -> None:
        while True:  # where so many come at once, one may be cut off and comes again
            await viewer.read(served.client, served.url)

    reading = [asyncio.create_task(stay(viewer)) for viewer in viewers]

    async def all_there() -> bool:
        return all(viewer.ended for viewer in viewers)

    await eventually(all_there, what="all viewers")
    assert tasks_of_viewers()
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)

    async def nobody() -> bool:
        return not tasks_of_viewers() and "perdure_open_streams 0.0" in served.backend.metrics.text().decode()

    await eventually(nobody, what="the end of the tasks and streams")


async def test_l88_a_large_output_is_an_event_with_a_reference(served: Served) -> None:
    """L88: 5 MB of a tool's are a preview and a hash in the stream."""
    handle = await served.run(tool="dump", arguments={"size": LONG_MIB * 1024 * 1024})
    viewer = Viewer(run_path(handle))
    await viewer.read_all(served.client, served.url)
    (end,) = [event for event in viewer.events if event["type"] == "tool_execution_end"]
    assert end["data"]["cut"]["sha256"]
    assert len(json.dumps(end)) < 2048
    assert viewer.size < 20_000


async def test_s55_who_was_away_for_a_thousand_events_gets_them_all(served: Served) -> None:
    """S55: From number 0, whole."""
    handle = await served.run(characters=10_100)
    await handle.result()
    viewer = Viewer(session_path(handle.session))
    log = await served.log(handle.session)
    assert len(log) > 1001
    await viewer.read(served.client, served.url, most=len(log))
    assert viewer.events == log


async def test_s56_an_answer_costs_what_it_is_long(served: Served) -> None:
    """S56: Twice the text is twice the bytes, not four times."""
    sizes: list[int] = []
    for characters in (10_000, 20_000):
        viewer = Viewer(run_path(await served.run(characters=characters)))
        await viewer.read_all(served.client, served.url)
        sizes.append(viewer.size)
    assert sizes[1] < 2.1 * sizes[0]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"/api/sessions/{NOBODY}/events", 404, "unknown_session"),
        (f"/api/runs/{NOBODY}/events", 404, "unknown_run"),
        ("{session}?after=99999", 422, "invalid_input"),
        ("{session}?after=x", 422, "invalid_input"),
        ("{session}?after=-1", 422, "invalid_input"),
        ("{session}?types=*a", 422, "invalid_input"),
        ("{session}?sources=nobody", 422, "invalid_input"),
    ],
)
async def test_what_cannot_be_followed_is_refused(served: Served, path: str, status: int, code: str) -> None:
    handle = await served.run()
    address = served.url + path.format(session=f"/api/sessions/{handle.session}/events")
    response = await served.client.get(address, timeout=60)
    assert (response.status_code, response.json()["code"]) == (status, code)


async def test_a_viewer_that_lags_is_told_where_to_go_on(served: Served) -> None:
    """One that has had them all once; whoever reads an old log is not hurried."""
    handle = await served.run()
    await handle.result()
    key = SessionKey(served.sessions.tenant, handle.session)
    pages = served.sessions.stream.follow_pages(key, after=0, most_behind=150)
    had = (await anext(pages))[-1].seq
    await served.emit(handle.session, 100)
    had = (await anext(pages))[-1].seq
    await served.emit(handle.session, 500)
    other = served.sessions.stream.follow_pages(key, after=had, most_behind=1000)
    while (await anext(other))[-1].seq < had + 500:
        pass
    with pytest.raises(Lagging) as lagging:
        await anext(pages)
    assert lagging.value.after == had
    await other.aclose()


async def test_l99_a_viewer_that_never_reads_is_dropped_and_costs_no_memory(served: Served) -> None:
    """L99: What it missed it gets when it comes again."""
    handle = await served.run()
    await handle.result()
    await served.emit(handle.session, 4000, 5000)
    log = await served.log(handle.session)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sockets = [await asyncio.open_connection(sock=narrow_socket(served.url), limit=1024) for _ in range(3)]
    for _, writer in sockets:
        cast(asyncio.ReadTransport, writer.transport).pause_reading()
        writer.write(f"GET {session_path(handle.session)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    async def waits() -> bool:
        return len(tasks_of_viewers()) >= 3

    async def nobody() -> bool:
        return not tasks_of_viewers()

    await eventually(waits, what="the viewers")
    await eventually(nobody, what="the viewers' end")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB
    for _, writer in sockets:
        writer.transport.abort()
    viewer = Viewer(session_path(handle.session))
    await viewer.read(served.client, served.url, most=len(log))
    assert viewer.seqs == [event["seq"] for event in log]
