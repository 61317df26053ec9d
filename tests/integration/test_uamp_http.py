"""UAMP over HTTP and server-sent events: what a client is told of its mistakes, and a stream that nobody loses.

Source: UAMP 1.0, section 13.2; the readings of 1.11.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.api.patience import Patience
from tests.conformance.uamp_agents import PRICES, call, gate, plan
from tests.integration import event_api
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, WorkerProcess
from tests.integration.uamp_http import SESSION, HttpSession, create, event, is_a, text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "tests.conformance.uamp_agents:app"
OWN = {
    "PERDURE_TENANT": "uamp-http", "PERDURE_TASK_QUEUE": "uamp-http", "PERDURE_PRICES": json.dumps(PRICES),
}  # fmt: skip
PAGE = "https://shop.example"


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where gates open: a file of its name."""
    return tmp_path_factory.mktemp("gates")


@pytest.fixture(scope="module")
def worker(stack: Stack, gates: Path) -> Iterator[WorkerProcess]:
    process = WorkerProcess(stack, APP, PERDURE_UAMP_GATES=str(gates), **OWN).wait_ready()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def api(stack: Stack, worker: WorkerProcess) -> Iterator[ApiProcess]:
    process = ApiProcess(stack, PERDURE_UAMP_ORIGINS=json.dumps([PAGE]), **OWN).wait_ready()
    yield process
    process.kill()


@asynccontextmanager
async def at(api: ApiProcess) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=api.url, timeout=60) as http:
        yield http


@asynccontextmanager
async def session_at(api: ApiProcess, **members: Any) -> AsyncGenerator[HttpSession]:
    async with at(api) as http:
        session = HttpSession(http)
        await session.open(**members)
        yield session


def fault_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error object of a response that must have this status."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()["error"]


async def test_81_a_session_is_opened_and_talked_in(api: ApiProcess) -> None:
    """Each answer comes on the stream; the header names the session that each event is for."""
    async with session_at(api, agent="assistant", chat="c1") as session:
        created, capabilities = await session.read(is_a("capabilities"))
        assert (created["type"], created["session_id"], created["session"]["id"]) == (
            "session.created", session.id, session.id,
        )  # fmt: skip
        assert (created["agent"], created["chat"]) == ("assistant", "c1")
        assert capabilities["capabilities"]["provider"] == "scripted"
        told = await session.answered("good morning")
        assert next(one["type"] for one in told if one["type"] != "progress") == "response.created"
        assert text_of(told) == "echo: good morning"
        assert told[-1]["response"]["output"] == [{"type": "text", "text": "echo: good morning"}]
        assert len(set(session.ids)) == len(session.ids)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b"", "invalid_json"),
        (b"[1]", "invalid_event"),
        (b'[{"type":"ping","event_id":"e"}]', "invalid_event"),
        (b"{}", "invalid_event"),
        (b'{"event_id":"e"}', "invalid_event"),
        (b'{"type":"input.text","event_id":"e"}', "invalid_event"),
        (b'{"type":7,"event_id":"e"}', "invalid_event"),
        (b"\xff\xfe", "invalid_json"),
        (b"[" * 300, "invalid_event"),
    ],
)
async def test_what_is_no_event_is_refused(api: ApiProcess, body: bytes, code: str) -> None:
    """Bad JSON, a missing type: 400, and the session goes on."""
    async with session_at(api) as session:
        headers = {SESSION: session.id, "content-type": "application/json"}
        response = await session.http.post("/events", content=body, headers=headers)
        assert fault_of(response, 400)["code"] == code
        assert text_of(await session.answered("still there")) == "echo: still there"


async def test_an_event_without_an_id_gets_one(api: ApiProcess) -> None:
    async with session_at(api) as session:
        response = await session.post({"type": "ping"})
        assert response.status_code == 202
        assert uuid.UUID(response.json()["event_id"])
        assert (await session.read(is_a("pong")))[-1]["session_id"] == session.id


