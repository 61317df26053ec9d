"""One run, followed at the same time by all doors: WebSocket and SSE are told the same events, and every view the same story."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from httpx_sse import aconnect_sse

from perdure.store.database import Database
from tests.conformance.uamp_agents import call, gate, plan
from tests.conformance.uamp_client import TERMINAL, Event, HttpLine, Line, Talk
from tests.conformance.uamp_server import UampServer, new_gate
from tests.integration.api_server import checked
from tests.integration.same_story import (
    CANCELLED,
    COMPLETED,
    FAILED,
    Fact,
    Told,
    of_bodies,
    of_chat,
    of_completions,
    of_log,
    of_messages,
    of_page,
    of_thread,
    of_uamp,
)
from tests.integration.stack import Stack, eventually
from tests.integration.uamp_place import PICK, place, resumed

LAST_LIVE = "two "
"""What everybody has heard before the run goes on."""
LOOKED: list[Fact] = [
    ("thinking", "hm, hm"),
    ("text", "let me look "),
    ("call", "w1", "weather", {"city": "Oslo"}),
    ("call", "f1", "failing", {"reason": "no"}),
    ("result", "w1", "sunny in Oslo", False),
    ("result", "f1", "no", True),
]


@pytest.fixture(scope="module")
def uamp(stack: Stack) -> Iterator[UampServer]:
    """A worker and an API process."""
    with place(stack) as served:
        yield served


@dataclass
class Stream:
    """A stream of server-sent events, read to its end.

    Attributes:
        heard: the data of each, as JSON if it is.
    """

    heard: list[Any] = field(default_factory=list[Any])

    async def read(self, http: httpx.AsyncClient, path: str, body: Any = None, **headers: str) -> Stream:
        """Read it; with a body it is asked for by POST."""
        method = "GET" if body is None else "POST"
        async with aconnect_sse(http, method, path, json=body, headers=headers) as source:
            assert source.response.status_code == 200, await source.response.aread()
            async for message in source.aiter_sse():
                if message.data:
                    self.heard.append(json.loads(message.data) if message.data.startswith("{") else message.data)
        return self

    async def until(self, word: str, reading: asyncio.Task[Stream]) -> None:
        """Returns once something that was told has this text; raises what went wrong with the reading, if it ended."""

        async def is_there() -> bool:
            told = json.dumps(word) in json.dumps(self.heard)
            assert told or not reading.done(), f"ended without {word!r}: {self.heard} {reading.exception()!r}"
            return told

        await eventually(is_there, what=f"{word!r} told: {self.heard}")


@dataclass
class Watch:
    """A run and all who follow it.

    Attributes:
        uamp: the server.
        http: its API, as the user who asks.
        talk: the client of the response, by WebSocket.
        twin: the same session on another socket.
        whole: it by SSE; `cut` likewise, but it is cut off in between.
        guest: somebody else in the chat.
        text: what is asked.
    """

    uamp: UampServer
    http: httpx.AsyncClient
    chat: str
    talk: Talk
    twin: Talk
    whole: HttpLine
    cut: HttpLine
    guest: Talk
    text: str = ""
    response: str = ""
    run: str = ""
    sent: dict[str, str] = field(default_factory=dict[str, str])
    log: Stream = field(default_factory=Stream)
    page: Stream = field(default_factory=Stream)
    completion: Stream = field(default_factory=Stream)
    readers: list[asyncio.Task[Stream]] = field(default_factory=list[asyncio.Task[Stream]])

    async def begin(self, text: str) -> None:
        """Ask, and have everybody follow; returns once all of them have heard `LAST_LIVE`, and one of them is cut off."""
        self.text = text
        self.response = await self.talk.begin(text)
        (row,) = checked(await self.http.get(f"/api/sessions/{self.chat}/runs"))["runs"]
        self.run = row["run"]
        for stream, path, body in (
            (self.log, f"/api/runs/{self.run}/events", None),
            (self.page, f"/api/chat/{self.chat}/stream", None),
            (self.completion, "/v1/chat/completions", self.asked(stream=True)),
        ):
            self.readers.append(asyncio.create_task(stream.read(self.http, path, body, **self.named)))
        for stream, reading in zip((self.log, self.page, self.completion), self.readers, strict=True):
            await stream.until(LAST_LIVE, reading)
        for line in (self.talk.line, self.twin.line, self.whole, self.cut):
            await line.wait(lambda event: event.get("delta", {}).get("text") == LAST_LIVE)
        await self.cut.cut(self.talk.id)

    @property
    def named(self) -> dict[str, str]:
        """The headers of a completion that make it this run: its session, and the input's key."""
        return {"X-Session-Id": self.chat, "Idempotency-Key": self.response}

    def asked(self, *more: Event, stream: bool) -> Event:
        """The request of a completion."""
        members = {"stream_options": {"include_usage": True}} if stream else {}
        said = [{"role": "user", "content": self.text}, *more]
        return {"model": "assistant", "messages": said, "tools": [PICK], "stream": stream, **members}

    async def end(self) -> None:
        """Returns once the response has ended and everybody has heard so."""
        self.cut.listen(self.talk.id)
        for line in (self.talk.line, self.twin.line, self.whole, self.cut):
            await line.wait(lambda event: event["type"] in TERMINAL)
        await asyncio.gather(*self.readers)

    def events(self, line: Line) -> list[Event]:
        """All that a connection was told of the session, but for answers to what was sent on it."""
        return [event for event in line.of(self.talk.id) if event["type"] not in ("session.created", "capabilities")]

    async def replayed(self) -> Stream:
        """The run as the chat's page is told it once it is over."""
        return await Stream().read(self.http, f"/api/chat/{self.chat}/stream?message={self.run}")

    async def stored(self) -> list[Told]:
        """The run in the thread, in the messages, and on a page that is loaded now."""
        thread = checked(await self.http.get(f"/api/sessions/{self.chat}/thread"))
        messages = checked(await self.http.get(f"/api/sessions/{self.chat}/messages"))["messages"]
        page = checked(await self.http.get(f"/api/chat/{self.chat}"))["messages"]
        return [of_thread(thread["actions"]), of_messages([row["message"] for row in messages]), of_page(page)]

    async def guest_heard(self, text: str) -> None:
        """See that who else is in the chat hears what was asked, and this text in answer."""

        def said() -> list[Event]:
            return [event["message"] for event in self.guest.heard if event["type"] == "message.created"]

        async def is_there() -> bool:
            return "".join(message["content"] for message in said() if message["role"] == "assistant") == text

        await eventually(is_there, what=f"{text!r} told to the guest")
        assert said()[0]["content"] == self.text

    async def check_events(self) -> Told:
        """See that all connections of the session were told the same, also one that comes now; what it was."""
        told = self.events(self.talk.line)
        assert [event["type"] for event in told if event["type"] in TERMINAL] == [told[-1]["type"]]
        assert self.events(self.twin.line) == told
        assert self.events(self.whole) == told
        assert self.events(self.cut) == told
        async with self.uamp.line("http") as late:
            assert isinstance(late, HttpLine)
            late.listen(self.talk.id)
            await late.wait(lambda event: event["type"] in TERMINAL)
            assert self.events(late) == told
        return of_uamp(told, self.sent)


