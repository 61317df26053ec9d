"""Tasks that are HTTP calls, sent over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from perdure.activities.stage_http import MAX_ANSWER_BYTES, run_http
from perdure.uaip.bound_task import HttpTask
from perdure.uaip.definition import TaskSpec
from perdure.uaip.http_call import HttpCall, Method
from perdure.uaip.state import State
from perdure.uaip.task_context import TaskContext
from perdure.uaip.task_outcome import TaskRun
from perdure.upp.json_value import JSONObject, JSONValue
from perdure.upp.secrets import Secret, secret
from tests.clients.vendor_server import CUT, Piece, Reply, VendorServer, json_reply
from tests.scale import allowed_s

KEY = "idempotency-key-of-the-action"
PARAMETERS: JSONObject = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 10}},
    "required": ["query"],
    "additionalProperties": False,
}


@pytest.fixture
async def server() -> AsyncIterator[VendorServer]:
    async with VendorServer() as running:
        yield running


async def call(
    url: str,
    arguments: JSONObject | None = None,
    *,
    method: Method = "GET",
    state: State | None = None,
    secrets: dict[str, Secret] | None = None,
    headers: JSONObject | None = None,
    **spec: Any,
) -> TaskRun:
    """What comes of one call of a task that sends its arguments to a URL."""
    http = HttpCall(method, url, headers=headers or {})
    pinned = TaskSpec("search", "", PARAMETERS, kind="http", http=http, **spec)
    given: JSONObject = {"query": "pens"} if arguments is None else arguments
    context = TaskContext("action", KEY, 1)
    return await run_http(HttpTask(pinned, http), pinned, given, state or State(), context, secrets=secrets or {})


def failure(run: TaskRun) -> tuple[str, str]:
    assert run.error is not None, run
    return run.error.type, run.error.message


async def test_the_answer_is_the_result_and_is_saved(server: VendorServer) -> None:
    """JSON as its value, under the key that the task names; the argument that was left out has its default."""
    server.replies(json_reply([{"sku": "SKU-001"}]))
    state = State({"user.email": "a@b.c"}, version=3)
    run = await call(f"{server.url}/products", state=state, save_as="found")
    assert run.result == [{"sku": "SKU-001"}]
    assert run.diff.values == {"found": [{"sku": "SKU-001"}]}
    assert server.received[0].path == "/products?limit=10&query=pens"


@pytest.mark.parametrize(
    ("content_type", "body", "result"),
    [
        ("application/problem+json; charset=utf-8", b'{"a": null}', {"a": None}),
        ("text/plain", "größe".encode(), "größe"),
        ("text/plain; charset=iso-8859-1", "größe".encode("latin-1"), "größe"),
        ("application/json", b"", None),
    ],
)
async def test_what_an_answer_is_read_as(
    server: VendorServer, content_type: str, body: bytes, result: JSONValue
) -> None:
    server.replies(Reply(200, {"content-type": content_type}, [body]))
    run = await call(server.url)
    assert (run.result, run.error) == (result, None)


async def test_the_key_goes_with_what_may_change_something(server: VendorServer) -> None:
    """A server that knows it does the same action once, however often it is tried; reading needs none."""
    server.replies(json_reply({}))
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        await call(server.url, method=method)
    keys = {request.method: request.headers.get("idempotency-key") for request in server.received}
    assert keys == {"GET": None, "HEAD": None, "POST": KEY, "PUT": KEY, "PATCH": KEY, "DELETE": KEY}


async def test_a_secret_goes_out_and_does_not_come_back(server: VendorServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server gets its value; an error in which the server shows it does not have it."""
    value = "tango-7-uniform-19"
    monkeypatch.setenv("SHOP_KEY", value)
    server.replies(Reply(401, {"content-type": "text/plain"}, [f"{value} is not known".encode()]))
    run = await call(
        server.url, secrets={"shop": secret("env:SHOP_KEY")}, headers={"Authorization": {"$secret": "shop"}}
    )
    assert server.received[0].headers["authorization"] == value
    assert failure(run) == (
        "HTTPClientError",
        "the server answered 401 Unauthorized: [redacted:shop] is not known",
    )


async def test_a_secret_that_nobody_named_is_the_tasks_error(server: VendorServer) -> None:
    run = await call(server.url, headers={"Authorization": {"$secret": "shop"}})
    kind, message = failure(run)
    assert kind == "InvalidInput"
    assert "no secret is named 'shop'" in message
    assert server.received == []


