"""UAMP's WebSocket under load and under abuse: who keeps the rules is served, memory is bounded, who comes back loses nothing."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import pytest
import websockets

from perdure.api.doors.uamp.line import LARGEST_FRAME
from perdure.store.database import Database
from tests.conformance.uamp_agents import call, gate, plan
from tests.conformance.uamp_client import SocketLine, Talk
from tests.conformance.uamp_server import UampServer, new_gate
from tests.integration.event_stage import narrow_socket
from tests.integration.memory_load import resident
from tests.integration.stack import Stack, eventually
from tests.integration.uamp_place import PICK, Story, place, resumed
from tests.scale import scaled

SOCKETS = 10
MAY_GROW_BYTES = 96 * 1024 * 1024
"""By which a process may grow while a client does what it may not; frames and logs of more than that are sent to it."""


@pytest.fixture(scope="module")
def uamp(stack: Stack) -> Iterator[UampServer]:
    """A worker, and an API whose runs are folded as soon as they have ended."""
    with place(stack, PERDURE_FOLD_AFTER="0") as served:
        yield served


async def is_served(talk: Talk) -> bool:
    """Whether a session is answered."""
    return (await talk.ask("still here?")).text == "echo: still here?"


async def folded(uamp: UampServer, response: str) -> None:
    """Return once the log of a response's run is folded."""
    sql = "select count(*) from perdure.runs r join perdure.uamp_responses u on u.run_id = r.id where u.id = $1 and r.folded"
    database = Database(uamp.database_url, pool_size=1)

    async def is_folded() -> bool:
        async with database.driver() as connection:
            return bool(await connection.fetchval(sql, response))

    await eventually(is_folded, what="the run folded")
    await database.close()


async def test_500_sessions_on_10_sockets_do_not_mix(uamp: UampServer) -> None:
    """Each socket holds fifty sessions, all of them ask at once, and each hears its own answer and no other."""
    each = max(2, scaled(50))
    before = resident(uamp.api.pid)
    async with contextlib.AsyncExitStack() as lines:
        sockets = [await lines.enter_async_context(uamp.line("ws")) for _ in range(SOCKETS)]
        talks = [talk for line in sockets for talk in await asyncio.gather(*(line.open() for _ in range(each)))]
        assert len({talk.id for talk in talks}) == SOCKETS * each
        answers = await asyncio.gather(*(talk.ask(f"I am {talk.id}") for talk in talks))
        assert [answer.text for answer in answers] == [f"echo: I am {talk.id}" for talk in talks]
        assert [answer.told for answer in answers] == [answer.text for answer in answers]
        for line in sockets:
            told = [json.dumps(event) for talk in talks if talk.line is line for event in talk.heard]
            assert len(told) == len(line.heard), "every event is of a session of its socket"
    assert resident(uamp.api.pid) < before + MAY_GROW_BYTES


async def test_a_frame_that_is_too_long_ends_its_own_socket(uamp: UampServer) -> None:
    """8 MiB pass; of 32 MiB the socket is closed with 1009, before they are all there, and others are served."""
    before = resident(uamp.api.pid)
    async with uamp.line("ws") as other, uamp.line("ws") as line:
        talk, calm = await line.open(), await other.open()
        await talk.text("x" * (LARGEST_FRAME - 4096))
        await talk.pause()
        socket = cast(SocketLine, line)._socket  # pyright: ignore[reportPrivateUsage]
        frame = json.dumps(
            {"type": "input.text", "event_id": "e", "session_id": talk.id, "text": "x" * (4 * LARGEST_FRAME)}
        )
        with contextlib.suppress(websockets.ConnectionClosed, ConnectionError):
            await socket.send(frame)
        await socket.wait_closed()
        assert socket.close_code == 1009
        assert await is_served(calm)
    assert resident(uamp.api.pid) < before + MAY_GROW_BYTES