@contextlib.asynccontextmanager
async def watching(uamp: UampServer) -> AsyncGenerator[Watch]:
    """A chat in which Ann has a session on two sockets and two streams, and Bob another."""
    async with contextlib.AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {uamp.tokens['ann']}"}
        http = await stack.enter_async_context(httpx.AsyncClient(base_url=uamp.url, headers=headers, timeout=60))
        chat = checked(await http.post("/api/sessions", json={"agent": "assistant"}), 201)["session"]
        lines = [await stack.enter_async_context(uamp.line(kind)) for kind in ("ws", "ws", "http", "http")]
        first, second, whole, cut = lines
        guests = await stack.enter_async_context(uamp.line("ws", "bob"))
        talk = await first.open(chat=chat, config={"tools": [PICK]})
        assert isinstance(whole, HttpLine)
        assert isinstance(cut, HttpLine)
        twin = await resumed(second, talk.id)
        whole.listen(talk.id)
        cut.listen(talk.id)
        guest = await guests.open(chat=chat)
        for line in lines:
            await line.wait(lambda event: event["type"] == "presence.online")
        yield Watch(uamp, http, chat, talk, twin, whole, cut, guest)


async def test_a_run_that_completes(uamp: UampServer) -> None:
    """Thinking, text in pieces, two tools at once of which one fails, a tool of the client's, and more text."""
    stop = new_gate()
    async with watching(uamp) as watch:
        await watch.begin(
            plan(
                {
                    "think": "hm, hm", "say": "let me look ", "usage": [10, 5, 0],
                    "calls": [call("weather", "w1", city="Oslo"), call("failing", "f1", reason="no")],
                },
                {"say": ["one two ", gate(stop), "three "], "calls": [call("pick", "p1", of="a color")], "usage": [20, 6, 0]},
                {"think": "so", "say": ["it is ", "blue"], "usage": [30, 7, 0]},
            )
        )  # fmt: skip
        uamp.open_gate(stop)
        asked = await watch.talk.hear("tool.call")
        _, page, completion = watch.readers
        rested = of_chat((await page).heard)
        part = of_completions((await completion).heard)
        watch.sent = {asked["call_id"]: "blue"}
        await watch.talk.send("tool.result", call_id=asked["call_id"], result='"blue"')
        await watch.end()

        told = await watch.check_events()
        assert told.settled == [
            *LOOKED,
            ("text", "one two three "),
            ("call", "p1", "pick", {"of": "a color"}),
            ("result", "p1", "blue", False),
            ("thinking", "so"),
            ("text", "it is blue"),
        ]
        assert (told.usage, told.end) == ((60, 18), COMPLETED)
        end = watch.talk.heard[-1]["response"]
        assert (end["output"][0]["text"], end["usage"]["total_tokens"]) == (told.text, 78)
        assert of_log(watch.log.heard) == told
        assert rested.facts == told.facts[: len(rested.facts)]
        assert of_chat((await watch.replayed()).heard) == told
        for stored in await watch.stored():
            assert stored.facts == told.settled
        assert (await watch.stored())[0].usage == told.usage
        await watch.guest_heard(told.text)

        (made,) = [fact for fact in part.facts if fact[0] == "call"]
        answer = {"id": made[1], "type": "function", "function": {"name": "pick", "arguments": json.dumps(made[3])}}
        more = (
            {"role": "assistant", "content": part.text, "tool_calls": [answer]},
            {"role": "tool", "tool_call_id": made[1], "content": "blue"},
        )
        rest = await Stream().read(watch.http, "/v1/chat/completions", watch.asked(*more, stream=True))
        streamed = of_completions([*watch.completion.heard, *rest.heard])
        bodies = [
            checked(await watch.http.post("/v1/chat/completions", json=request, headers=headers))
            for request, headers in (
                (watch.asked(stream=False), watch.named),
                (watch.asked(*more, stream=False), {}),
            )
        ]
        for batch in (streamed, of_bodies(bodies)):
            assert batch.spoken("pick") == told.spoken("pick")
            assert (batch.usage, batch.end) == (told.usage, told.end)
        assert len(checked(await watch.http.get(f"/api/sessions/{watch.chat}/runs"))["runs"]) == 1


