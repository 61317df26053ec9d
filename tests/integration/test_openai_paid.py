"""Chat Completions of agents that are paid for: 402 says how, a header pays, a key is paid for once."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import httpx
import pytest
import pytest_asyncio
from httpx_sse import EventSource

from perdure.runtime.connect import connect
from perdure.runtime.sessions import Sessions
from tests.conformance.batch_place import COMPLETIONS, chunks_of, client_of, text_of, user
from tests.integration.api_server import ApiProcess
from tests.integration.paying import Purse, said, until_settled, worker
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

PLACE = {"PERDURE_TENANT": "batchpaid", "PERDURE_TASK_QUEUE": "batchpaid"}


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    with worker(stack, **PLACE):
        process = ApiProcess(stack, **PLACE).wait_ready()
        yield process
        process.kill()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def http(api: ApiProcess) -> AsyncGenerator[httpx.AsyncClient]:
    async with client_of(api) as batch:
        yield batch.http


@asynccontextmanager
async def tenants(stack: Stack) -> AsyncGenerator[Sessions]:
    """The tenant's sessions."""
    addresses = stack.addresses
    async with connect(
        temporal_address=addresses.temporal, database_url=addresses.database_url, tenant=PLACE["PERDURE_TENANT"]
    ) as sessions:
        yield sessions


async def ask(
    http: httpx.AsyncClient,
    text: str,
    *,
    agent: str = "teller",
    token: str | None = None,
    key: str | None = None,
    header: str = "X-PAYMENT",
    **members: Any,
) -> httpx.Response:
    headers = {} if token is None else {header: token}
    if key is not None:
        headers["Idempotency-Key"] = key
    body = {"model": agent, "messages": [user(text)], **members}
    return await http.post(COMPLETIONS, json=body, headers=headers)


def accepts_of(response: httpx.Response, code: str) -> list[dict[str, str]]:
    """How a request can be paid that is refused with this code."""
    assert response.status_code == 402, response.text
    body = response.json()
    assert set(body) == {"error", "status_code", "context"}
    assert (body["status_code"], body["error"]["type"], body["error"]["code"]) == (402, "payment_required", code)
    return body["context"]["accepts"]


def answer_of(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


async def test_without_a_payment_nothing_begins(http: httpx.AsyncClient) -> None:
    before = (await http.get("/api/sessions")).json()
    for streams in (False, True):
        (way,) = accepts_of(await ask(http, said("none"), stream=streams), "payment_required")
        assert (way["scheme"], way["amount"], way["currency"]) == ("token", "0.05", "USD")
        accepts_of(await ask(http, said("bad"), token="ptok_worthless", stream=streams), "token_invalid")
    assert (await http.get("/api/sessions")).json() == before
    assert answer_of(await ask(http, said("free"), agent="free")) == "answer of free"


@pytest.mark.parametrize("header", ["X-PAYMENT", "X-Payment-Token"])
async def test_a_header_pays(http: httpx.AsyncClient, stack: Stack, header: str) -> None:
    async with tenants(stack) as sessions:
        purse = await Purse.funded(sessions, "1")
        response = await ask(http, said("paid"), token=purse.token, header=header)
        assert answer_of(response) == "answer of paid"
        await until_settled(sessions, await sessions.run(response.headers["X-Run-Id"]))
        assert await purse.stands() == (Decimal("0.98"), Decimal(0))


async def test_a_key_is_paid_for_once(http: httpx.AsyncClient, stack: Stack) -> None:
    """Again it is the same answer, however little is left; another request is refused then."""
    async with tenants(stack) as sessions:
        purse, key = await Purse.funded(sessions, "0.05"), str(uuid.uuid4())
        first = await ask(http, said("keyed"), token=purse.token, key=key)
        await until_settled(sessions, await sessions.run(first.headers["X-Run-Id"]))
        again = await ask(http, said("keyed"), token=purse.token, key=key)
        assert answer_of(first) == answer_of(again) == "answer of keyed"
        assert first.headers["X-Run-Id"] == again.headers["X-Run-Id"]
        accepts_of(await ask(http, said("other"), token=purse.token), "insufficient_balance")
        assert await purse.stands() == (Decimal("0.03"), Decimal(0))


async def test_a_run_that_waits_in_its_middle_is_paid_by_the_same_request(
    http: httpx.AsyncClient, stack: Stack
) -> None:
    """What was held is used up by the first model call; 402 until there is more, then the same key gives the answer."""
    async with tenants(stack) as sessions:
        purse, key = await Purse.funded(sessions, "0.02"), str(uuid.uuid4())
        text = said("middle", steps=1)
        first = await ask(http, text, agent="dear", token=purse.token, key=key)
        (way,) = accepts_of(first, "payment_required")
        assert way["amount"] == "0.02"
        assert first.headers["X-Should-Retry"] == "false"
        accepts_of(await ask(http, text, agent="dear", token=purse.token, key=key), "insufficient_balance")
        await purse.top_up("1")
        headers = {"Idempotency-Key": key, "X-PAYMENT": purse.token}
        body = {"model": "dear", "messages": [user(text)], "stream": True}
        async with http.stream("POST", COMPLETIONS, json=body, headers=headers) as response:
            events = [event async for event in EventSource(response).aiter_sse()]
        assert text_of(chunks_of(events)) == "answer of middle"
        assert response.headers["X-Run-Id"] == first.headers["X-Run-Id"]
        await until_settled(sessions, await sessions.run(response.headers["X-Run-Id"]))
        assert await purse.stands() == (Decimal("0.98"), Decimal(0))
    assert {entry["number"] for entry in stack.entries("middle", "model")} == {0, 1}
