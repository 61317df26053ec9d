"""L94: every route x {no key, a worthless key, a missing scope, another tenant's key}, made from the app's own list."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI

from perdure.api.doors import mcp_errors, uaip_errors
from perdure.api.doors.envelope import discovery as envelope_discovery
from perdure.api.doors.openai import errors as openai_errors
from perdure.api.doors.uamp import http_errors as uamp_errors
from perdure.api.principal import Scope
from tests.integration import access_stage
from tests.integration.access_stage import OTHER, OWNER, TITLE, Endpoint, Owned
from tests.integration.door_stages import DESK
from tests.integration.stack import Stack

one_loop = pytest.mark.asyncio(loop_scope="module")
"""The server is opened once for all tests."""

APP = access_stage.unconnected_app()
ENDPOINTS = access_stage.endpoints(APP)
GUARDED = [endpoint for endpoint in ENDPOINTS if endpoint.scope is not None and endpoint.method != "HEAD"]
HEADS = [endpoint for endpoint in ENDPOINTS if endpoint.scope is not None and endpoint.method == "HEAD"]
NAMING = [endpoint for endpoint in GUARDED if "{" in endpoint.path]
OF_UAMP = {"postEvent", "streamEvents", "getCapabilities"}
"""Operations that name by a header or a parameter what they are about."""
LISTING = [
    endpoint
    for endpoint in GUARDED
    if endpoint.method == "GET" and "{" not in endpoint.path and endpoint.operation not in OF_UAMP
]
PUBLIC = {
    "/health", "/ready", "/metrics", "/api/openapi.json", "/api/docs", "/docs/oauth2-redirect", uamp_errors.KEYS,
    *envelope_discovery.PATHS,
}  # fmt: skip
SOCKETS = {"/api/sessions/{session}/events/ws"}
FOR_STRANGERS = {"/ws"}
"""Sockets whose callers may say who they are once they are there, in what they send."""
OF_ENVELOPES = {"/v1/messages", "/v1/stream/{stream_id}", "/uamp/1/ws"}
"""Their door asks who it is itself, over TLS alone: `test_uamp_envelope_server.py` and its neighbours see that it does."""
ALL_BUT_ADMIN = {Scope.READ, Scope.RUN, Scope.APPROVE}
REFUSED = {401: "unauthenticated", 403: "forbidden"}
NODE = "0a4c9d6e-52a1-4c8e-8a34-8c3e7f1f2a10"
BODIES: dict[str, Any] = {
    "openRun": {"agent": "actor", "input": "x"},
    "createSession": {"agent": "actor"},
    "importSession": {"agent": "actor", "document": {}},
    "importThreads": {"agent": "actor", "threads": [{}]},
    "submitRun": {"input": "x"},
    "resumeRun": {},
    "patchSession": {"title": "stolen"},
    "forkThread": {},
    "checkoutNode": {"node": NODE},
    "mergeNodes": {"source": NODE, "target": NODE},
    "restoreCheckpoint": {"checkpoint": NODE},
    "answerWait": {"answer": {"result": "stolen"}},
    "answerProposal": {"decision": "deny"},
    "giveToolResult": {"result": "stolen"},
    "payRun": {"scheme": "token", "token": "stolen"},
    "uploadContent": {"any": "media"},
    "encodePayloads": {"payloads": []},
    "decodePayloads": {"payloads": []},
    "terminateStageSession": {},
    "answerStageAction": {"answer": {"approved": True}},
    "initialize": {"workflow_name": DESK},
    "execute": {"workflow_name": DESK, "action": "handshake"},
    "postEvent": {"type": "input.text", "event_id": "e", "text": "stolen"},
    "chat": {"id": NODE, "agent": "actor", "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}},
    "createChatCompletion": {"model": "actor", "messages": [{"role": "user", "content": "x"}]},
}
"""A body that would do, by operation; the others take none."""

NOTHING = {"GET /api/chat/{chat}/stream"}
"""What is answered with nothing at all where there is no such thing, as the AI SDK has it."""

UNUSED = {"DELETE /mcp/{workflow}": 405}
"""Methods that a protocol has and its door refuses, whoever asks."""

QUIET = frozenset({"api_keys", "agents", "session_addresses", "stage_workflows"})
"""Tables that requests of others may change: when a key, an agent or a workflow was last seen."""


@dataclass(frozen=True)
class Stage:
    """What the tests of this file share."""

    stack: Stack
    url: str
    owned: Owned
    keys: dict[frozenset[Scope], str]
    others: str


@pytest.fixture(scope="module")
def stage(stack: Stack) -> Iterator[Stage]:
    """The owner's session with its open wait, a key for each set of scopes, and another tenant's key that may do all."""
    with access_stage.own_database(stack) as url:
        worker = access_stage.owners_worker(stack, url)
        owned = asyncio.run(access_stage.own_something(stack, url))
        wanted = [frozenset({Scope.ADMIN}), *(frozenset(ALL_BUT_ADMIN - {scope}) for scope in Scope)]
        keys = {scopes: asyncio.run(access_stage.make_key(url, OWNER, *scopes)) for scopes in wanted}
        yield Stage(stack, url, owned, keys, asyncio.run(access_stage.make_key(url, OTHER, Scope.ADMIN)))
        worker.kill()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def api(stage: Stage) -> AsyncGenerator[tuple[FastAPI, httpx.AsyncClient]]:
    async with access_stage.serving(stage.stack, stage.url) as served:
        yield served


async def call(
    api: tuple[FastAPI, httpx.AsyncClient], endpoint: Endpoint, ids: dict[str, str], key: str | None
) -> httpx.Response:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    path = endpoint.path.format(**ids)
    body = BODIES.get("createChatCompletion" if path.endswith("/chat/completions") else endpoint.operation)
    headers["X-Session-Id"] = ids.get("session", NODE)
    return await api[1].request(endpoint.method, path, json=body, headers=headers)


def check_refused(response: httpx.Response, status: int, stage: Stage) -> Any:
    """The body, in the words of the protocol that serves the path."""
    assert response.status_code == status, response.text
    check_no_leak(response.text, stage)
    path, body = response.request.url.path, response.json()
    if uaip_errors.serves(path):
        assert response.headers["content-type"] == "application/json"
        assert list(body) == ["detail"]
        return body
    if openai_errors.serves(path) or uamp_errors.serves(path):
        assert response.headers["content-type"] == "application/json"
        assert list(body) == ["error"]
        words = {401: "authentication_error", 403: "forbidden", 404: "not_found_error"}
        assert body["error"]["type"] == words[status]
        return {"detail": body["error"]["message"]}
    if mcp_errors.serves(path):
        assert response.headers["content-type"] == "application/json"
        body = {"status": status, "detail": body["error"]["message"], **body["error"]["data"]}
    else:
        assert response.headers["content-type"] == "application/problem+json"
    assert body["status"] == status
    assert body["code"] == REFUSED.get(status, body["code"])
    return body


def check_no_leak(text: str, stage: Stage) -> None:
    """No more of the owner's than the caller itself has said: ids stand in its path."""
    assert TITLE not in text
    assert stage.others not in text
    assert "pick_colour" not in text
    assert not any(key in text for key in stage.keys.values())


