"""Chat Completions and the runs behind them: results of clients' tools, keys, sessions, usage, failures, silence."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Iterator

import httpx
import pytest
import pytest_asyncio

from perdure.api.patience import Patience
from tests.conformance.batch_agents import CITIES, LONG
from tests.conformance.batch_place import (
    AGENT,
    COMPLETIONS,
    PLACE,
    TIME,
    WEATHER,
    Batch,
    batch_api,
    batch_sessions,
    batch_worker,
    chunks_of,
    client_of,
    content_of,
    error_of,
    results_of,
    text_of,
    user,
)
from tests.integration.api_server import ApiProcess
from tests.integration.event_api import serving
from tests.integration.stack import Stack, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALLED = {"name": "get_weather", "arguments": "{}"}


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    with batch_worker(stack), batch_api(stack) as process:
        yield process


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def batch(api: ApiProcess) -> AsyncGenerator[Batch]:
    async with client_of(api) as client:
        yield client


async def runs_beside(batch: Batch, response: httpx.Response) -> list[str]:
    """The runs of a response's session. Where a busy machine lost its worker the model is asked twice for one."""
    listed = await batch.http.get(f"/api/sessions/{response.headers['X-Session-Id']}/runs")
    return [run["run"] for run in listed.json()["runs"]]


async def test_the_agents_own_tools_run_inside(batch: Batch) -> None:
    choice = await batch.say("#own What is 2 + 3?")
    assert (choice["message"]["content"], choice["finish_reason"]) == ("The tools say: 5.", "stop")
    assert "tool_calls" not in choice["message"]


async def test_own_and_client_tools_in_one_answer(batch: Batch) -> None:
    """The completion ends once the agent's own tool has run; only the client's call is told."""
    said = user("#own time, please")
    choice = (await batch.complete(said, tools=[TIME]))["choices"][0]
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["get_time"]
    body = await batch.complete(said, *results_of(choice["message"], "noon"), tools=[TIME])
    assert body["choices"][0]["message"]["content"] == "The tools say: noon; 5."


async def test_a_tool_that_runs_alone_waits_behind_the_clients(batch: Batch) -> None:
    """The completion ends although the agent's own tool has not begun: it runs once the client's result is there."""
    said = user("#alone time, please")
    choice = (await batch.complete(said, tools=[TIME]))["choices"][0]
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["get_time"]
    body = await batch.complete(said, *results_of(choice["message"], "noon"), tools=[TIME])
    assert body["choices"][0]["message"]["content"] == "The tools say: noon; 9."


async def test_long_arguments_and_results_are_told_whole(batch: Batch) -> None:
    """The event log has only their beginnings."""
    said = user("#long Weather in Tokyo?")
    message = (await batch.complete(said, tools=[WEATHER]))["choices"][0]["message"]
    told = [json.loads(call["function"]["arguments"])["location"] for call in message["tool_calls"]]
    assert told == [city * LONG for city in CITIES[:2]]
    body = await batch.complete(said, *results_of(message, "22" * LONG, "23"), tools=[WEATHER])
    assert body["choices"][0]["message"]["content"] == f"The tools say: {'22' * LONG}; 23."


async def test_usage_of_parts_adds_up(batch: Batch) -> None:
    """The first part tells its model call's, the second only what came since; together they are the run's."""
    first = await batch.post(user("#text Weather in Tokyo?"), tools=[WEATHER])
    message = first.json()["choices"][0]["message"]
    assert message["content"] == "Let me look. "
    second = await batch.post(user("#text Weather in Tokyo?"), *results_of(message, "22"), tools=[WEATHER])
    assert content_of(second) == "The tools say: 22."
    parts = [response.json()["usage"] for response in (first, second)]
    assert all(part["prompt_tokens"] > 0 and part["completion_tokens"] > 0 for part in parts)
    run = (await batch.http.get(f"/api/runs/{second.headers['X-Run-Id']}")).json()
    assert sum(part["total_tokens"] for part in parts) == run["usage"]["inputTokens"] + run["usage"]["outputTokens"]


