"""The HTTP API while a server is away."""

from __future__ import annotations

import asyncio
import json
import time
import uuid

import httpx
from sqlalchemy import make_url

from tests.integration.agents import HELD
from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.relay import Relay, relay_to
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_api_runs import scripted
from tests.integration.test_kills import spec
from tests.scale import allowed_s


async def test_l06_postgresql_away_is_503_and_never_a_fresh_session(stack: Stack, steady_worker: WorkerProcess) -> None:
    """While it is away everything that needs it is refused; the same session goes on when it is back."""
    url = make_url(stack.addresses.database_url)
    assert url.port is not None
    async with relay_to(url.port) as way:
        there = url.set(host="127.0.0.1", port=way.port).render_as_string(hide_password=False)
        api = ApiProcess(stack, PERDURE_DATABASE_URL=there)
        await asyncio.to_thread(api.wait_ready)
        async with api.client() as client:
            await _is_refused_and_goes_on(stack, api, client, way)
        assert await asyncio.to_thread(api.terminate) == 0


async def _is_refused_and_goes_on(stack: Stack, api: ApiProcess, client: httpx.AsyncClient, way: Relay) -> None:
    """PostgreSQL is killed, and is not reached again before a refusal was seen."""
    body = {"agent": "actor", "input": scripted("One."), "mode": "wait"}
    session = checked(await client.post("/runs", json=body))["session"]

    async def refusals() -> int:
        answers = await asyncio.gather(
            client.get(f"/sessions/{session}"), client.post(f"/sessions/{session}/runs", json={"input": "x"})
        )
        for answer in answers:
            assert answer.status_code in (200, 202, 503), answer.text
            if answer.status_code == 503:
                assert code_of(answer, 503) == "server_unavailable"
                assert answer.headers["retry-after"]
        return [answer.status_code for answer in answers].count(503)

    async def is_refused() -> bool:
        return await refusals() == 2

    async def is_served() -> bool:
        return await refusals() == 0

    async def is_ready() -> bool:
        return (await client.get(f"{api.url}/ready")).status_code == 200

    stack.kill("postgres")
    way.cut()
    await eventually(is_refused, what="PostgreSQL away")
    async with stack.reconnect():
        way.mend()
    await eventually(is_served, what="PostgreSQL back")
    await client.post(f"/sessions/{session}/cancel")
    assert checked(await client.get(f"/sessions/{session}"))["run_count"] >= 1
    await eventually(is_ready, what="ready again")


async def test_temporal_away(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Inputs are stored all the same; what needs Temporal is refused, and readiness says so."""
    api = ApiProcess(stack).wait_ready()
    async with api.client() as client:
        stack.kill("temporal")
        answer = await client.post("/runs", json={"agent": "actor", "input": scripted("Later.")})
        submitted = checked(answer, 202)

        async def is_done() -> bool:
            return checked(await client.get(f"/runs/{submitted['run']}"))["status"] == "completed"

        await eventually(is_done, what="the run")
    assert api.terminate() == 0


def test_a_missing_server_at_the_start(stack: Stack) -> None:
    """It is said within 10 s, with the exit code for servers."""
    began = time.monotonic()
    api = ApiProcess(stack, PERDURE_DATABASE_URL="postgresql://a:b@127.0.0.1:9/x")
    assert api.wait_dead() == 3
    assert time.monotonic() - began < allowed_s(15)
    assert "PostgreSQL at 127.0.0.1:9/x does not answer" in api.said


def test_an_address_that_is_taken(stack: Stack) -> None:
    """It is said with the remedy."""
    first = ApiProcess(stack).wait_ready()
    port = httpx.URL(first.url).port
    second = ApiProcess(stack, "--port", str(port))
    assert second.wait_dead() == 2
    assert "--port" in second.said
    first.kill()


async def test_stopping_answers_who_waits(stack: Stack, steady_worker: WorkerProcess) -> None:
    """A request that waits for a run is answered with where the run is; the process ends within its deadline."""
    api = ApiProcess(stack).wait_ready()
    async with api.client() as client:
        values = spec(latency=HELD)
        body = {"agent": "worker", "input": json.dumps(values), "mode": "wait"}
        waiting = asyncio.create_task(client.post("/runs", json=body, headers={"Idempotency-Key": uuid.uuid4().hex}))
        seen = "perdure_open_streams 1.0"

        async def is_waiting() -> bool:
            return seen in (await client.get(f"{api.url}/metrics")).text

        await eventually(is_waiting, what="a request that waits")
        began = time.monotonic()
        assert await asyncio.to_thread(api.terminate) == 0
        assert time.monotonic() - began < allowed_s(9)
        assert checked(await waiting, 202)["status"] in ("queued", "running")
    stack.release(values)


async def test_http_2(stack: Stack) -> None:
    """A client that speaks it without TLS is answered in it."""
    api = ApiProcess(stack).wait_ready()
    async with httpx.AsyncClient(base_url=f"{api.url}/api", http1=False, http2=True, timeout=60) as client:
        response = await client.get("/sessions")
        assert response.http_version == "HTTP/2"
        assert checked(response)["sessions"] is not None
    assert api.terminate() == 0
