"""Chat Completions over deaths: nothing is lost, nothing is told twice, nothing is bought twice but what was in flight."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from tests.conformance.batch_agents import WORDS
from tests.conformance.batch_place import (
    PLACE,
    WEATHER,
    batch_api,
    batch_worker,
    chunks_of,
    client_of,
    results_of,
    text_of,
    user,
)
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack, WorkerProcess

WHOLE = " ".join(f"word{number}" for number in range(WORDS))
SOME = 5


@contextmanager
def halting_worker(stack: Stack) -> Generator[WorkerProcess]:
    """A worker whose agent halts in the middle of what it says."""
    worker = WorkerProcess(stack, "tests.integration.halting_agents:app", **PLACE).wait_ready()
    try:
        yield worker
    finally:
        worker.kill()


async def cut_off(dying: ApiProcess, said: dict[str, Any], key: dict[str, str]) -> tuple[list[str], str]:
    """Kill an API process in the middle of a stream; what it has told, and of which run."""
    told: list[str] = []
    async with client_of(dying) as batch, batch.streamed(said, headers=key) as (response, source):
        events = source.aiter_sse()
        told += [(await anext(events)).data for _ in range(SOME)]
        await asyncio.to_thread(dying.kill)
        with suppress(httpx.TransportError):
            told += [event.data async for event in events]
    return told, response.headers["X-Run-Id"]


async def test_the_api_dies_in_the_middle_of_a_stream(stack: Stack) -> None:
    """The run goes on; the same key at another process gives its answer, whole and as a stream, and buys nothing."""
    key = {"Idempotency-Key": "api dies"}
    said = user("#call=apidies")
    with halting_worker(stack), batch_api(stack) as dying, batch_api(stack) as other:
        told, run = await cut_off(dying, said, key)
        assert "[DONE]" not in told
        bought = len(stack.entries("apidies", "model"))
        stack.release({"name": "apidies"})
        async with client_of(other) as batch:
            whole = await batch.post(said, headers=key)
            async with batch.streamed(said, headers=key) as (again, source):
                chunks = chunks_of([event async for event in source.aiter_sse()])
            listed = (await batch.http.get(f"/api/sessions/{whole.headers['X-Session-Id']}/runs")).json()["runs"]
    assert whole.json()["choices"][0]["message"]["content"] == text_of(chunks) == WHOLE
    assert run == whole.headers["X-Run-Id"] == again.headers["X-Run-Id"]
    assert {json.loads(data)["id"] for data in told} == {whole.json()["id"]} == {chunk["id"] for chunk in chunks}
    assert [one["run"] for one in listed] == [run]
    assert len(stack.entries("apidies", "model")) == bought


async def test_the_worker_dies_in_the_middle_of_a_stream(stack: Stack) -> None:
    """The model begins its answer anew; the client is told each word once, and its stream comes to its end."""
    with batch_api(stack) as api, halting_worker(stack) as worker:
        async with client_of(api) as batch, batch.streamed(user("#call=workerdies")) as (_, source):
            events = source.aiter_sse()
            told: list[Any] = [await anext(events) for _ in range(SOME)]
            await asyncio.to_thread(worker.kill)
            stack.release({"name": "workerdies"})
            with halting_worker(stack):
                told += [event async for event in events]
    assert text_of(chunks_of(told)) == WHOLE
    assert len(stack.entries("workerdies", "model")) >= 2


async def test_all_die_between_a_call_and_its_result(stack: Stack) -> None:
    """The run waits in rows: its result, brought to new processes, goes on with it."""
    said = user("#call=alldie Weather in Tokyo?")
    with batch_worker(stack), batch_api(stack) as api:
        async with client_of(api) as batch:
            first = await batch.post(said, tools=[WEATHER])
    message = first.json()["choices"][0]["message"]
    with batch_worker(stack), batch_api(stack) as api:
        async with client_of(api) as batch:
            second = await batch.post(said, *results_of(message, "22"), tools=[WEATHER])
    assert second.json()["choices"][0]["message"]["content"] == "The tools say: 22."
    assert second.headers["X-Run-Id"] == first.headers["X-Run-Id"]
    assert len(stack.entries("alldie", "model")) == 2


async def test_an_api_that_is_told_to_leave_says_that_the_run_goes_on(stack: Stack) -> None:
    """503 for who waits; OpenAI's clients repeat that by themselves only if the same request is the same run."""
    key = {"Idempotency-Key": "api leaves"}
    said = user("#call=apileaves")
    with halting_worker(stack), batch_api(stack) as leaving, batch_api(stack) as other:
        async with client_of(leaving) as batch, client_of(other) as elsewhere:
            waiting = [asyncio.create_task(batch.post(said, headers=headers)) for headers in (key, {})]
            await stack.until_entries("apileaves", "model", 2)
            await asyncio.to_thread(leaving.terminate)
            with_key, without = await asyncio.gather(*waiting)
            assert [with_key.status_code, without.status_code] == [503, 503]
            assert with_key.headers["Retry-After"]
            assert "X-Should-Retry" not in with_key.headers
            assert without.headers["X-Should-Retry"] == "false"
            stack.release({"name": "apileaves"})
            whole = await elsewhere.complete(said, headers=key)
    assert whole["choices"][0]["message"]["content"] == WHOLE
