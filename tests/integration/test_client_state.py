"""What a client has put together from a stream equals what the server has, however often it left, and whatever came twice."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from contextlib import aclosing
from typing import Any

import httpx

from perdure.store.agents import register_agents
from perdure.store.events import CHANNEL
from perdure.uap.events import run_event
from tests.integration.api_server import ApiProcess, checked
from tests.integration.distributed_agents import FIRST, LAST, teller
from tests.integration.event_api import Viewer
from tests.integration.plant import APP, UNFOLDED
from tests.integration.serving import agent_row
from tests.integration.stack import Stack, WorkerProcess, eventually

WINDOWS = ["run.queued", "run.started", "text_delta", "tool_execution_start", "tool_execution_end", "step_end"]


class Shown:
    """A client that heeds numbers: what it has is dropped, what a folded event stands for is replaced."""

    def __init__(self) -> None:
        self._events: dict[int, dict[str, Any]] = {}

    def hear(self, event: dict[str, Any]) -> None:
        """Take in an event, however often it comes."""
        if (folded := event["data"].get("folded")) is not None:
            block = (event["data"]["message"], event["data"]["index"])
            for seq in range(folded["from"], folded["to"]):
                known = self._events.get(seq)
                if known and (known["data"].get("message"), known["data"].get("index")) == block:
                    del self._events[seq]
        self._events[event["seq"]] = event

    @property
    def texts(self) -> list[str]:
        """What each of the assistant's messages says, in order."""
        texts: dict[str, str] = {}
        for _, event in sorted(self._events.items()):
            message = event["data"].get("message")
            if event["type"] == "message.reset":
                texts[message] = ""
            if event["type"] == "text_delta":
                texts[message] = texts.get(message, "") + event["data"]["delta"]["text"]
        return list(texts.values())


async def until_type(client: httpx.AsyncClient, url: str, viewer: Viewer, kind: str) -> None:
    """Read event by event, each over a connection of its own, up to one of that type."""
    for _ in itertools.takewhile(lambda _: not viewer.ended, itertools.count()):
        if viewer.events and viewer.events[-1]["type"] == kind:
            return
        await viewer.read(client, url, most=1)
    assert any(event["type"] == kind for event in viewer.events), kind


async def texts_of(client: httpx.AsyncClient, session: str) -> list[str]:
    """What the server has."""
    messages = checked(await client.get(f"/sessions/{session}/messages"))["messages"]
    said = [item["message"] for item in messages if item["message"]["type"] == "assistant"]
    return ["".join(part["text"] for part in message["content"] if part["type"] == "text") for message in said]


async def test_l80_leaving_in_each_window_and_replaying_twice(stack: Stack) -> None:
    """From before the run begins until after its deltas are folded: resumed or replayed, the client has each text once."""
    api = ApiProcess(stack).wait_ready()
    async with stack.connect() as sessions:  # as a worker did that is gone
        await register_agents(sessions.database, sessions.tenant, [agent_row(teller, "perdure")])
    workers: list[WorkerProcess] = []
    try:
        async with api.client() as client:
            run = checked(await client.post("/runs", json={"agent": "teller", "input": "Tell."}), 202)
            resumed, replayed = Viewer(f"/api/runs/{run['run']}/events"), Shown()
            for place, kind in enumerate(WINDOWS):
                await until_type(client, api.url, resumed, kind)
                again = Viewer(resumed.path)
                await again.read(client, api.url, most=len(resumed.events))
                assert again.events == resumed.events, "who comes anew has what the other has"
                for event in (*again.events, *again.events):
                    replayed.hear(event)
                if place == 0:  # nobody has begun it, and who came again was not told that there is nothing
                    workers += [WorkerProcess(stack, APP, **UNFOLDED).wait_ready()]
            await resumed.read_all(client, api.url)
            shown = Shown()
            for event in resumed.events:
                shown.hear(event)
            truth = await texts_of(client, run["session"])
            assert shown.texts == truth == [FIRST, LAST]
            workers += [WorkerProcess(stack, APP, PERDURE_FOLD_AFTER="0").wait_ready()]

            async def is_folded() -> bool:
                late = Viewer(resumed.path)
                await late.read_all(client, api.url)
                for event in late.events:
                    replayed.hear(event)
                    shown.hear(event)
                return any("folded" in event["data"] for event in late.events)

            await eventually(is_folded, what="the folding")
            assert replayed.texts == shown.texts == truth
            assert checked(await client.get(f"/runs/{run['run']}"))["status"] == "completed"
    finally:
        for process in (*workers, api):
            process.kill()


async def test_l81_news_that_is_repeated_out_of_order_or_lost(stack: Stack, steady_worker: WorkerProcess) -> None:
    """The library's reader asks the rows: each event comes once, in order, whatever notifications come or do not come."""
    async with stack.connect() as sessions, sessions.database.driver() as connection:
        session = await sessions.open("worker", session=str(uuid.uuid4()))
        key = sessions.key_of(session)
        seen: list[int] = []
        hear = seen.append

        async def follow() -> None:
            async with aclosing(sessions.stream.follow(key)) as events:
                async for event in events:
                    hear(event.seq)

        async def write(count: int) -> None:
            entries = json.dumps([run_event("test.news", {"n": n}) for n in range(count)])
            await sessions.database.call("emit_v1", sessions.tenant, session, None, entries)

        async def notify(*lines: str) -> None:
            for line in lines:
                await connection.execute("select pg_notify($1, $2)", CHANNEL, line)

        following = asyncio.create_task(follow())
        name = f"{key.tenant}/{key.session}"
        try:
            for _ in range(5):
                await write(3)
                await notify(name, name, f"{key.tenant}/{uuid.uuid4()}", f"{name}\n{name}", "", "/", name)
                await write(2)  # and nobody is told
            await write(1)

            async def has_all() -> bool:
                return len(seen) >= 26

            await eventually(has_all, what="all events, the last of them unannounced")
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        assert seen == list(range(1, 27))
