"""Event streams over HTTP: whatever happens to a connection, who resumes has every event, each once, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest
import pytest_asyncio
import websockets
from websockets.asyncio.client import ClientConnection

from perdure.activities.contracts import SESSION
from perdure.activities.convert import converter
from perdure.activities.services import Services
from perdure.api.backend import Backend
from perdure.api.patience import Patience
from perdure.execution import loop
from perdure.runtime.event_stream import Lagging
from perdure.runtime.run_handle import RunHandle
from perdure.runtime.sessions import Sessions
from perdure.runtime.temporal import connect_temporal
from perdure.store.agents import AgentRow, register_agents
from perdure.store.database import Database
from perdure.store.events import Announcer, read_events
from perdure.store.messages import MessageCache
from perdure.uap.agent import Agent, agent
from perdure.uap.app import App
from perdure.uap.events import RUN_TERMINAL, run_event
from perdure.uap.session_key import SessionKey
from perdure.upp.function_tool import tool
from perdure.upp.json_value import JSONObject
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.script import Answer, ScriptedAnswer
from perdure.upp.providers.scripted import scripted
from perdure.upp.tool_call import ToolCall
from perdure.worker.build import WorkerOptions, build_worker, perdure_plugin
from tests.integration.event_api import Viewer, serving
from tests.integration.stack import Stack, eventually
from tests.scale import scaled

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUE = "event_routes"
LONG_MIB = 5
NOBODY = "7f0c1f3a-3c5e-4c0e-9b57-0f6f0f0c2f11"
PATIENCE = Patience(silence_s=0.3, stalled_s=1.0)


@tool(effect="none")
async def rest(seconds: float) -> str:
    """Say nothing for a while."""
    await asyncio.sleep(seconds)
    return "rested"


@tool(effect="none")
async def dump(size: int) -> str:
    """Return many bytes."""
    return "d" * size


def _answer(request: LLMRequest) -> ScriptedAnswer:
    """Follow the input: {"tool", "arguments"} first, if given; then a text of so many characters."""
    asked: dict[str, Any] = json.loads(request.messages[0].text)
    if "tool" in asked and len(request.messages) == 1:
        return Answer(tool_calls=[ToolCall("call", asked["tool"], asked["arguments"])])
    return "x" * asked.get("characters", 20)


def _made(name: str, **model: Any) -> Agent:
    return agent(name=name, model=scripted(_answer, **model), tools=[rest, dump], execution=loop())


AGENTS = [_made("quick_teller", chunk_size=10), _made("slow_teller", chunk_size=2, chunk_delay=0.03)]


@dataclass(frozen=True)
class Served:
    """What a test has: a connection to both servers, and the API."""

    sessions: Sessions
    client: httpx.AsyncClient
    url: str
    backend: Backend

    async def run(self, teller: str = "quick_teller", **asked: Any) -> RunHandle:
        return await self.sessions.submit(teller, json.dumps(asked))

    async def log(self, session: str) -> list[JSONObject]:
        key = SessionKey(self.sessions.tenant, session)
        events: list[JSONObject] = []
        while page := await read_events(
            self.sessions.database, key, after=cast(int, events[-1]["seq"]) if events else 0
        ):
            events += [event.to_json() for event in page]
        return events

    async def emit(self, session: str, count: int, size: int = 1) -> None:
        """Add events of no run."""
        entry = run_event("test.filler", {"filler": "f" * size})
        for _ in range(count // 100):
            await self.sessions.database.call("emit_v1", self.sessions.tenant, session, None, json.dumps([entry] * 100))
        self.sessions.announcer.changed(SessionKey(self.sessions.tenant, session))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(stack: Stack) -> AsyncGenerator[Served, None]:
    """One worker, and one API server, in this process."""
    database = Database(stack.addresses.database_url)
    temporal = await connect_temporal(stack.addresses.temporal, "default", plugins=[perdure_plugin()])
    services = Services(
        database=database, announcer=Announcer(database), cache=MessageCache(database), app=App(agents=AGENTS)
    )
    rows = [AgentRow(str(one.name), one.id, SESSION, QUEUE, converter.unstructure(one.spec())) for one in AGENTS]
    await register_agents(database, "default", rows)
    limits = httpx.Limits(max_connections=None)
    async with (
        build_worker(temporal, services, WorkerOptions(task_queue=QUEUE)),
        stack.connect() as sessions,
        serving(stack, PATIENCE) as (url, backend),
        httpx.AsyncClient(limits=limits) as client,
    ):
        yield Served(sessions, client, url, backend)
    await services.announcer.close()
    await database.close()


def run_path(handle: RunHandle, **query: str) -> str:
    return f"/api/runs/{handle.id}/events?{httpx.QueryParams(query)}"


def session_path(session: str, **query: str) -> str:
    return f"/api/sessions/{session}/events?{httpx.QueryParams(query)}"


async def test_l73_who_resumes_gets_what_was_missed(served: Served) -> None:
    """From the number of the last event that came, not from now on."""
    handle = await served.run("slow_teller")
    viewer = Viewer(run_path(handle))
    assert not await viewer.read(served.client, served.url, most=2)
    assert not await viewer.read(served.client, served.url, most=3)
    await handle.result()
    await viewer.read_all(served.client, served.url)
    assert viewer.events == await served.log(handle.session)
    assert viewer.connects == 3


async def test_l74_one_who_leaves_takes_nothing_from_the_others(served: Served) -> None:
    handle = await served.run("slow_teller")
    stays, leaves = Viewer(run_path(handle)), Viewer(run_path(handle))
    staying = asyncio.create_task(stays.read_all(served.client, served.url))
    await leaves.read(served.client, served.url, most=2)
    await staying
    await leaves.read_all(served.client, served.url)
    assert stays.events == leaves.events == await served.log(handle.session)
    assert stays.connects == 1


async def test_l75_all_viewers_see_the_same(served: Served) -> None:
    handle = await served.run("slow_teller")
    viewers = [Viewer(run_path(handle)) for _ in range(5)]
    await asyncio.gather(*(viewer.read_all(served.client, served.url) for viewer in viewers))
    assert [viewer.events for viewer in viewers] == [await served.log(handle.session)] * 5


async def test_l76_who_comes_around_the_end_sees_the_end(served: Served) -> None:
    """Some before it, some behind it; nobody waits for ever, and nobody ends without it."""
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
    """The number to resume from moves past what the filter leaves out."""
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
    """So that it does not make the server read all of it again."""
    handle = await served.run()
    await handle.result()
    await served.emit(handle.session, 600)
    viewer = Viewer(session_path(handle.session, types="run.completed"))
    reading = asyncio.create_task(viewer.read(served.client, served.url))

    async def stands() -> bool:
        return viewer.last == str(len(await served.log(handle.session)))

    await eventually(stands, what="the number", seconds=5)
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
    response = await served.client.get(served.url + viewer.path, headers={"Last-Event-ID": viewer.last})
    assert response.status_code == 204


@asynccontextmanager
async def buffering_proxy(url: str, *, block: int, idle_s: float) -> AsyncGenerator[str, None]:
    """A proxy that hands on whole blocks of a response's body, and cuts connections that are idle for so long."""
    host, port = url.removeprefix("http://").split(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(host, int(port))
        to_server.write((await reader.readuntil(b"\r\n\r\n")).replace(b"keep-alive", b"close"))
        writer.write(await from_server.readuntil(b"\r\n\r\n"))
        held = bytearray()
        last_write = asyncio.get_running_loop().time()
        try:
            while True:
                left = last_write + idle_s - asyncio.get_running_loop().time()
                data = await asyncio.wait_for(from_server.read(4096), max(0.0, left))
                held += data
                while len(held) >= block or (held and not data):
                    writer.write(held[:block])
                    del held[:block]
                    last_write = asyncio.get_running_loop().time()
                if not data:
                    return
        except TimeoutError:
            return
        finally:
            to_server.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_l83_a_silent_tool_does_not_cost_the_stream(served: Served) -> None:
    """120 s of silence, scaled: through a proxy that buffers 2 KB and cuts what is idle for longer than a keep-alive."""
    async with buffering_proxy(served.url, block=2048, idle_s=3 * PATIENCE.silence_s) as url:
        handle = await served.run(tool="rest", arguments={"seconds": 8 * PATIENCE.silence_s})
        viewer = Viewer(run_path(handle))
        async with asyncio.timeout(90):
            await viewer.read(served.client, url)
    assert viewer.connects == 1
    assert viewer.events == await served.log(handle.session)


async def test_l84_a_stream_that_must_end_early_is_broken_off(stack: Stack, served: Served) -> None:
    """Nobody takes the server's leaving for the run's end."""
    handle = await served.run("slow_teller", characters=200)
    viewer = Viewer(run_path(handle))
    async with serving(stack) as (url, backend):
        reading = asyncio.create_task(viewer.read(served.client, url))

        async def reads() -> bool:
            return len(viewer.events) > 5

        await eventually(reads, what="some events")
        await backend.stream.close()
        assert await reading is False
    await viewer.read_all(served.client, served.url)
    assert viewer.events == await served.log(handle.session)


def _tasks_of_viewers() -> list[str]:
    names = ("tell events", "wait for events", "hear a viewer", "wait for a viewer to leave", "wait for a choice")
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name() in names]