async def test_a_run_that_is_cancelled(uamp: UampServer) -> None:
    """In the middle of its text; what was said until then is stored, and everybody is told so."""
    stop = new_gate()
    async with watching(uamp) as watch:
        await watch.begin(broken_off({"say": ["one two ", gate(stop), "three"]}))
        await watch.talk.send("response.cancel", response_id=watch.response)
        await watch.end()
        uamp.open_gate(stop)
        told = await watch.check_events()
        assert told.settled == [*LOOKED, ("text", "one two ")]
        assert (told.usage, told.end) == ((10, 5), CANCELLED)
        assert watch.talk.heard[-1]["partial_output"] == [{"type": "text", "text": told.text}]
        assert of_log(watch.log.heard) == told
        assert of_chat(watch.page.heard) == of_chat((await watch.replayed()).heard) == told
        for stored in await watch.stored():
            assert stored.facts == told.settled
        completion = of_completions(watch.completion.heard)
        assert (completion.spoken(), completion.end) == (told.spoken(), told.end)
        await watch.guest_heard(told.text)


async def test_a_run_that_fails(uamp: UampServer) -> None:
    """In the middle of its text: what was told stands as it is, nothing of it is stored, and all have the same reason."""
    stop = new_gate()
    async with watching(uamp) as watch:
        await watch.begin(broken_off({"say": ["one two ", gate(stop)], "fail": "CONTENT_FILTERED"}))
        uamp.open_gate(stop)
        await watch.end()
        told = await watch.check_events()
        assert told.settled == [*LOOKED, ("text", "one two ")]
        assert (told.usage, told.end) == ((10, 5), FAILED)
        assert told.error
        assert of_log(watch.log.heard) == told
        assert of_chat(watch.page.heard) == of_chat((await watch.replayed()).heard) == told
        for stored in await watch.stored():
            assert stored.facts == []
        completion = of_completions(watch.completion.heard)
        assert (completion.spoken(), completion.end, completion.error) == (told.spoken(), told.end, told.error)
        assert (await watch.guest.ask("what now?")).text == "echo: what now?"
        await watch.guest_heard("")