def test_every_route_is_guarded_or_known_to_be_public() -> None:
    assert {endpoint.path for endpoint in ENDPOINTS if endpoint.scope is None} <= PUBLIC | OF_ENVELOPES
    assert access_stage.socket_paths(APP) == SOCKETS | FOR_STRANGERS | {"/uamp/1/ws"}
    assert len(GUARDED) > 25


def test_what_changes_something_needs_more_than_to_read() -> None:
    assert [str(endpoint) for endpoint in GUARDED if endpoint.method != "GET" and endpoint.scope is Scope.READ] == []


def test_l100_a_copy_needs_what_a_new_one_needs() -> None:
    """A fork, a branch, an import and a run that goes on make something; an export reads all that reading shows."""
    needed = {endpoint.operation: endpoint.scope for endpoint in ENDPOINTS}
    making = ["forkThread", "restoreCheckpoint", "mergeNodes", "importSession", "importThreads"]
    making += ["resumeRun", "openRun", "submitRun"]
    assert {name: needed[name] for name in making} == dict.fromkeys(making, needed["createSession"])
    assert needed["createSession"] is Scope.RUN
    assert (
        needed["exportSession"] is needed["getThread"] is needed["getSession"] is needed["listMessages"] is Scope.READ
    )


def test_every_route_that_takes_a_body_is_given_one() -> None:
    document = APP.openapi()
    taking = {
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
        if "requestBody" in operation
    }
    assert taking == {*BODIES, "postEnvelope"}


