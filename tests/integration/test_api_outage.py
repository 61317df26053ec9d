"""The HTTP API while a server is away."""

from __future__ import annotations

import asyncio
import time
import uuid

import httpx

from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_api_runs import scripted
from tests.scale import allowed_s


async def test_l06_postgresql_away_is_503_and_never_a_fresh_session(stack: Stack, steady_worker: WorkerProcess) -> None:
    """While it is away everything that needs it is refused; the same session goes on when it is back."""
    api = ApiProcess(stack).wait_ready()
    async with api.client() as client:
        body = {"agent": "actor", "input": scripted("One."), "mode": "wait"}
        first = checked(await client.post("/runs", json=body))
        session = first["session"]
        stack.kill("postgres")
        refused = 0
        end = time.monotonic() + 30
        while time.monotonic() < end:
            answers = await asyncio.gather(
                client.get(f"/sessions/{session}"), client.post(f"/sessions/{session}/runs", json={"input": "x"})
            )
            for answer in answers:
                assert answer.status_code in (200, 202, 503), answer.text
                if answer.status_code == 503:
                    assert code_of(answer, 503) == "server_unavailable"
                    assert answer.headers["retry-after"]
                    refused += 1
            if refused and all(answer.status_code != 503 for answer in answers):
                break
        assert refused, "PostgreSQL was never seen to be away"
        await client.post(f"/sessions/{session}/cancel")
        assert checked(await client.get(f"/sessions/{session}"))["run_count"] >= 1

        async def is_ready() -> bool:
            return (await client.get(f"{api.url}/ready")).status_code == 200

        await eventually(is_ready, what="ready again")
    assert api.terminate() == 0


async def test_temporal_away(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Inputs are stored all the same; what needs Temporal is refused, and readiness says so."""
    api = ApiProcess(stack).wait_ready()
    async with api.client() as client:
        stack.kill("temporal")
        answer = await client.post("/runs", json={"agent": "actor", "input": scripted("Later.")})
        submitted = checked(answer, 202)

        async def is_done() -> bool:
            return checked(await client.get(f"/runs/{submitted['run']}"))["status"] == "completed"

        await eventually(is_done, seconds=60, what="the run")
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
        body = {"agent": "talker", "input": "talk", "mode": "wait"}
        waiting = asyncio.create_task(client.post("/runs", json=body, headers={"Idempotency-Key": uuid.uuid4().hex}))
        seen = "perdure_open_streams 1.0"

        async def is_waiting() -> bool:
            return seen in (await client.get(f"{api.url}/metrics")).text

        await eventually(is_waiting, what="a request that waits")
        began = time.monotonic()
        assert await asyncio.to_thread(api.terminate) == 0
        assert time.monotonic() - began < allowed_s(9)
        assert checked(await waiting, 202)["status"] in ("queued", "running")


async def test_http_2(stack: Stack) -> None:
    """A client that speaks it without TLS is answered in it."""
    api = ApiProcess(stack).wait_ready()
    async with httpx.AsyncClient(base_url=f"{api.url}/api", http1=False, http2=True, timeout=60) as client:
        response = await client.get("/sessions")
        assert response.http_version == "HTTP/2"
        assert checked(response)["sessions"] is not None
    assert api.terminate() == 0