async def test_each_event_names_its_session_once(api: ApiProcess) -> None:
    """Without the header 400, with two names 400, with one that is nobody's 404."""
    async with session_at(api) as session, at(api) as http:
        given = event("input.text", text="x")
        assert fault_of(await http.post("/events", json=given), 400)["code"] == "session_required"
        assert fault_of(await http.post("/events", json={**given, "session_id": session.id}), 400)["code"] == (
            "session_required"
        )
        two = await session.post({**given, "session_id": str(uuid.uuid4())})
        assert fault_of(two, 400)["code"] == "invalid_event"
        assert (await session.post({**given, "session_id": session.id})).status_code == 202
        opening = await http.post("/events", json=create(), headers={SESSION: session.id})
        assert "leave X-Session-ID out" in fault_of(opening, 400)["message"]
        for nobodys in (str(uuid.uuid4()), "x", "../etc", "é" * 9):
            response = await http.post("/events", json=given, headers=[(SESSION.encode(), nobodys.encode("latin-1"))])  # type: ignore[arg-type]
            assert fault_of(response, 404)["code"] == "session_not_found"
        assert fault_of(await http.get("/events/stream"), 400)["code"] == "session_required"
        crossed = await http.get("/events/stream", params={"session_id": "other"}, headers={SESSION: session.id})
        assert fault_of(crossed, 400)["code"] == "invalid_event"
        assert fault_of(await http.get("/events/stream", headers={SESSION: str(uuid.uuid4())}), 404)["code"] == (
            "session_not_found"
        )
        bad = await http.get("/events/stream", headers={SESSION: session.id, "Last-Event-ID": "yesterday"})
        assert "Last-Event-ID" in fault_of(bad, 400)["message"]


async def test_what_cannot_be_opened_is_not(api: ApiProcess) -> None:
    """Another version, an unknown agent, a token that is none: refused with the protocol's code, and no session."""
    async with at(api) as http:
        mismatch = await http.post("/events", json=create(uamp_version="2.0"))
        assert fault_of(mismatch, 400)["code"] == "version_mismatch"
        assert SESSION not in mismatch.headers
        assert fault_of(await http.post("/events", json=create(agent="nobody")), 404)["code"] == "agent_offline"
        refused = await http.post("/events", json=create(token="not-a-token"))
        assert fault_of(refused, 401)["code"] == "unauthorized"
        assert "not-a-token" not in refused.text
        assert (await http.post("/events", json=create(uamp_version="1.7"))).status_code == 202


async def test_too_much_and_the_wrong_type_are_refused(stack: Stack, worker: WorkerProcess, api: ApiProcess) -> None:
    async with session_at(api) as session:
        for kind in ("application/octet-stream", "multipart/form-data; boundary=x"):
            headers = {SESSION: session.id, "content-type": kind}
            response = await session.http.post("/events", content=b"{}", headers=headers)
            assert fault_of(response, 400)["code"] == "invalid_json"
    small = ApiProcess(stack, PERDURE_MAX_REQUEST_BYTES="2000", **OWN).wait_ready()
    async with session_at(small) as session:
        response = await session.post(event("input.text", text="x" * 3000))
        assert fault_of(response, 413)["code"] == "input_too_large"
        assert text_of(await session.answered("short")) == "echo: short"
    small.kill()


async def test_81_the_stream_is_what_a_browser_reads(api: ApiProcess) -> None:
    """No `event:` line, an `id:` and a `data:` line each, its headers; the session may stand in the address."""
    async with session_at(api) as session:
        await session.answered("one two three")
        async with session.http.stream("GET", "/events/stream", params={"session_id": session.id}) as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert response.headers["cache-control"].startswith("no-cache")
            assert response.headers["x-accel-buffering"] == "no"
            assert response.headers[SESSION] == session.id
            text = ""
            async for chunk in response.aiter_text():
                text += chunk
                if "response.done" in text:
                    break
        assert re.search(r"^event:", text, re.MULTILINE) is None
        frames = [frame for frame in text.split("\n\n") if "data: " in frame]
        assert all(re.fullmatch(r"data: \{.*\}\nid: [0-9.]+|id: [0-9.]+\ndata: \{.*\}", frame) for frame in frames[:-1])


async def test_81_two_readers_have_all_of_it(api: ApiProcess, gates: Path) -> None:
    """Both from the beginning, whenever they come; the same events, ids and all."""
    async with session_at(api) as session:
        other = HttpSession(session.http, session.id)
        name = f"two-{uuid.uuid4().hex}"
        await session.say(plan({"say": ["first ", gate(name), "second"]}))
        reading = [asyncio.create_task(one.read(is_a("response.done"))) for one in (session, other)]
        (gates / name).touch()
        first, second = await asyncio.gather(*reading)
        assert first == second
        assert text_of(first) == "first second"
        late = HttpSession(session.http, session.id)
        assert await late.read(is_a("response.done")) == first
        assert late.ids == session.ids


async def test_82_a_reader_that_was_cut_off_anywhere_goes_on_there(api: ApiProcess) -> None:
    """Cut behind each event in turn: nothing is lost, nothing comes twice."""
    async with session_at(api) as session:
        await session.answered(plan({"say": "one two three", "calls": [call("weather", city="Rome")]}, {"say": "done"}))
        whole, ids = session.events, session.ids
        assert len(whole) > 8
        for place in range(len(whole) - 1):
            again = HttpSession(session.http, session.id, events=whole[: place + 1], ids=ids[: place + 1])
            assert await again.read(is_a("response.done")) == whole[place + 1 :]
            assert again.ids == ids