@pytest.mark.parametrize("endpoint", GUARDED, ids=str)
@one_loop
async def test_l94_without_a_key_nothing_is_told(
    stage: Stage, api: tuple[FastAPI, httpx.AsyncClient], endpoint: Endpoint
) -> None:
    for key in (None, f"pdk_{'0' * 16}_{'x' * 43}", "pdk_x", "a.b.c"):
        response = await call(api, endpoint, stage.owned.ids_of(endpoint.path), key)
        check_refused(response, 401, stage)
        assert response.headers["www-authenticate"].startswith("Bearer")
        assert stage.owned.session not in response.text
        assert stage.owned.stage_session not in response.text
        assert key is None or key not in response.text


@pytest.mark.parametrize("endpoint", GUARDED, ids=str)
@one_loop
async def test_l94_without_the_scope_nothing_is_done(
    stage: Stage, api: tuple[FastAPI, httpx.AsyncClient], endpoint: Endpoint
) -> None:
    assert endpoint.scope is not None
    key = stage.keys[frozenset(ALL_BUT_ADMIN - {endpoint.scope})]
    problem = check_refused(await call(api, endpoint, stage.owned.ids_of(endpoint.path), key), 403, stage)
    assert repr(endpoint.scope.value) in problem["detail"]


@pytest.mark.parametrize("endpoint", HEADS, ids=str)
@one_loop
async def test_l94_head_is_answered_as_get_without_a_body(
    stage: Stage, api: tuple[FastAPI, httpx.AsyncClient], endpoint: Endpoint
) -> None:
    assert endpoint.scope is not None
    ids = stage.owned.ids_of(endpoint.path)
    for key, status in (
        (None, 401),
        (stage.keys[frozenset(ALL_BUT_ADMIN - {endpoint.scope})], 403),
        (stage.others, 404),
        (stage.keys[frozenset({Scope.ADMIN})], 200),
    ):
        response = await call(api, endpoint, ids, key)
        assert (response.status_code, response.content) == (status, b"")


@pytest.mark.parametrize("endpoint", NAMING, ids=str)
@one_loop
async def test_l94_what_is_another_tenants_does_not_exist(
    stage: Stage, api: tuple[FastAPI, httpx.AsyncClient], endpoint: Endpoint
) -> None:
    """The answer is that for an id that nobody has, to the letter, and nothing has changed."""
    before = await access_stage.all_rows(stage.url, OWNER, but=QUIET)
    owned = stage.owned.ids_of(endpoint.path)
    nobodys = {name: value if name == "call_id" else str(uuid.uuid4()) for name, value in owned.items()}
    refused = await call(api, endpoint, owned, stage.others)
    unknown = await call(api, endpoint, nobodys, stage.others)
    if str(endpoint) in NOTHING:
        assert (refused.status_code, refused.text) == (204, "")
    else:
        check_refused(refused, UNUSED.get(str(endpoint), 404), stage)
    texts = [refused.text, unknown.text]
    for name, value in owned.items():
        if f"{{{name}}}" in endpoint.path:
            texts = [texts[0].replace(value, name), texts[1].replace(nobodys[name], name)]
    assert texts[0] == texts[1]
    assert await access_stage.all_rows(stage.url, OWNER, but=QUIET) == before


@pytest.mark.parametrize("endpoint", LISTING, ids=str)
@one_loop
async def test_l94_lists_have_nothing_of_another_tenant(
    stage: Stage, api: tuple[FastAPI, httpx.AsyncClient], endpoint: Endpoint
) -> None:
    response = await call(api, endpoint, {}, stage.others)
    assert response.status_code == 200
    check_no_leak(response.text, stage)
    assert not any(value in response.text for value in [*stage.owned.ids.values(), stage.owned.stage_session])
    assert "actor" not in response.text
    if endpoint.operation == "listLimits":  # nobody here has any; `test_store_limits` sees what each tenant is shown
        return
    mine = await call(api, endpoint, {}, stage.keys[frozenset({Scope.ADMIN})])
    owned = stage.owned
    assert any(word in mine.text for word in (owned.session, "actor", owned.stage_session, owned.content, DESK))