async def test_arguments_that_do_not_fit_are_not_sent(server: VendorServer) -> None:
    run = await call(server.url, {"query": 7, "more": 1})
    assert run.refusal is not None
    assert run.refusal.status == 422
    assert server.received == []


async def test_a_status_of_an_error_is_the_tasks_error(server: VendorServer) -> None:
    """With what the server said of it, cut: it may say anything."""
    server.replies(Reply(503, {"content-type": "text/html"}, [b"<p>\n" + "ä".encode() * 5_000]))
    state = State()
    kind, message = failure(await call(server.url, state=state, save_as="found"))
    assert kind == "HTTPServerError"
    assert message.startswith("the server answered 503 Service Unavailable: <p> ää")
    assert len(message) < 600
    assert state.diff().is_empty


async def test_a_redirect_is_not_followed(server: VendorServer) -> None:
    """Where a call goes says the definition, not the server."""
    server.replies(Reply(302, {"location": f"{server.url}/elsewhere"}))
    assert failure(await call(server.url)) == (
        "HTTPClientError",
        "the server answered 302 Found, and redirects are not followed",
    )
    assert len(server.received) == 1


async def test_an_answer_that_is_too_large_is_not_read_to_its_end(server: VendorServer) -> None:
    piece = b"x" * 100_000
    server.replies(Reply(200, {"content-type": "text/plain"}, [b"", *[piece] * 11, 600.0]))
    kind, message = failure(await call(server.url, timeout_s=20))
    assert (kind, message) == ("AnswerTooLarge", f"the server's answer is larger than {MAX_ANSWER_BYTES:,} bytes")
    server.replies(Reply(200, {"content-type": "text/plain"}, [b"", *[piece] * 10]))
    assert (await call(server.url)).result == "x" * MAX_ANSWER_BYTES


@pytest.mark.parametrize(
    ("content_type", "body", "said"),
    [
        ("application/json", b'{"a": ', "is no JSON"),
        ("application/json", b'{"a": NaN}', "is no JSON"),
        ("image/png", b"\x89PNG\xff", "is image/png, neither JSON nor text"),
    ],
)
async def test_an_answer_that_cannot_be_read(server: VendorServer, content_type: str, body: bytes, said: str) -> None:
    server.replies(Reply(200, {"content-type": content_type}, [body]))
    kind, message = failure(await call(server.url))
    assert kind == "UnreadableAnswer"
    assert said in message


async def test_a_result_that_is_not_what_the_task_returns_is_its_error(server: VendorServer) -> None:
    server.replies(json_reply({"a": 1}))
    kind, message = failure(await call(server.url, returns={"type": "array"}))
    assert kind == "InvalidInput"
    assert "returned what its definition does not allow" in message


@pytest.mark.parametrize("pieces", [[30.0], [b"{", 30.0]], ids=["silent", "slow"])
async def test_a_call_ends_with_its_time(server: VendorServer, pieces: list[Piece]) -> None:
    """Whether nothing comes or the answer stops; the connection is closed."""
    server.replies(Reply(200, {"content-type": "application/json"}, pieces))
    async with asyncio.timeout(allowed_s(5)):
        kind, message = failure(await call(server.url, method="POST", timeout_s=0.3))
    assert kind == "TimeoutError"
    assert message == "task 'search' timed out after 0.3 s; whether the server has acted is not known"
    await server.hung_up()


async def test_a_call_can_be_cancelled(server: VendorServer) -> None:
    server.replies(Reply(200, {}, [600.0]))
    running = asyncio.ensure_future(call(server.url))
    await server.asked()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await server.hung_up()


async def test_a_broken_connection_says_what_is_known(server: VendorServer) -> None:
    """Of a server that was not reached it is known that nothing was done, of one that hung up it is not."""
    server.replies(Reply(200, {}, [CUT]))
    kind, message = failure(await call(server.url, method="POST"))
    assert kind == "ConnectionError"
    assert message.endswith("whether the server has acted is not known")
    kind, message = failure(await call(server.url, method="GET"))
    assert not message.endswith("not known")
    async with VendorServer() as other:
        gone = other.url
    kind, message = failure(await call(gone, method="POST"))
    assert kind == "ConnectionError"
    assert message.startswith("the server cannot be reached: ")


async def test_a_server_in_a_private_network_is_called(server: VendorServer) -> None:
    """The operator deployed the address; it is no client's."""
    server.replies(json_reply("here"))
    port = server.url.rpartition(":")[2]
    assert (await call(f"http://localhost:{port}/")).result == "here"
