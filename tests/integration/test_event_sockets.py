"""The WebSocket twin of the event stream: the same events by the same numbers, and bounds on what a client may send."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncGenerator, Callable
from typing import cast

import httpx
import pytest
import pytest_asyncio
import websockets
from websockets.asyncio.client import ClientConnection

from perdure.uap.events import RUN_TERMINAL
from perdure.upp.json_value import JSONObject
from tests.integration.event_stage import NOBODY, Served, narrow_socket, served_by, tasks_of_viewers
from tests.integration.stack import Stack, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
connect = functools.partial(websockets.connect, open_timeout=90)
"""However busy the machine is."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(stack: Stack) -> AsyncGenerator[Served]:
    """One worker, and one API server, in this process."""
    async with served_by(stack) as made:
        yield made


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
                await asyncio.sleep(0)  # else this side reads nothing as long as the other takes messages
            while True:
                await connection.recv()
    return connection.close_code


async def test_a_socket_tells_the_same(served: Served) -> None:
    """Numbers, filters and resuming are those of the other stream; the client may choose anew at any time."""
    handle = await served.run("slow_teller")
    async with connect(socket_url(served, handle.session)) as connection:
        events = await hear(connection, lambda event: event["type"] in RUN_TERMINAL)
        log = await served.log(handle.session)
        assert events == log
        await connection.send(json.dumps({"after": 3}))
        assert await hear(connection, lambda event: event["type"] in RUN_TERMINAL) == log[3:]
        await connection.send(json.dumps({"after": 0, "types": ["run.*"]}))
        runs = [event for event in log if str(event["type"]).startswith("run.")]
        assert await hear(connection, lambda event: event["type"] in RUN_TERMINAL) == runs
    async with connect(socket_url(served, handle.session, after="4", types="run.*")) as connection:
        assert await hear(connection, lambda event: event["type"] in RUN_TERMINAL) == [
            e for e in runs if cast(int, e["seq"]) > 4
        ]


async def test_a_silent_socket_says_that_it_is_alive_and_where_it_stands(served: Served) -> None:
    handle = await served.run()
    await handle.result()
    last = len(await served.log(handle.session))
    async with (
        connect(socket_url(served, handle.session, types="nothing")) as connection,
        asyncio.timeout(90),
    ):
        while json.loads(await connection.recv()) != {"type": "stream.alive", "after": last}:
            pass


async def test_a_socket_for_nobody_is_refused(served: Served) -> None:
    with pytest.raises(websockets.InvalidStatus) as refused:
        await connect(socket_url(served, NOBODY))
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body or b"")["code"] == "unknown_session"


@pytest.mark.parametrize(
    ("message", "code"),
    [("x" * (32 << 20), 1009), ("{", 1007), ("[]", 1007), ('{"after": "x"}', 1007), ('{"types": ["a,b"]}', 1007)],
    ids=["large", "no_json", "no_object", "no_number", "no_names"],
)
async def test_l99_a_message_that_cannot_be_used_ends_the_socket(served: Served, message: str, code: int) -> None:
    """L99: Too large, or none that is known: the code says which."""
    handle = await served.run()
    async with connect(socket_url(served, handle.session)) as connection:
        assert await code_of_end(connection, [message]) == code


async def test_l99_a_flood_of_messages_ends_the_socket(served: Served) -> None:
    """L99: Ten thousand tiny ones."""
    handle = await served.run()
    async with connect(socket_url(served, handle.session)) as connection:
        assert await code_of_end(connection, ['{"after": 0}'] * 10_000) == 1008


async def test_l99_a_socket_that_never_reads_is_dropped(served: Served) -> None:
    """L99: Its queue is bounded, and so is the server's patience."""
    handle = await served.run()
    await handle.result()
    await served.emit(handle.session, 3000, 5000)
    async with connect(
        socket_url(served, handle.session), sock=narrow_socket(served.url), max_queue=1, compression=None
    ) as connection:

        async def nobody() -> bool:
            return not tasks_of_viewers()

        await asyncio.sleep(0.1)
        await eventually(nobody, what="the viewer's end")
        connection.transport.abort()