async def test_l85_viewers_who_leave_at_once_leave_nothing_behind(served: Served) -> None:
    handle = await served.run()
    await handle.result()
    count = max(100, scaled(500))
    viewers = [Viewer(session_path(handle.session)) for _ in range(count)]
    reading = [asyncio.create_task(viewer.read(served.client, served.url)) for viewer in viewers]

    async def all_there() -> bool:
        return all(viewer.ended for viewer in viewers)

    await eventually(all_there, what="all viewers")
    assert _tasks_of_viewers()
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)

    async def nobody() -> bool:
        return not _tasks_of_viewers()

    await eventually(nobody, seconds=5, what="the tasks' end")
    assert "perdure_open_streams 0.0" in served.backend.metrics.text().decode()


async def test_l88_a_large_output_is_an_event_with_a_reference(served: Served) -> None:
    handle = await served.run(tool="dump", arguments={"size": LONG_MIB * 1024 * 1024})
    viewer = Viewer(run_path(handle))
    await viewer.read_all(served.client, served.url)
    (end,) = [event for event in viewer.events if event["type"] == "tool_execution_end"]
    assert end["data"]["cut"]["sha256"]
    assert len(json.dumps(end)) < 2048
    assert viewer.size < 20_000


async def test_s55_who_was_away_for_a_thousand_events_gets_them_all(served: Served) -> None:
    handle = await served.run(characters=10_100)
    await handle.result()
    viewer = Viewer(session_path(handle.session))
    log = await served.log(handle.session)
    assert len(log) > 1001
    await viewer.read(served.client, served.url, most=len(log))
    assert viewer.events == log


