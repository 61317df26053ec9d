"""A database that cannot be read is an error, never an empty session; and what failed once is written once."""

from __future__ import annotations

import asyncio
import uuid
from urllib.parse import urlsplit

from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.facts import check_session
from tests.integration.relay import relay_to
from tests.integration.stack import Stack, WorkerProcess, eventually
from tests.integration.test_api_runs import scripted


async def test_l06_l08_a_session_that_cannot_be_read_or_opened(stack: Stack, steady_worker: WorkerProcess) -> None:
    """Parallel first reads of a server that has lost its database are refused; what is tried again is there once."""
    place = urlsplit(stack.addresses.database_url)
    assert place.port is not None
    async with relay_to(place.port) as relay:
        url = stack.addresses.database_url.replace(f":{place.port}/", f":{relay.port}/")
        api = await asyncio.to_thread(ApiProcess(stack, PERDURE_DATABASE_URL=url).wait_ready)
        other = await asyncio.to_thread(ApiProcess(stack).wait_ready)
        try:
            async with api.client() as client, other.client() as witness:
                body = {"agent": "actor", "input": scripted("One."), "mode": "wait"}
                session = checked(await witness.post("/runs", json=body))["session"]
                before = checked(await witness.get(f"/sessions/{session}"))
                relay.cut()
                fresh, key = str(uuid.uuid4()), {"Idempotency-Key": uuid.uuid4().hex}
                opening = {"agent": "actor", "session": fresh}
                submitting = {"agent": "actor", "input": scripted("Two."), "mode": "wait"}
                refused = await asyncio.gather(
                    client.get(f"/sessions/{session}"),
                    client.get(f"/sessions/{session}"),
                    client.get(f"/sessions/{session}/messages"),
                    client.post("/sessions", json={"agent": "actor", "session": session}),
                    client.post("/sessions", json=opening),
                    client.post(f"/sessions/{session}/runs", json=submitting, headers=key),
                )
                assert {code_of(answer, 503) for answer in refused} == {"server_unavailable"}
                assert checked(await witness.get(f"/sessions/{session}")) == before
                assert (await witness.get(f"/sessions/{fresh}")).status_code == 404
                relay.mend()

                async def is_back() -> bool:
                    return (await client.get(f"{api.url}/ready")).status_code == 200

                await eventually(is_back, what="ready again")
                opened = await asyncio.gather(*(client.post("/sessions", json=opening) for _ in range(2)))
                assert len({checked(answer, 201)["created_at"] for answer in opened}) == 1
                path = f"/sessions/{session}/runs"
                again = [checked(await client.post(path, json=submitting, headers=key)) for _ in range(2)]
                assert len({answer["run"] for answer in again}) == 1
                assert checked(await client.get(f"/sessions/{session}"))["run_count"] == 2
                messages = checked(await client.get(f"/sessions/{session}/messages"))["messages"]
                assert [item["message"]["type"] for item in messages] == ["user", "assistant"] * 2
        finally:
            api.kill()
            other.kill()
    await check_session(stack, session)


async def test_l07_another_agent_on_the_same_session(stack: Stack, steady_worker: WorkerProcess) -> None:
    """It is told whose the session is, and the session stays as it was."""
    api = await asyncio.to_thread(ApiProcess(stack).wait_ready)
    try:
        async with api.client() as client:
            body = {"agent": "actor", "input": scripted("One."), "mode": "wait"}
            session = checked(await client.post("/runs", json=body))["session"]
            before = checked(await client.get(f"/sessions/{session}"))
            answer = await client.post(f"/sessions/{session}/runs", json={"agent": "talker", "input": "mine"})
            assert code_of(answer, 409) == "wrong_agent"
            assert "'actor'" in answer.json()["detail"]
            assert code_of(await client.post("/sessions", json={"agent": "talker", "session": session}), 409)
            assert checked(await client.get(f"/sessions/{session}")) == before
    finally:
        api.kill()