async def test_a_run_whose_log_was_folded_since(uamp: UampServer) -> None:
    """Whoever comes then is told the same in fewer pieces, at each door."""
    stop = new_gate()
    async with watching(uamp) as watch:
        await watch.begin(broken_off({"think": "so", "say": ["one two ", gate(stop), "three"], "usage": [20, 6, 0]}))
        uamp.open_gate(stop)
        await watch.end()
        told = of_uamp(watch.events(watch.talk.line), {})
        pieces = len(watch.log.heard)
        worker, api = uamp.new_worker(PERDURE_FOLD_AFTER="0"), uamp.new_api()
        try:
            worker.wait_ready()
            await eventually(lambda: is_folded(uamp, watch.run), what="the run folded")
            await check_folded(watch, told, api.wait_ready().url, pieces)
        finally:
            worker.kill()
            api.kill()


async def check_folded(watch: Watch, told: Told, url: str, pieces: int) -> None:
    """See that a process that has nothing of a run in memory tells this, in fewer pieces."""
    async with httpx.AsyncClient(base_url=url, headers=watch.http.headers, timeout=60) as http:
        log = await Stream().read(http, f"/api/runs/{watch.run}/events")
        assert len(log.heard) < pieces
        assert of_log(log.heard) == told
        page = await Stream().read(http, f"/api/chat/{watch.chat}/stream?message={watch.run}")
        assert of_chat(page.heard) == told
        again = await Stream().read(http, "/v1/chat/completions", watch.asked(stream=True), **watch.named)
        completion = of_completions(again.heard)
        assert (completion.spoken(), completion.end, completion.usage) == (told.spoken(), told.end, told.usage)
    async with watch.uamp.line("http", url=url) as late:
        assert isinstance(late, HttpLine)
        late.listen(watch.talk.id)
        await late.wait(lambda event: event["type"] in TERMINAL)
        assert of_uamp(watch.events(late), {}) == told
        assert watch.events(late)[-1] == watch.talk.heard[-1]


async def is_folded(uamp: UampServer, run: str) -> bool:
    """Whether a run's deltas are one row a block by now."""
    database = Database(uamp.database_url, pool_size=1)
    try:
        async with database.driver() as connection:
            return bool(await connection.fetchval("select folded from perdure.runs where id = $1", run))
    finally:
        await database.close()


def broken_off(last: dict[str, Any]) -> str:
    """What has tools called, and then this answered, at which the run may be broken off."""
    calls = [call("weather", "w1", city="Oslo"), call("failing", "f1", reason="no")]
    return plan({"think": "hm, hm", "say": "let me look ", "calls": calls, "usage": [10, 5, 0]}, last)
