"""Faults in UAIP's words: a string `detail` whatever is wrong, and never more than the caller may know."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI, Query

from perdure import errors
from perdure.api import problems
from perdure.api.doors import uaip_errors
from perdure.api.problems import Refused
from perdure.protocols.uaip.request import RequestRefused
from perdure.uaip.refusal import Reason, Refusal
from perdure.upp.redaction import known_secrets

SECRET = "kT9-secret-of-the-shop-42"

RAISED: list[tuple[Exception, int, str]] = [
    (RequestRefused(Refusal(Reason.KEY_CONFLICT, "used before")), 409, "used before"),
    (errors.UnknownSession("no session x; `perdure sessions list` shows those there are"), 404, "Session not found"),
    (errors.SessionGone("session x is being deleted"), 404, "Session not found"),
    (errors.InvalidInput("key '' cannot be used"), 400, "key '' cannot be used"),
    (errors.QueueFull("too many"), 429, "too many"),
    (errors.ServerUnavailable("PostgreSQL at x does not answer"), 503, "PostgreSQL at x does not answer"),
    (errors.DamagedSession("a body is gone"), 500, "a body is gone"),
    (Refused(403, "forbidden", "'robot' lacks the scope 'run'"), 403, "'robot' lacks the scope 'run'"),
    (ConnectionRefusedError(), 503, "PostgreSQL does not answer; try again"),
    (RuntimeError(f"a bug with {SECRET}"), 500, "the server failed; its log says how"),
    (errors.UserError(f"not with {SECRET}"), 400, "not with [redacted:SHOP]"),
]


def app_that_raises() -> FastAPI:
    """Raises what is asked for, on a path of UAIP and on one of the house."""
    app = FastAPI()

    @app.get("/api/workflows/{place}")
    @app.get("/api/house/{place}")
    async def fail(place: int, wait_s: float = Query(default=0, le=1)) -> None:
        raise RAISED[place][0]

    problems.install(app, uaip_errors.shape_of)
    return app


async def ask(path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app_that_raises(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.get(path)


@pytest.mark.parametrize("place", range(len(RAISED)))
async def test_every_error_has_a_detail_and_its_status(place: int) -> None:
    known_secrets.register("SHOP", SECRET)
    _, status, detail = RAISED[place]
    response = await ask(f"/api/workflows/{place}")
    assert (response.status_code, response.json()["detail"]) == (status, detail)
    assert response.headers["content-type"] == "application/json"
    assert SECRET not in response.text
    assert (response.headers.get("retry-after") is not None) == (status in (429, 503))


async def test_a_parameter_that_does_not_fit_is_a_bad_request_in_one_string() -> None:
    response = await ask("/api/workflows/0?wait_s=2")
    assert response.status_code == 400
    assert list(response.json()) == ["detail"]
    assert "wait_s" in response.json()["detail"]


async def test_the_house_tells_the_same_faults_in_its_own_words() -> None:
    response = await ask("/api/house/0")
    assert response.headers["content-type"] == problems.MEDIA_TYPE
    assert (response.json()["code"], response.json()["status"]) == ("key_conflict", 409)
    assert (await ask("/api/house/1")).json()["detail"] != "Session not found"
    assert (await ask("/api/house/0?wait_s=2")).status_code == 422


@pytest.mark.parametrize(
    ("path", "is_served"),
    [
        ("/initialize", True), ("/execute", True), ("/api/workflows", True), ("/api/workflows/", True),
        ("/api/workflows/a/b", True), ("/api/workflowsx", False), ("/executes", False), ("/api/stage-sessions", False), ("/", False),
    ],
)  # fmt: skip
def test_which_paths_are_uaips(path: str, is_served: bool) -> None:
    assert uaip_errors.serves(path) is is_served
