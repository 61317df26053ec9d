"""What the guard lets in: from this machine alone while nobody is asked, within the bounds, and callers that it knows."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Body, Depends, FastAPI, Request, WebSocket
from starlette.requests import HTTPConnection
from starlette.types import Message

from perdure.api import guard, problems
from perdure.api.bodies import BoundedBody, Bounds
from perdure.api.principal import Principal, Scope
from perdure.api.problems import Refused
from perdure.api.rate_limit import rate_limit_of
from perdure.api.requirement import OptionalRequirement, requires
from perdure.config import Settings

HERE = "http://127.0.0.1:8700"
LIMIT = 4096


class Doorman:
    """Knows callers by the header `X-Name`; counts how often it was asked."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.asked = 0

    async def authenticate(self, connection: HTTPConnection) -> Principal:
        found = await self.recognize(connection)
        if found is None:
            raise Refused(401, "unauthenticated", "who are you?", {"WWW-Authenticate": "Bearer"})
        return found

    async def recognize(self, connection: HTTPConnection) -> Principal | None:
        self.asked += 1
        name = connection.headers.get("x-name", "anonymous" if self.is_open else "")
        if name == "nobody":
            raise Refused(401, "unauthenticated", "that is no name", {"WWW-Authenticate": "Bearer"})
        return Principal(name, "acme", frozenset({Scope.ADMIN if self.is_open else Scope.READ})) if name else None


def guarded(*, is_open: bool = True, **settings: Any) -> FastAPI:
    app = FastAPI()
    app.state.authenticator = Doorman(is_open=is_open)
    app.state.parsed = []

    @app.get("/health")
    def health() -> str:
        return "ok"

    @app.get("/api/name")
    def name(caller: Annotated[Principal, Depends(requires(Scope.READ))]) -> str:
        return caller.name

    @app.post("/api/echo")
    def echo(value: Annotated[Any, Body()], _: Annotated[Principal, Depends(requires(Scope.READ))]) -> Any:
        app.state.parsed.append(value)
        return value

    @app.post("/api/run")
    def run(caller: Annotated[Principal, Depends(requires(Scope.RUN))]) -> str:
        return caller.name

    @app.post("/door")
    def door(caller: Annotated[Principal | None, Depends(OptionalRequirement(Scope.READ))]) -> str:
        return "a stranger" if caller is None else caller.name

    @app.post("/api/raw")
    async def raw(request: Request) -> int:
        return len(await request.body())

    @app.websocket("/api/socket")
    async def socket(connection: WebSocket) -> None:
        await connection.accept()
        async for text in connection.iter_text():
            await connection.send_text(text)

    problems.install(app)
    given = Settings(max_request_bytes=LIMIT, **settings)
    guard.install(app, given, rate=rate_limit_of(given), open_to_strangers=frozenset({"/door"}))
    return app


@asynccontextmanager
async def client(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as opened:
        yield opened


def check_problem(response: httpx.Response, status: int, code: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.json()["status"], response.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8700", "localhost:8700", "LocalHost", "[::1]:8700", "127.8.8.8", "localhost:1"]
)
async def test_names_of_this_machine_pass(host: str) -> None:
    async with client(guarded()) as http:
        assert (await http.get("/api/name", headers={"Host": host})).json() == "anonymous"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8700", "127.0.0.1.evil.example", "localhost.evil.example", "evil.localhost", "10.0.0.1",
        "0.0.0.0:8700", "[::]:8700", "[::ffff:10.0.0.1]", "localhost:99999", "localhost:", "localhost@evil.example",
        "2130706433", "127.1", "localhost.", "", " ", "127.0.0.1, evil.example", "localhost/evil", "::1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/api/name", "/health"])
async def test_a_name_that_was_made_to_lead_here_does_not_pass(host: str, path: str) -> None:
    """DNS rebinding: the browser takes a page of evil.example to be of this server."""
    async with client(guarded()) as http:
        response = await http.get(path, headers={"Host": host})
    check_problem(response, 421, "misdirected")
    assert "perdure keys create" in response.json()["detail"]


