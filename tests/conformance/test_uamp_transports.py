"""Checks 80 to 84 of UAMP 1.0's events but 83, and the facts A1 to A6: one protocol by two transports, and what is signed.

Check 83, the batch form, is in `test_uamp_batch.py`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx
import pytest
import rfc8785
import websockets
from joserfc import jwt
from joserfc.errors import BadSignatureError
from joserfc.jwk import KeySet

from perdure.store.api_keys import create_key
from perdure.store.database import Database
from tests.conformance.test_uamp_tools import TOOLS
from tests.conformance.uamp_agents import call, gate, plan
from tests.conformance.uamp_client import HTTP, TERMINAL, WS, Answer, Event, HttpLine, Line, Talk, line_to
from tests.conformance.uamp_server import TENANT, UampServer, new_gate
from tests.conformance.uamp_wire import PATIENCE

KEYS = "/.well-known/jwks.json"
SESSION = "X-Session-ID"
DRAWN = frozenset(
    {"event_id", "timestamp", "session_id", "response_id", "created_at", "in_reply_to", "signature", "id"}
)
"""Members whose values are of one session only."""
HELLO: Event = {"type": "session.create", "event_id": "e", "uamp_version": "1.0", "session": {"modalities": ["text"]}}


async def test_check_80_one_event_a_frame(uamp: UampServer) -> None:
    """Frames are text, each one JSON object; a client's is one, too, in text or in bytes."""
    async with websockets.connect(uamp.url.replace("http", "ws", 1) + "/ws", compression=None, **PATIENCE) as socket:
        await socket.send(json.dumps({**HELLO, "token": uamp.tokens["ann"]}))
        await socket.send(json.dumps({"type": "input.text", "event_id": "f", "text": "one two three"}).encode())
        await socket.send(json.dumps({"type": "response.create", "event_id": "g"}))
        frames = [await socket.recv()]
        while json.loads(frames[-1])["type"] not in TERMINAL:
            frames.append(await socket.recv())
    assert all(isinstance(frame, str) for frame in frames)
    told = [json.loads(frame) for frame in frames]
    assert all(isinstance(event, dict) and "type" in event for event in told)
    assert [event["type"] for event in told][:3] == ["session.created", "capabilities", "response.created"]
    assert told[-1]["response"]["output"] == [{"type": "text", "text": "echo: one two three"}]


async def script(line: Line) -> Talk:
    """A conversation with a bit of all: text, thinking, tools of both sides, refusals, a cancel, and its end."""
    talk = await line.open(config={"tools": TOOLS, "instructions": "Be brief."}, chat=None)
    await talk.send("input.typing", is_typing=True)
    await talk.send("conversation.item.create", item={})
    assert (await talk.ask("good morning")).text == "echo: good morning"
    await talk.send("response.cancel")
    wrong = await talk.send("tool.result", call_id="nobody", result="1")
    await talk.refusal(wrong)
    await talk.send("ping")
    await talk.hear("pong")
    steps: list[dict[str, Any]] = [
        {"think": "hm, ", "say": "let me see ", "calls": [call("weather", "w", city="Rome")], "usage": [9, 3, 0]},
        {"calls": [call("pick_color", "c", of="it")], "usage": [12, 4, 2]},
        {"say": "blue and sunny", "usage": [20, 5, 0]},
    ]
    response = await talk.begin(plan(*steps))
    asked = await talk.hear("tool.call")
    await talk.send("tool.result", call_id=asked["call_id"], result='"blue"')
    assert (await talk.end_of(response)).text == "let me see blue and sunny"
    await talk.send("session.update", session={"instructions": "Be long."})
    await talk.hear("session.updated")
    failed = await talk.begin(plan({"fail": "INVALID_REQUEST"}))
    await talk.end_of(failed)
    await talk.send("session.end", reason="user_left")
    await talk.hear("session.end")
    return talk


def comparable(value: Any) -> Any:
    """JSON without what is drawn anew in each session."""
    if isinstance(value, dict):
        members = cast(Event, value)
        return {name: comparable(item) for name, item in members.items() if name not in DRAWN}
    if isinstance(value, list):
        return [comparable(item) for item in cast("list[Any]", value)]
    return "resp" if isinstance(value, str) and value.startswith("resp_") else value


def story(talk: Talk) -> list[Event]:
    """What a session was told, pieces of one text put together: how they are cut is no part of the protocol."""
    found: list[Event] = []
    for event in talk.heard:
        told = cast(Event, comparable(event))
        before = found[-1] if found else {}
        if text_delta(told) and text_delta(before):
            before["delta"]["text"] += told["delta"]["text"]
        elif told["type"] == before.get("type") == "thinking":
            before["content"] += told["content"]
        else:
            found.append(told)
    return found


