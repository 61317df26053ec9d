"""The compliance facts A1 to A6 of UAMP 1.0 for Chat Completions: who may ask, and how a refusal is told."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from perdure.api.principal import Scope
from tests.conformance.batch_place import AGENT, APP, COMPLETIONS, user
from tests.integration import access_stage
from tests.integration.stack import Stack, WorkerProcess
from tests.unit.api import issuer

pytestmark = pytest.mark.asyncio(loop_scope="module")

TENANT = "acme"
LONG_AGO, LONG_AFTER = 1_600_000_000, 4_000_000_000


@pytest.fixture(scope="module")
def url(stack: Stack) -> Iterator[str]:
    """A database of their own, and a worker with the agents."""
    with access_stage.own_database(stack) as found:
        place = {"PERDURE_DATABASE_URL": found, "PERDURE_TENANT": TENANT, "PERDURE_TASK_QUEUE": "batchaccess"}
        worker = WorkerProcess(stack, APP, **place).wait_ready()
        yield found
        worker.kill()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The issuer's published keys."""
    path = tmp_path_factory.mktemp("issuer") / "keys.json"
    path.write_bytes(issuer.key_set(issuer.RSA))
    return path


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def http(stack: Stack, url: str, keys: Path) -> AsyncGenerator[httpx.AsyncClient]:
    tokens = {"jwt_issuer": issuer.NAME, "jwt_audience": issuer.AUDIENCE, "jwks_file": keys}
    async with access_stage.serving(stack, url, **tokens) as (_, client):
        yield client


async def ask(http: httpx.AsyncClient, credential: str | None) -> httpx.Response:
    headers = {} if credential is None else {"Authorization": f"Bearer {credential}"}
    return await http.post(COMPLETIONS, json={"model": AGENT, "messages": [user("Hello")]}, headers=headers)


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["www-authenticate"].startswith("Bearer")
    return response.json()["error"]


def token(**changed: Any) -> str:
    given: dict[str, Any] = {"iat": LONG_AGO, "exp": LONG_AFTER, "tenant": TENANT, **changed}
    return issuer.sign(issuer.RSA, "RS256", **given)


async def test_a1_without_a_credential(http: httpx.AsyncClient) -> None:
    error = error_of(await ask(http, None), 401)
    assert (error["type"], error["code"]) == ("authentication_error", "missing_token")


async def test_a2_with_a_key_or_a_token(http: httpx.AsyncClient, url: str) -> None:
    key = await access_stage.make_key(url, TENANT, Scope.RUN)
    for credential in (key, token()):
        response = await ask(http, credential)
        assert response.status_code == 200, response.text
        assert response.json()["choices"][0]["message"]["content"] == "you said: Hello"


@pytest.mark.parametrize("credential", ["nonsense", "a.b.c", f"pdk_{'0' * 16}_{'x' * 43}"])
async def test_a3_with_a_credential_that_is_worth_nothing(http: httpx.AsyncClient, credential: str) -> None:
    error = error_of(await ask(http, credential), 401)
    assert (error["type"], error["code"]) == ("authentication_error", "invalid_token")
    assert credential not in error["message"]


async def test_a4_with_an_expired_token(http: httpx.AsyncClient) -> None:
    error = error_of(await ask(http, token(exp=LONG_AGO)), 401)
    assert error["code"] == "invalid_token"
    assert "expired" in error["message"]


async def test_a5_without_the_scope(http: httpx.AsyncClient, url: str) -> None:
    reader = await access_stage.make_key(url, TENANT, Scope.READ)
    for credential in (reader, token(scope="read")):
        error = error_of(await ask(http, credential), 403)
        assert (error["type"], error["code"]) == ("forbidden", "insufficient_scope")
    listed = await http.get("/v1/models", headers={"Authorization": f"Bearer {reader}"})
    assert [model["id"] for model in listed.json()["data"]] == [AGENT]


async def test_a6_the_keys_of_signatures_are_published(http: httpx.AsyncClient) -> None:
    found = (await http.get("/.well-known/jwks.json")).json()["keys"][0]
    assert (found["kty"], found["use"]) == ("RSA", "sig")
    assert found["kid"]


async def test_another_tenants_agents_are_not_there(http: httpx.AsyncClient) -> None:
    response = await ask(http, token(tenant="other"))
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")