async def test_82_another_process_goes_on(stack: Stack, worker: WorkerProcess, gates: Path) -> None:
    """The process is killed in the middle of a response; the stream goes on at another, and so does the session."""
    first, second = (ApiProcess(stack, **OWN).wait_ready() for _ in range(2))
    async with at(first) as http, at(second) as others:
        session = HttpSession(http)
        await session.open()
        name = f"cut-{uuid.uuid4().hex}"
        await session.say(plan({"say": ["before ", gate(name), "after"]}))
        await session.read(is_a("response.delta"))
        first.kill()
        (gates / name).touch()
        session.http = others
        await session.read(is_a("response.done"))
        assert text_of(session.events) == "before after"
        assert len({told["event_id"] for told in session.events}) == len(session.events)
        assert text_of(await session.answered("and you?")) == "echo: and you?"
        whole = list(session.events)
        assert await session.read(is_a("response.done"), from_start=True) == whole[: len(session.events)]
    second.kill()


async def test_a_session_that_has_ended_ends_its_stream(api: ApiProcess) -> None:
    """The stream comes to its end behind session.end; whoever has had that gets 204, at which a browser stops."""
    async with session_at(api) as session:
        await session.answered("bye")
        await session.send("session.end", reason="user_left")
        ended = await session.read(lambda _: False)
        assert ended[-1]["type"] == "session.end"
        headers = {SESSION: session.id, "Last-Event-ID": session.ids[-1]}
        assert (await session.http.get("/events/stream", headers=headers)).status_code == 204
        behind = await session.post(event("input.text", text="x"))
        assert fault_of(behind, 404)["code"] == "session_not_found"
        assert (await session.post(event("session.end"))).status_code == 202
        whole = [*session.events]
        assert await session.read(lambda _: False, from_start=True) == whole


async def test_a_silent_stream_says_that_it_is_there(stack: Stack, worker: WorkerProcess) -> None:
    """By comments, which no client takes for events."""
    patience = Patience(silence_s=0.2)
    async with (
        event_api.serving(stack, patience, tenant=OWN["PERDURE_TENANT"]) as (url, _),
        httpx.AsyncClient(base_url=url, timeout=60) as http,
    ):
        session = HttpSession(http)
        await session.open()
        await session.read(is_a("capabilities"))
        headers = {SESSION: session.id, "Last-Event-ID": session.ids[-1]}
        async with http.stream("GET", "/events/stream", headers=headers) as response:
            comments = 0
            async for line in response.aiter_lines():
                assert not line or line.startswith((":", "retry:"))
                comments += line.startswith(":")
                if comments == 4:
                    break


async def test_the_same_event_is_applied_once(api: ApiProcess) -> None:
    """A client that does not know whether its request came sends it again; ten times at once, at that."""
    async with session_at(api) as session:
        given = event("input.text", text="once")
        asked = event("response.create")
        for one in (given, asked):
            answers = await asyncio.gather(*(session.post(one) for _ in range(10)))
            assert {answer.status_code for answer in answers} == {202}
        told = await session.read(is_a("response.done"))
        assert text_of(told) == "echo: once"
        assert sum(one["type"] == "response.created" for one in told) == 1


async def test_pages_that_are_named_may_talk(api: ApiProcess) -> None:
    """CORS, for the pages of PERDURE_UAMP_ORIGINS; they may read the session's id."""
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": f"{SESSION}"}
    async with at(api) as http:
        for path in ("/events", "/events/stream", "/capabilities"):
            allowed = await http.options(path, headers=asked)
            assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, PAGE)
            strange = await http.options(path, headers={**asked, "Origin": "https://evil.example"})
            assert "access-control-allow-origin" not in strange.headers
        opened = await http.post("/events", json=create(), headers={"Origin": PAGE})
        assert opened.status_code == 202
        assert SESSION.lower() in opened.headers["access-control-expose-headers"].lower()
        evil = await http.post("/events", json=create(), headers={"Origin": "https://evil.example"})
        assert fault_of(evil, 403)["type"] == "forbidden"


async def test_what_an_agent_can_do_is_told_before_a_session(api: ApiProcess) -> None:
    """Of the agent that is named, else of the default one: as the event capabilities says it."""
    async with session_at(api, agent="assistant") as session:
        (*_, told) = await session.read(is_a("capabilities"))
        named = await session.http.get("/capabilities", params={"agent": "assistant"})
        assert named.json() == told["capabilities"]
        assert set(named.json()) >= {
            "id", "provider", "modalities", "supports_streaming", "supports_thinking", "supports_caching",
        }  # fmt: skip
        plain = await session.http.get("/capabilities")
        assert plain.json()["id"]
        assert fault_of(await session.http.get("/capabilities", params={"agent": "no"}), 404)["code"] == "agent_offline"