def text_delta(event: Event) -> bool:
    """Whether an event is a piece of text."""
    return event.get("type") == "response.delta" and event["delta"]["type"] == "text"


async def test_check_81_both_transports_tell_the_same_story(uamp: UampServer) -> None:
    """The same script, event for event."""
    async with uamp.line(WS) as socket, uamp.line(HTTP) as http:
        by_socket, by_http = await asyncio.gather(script(socket), script(http))
    assert story(by_socket) == story(by_http)
    assert by_socket.types.count("response.created") == 3


async def test_check_81_the_session_is_named_in_a_header(uamp: UampServer) -> None:
    """Issued by the answer to session.create, and required by all else; the stream takes it in the address as well."""
    headers = {"Authorization": f"Bearer {uamp.tokens['ann']}"}
    async with httpx.AsyncClient(base_url=uamp.url, headers=headers, timeout=60) as client:
        opened = await client.post("/events", json=HELLO)
        assert opened.status_code == 202
        named = {SESSION: opened.headers[SESSION]}
        ping = {"type": "capabilities.query", "event_id": "p"}
        assert (await client.post("/events", json=ping)).status_code == 400
        assert (await client.post("/events", json=ping, headers=named)).json()["event_id"] == "p"
        crossed = await client.post("/events", json={**ping, "session_id": "another"}, headers=named)
        assert crossed.status_code == 400
        assert (await client.post("/events", json=ping, headers={SESSION: "nobody"})).status_code == 404
        assert (await client.get("/events/stream")).status_code == 400
        assert (await client.get("/events/stream", headers={SESSION: "nobody"})).status_code == 404
        async with client.stream("GET", "/events/stream", params={"session_id": named[SESSION]}) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert stream.headers["cache-control"].startswith("no-cache")
            assert stream.headers["x-accel-buffering"] == "no"
            lines = [line async for line in first_lines(stream, '"type":"capabilities"')]
        assert not any(line.startswith("event:") for line in lines)
        assert sum(line.startswith("data:") for line in lines) == sum(line.startswith("id:") for line in lines)
        others = await client.get("/events/stream", headers={**named, "Authorization": f"Bearer {uamp.tokens['bob']}"})
        assert others.status_code == 404, "another user's session is nobody's"


async def first_lines(stream: httpx.Response, *ends: str) -> AsyncGenerator[str]:
    """The lines of a stream up to the frame that has one of these."""
    is_last = False
    async for line in stream.aiter_lines():
        yield line
        is_last = is_last or any(end in line for end in ends)
        if is_last and not line:
            return


async def test_check_82_a_stream_goes_on_where_it_was_cut(uamp: UampServer) -> None:
    """Cut in the middle of a response, again and again, at two processes in turn: nothing is lost or comes twice."""
    other, names = await asyncio.to_thread(uamp.new_api().wait_ready), [new_gate() for _ in range(3)]
    parts: list[Any] = ["one ", gate(names[0]), "two ", gate(names[1]), "three ", gate(names[2]), "four"]
    async with uamp.line(HTTP) as line, AsyncExitStack() as lines:
        reader = streaming(line)
        talk = await line.open()
        response = await talk.begin(plan({"say": parts}))
        told: list[Event] = []
        for name, address in zip(names, (other.url, uamp.url, other.url), strict=True):
            await reader.wait(lambda event: event["type"] == "response.delta")
            await reader.cut(talk.id)
            told += reader.heard
            following = streaming(await lines.enter_async_context(uamp.line(HTTP, url=address)))
            following.listen(talk.id, last=reader.last[talk.id])
            reader = following
            uamp.open_gate(name)
        await reader.wait(lambda event: event["type"] == "response.done")
        told += reader.heard
        answer = Answer([event for event in told if event.get("response_id") == response])
        assert answer.told == answer.text == "one two three four"
        assert len({event["event_id"] for event in told}) == len(told)
        whole = streaming(await lines.enter_async_context(uamp.line(HTTP)))
        whole.listen(talk.id)
        await whole.wait(lambda event: event["type"] == "response.done")
        assert whole.heard == told
    other.kill()


def streaming(line: Line) -> HttpLine:
    """The line, which is one over HTTP."""
    assert isinstance(line, HttpLine)
    return line


@pytest.fixture(scope="module")
def unsigned(uamp: UampServer) -> Iterator[str]:
    """The address of a process without a key."""
    api = uamp.new_api(PERDURE_SIGNING_KEY="none").wait_ready()
    yield api.url
    api.kill()