@pytest.mark.parametrize(
    "name", ["X-Forwarded-Host", "X-Host", "Forwarded", "X-Forwarded-Server", "X-Original-Host", "X-Forwarded-For"]
)
async def test_what_a_proxy_adds_is_not_believed(name: str) -> None:
    async with client(guarded()) as http:
        evil = {"Host": "evil.example", name: "localhost"}
        assert (await http.get("/api/name", headers=evil)).status_code == 421
        good = {name: "evil.example"}
        assert (await http.get("/api/name", headers=good)).status_code == 200


async def test_two_hosts_do_not_pass() -> None:
    async with client(guarded()) as http:
        response = await http.get("/api/name", headers=[("Host", "localhost"), ("Host", "evil.example")])
    check_problem(response, 421, "misdirected")


@pytest.mark.parametrize(
    "origin",
    [
        "null", "http://evil.example", "http://localhost", "http://localhost:3000", "http://127.0.0.1:8700.evil.example",
        "https://evil.example:8700", "file://", "chrome-extension://x", "", "http://localhost:8700",
    ],
)  # fmt: skip
async def test_pages_of_others_do_not_pass(origin: str) -> None:
    """Forged requests from a page: the browser sends them, but says whose page it was."""
    app = guarded()
    async with client(app) as http:
        response = await http.post("/api/echo", json=1, headers={"Origin": origin})
    check_problem(response, 403, "forbidden_origin")
    assert app.state.parsed == []


async def test_a_page_of_this_server_passes() -> None:
    async with client(guarded()) as http:
        assert (await http.post("/api/echo", json=1, headers={"Origin": HERE})).json() == 1


async def test_with_authentication_any_host_and_origin_pass() -> None:
    """A page of others has no key to show; the browser adds none."""
    headers = {"Host": "perdure.example", "Origin": "https://app.example", "X-Name": "ada"}
    async with client(guarded(is_open=False)) as http:
        assert (await http.get("/api/name", headers=headers)).json() == "ada"


async def test_a_caller_is_asked_before_its_body_is_parsed() -> None:
    async with client(guarded(is_open=False)) as http:
        response = await http.post("/api/echo", content=b"{")
    check_problem(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"


async def test_a_caller_is_asked_once() -> None:
    app = guarded(is_open=False)
    async with client(app) as http:
        await http.get("/api/name", headers={"X-Name": "ada"})
        assert (await http.get("/health")).status_code == 200
    assert app.state.authenticator.asked == 1


async def test_a_missing_scope_is_named() -> None:
    async with client(guarded(is_open=False)) as http:
        response = await http.post("/api/run", headers={"X-Name": "ada"})
    check_problem(response, 403, "forbidden")
    assert "'run'" in response.json()["detail"]
    assert 'error="insufficient_scope", scope="run"' in response.headers["www-authenticate"]


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 1000):
        yield body[at : at + 1000]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("path", ["/api/echo", "/api/raw"])
async def test_l100_a_body_that_is_too_large_is_refused(path: str, chunked: bool) -> None:
    body = json.dumps("x" * LIMIT).encode()
    headers = {"Content-Type": "application/json"}
    async with client(guarded()) as http:
        response = await http.post(path, content=in_chunks(body) if chunked else body, headers=headers)
        check_problem(response, 413, "too_large")
        assert str(LIMIT) in response.json()["detail"]
        body = body[: LIMIT - 1] + b'"'
        response = await http.post(path, content=in_chunks(body) if chunked else body, headers=headers)
        assert response.status_code == 200


async def test_a_length_that_lies_does_not_help() -> None:
    async with client(guarded()) as http:
        response = await http.post(
            "/api/raw",
            content=in_chunks(b"1" * LIMIT * 2),
            headers={"Content-Length": "10", "Content-Type": "text/plain"},
        )
    check_problem(response, 413, "too_large")