async def test_s56_an_answer_costs_what_it_is_long(served: Served) -> None:
    """Twice the text is twice the bytes, not four times."""
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
    response = await served.client.get(served.url + path.format(session=f"/api/sessions/{handle.session}/events"))
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


def narrow_socket(url: str) -> socket.socket:
    """A connection of which this side's kernel takes little."""
    host, port = url.removeprefix("http://").split(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    made.connect((host, int(port)))
    return made


async def test_l99_a_viewer_that_never_reads_is_dropped_and_costs_no_memory(served: Served) -> None:
    """What it missed it gets when it comes again."""
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
        return len(_tasks_of_viewers()) >= 3

    async def nobody() -> bool:
        return not _tasks_of_viewers()

    await eventually(waits, what="the viewers")
    await eventually(nobody, what="the viewers' end")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB
    for _, writer in sockets:
        writer.transport.abort()
    viewer = Viewer(session_path(handle.session))
    await viewer.read(served.client, served.url, most=len(log))
    assert viewer.seqs == [event["seq"] for event in log]


def socket_url(served: Served, session: str, **query: str) -> str:
    return f"{served.url.replace('http', 'ws')}/api/sessions/{session}/events/ws?{httpx.QueryParams(query)}"


async def hear(connection: ClientConnection, until: Callable[[JSONObject], bool]) -> list[JSONObject]:
    """The events up to the first that is looked for."""
    events: list[JSONObject] = []
    async with asyncio.timeout(90):
        while not events or not until(events[-1]):
            message: JSONObject = json.loads(await connection.recv())
            if "seq" in message:
                events.append(message)
    return events


async def code_of_end(connection: ClientConnection, messages: list[str]) -> int | None:
    """Send messages; the code with which the server closes the socket."""
    with contextlib.suppress(websockets.ConnectionClosed):
        async with asyncio.timeout(90):
            for message in messages:
                await connection.send(message)
            while True:
                await connection.recv()
    return connection.close_code


async def test_a_socket_tells_the_same(served: Served) -> None:
    """Numbers, filters and resuming are those of the other stream; the client may choose anew at any time."""
    handle = await served.run("slow_teller")
    async with websockets.connect(socket_url(served, handle.session)) as connection:
        events = await hear(connection, lambda event: event["type"] in RUN_TERMINAL)
        log = await served.log(handle.session)
        assert events == log
        await connection.send(json.dumps({"after": 3}))
        assert await hear(connection, lambda event: event["type"] in RUN_TERMINAL) == log[3:]
        await connection.send(json.dumps({"after": 0, "types": ["run.*"]}))
        runs = [event for event in log if str(event["type"]).startswith("run.")]
        assert await hear(connection, lambda event: event["type"] in RUN_TERMINAL) == runs
    async with websockets.connect(socket_url(served, handle.session, after="4", types="run.*")) as connection:
        assert await hear(connection, lambda event: event["type"] in RUN_TERMINAL) == [
            e for e in runs if cast(int, e["seq"]) > 4
        ]


async def test_a_silent_socket_says_that_it_is_alive_and_where_it_stands(served: Served) -> None:
    handle = await served.run()
    await handle.result()
    last = len(await served.log(handle.session))
    async with (
        websockets.connect(socket_url(served, handle.session, types="nothing")) as connection,
        asyncio.timeout(90),
    ):
        while json.loads(await connection.recv()) != {"type": "stream.alive", "after": last}:
            pass


async def test_a_socket_for_nobody_is_refused(served: Served) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        await websockets.connect(socket_url(served, NOBODY))
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body or b"")["code"] == "unknown_session"