async def test_a_client_that_goes_on_behind_a_frame_that_is_too_long_is_left(uamp: UampServer) -> None:
    """It is told 1009 and does not listen: nothing of what it sends is kept, and soon its connection is closed."""
    before = resident(uamp.api.pid)
    address = urlsplit(uamp.api.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    key = base64.b64encode(bytes(16)).decode()
    writer.write(
        f"GET /ws HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    size = 1024 * 1024
    kind, sent = 1, 0
    with contextlib.suppress(ConnectionError):
        while sent < 512 * size:
            writer.write(bytes([kind, 0x80 | 127]) + size.to_bytes(8) + bytes(4) + b"x" * size)
            await writer.drain()
            kind, sent = 0, sent + size
            if sent > 16 * size:  # as long as it takes to be left
                await asyncio.sleep(0.1)
    writer.close()
    assert LARGEST_FRAME < sent < 512 * size
    assert resident(uamp.api.pid) < before + MAY_GROW_BYTES


async def test_a_flood_of_tiny_frames_ends_its_own_socket(uamp: UampServer) -> None:
    """More events than can be applied: the socket is closed with 1008, and others are served."""
    before = resident(uamp.api.pid)
    async with uamp.line("ws") as other:
        calm = await other.open()
        async with uamp.line("ws") as line:
            talk = await line.open()
            socket = cast(SocketLine, line)._socket  # pyright: ignore[reportPrivateUsage]
            inputs = (
                json.dumps({"type": "input.text", "event_id": f"e{n}", "session_id": talk.id, "text": "x"})
                for n in range(1_000_000)
            )
            with contextlib.suppress(websockets.ConnectionClosed):
                for frame in inputs:
                    await socket.send(frame)
                    await asyncio.sleep(0)  # else this side never reads why it is closed
            assert socket.close_code == 1008
        assert await is_served(calm)
    assert resident(uamp.api.pid) < before + MAY_GROW_BYTES


async def test_a_reader_that_stalls_holds_up_nobody_and_loses_nothing(uamp: UampServer) -> None:
    """Its response is longer than what lies between the two sides; others are served meanwhile, memory is bounded."""
    words, times = f"{'word' * 500} " * 100, 20
    before = resident(uamp.api.pid)
    async with uamp.line("ws") as other, uamp.line("ws") as first:
        calm, opened = await other.open(), await first.open()
        await first.close()
        address = uamp.url.replace("http", "ws", 1) + "/ws"
        raw = narrow_socket(uamp.url)
        async with websockets.connect(address, sock=raw, compression=None, max_queue=1) as stalled:
            token = uamp.tokens["ann"]
            create = {
                "type": "session.create",
                "event_id": "c",
                "token": token,
                "session": {"modalities": ["text"], "id": opened.id},
            }
            text = plan({"say": [words] * times})
            for event in (
                create,
                {"type": "input.text", "event_id": "i", "text": text},
                {"type": "response.create", "event_id": "r"},
            ):
                await stalled.send(json.dumps(event))
            assert json.loads(await stalled.recv())["type"] == "session.created"
            for _ in range(3):
                assert await is_served(calm)
            assert resident(uamp.api.pid) < before + MAY_GROW_BYTES
            stalled.transport.abort()
        async with uamp.line("ws") as line:
            talk = await resumed(line, opened.id, opened.capabilities["event_id"])
            end = await talk.hear("response.done")
            assert end["response"]["output"][0]["text"] == words * times
        assert await is_served(calm)


@dataclass(frozen=True)
class Left:
    """What a client leaves behind: its session, the gate at which its response stands, and what it was told of that."""

    session: str
    stop: str
    story: Story


async def left_behind(uamp: UampServer, word: str, *, is_cut_off: bool = True) -> Left:
    """A client goes, or is cut off, once it has heard a word of a response, which stands still after two of four."""
    stop = new_gate()
    async with uamp.line("ws") as line:
        talk = await line.open()
        await talk.text(plan({"think": "hm, hm", "say": ["one two ", gate(stop), "three four"]}))
        response = await talk.begin()
        await hear_word(talk, word)
        story = Story(response).take(talk.heard[: talk.place])
        if is_cut_off:
            await cast(SocketLine, line).abort()
    return Left(talk.id, stop, story)


async def hear_word(talk: Talk, word: str) -> None:
    """Return once a client has heard a word."""
    await talk.hear("response.delta", where=lambda event: event["delta"].get("text") == f"{word} ")


async def hear_rest(talk: Talk, story: Story) -> None:
    """Hear a response to its end: what was told on all connections is all of it, each part once."""
    await talk.end_of(story.response)
    story.take(talk.heard)
    assert story.text == "one two three four"
    assert story.again == []


async def test_a_session_goes_on_where_its_client_was(uamp: UampServer) -> None:
    """Cut off in the middle of a response, the client comes back to the event that it had last, and hears the rest."""
    left = await left_behind(uamp, "two")
    async with uamp.line("ws") as line:
        talk = await resumed(line, left.session, left.story.last)
        uamp.open_gate(left.stop)
        await hear_rest(talk, left.story)


@pytest.mark.parametrize("is_named", [True, False], ids=["behind an event", "where it was told"])
async def test_a_client_that_comes_back_once_the_log_is_folded_hears_the_rest(uamp: UampServer, is_named: bool) -> None:
    """The deltas that it had and those that it had not are one row of the log by then; it says what it had, or not."""
    left = await left_behind(uamp, "two", is_cut_off=False)
    uamp.open_gate(left.stop)
    await folded(uamp, left.story.response)
    async with uamp.line("ws") as line:
        talk = await resumed(line, left.session, left.story.last if is_named else None)
        await hear_rest(talk, left.story)


async def test_who_came_back_before_the_log_was_folded_hears_the_rest_once(uamp: UampServer) -> None:
    """Its teller has read what the client had as it came, and reads the rest in one row with it."""
    left = await left_behind(uamp, "one")
    async with uamp.line("ws") as line:
        talk = await resumed(line, left.session, left.story.last)
        await hear_word(talk, "two")
        os.kill(uamp.api.pid, signal.SIGSTOP)
        try:
            uamp.open_gate(left.stop)
            await folded(uamp, left.story.response)
        finally:
            os.kill(uamp.api.pid, signal.SIGCONT)
        await hear_rest(talk, left.story)


async def test_what_a_client_said_and_was_asked_outlives_its_socket(uamp: UampServer) -> None:
    """Inputs without a response, and a call that is not answered: both are there on the next connection."""
    async with uamp.line("ws") as line:
        talk = await line.open(config={"tools": [PICK], "instructions": "Be brief."})
        await talk.text(plan({"calls": [call("pick", "c1", of="a color")]}, {"say": "blue it is"}))
        await talk.pause()
    async with uamp.line("ws") as line:
        talk = await resumed(line, talk.id)
        assert [tool["function"]["name"] for tool in talk.created["session"]["config"]["tools"]] == ["pick"]
        response = await talk.begin()
        asked = await talk.hear("tool.call")
        story = Story(response).take(talk.heard)
    async with uamp.line("ws") as line:
        talk = await resumed(line, talk.id, story.last)
        again = await talk.hear("tool.call")
        assert again == asked
        busy = await talk.send("response.create")
        assert (await talk.refusal(busy)).code == "response_in_progress"
        await talk.send("tool.result", call_id=asked["call_id"], result='"blue"')
        await talk.end_of(response)
        story.take(talk.heard)
    assert story.text == "blue it is"
    assert [event["type"] for event in story.again] == ["tool.call"]


async def test_nobody_goes_on_with_anothers_session(uamp: UampServer) -> None:
    async with uamp.line("ws", "ann") as ann, uamp.line("ws", "bob") as bob:
        talk = await ann.open()
        event = bob.create_event(config={"id": talk.id})
        await bob.create(event)
        assert (await bob.refusal(event["event_id"])).code == "session_not_found"
        await talk.send("session.end")
        await talk.hear("session.end")
        for ident in (talk.id, "none"):
            event = ann.create_event(config={"id": ident})
            await ann.create(event)
            assert (await ann.refusal(event["event_id"])).code == "session_not_found"


async def test_the_server_says_that_it_restarts_and_the_session_goes_on_at_another(uamp: UampServer) -> None:
    """A process that is told to stop closes its sockets with 1012; nothing of the session is ended."""
    one, two = uamp.new_api().wait_ready(), uamp.new_api().wait_ready()
    try:
        stop = new_gate()
        async with uamp.line("ws", url=one.url) as line:
            talk = await line.open()
            response = await talk.begin(plan({"say": ["one ", gate(stop), "two"]}))
            await talk.hear("response.delta")
            story = Story(response).take(talk.heard)
            assert await asyncio.to_thread(one.terminate) == 0
            socket = cast(SocketLine, line)._socket  # pyright: ignore[reportPrivateUsage]
            await socket.wait_closed()
            assert socket.close_code == 1012
        async with uamp.line("ws", url=two.url) as line:
            talk = await resumed(line, talk.id, story.last)
            uamp.open_gate(stop)
            await talk.end_of(response)
            story.take(talk.heard)
        assert story.text == "one two"
        assert story.again == []
    finally:
        one.kill()
        two.kill()