@one_loop
async def test_l94_a_session_of_uamp_is_its_callers_alone(stage: Stage, api: tuple[FastAPI, httpx.AsyncClient]) -> None:
    """What another tenant's key is answered of it is what is said of one that nobody has; so of agents."""
    headers = {"Authorization": f"Bearer {stage.keys[frozenset({Scope.ADMIN})]}"}
    create = {"type": "session.create", "event_id": "e", "session": {"modalities": ["text"]}, "agent": "actor"}
    opened = await api[1].post(uamp_errors.EVENTS, json=create, headers=headers)
    assert opened.status_code == 202
    session, nobodys = opened.headers["X-Session-Id"], str(uuid.uuid4())
    for endpoint in (endpoint for endpoint in GUARDED if endpoint.path in (uamp_errors.EVENTS, uamp_errors.STREAM)):
        refused = await call(api, endpoint, {"session": session}, stage.others)
        unknown = await call(api, endpoint, {"session": nobodys}, stage.others)
        check_refused(refused, 404, stage)
        assert refused.text.replace(session, "") == unknown.text.replace(nobodys, "")
    others = {"Authorization": f"Bearer {stage.others}"}
    for query in ({}, {"agent": "actor"}):
        response = await api[1].get(uamp_errors.CAPABILITIES, params=query, headers=others)
        check_refused(response, 404, stage)
        assert "registered are none" in response.text or "no agent is registered" in response.text
        assert (await api[1].get(uamp_errors.CAPABILITIES, params=query, headers=headers)).status_code == 200


@pytest.mark.parametrize("operation", ["openRun", "createSession", "importSession", "importThreads"])
@one_loop
async def test_l94_another_tenants_agent_cannot_be_used(
    stage: Stage, api: tuple[FastAPI, httpx.AsyncClient], operation: str
) -> None:
    (endpoint,) = (endpoint for endpoint in GUARDED if endpoint.operation == operation)
    response = await call(api, endpoint, {}, stage.others)
    problem = check_refused(response, 404, stage)
    assert "registered are none;" in problem["detail"]


@pytest.mark.parametrize("path", sorted(SOCKETS))
@one_loop
async def test_l94_sockets_are_guarded_as_routes_are(
    stage: Stage, api: tuple[FastAPI, httpx.AsyncClient], path: str
) -> None:
    named = path.format(**stage.owned.ids)
    status, headers, text = await access_stage.knock(api[0], named, {})
    assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="perdure"')
    check_no_leak(text, stage)
    lacking = stage.keys[frozenset(ALL_BUT_ADMIN - {Scope.READ})]
    status, _, text = await access_stage.knock(api[0], named, {"authorization": f"Bearer {lacking}"})
    assert status == 403
    status, _, text = await access_stage.knock(api[0], named, {"authorization": f"Bearer {stage.others}"})
    assert status == 404
    check_no_leak(text, stage)


@pytest.mark.parametrize("path", sorted(FOR_STRANGERS))
@one_loop
async def test_l94_sockets_for_strangers_take_no_wrong_credential(
    api: tuple[FastAPI, httpx.AsyncClient], path: str
) -> None:
    wrong = {"authorization": "Bearer pdk_0123456789abcdef_wrong"}
    status, headers, _ = await access_stage.knock(api[0], path, wrong)
    assert (status, "www-authenticate" in headers) == (401, True)


@one_loop
async def test_l93_names_of_metadata_are_never_part_of_a_query(
    stage: Stage, api: tuple[FastAPI, httpx.AsyncClient]
) -> None:
    """Keys with quotes, dots, JSON paths and dollar signs are data wherever a list can be filtered."""
    headers = {"X-API-Key": stage.keys[frozenset({Scope.ADMIN})]}
    for name in ("x' or '1'='1", 'x"', "a.b", "$.a", "$1", "x;drop table perdure.sessions", "a->>b", "%", "\\"):
        for parameter in ("metadata", f"metadata[{name}]", f"metadata.{name}", "status", "after", "agent", name):
            response = await api[1].get("/api/sessions", params={parameter: name}, headers=headers)
            assert response.status_code in (200, 422), (parameter, response.text)
        patch = {"metadata": {name: name}}
        path = f"/api/sessions/{stage.owned.session}"
        assert (await api[1].patch(path, json=patch, headers=headers)).json()["metadata"][name] == name
        assert (await api[1].patch(path, json={"metadata": {name: None}}, headers=headers)).status_code == 200