async def test_check_84_a_signature_verifies(line: Line, uamp: UampServer) -> None:
    """By the published keys; it says what was answered, to what, by whom, to whom and when."""
    talk = await line.open()
    answer = await talk.ask("what is signed?")
    async with httpx.AsyncClient(timeout=60) as client:
        keys = KeySet.import_key_set((await client.get(uamp.url + KEYS)).json())
    signature = answer.end["signature"]
    token = jwt.decode(signature, keys, algorithms=["RS256"])
    assert token.header["alg"] == "RS256"
    assert token.header["kid"]
    asked = [{"role": "user", "content_items": [{"type": "text", "text": "what is signed?"}]}]
    claims = token.claims
    assert claims["response_hash"] == hashlib.sha256(answer.text.encode()).hexdigest()
    assert claims["request_hash"] == hashlib.sha256(rfc8785.dumps(asked)).hexdigest()
    assert (claims["iss"], claims["aud"]) == ("assistant", "ann")
    assert claims["exp"] == claims["iat"] + 300
    assert abs(claims["iat"] - answer.end["timestamp"] / 1000) < 2
    head, _, seal = signature.split(".")
    changed = base64.urlsafe_b64encode(json.dumps({**claims, "response_hash": "0" * 64}).encode()).rstrip(b"=").decode()
    with pytest.raises(BadSignatureError):
        jwt.decode(f"{head}.{changed}.{seal}", keys, algorithms=["RS256"])


@pytest.mark.parametrize("kind", [WS, HTTP])
async def test_check_84_without_a_key_there_is_no_signature(uamp: UampServer, unsigned: str, kind: str) -> None:
    async with line_to(unsigned, kind, uamp.tokens["ann"]) as line:
        talk = await line.open()
        answer = await talk.ask("hello")
        assert answer.end["type"] == "response.done"
        assert "signature" not in answer.end
    async with httpx.AsyncClient(timeout=60) as client:
        assert (await client.get(unsigned + KEYS)).json() == {"keys": []}


REQUESTS: dict[str, tuple[str, str, Any]] = {
    "events": ("POST", "/events", HELLO),
    "stream": ("GET", "/events/stream?session_id=6e1f9c1a-0d55-4a76-8f0e-3b1d2c4a5e60", None),
    "capabilities": ("GET", "/capabilities", None),
    "batch": ("POST", "/chat/completions", {"model": "assistant", "messages": [{"role": "user", "content": "hi"}]}),
}


async def answered(uamp: UampServer, name: str, token: str | None) -> httpx.Response:
    method, path, body = REQUESTS[name]
    shown = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=uamp.url, timeout=60) as client:
        return await client.request(method, path, json=body, headers=shown)


@pytest.mark.parametrize("name", REQUESTS)
async def test_check_a1_without_a_token_a_caller_is_not_known(uamp: UampServer, name: str) -> None:
    response = await answered(uamp, name, None)
    assert response.status_code == 401
    assert response.json()["error"]["type"] == "authentication_error"
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("name", ["events", "capabilities", "batch"])
async def test_check_a2_a_valid_token_is_enough(uamp: UampServer, name: str) -> None:
    assert (await answered(uamp, name, uamp.tokens["ann"])).is_success


@pytest.mark.parametrize("name", REQUESTS)
async def test_check_a3_a_wrong_token_is_worth_nothing(uamp: UampServer, name: str) -> None:
    for token in ("pdk_0123456789abcdef_wrong", "not-a-token", "a.b.c"):
        response = await answered(uamp, name, token)
        assert response.status_code == 401
        assert response.json()["error"]["type"] in ("authentication_error", "invalid_token")
        assert token not in response.text


@pytest.mark.parametrize("name", REQUESTS)
async def test_check_a4_an_expired_token_is_worth_nothing(uamp: UampServer, name: str) -> None:
    database = Database(uamp.database_url, pool_size=1)
    _, token = await create_key(database, TENANT, "late", ["run"], expires_at=datetime.now(UTC) - timedelta(seconds=1))
    await database.close()
    response = await answered(uamp, name, token)
    assert response.status_code == 401
    error = response.json()["error"]
    assert error["type"] == "authentication_error"
    assert error["code"] in ("token_expired", "invalid_token", "unauthorized")


@pytest.mark.parametrize("name", ["events", "stream", "batch"])
async def test_check_a5_without_the_scope_nothing_is_done(uamp: UampServer, name: str) -> None:
    response = await answered(uamp, name, uamp.tokens["reader"])
    assert response.status_code == 403
    assert response.json()["error"]["type"] in ("forbidden", "insufficient_scope")


async def test_check_a6_the_keys_are_published(uamp: UampServer) -> None:
    async with httpx.AsyncClient(base_url=uamp.url, timeout=60) as client:
        response = await client.get(KEYS)
    assert response.status_code == 200
    key = response.json()["keys"][0]
    assert key["kty"] == "RSA"
    assert key["kid"]
    assert key["use"] == "sig"
    assert not set(key) & {"d", "p", "q", "dp", "dq", "qi"}