@pytest.mark.parametrize(
    ("message", "code"),
    [("x" * (32 << 20), 1009), ("{", 1007), ("[]", 1007), ('{"after": "x"}', 1007), ('{"types": ["a,b"]}', 1007)],
    ids=["large", "no_json", "no_object", "no_number", "no_names"],
)
async def test_l99_a_message_that_cannot_be_used_ends_the_socket(served: Served, message: str, code: int) -> None:
    handle = await served.run()
    async with websockets.connect(socket_url(served, handle.session)) as connection:
        assert await code_of_end(connection, [message]) == code


async def test_l99_a_flood_of_messages_ends_the_socket(served: Served) -> None:
    handle = await served.run()
    async with websockets.connect(socket_url(served, handle.session)) as connection:
        assert await code_of_end(connection, ['{"after": 0}'] * 10_000) == 1008


async def test_l99_a_socket_that_never_reads_is_dropped(served: Served) -> None:
    handle = await served.run()
    await handle.result()
    await served.emit(handle.session, 3000, 5000)
    async with websockets.connect(
        socket_url(served, handle.session), sock=narrow_socket(served.url), max_queue=1, compression=None
    ) as connection:

        async def nobody() -> bool:
            return not _tasks_of_viewers()

        await asyncio.sleep(0.1)
        await eventually(nobody, what="the viewer's end")
        connection.transport.abort()
