"""Who may use the UAIP door, and from which page: refused in UAIP's words, a string `detail`, also before anything is read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from perdure.api.principal import Scope
from perdure.store.database import Database
from perdure.store.stages.definitions import register_workflows
from tests.integration import access_stage
from tests.integration.access_stage import OTHER, OWNER
from tests.integration.api_server import ApiProcess, checked
from tests.integration.door_stages import DESK, app
from tests.integration.stack import Stack
from tests.integration.stage_door import QUEUE, SESSION, detail_of

PAGE = "https://shop.example"
ENDPOINTS = [
    ("POST", "/initialize", Scope.RUN),
    ("POST", "/execute", Scope.RUN),
    ("GET", "/api/workflows", Scope.READ),
    ("GET", f"/api/workflows/{DESK}", Scope.READ),
]


@dataclass(frozen=True)
class Guarded:
    """A server that knows its callers.

    Attributes:
        http: without a key.
        keys: of the owner, by the one scope of each.
        other: another tenant's, which may do all.
        session: of the owner.
    """

    http: httpx.Client
    keys: dict[Scope, str]
    other: str
    session: str

    def ask(self, method: str, path: str, key: str | None = None, **headers: str) -> httpx.Response:
        """One request, with all that any of these takes."""
        sent = (
            {SESSION: self.session, **headers} if key is None else {SESSION: self.session, "X-API-Key": key, **headers}
        )
        body = {"workflow_name": DESK, "action": "handshake"}
        return self.http.request(method, path, json=body if method == "POST" else None, headers=sent)


@pytest.fixture(scope="module")
def guarded(stack: Stack) -> Iterator[Guarded]:
    """On a database of its own, whose keys close the API."""
    with access_stage.own_database(stack) as url:
        asyncio.run(_register(url))
        keys = {scope: asyncio.run(access_stage.make_key(url, OWNER, scope)) for scope in Scope}
        other = asyncio.run(access_stage.make_key(url, OTHER, Scope.ADMIN))
        process = ApiProcess(stack, PERDURE_DATABASE_URL=url, PERDURE_MAX_REQUEST_BYTES="4096").wait_ready()
        with httpx.Client(base_url=process.url, timeout=60) as http:
            made = http.post("/initialize", json={"workflow_name": DESK}, headers={"X-API-Key": keys[Scope.RUN]})
            yield Guarded(http, keys, other, str(checked(made)["session_id"]))
        process.kill()


@pytest.fixture(scope="module")
def local(stack: Stack) -> Iterator[httpx.Client]:
    """A server that asks nobody who they are, and lets in pages of one origin."""
    process = ApiProcess(stack, PERDURE_UAIP_ORIGINS=f'["{PAGE}"]').wait_ready()
    with httpx.Client(base_url=process.url, timeout=60) as http:
        yield http
    process.kill()


async def _register(url: str) -> None:
    database = Database(url, pool_size=1)
    await register_workflows(database, OWNER, [one.definition for one in app.workflows], QUEUE)
    await database.close()


@pytest.mark.parametrize(("method", "path", "scope"), ENDPOINTS)
def test_without_a_key_nothing_is_told(guarded: Guarded, method: str, path: str, scope: Scope) -> None:
    for key in (None, f"pdk_{'0' * 16}_{'x' * 43}"):
        refused = guarded.ask(method, path, key)
        assert detail_of(refused, 401)
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert list(refused.json()) == ["detail"]


@pytest.mark.parametrize(("method", "path", "scope"), ENDPOINTS)
def test_without_the_scope_nothing_is_done(guarded: Guarded, method: str, path: str, scope: Scope) -> None:
    refused = guarded.ask(method, path, guarded.keys[Scope.APPROVE])
    assert repr(scope.value) in detail_of(refused, 403)
    assert list(refused.json()) == ["detail"]


def test_a_reader_opens_and_does_nothing(guarded: Guarded) -> None:
    for method, path, scope in ENDPOINTS:
        response = guarded.ask(method, path, guarded.keys[Scope.READ])
        assert response.status_code == (200 if scope is Scope.READ else 403)


def test_what_is_another_tenants_does_not_exist(guarded: Guarded) -> None:
    """Neither the workflow, nor the session, nor anything in a list."""
    for method, path, _ in ENDPOINTS:
        response = guarded.ask(method, path, guarded.other)
        if path == "/api/workflows":
            assert checked(response) == {"workflows": []}
        else:
            assert detail_of(response, 404) == f"Workflow not found: {DESK}"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/execute"), ("PUT", "/execute"), ("GET", "/initialize"), ("DELETE", "/initialize"),
        ("POST", "/api/workflows"), ("DELETE", f"/api/workflows/{DESK}"), ("OPTIONS", "/execute"),
    ],
)  # fmt: skip
def test_another_method_is_refused_in_the_same_words(guarded: Guarded, method: str, path: str) -> None:
    refused = guarded.http.request(method, path, headers={"X-API-Key": guarded.keys[Scope.ADMIN]})
    assert detail_of(refused, 405) == "Method Not Allowed"


@pytest.mark.parametrize("path", ["/initialize", "/execute"])
@pytest.mark.parametrize("told", [True, False])
def test_a_body_that_is_too_large_is_refused(guarded: Guarded, path: str, told: bool) -> None:
    """By the length that it tells, and by what comes."""
    chunks = [b'{"workflow_name": "', b"x" * 4096, b'"}']
    content: Any = b"".join(chunks) if told else iter(chunks)
    headers = {"X-API-Key": guarded.keys[Scope.RUN], SESSION: guarded.session}
    refused = guarded.http.post(path, content=content, headers=headers)
    assert "4096 bytes" in detail_of(refused, 413)
    assert guarded.ask("POST", "/initialize", guarded.keys[Scope.RUN]).status_code == 200


def test_pages_with_a_key_read_the_session_header(guarded: Guarded) -> None:
    """Any page may, by default: what it needs is a key. The browser asks without one."""
    asked = {
        "origin": PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,x-session-id,idempotency-key",
    }
    allowed = guarded.http.options("/execute", headers=asked)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "*")
    answer = guarded.ask("POST", "/initialize", guarded.keys[Scope.RUN], origin=PAGE)
    assert answer.headers[SESSION] == checked(answer)["session_id"]
    assert SESSION in answer.headers["access-control-expose-headers"]
    assert answer.headers["access-control-allow-origin"] == "*"
    refused = guarded.ask("POST", "/initialize", origin=PAGE)
    assert detail_of(refused, 401)
    assert refused.headers["access-control-allow-origin"] == "*"
    elsewhere = guarded.http.get("/api/stage-sessions", headers={"origin": PAGE, "X-API-Key": guarded.keys[Scope.READ]})
    assert "access-control-allow-origin" not in elsewhere.headers


def test_without_keys_only_pages_that_were_named_come_in(local: httpx.Client) -> None:
    named = local.get("/api/workflows", headers={"origin": PAGE})
    assert (named.status_code, named.headers["access-control-allow-origin"]) == (200, PAGE)
    refused = local.get("/api/workflows", headers={"origin": "https://evil.example"})
    assert "pages of other servers" in detail_of(refused, 403)
    assert "access-control-allow-origin" not in refused.headers
    house = local.get("/api/stage-sessions", headers={"origin": PAGE})
    assert (house.status_code, house.json()["code"]) == (403, "forbidden_origin")
    assert detail_of(local.get("/api/workflows", headers={"host": "evil.example"}), 421)


def test_requests_of_the_door_are_counted_by_their_route(local: httpx.Client) -> None:
    """Also those of pages."""
    for headers in ({}, {"origin": PAGE}):
        local.get(f"/api/workflows/{'nobody' * 3}", headers=headers)
    counted = 'perdure_http_requests_total{method="GET",route="/api/workflows/{name:path}",status="404"} 2.0'
    assert counted in local.get("/metrics").text