async def test_results_that_come_again_go_on_with_the_same_run(batch: Batch) -> None:
    """A client that was cut off sends them again, at once or later, streamed or not: one run, one answer."""
    said = user("Weather in Tokyo?")
    message = (await batch.complete(said, tools=[WEATHER]))["choices"][0]["message"]
    brought = [said, *results_of(message, "22")]
    told = await asyncio.gather(*(batch.post(*brought, tools=[WEATHER]) for _ in range(4)))
    assert {content_of(response) for response in told} == {"The tools say: 22."}
    assert len({(response.headers["X-Run-Id"], response.json()["id"]) for response in told}) == 1
    async with batch.streamed(*brought, tools=[WEATHER]) as (response, source):
        chunks = chunks_of([event async for event in source.aiter_sse()])
    assert (text_of(chunks), response.headers["X-Run-Id"]) == ("The tools say: 22.", told[0].headers["X-Run-Id"])
    assert await runs_beside(batch, told[0]) == [told[0].headers["X-Run-Id"]]


async def test_a_run_that_nobody_says_anything_to_is_in_the_thread(batch: Batch) -> None:
    """Results that nobody waits for begin a run without words of its own; its session is read as any other."""
    asked = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": CALLED}]}
    response = await batch.post(user("Weather?"), *results_of(asked, "sunny"), tools=[WEATHER])
    assert content_of(response) == "The tools say: sunny."
    session = f"/api/sessions/{response.headers['X-Session-Id']}"
    for path in (f"{session}/messages", f"{session}/thread", f"{session}/export"):
        assert (await batch.http.get(path)).status_code == 200


async def test_results_without_the_tools_they_are_of(batch: Batch) -> None:
    """Some clients do not declare their tools again: the run knows them."""
    said = user("#text Weather in Tokyo?")
    message = (await batch.complete(said, tools=[WEATHER]))["choices"][0]["message"]
    async with batch.streamed(said, *results_of(message, "22")) as (_, source):
        chunks = chunks_of([event async for event in source.aiter_sse()])
    assert text_of(chunks) == "The tools say: 22."


async def test_other_results_are_another_conversation(batch: Batch) -> None:
    said = user("Weather in Tokyo?")
    message = (await batch.complete(said, tools=[WEATHER]))["choices"][0]["message"]
    first, other = [await batch.post(said, *results_of(message, text), tools=[WEATHER]) for text in ("22", "23")]
    assert [content_of(response) for response in (first, other)] == ["The tools say: 22.", "The tools say: 23."]
    assert first.headers["X-Run-Id"] != other.headers["X-Run-Id"]


async def test_a_client_that_goes_on_without_its_results_lets_the_run_go(batch: Batch, stack: Stack) -> None:
    """It says something else behind the results: nobody will answer the run that waits."""
    said = user("Weather in Tokyo?")
    first = await batch.post(said, tools=[WEATHER])
    message = first.json()["choices"][0]["message"]
    body = await batch.complete(said, *results_of(message, "stopped"), user("Never mind"), tools=[WEATHER])
    assert body["choices"][0]["message"]["content"].endswith("you said: Never mind")

    async def cancelled() -> bool:
        run = (await batch.http.get(f"/api/runs/{first.headers['X-Run-Id']}")).json()
        return run["status"] == "cancelled"

    await eventually(cancelled)
    async with batch_sessions(stack) as sessions:
        assert await sessions.waits(first.headers["X-Session-Id"]) == []


async def test_a_run_that_somebody_cancels_while_it_waits(batch: Batch, stack: Stack) -> None:
    """Its results begin a new run, from what the client knows."""
    said = user("Weather in Tokyo?")
    first = await batch.post(said, tools=[WEATHER])
    async with batch_sessions(stack) as sessions:
        assert (await sessions.cancel(first.headers["X-Session-Id"], wait_s=60)).state == "cancelled"
    message = first.json()["choices"][0]["message"]
    second = await batch.post(said, *results_of(message, "22"), tools=[WEATHER])
    assert content_of(second) == "The tools say: 22."
    assert second.headers["X-Run-Id"] != first.headers["X-Run-Id"]