@pytest.mark.parametrize("body", [b"[" * 2000, b"[" + b"0," * 300 + b"0]"], ids=["deep", "many"])
async def test_json_past_its_bounds_is_refused_before_it_is_parsed(body: bytes) -> None:
    app = guarded(max_request_items=200)
    async with client(app) as http:
        response = await http.post("/api/echo", content=body, headers={"Content-Type": "application/json"})
        check_problem(response, 422, "invalid_input")
        binary = await http.post("/api/raw", content=body, headers={"Content-Type": "application/octet-stream"})
        assert binary.json() == len(body)
    assert app.state.parsed == []


async def test_a_caller_that_sends_too_much_is_told_when_to_come_again() -> None:
    async with client(guarded(is_open=False, requests_per_second=0.01, request_burst=2)) as http:
        ada, bob = {"X-Name": "ada"}, {"X-Name": "bob"}
        assert [(await http.get("/api/name", headers=ada)).status_code for _ in range(2)] == [200, 200]
        response = await http.get("/api/name", headers=ada)
        check_problem(response, 429, "too_many_requests")
        assert 0 < int(response.headers["retry-after"]) <= 100
        assert (await http.get("/api/name", headers=bob)).status_code == 200


async def test_an_early_answer_waits_for_the_body() -> None:
    """On HTTP/2 hypercorn ends the whole connection if data comes for a request that has been answered."""
    happened: list[str] = []
    parts = [{"type": "http.request", "body": b"x", "more_body": n < 4} for n in range(5)]

    async def receive() -> Message:
        happened.append("read")
        return parts.pop(0)

    async def send(message: Message) -> None:
        happened.append(message["type"])

    body = BoundedBody({"type": "http", "headers": []}, receive, send, Bounds(100, 10, 10))
    await body.send({"type": "http.response.start", "status": 401, "headers": []})
    assert happened == [*["read"] * 5, "http.response.start"]


class Socket:
    """One WebSocket to an app, and what that sends."""

    def __init__(self, app: FastAPI, *, host: str = "localhost", can_deny: bool = True) -> None:
        self._app = app
        self._scope: dict[str, Any] = {
            "type": "websocket", "path": "/api/socket", "raw_path": b"/api/socket", "query_string": b"", "scheme": "ws",
            "headers": [(b"host", host.encode())], "subprotocols": [], "extensions": {"websocket.http.response": {}} if can_deny else {},
        }  # fmt: skip
        self.sent: list[Message] = []

    async def _receive(self) -> Message:
        return {"type": "websocket.connect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    async def run(self) -> list[Message]:
        await self._app(self._scope, self._receive, self._send)
        return self.sent


async def test_a_socket_is_guarded_as_a_request_is() -> None:
    sent = await Socket(guarded(), host="evil.example").run()
    assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 421)
    assert await Socket(guarded(), host="evil.example", can_deny=False).run() == [
        {"type": "websocket.close", "code": 1008, "reason": ""}
    ]
    sent = await Socket(guarded(is_open=False)).run()
    assert sent[0]["status"] == 401


async def test_a_door_for_strangers_knows_those_who_show_something() -> None:
    """What is shown must be worth something; nothing is asked of who shows nothing, for the event will say who it is."""
    app = guarded(is_open=False)
    async with client(app) as http:
        assert (await http.post("/door")).json() == "a stranger"
        assert (await http.post("/door", headers={"X-Name": "robot"})).json() == "robot"
        assert app.state.authenticator.asked == 2
        check_problem(await http.post("/door", headers={"X-Name": "nobody"}), 401, "unauthenticated")


async def test_strangers_of_one_address_share_a_rate() -> None:
    async with client(guarded(is_open=False, requests_per_second=0.001, request_burst=2)) as http:
        assert [(await http.post("/door")).status_code for _ in range(3)] == [200, 200, 429]
        assert (await http.post("/door", headers={"X-Name": "robot"})).status_code == 200