async def test_every_call_needs_its_result(batch: Batch) -> None:
    said = user("Weather in Tokyo and Paris?")
    message = (await batch.complete(said, tools=[WEATHER]))["choices"][0]["message"]
    brought = results_of(message, "22", "23")
    error = error_of(await batch.post(said, *brought[:-1], tools=[WEATHER]), 400)
    assert error["code"] == "invalid_tool_call_id"
    assert message["tool_calls"][1]["id"] in error["message"]


async def test_a_key_is_one_run(batch: Batch) -> None:
    key = {"Idempotency-Key": f"key-{uuid.uuid4()}"}
    said = [user("I am Ada"), {"role": "assistant", "content": "Hi"}, user("Hello")]
    told = await asyncio.gather(*(batch.post(*said, headers=key) for _ in range(5)))
    assert len({(response.headers["X-Run-Id"], response.json()["id"]) for response in told}) == 1
    assert len({content_of(response) for response in told}) == 1
    assert await runs_beside(batch, told[0]) == [told[0].headers["X-Run-Id"]]
    error = error_of(await batch.post(user("Other"), headers=key), 409)
    assert (error["type"], error["code"]) == ("conflict_error", "key_conflict")
    assert error_of(await batch.post(user("x"), headers={"Idempotency-Key": "x" * 300}), 400)["code"] == "invalid_value"


async def test_going_on_in_a_session(batch: Batch) -> None:
    """The session remembers: what stands before the last message is not read."""
    first = await batch.post(user("I am Ada"))
    session = first.headers["X-Session-Id"]
    second = await batch.post(user("unknown"), user("Who am I?"), headers={"X-Session-Id": session})
    assert content_of(second) == "you said: I am Ada | I said: you said: I am Ada | you said: Who am I?"
    assert second.headers["X-Session-Id"] == session
    third = await batch.post(user("#seen"), metadata={"session_id": session})
    assert len(json.loads(content_of(third))["messages"]) == 5
    both = await batch.post(user("x"), metadata={"session_id": session}, headers={"X-Session-Id": str(uuid.uuid4())})
    assert error_of(both, 400)["param"] == "metadata"
    nothing = await batch.post(user("x"), {"role": "assistant", "content": "y"}, headers={"X-Session-Id": session})
    assert error_of(nothing, 400)["param"] == "messages"


async def test_a_run_that_fails(batch: Batch) -> None:
    """It has its own status also for a stream that has not begun; OpenAI's clients are told not to begin another run."""
    for streams in (False, True):
        response = await batch.post(user("#fail #limit"), stream=streams)
        error = error_of(response, 429)
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert "out of order" in error["message"]
        assert response.headers["X-Should-Retry"] == "false"
        assert response.headers["X-Run-Id"]


async def test_a_run_that_is_cancelled_in_the_middle_of_a_stream(batch: Batch, stack: Stack) -> None:
    """One more event tells it, and the stream ends without DONE."""
    async with batch.streamed(user("word " * 5000)) as (response, source):  # it is told for minutes
        told: list[str] = []
        async for event in source.aiter_sse():
            told.append(event.data)
            if len(told) == 3:
                async with batch_sessions(stack) as sessions:
                    await sessions.cancel(response.headers["X-Session-Id"], wait_s=0)
    assert json.loads(told[-1])["error"]["code"] == "cancelled"
    assert "[DONE]" not in told


async def test_a_silent_stream_is_kept_alive(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody works yet: the stream has begun all the same, and says each moment that it is alive."""
    for name, value in PLACE.items():
        monkeypatch.setenv(name, value)
    session = str(uuid.uuid4())
    async with batch_sessions(stack) as sessions, serving(stack, Patience(silence_s=0.2)) as (url, _):
        await sessions.open(AGENT, session=session)
        await sessions.pause(session, wait_s=60)
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            body = {"model": AGENT, "messages": [user("Hello")], "stream": True}
            async with http.stream("POST", COMPLETIONS, json=body, headers={"X-Session-Id": session}) as response:
                lines = response.aiter_lines()
                assert [(await anext(lines)).strip() for _ in range(3)] == [": alive", "", ": alive"]
                await sessions.resume(session, wait_s=0)
                rest = [line async for line in lines if line.startswith("data")]
    assert rest[-2] == "data: [DONE]"
