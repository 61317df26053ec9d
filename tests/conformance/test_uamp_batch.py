"""Check 83 of UAMP 1.0's 84: Chat Completions by the facts B1 to B6, S1 to S6 and T1 to T8, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.conformance.batch_place import (
    AGENT,
    COMPLETIONS,
    TIME,
    WEATHER,
    Batch,
    batch_api,
    batch_worker,
    chunks_of,
    client_of,
    results_of,
    text_of,
    user,
)
from tests.integration.api_server import ApiProcess
from tests.integration.stack import Stack

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORCED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.fixture(scope="module")
def api(stack: Stack) -> Iterator[ApiProcess]:
    with batch_worker(stack), batch_api(stack) as process:
        yield process


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def batch(api: ApiProcess) -> AsyncGenerator[Batch]:
    async with client_of(api) as client:
        yield client


def calls_in(choice: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Name and arguments of each call, whose form is checked."""
    calls = choice["message"]["tool_calls"]
    assert all(call["type"] == "function" and isinstance(call["function"]["arguments"], str) for call in calls)
    assert len({call["id"] for call in calls}) == len(calls)
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


async def test_check_83_b1_a_completion(batch: Batch) -> None:
    body = await batch.complete(user("Hello"))
    (choice,) = body["choices"]
    assert (body["object"], body["model"], choice["index"]) == ("chat.completion", AGENT, 0)
    assert body["id"].startswith("chatcmpl-")
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] == "you said: Hello"
    assert choice["finish_reason"] == "stop"
    usage = body["usage"]
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"] > 0


async def test_check_83_b2_the_system_message_is_honoured(batch: Batch) -> None:
    body = await batch.complete({"role": "system", "content": "Be brief."}, user("Hello"))
    message = body["choices"][0]["message"]
    assert (message["role"], message["content"]) == ("assistant", "[Be brief.] you said: Hello")


async def test_check_83_b3_the_history_is_used(batch: Batch) -> None:
    answered = {"role": "assistant", "content": "Hi!"}
    body = await batch.complete(user("My name is Alice"), answered, user("Who am I?"))
    assert body["choices"][0]["message"]["content"] == "you said: My name is Alice | I said: Hi! | you said: Who am I?"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": AGENT, "messages": []}, "messages"),
        ({"messages": [user("x")]}, "model"),
        ({"model": AGENT}, "messages"),
    ],
)
async def test_check_83_b4_b5_what_is_missing_is_named(batch: Batch, body: dict[str, Any], param: str) -> None:
    response = await batch.http.post(COMPLETIONS, json=body)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert isinstance(error["message"], str)


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b"\xff"])
async def test_check_83_b6_invalid_json(batch: Batch, body: bytes) -> None:
    response = await batch.http.post(COMPLETIONS, content=body, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")


async def test_check_83_s1_s2_s4_a_stream(batch: Batch) -> None:
    async with batch.streamed(user("Tell me of rivers and of seas")) as (response, source):
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        chunks = chunks_of([event async for event in source.aiter_sse()])
    assert len(chunks) > 2
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["model"], chunk["created"]) for chunk in chunks}) == 1
    assert isinstance(chunks[0]["id"], str)
    assert all(len(chunk["choices"]) == 1 and chunk["choices"][0]["index"] == 0 for chunk in chunks)
    assert all("delta" in chunk["choices"][0] for chunk in chunks)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    assert text_of(chunks) == "you said: Tell me of rivers and of seas"


async def test_check_83_s3_tool_calls_in_a_stream(batch: Batch) -> None:
    chunks = chunks_of(await batch.stream("Weather in Tokyo and Paris?", tools=[WEATHER]))
    deltas = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert [(call["index"], call["function"]["name"]) for call in deltas] == [(0, "get_weather"), (1, "get_weather")]
    assert [json.loads(call["function"]["arguments"])["location"] for call in deltas] == ["Tokyo", "Paris"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_check_83_usage_is_told_last_if_it_is_asked_for(batch: Batch) -> None:
    plain = chunks_of(await batch.stream("Hello"))
    assert not any(chunk.get("usage") for chunk in plain)
    chunks = chunks_of(await batch.stream("Hello", stream_options={"include_usage": True}))
    assert [chunk["choices"] == [] for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    whole = await batch.complete(user("Hello"))
    assert chunks[-1]["usage"] == whole["usage"]


async def test_check_83_s5_a_client_that_leaves(batch: Batch) -> None:
    """After three chunks it is gone; the run goes on, and its answer is there for whoever asks again with the key."""
    key = {"Idempotency-Key": "s5"}
    async with batch.streamed(user("#slow S5"), headers=key) as (response, source):
        seen = [event async for event in _first(source.aiter_sse(), 3)]
        assert response.status_code == 200
    assert len(seen) == 3
    body = await batch.complete(user("#slow S5"), headers=key)
    assert body["choices"][0]["message"]["content"].endswith("word59")
    assert (await batch.http.get("/health")).status_code == 200


async def _first(events: Any, count: int) -> AsyncGenerator[Any]:
    async for event in events:
        yield event
        count -= 1
        if not count:
            return


async def test_check_83_s6_an_empty_message(batch: Batch) -> None:
    chunks = chunks_of(await batch.stream(""))
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert text_of(chunks) == "you said: "


async def test_check_83_t1_t8_a_tool_call(batch: Batch) -> None:
    choice = await batch.say("Weather in Tokyo?", tools=[WEATHER])
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert calls_in(choice) == [("get_weather", {"location": "Tokyo"})]


async def test_check_83_t2_a_result_goes_to_the_waiting_run(batch: Batch) -> None:
    first = await batch.post(user("#call=t2 Weather in Tokyo?"), tools=[WEATHER])
    message = first.json()["choices"][0]["message"]
    again = await batch.post(user("#call=t2 Weather in Tokyo?"), *results_of(message, "22 degrees"), tools=[WEATHER])
    (choice,) = again.json()["choices"]
    assert choice["message"]["content"] == "The tools say: 22 degrees."
    assert choice["finish_reason"] == "stop"
    assert again.headers["X-Run-Id"] == first.headers["X-Run-Id"]
    assert again.json()["id"] != first.json()["id"]


async def test_check_83_t2_a_result_that_nobody_waits_for_begins_a_run(batch: Batch) -> None:
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_abc", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}],
    }
    body = await batch.complete(user("Weather?"), *results_of(asked, "sunny"), tools=[WEATHER])
    assert body["choices"][0]["message"]["content"] == "The tools say: sunny."
    seen = await batch.complete(user("#seen"), {"role": "assistant", "content": "Well,"})
    told = json.loads(seen["choices"][0]["message"]["content"])["messages"]
    assert [message["type"] for message in told] == ["user", "assistant"]


async def test_check_83_t3_two_cities(batch: Batch) -> None:
    choice = await batch.say("Weather in Tokyo and London?", tools=[WEATHER])
    assert choice["finish_reason"] == "tool_calls"
    assert calls_in(choice) == [("get_weather", {"location": city}) for city in ("Tokyo", "London")]


async def test_check_83_t4_parallel_calls_of_different_functions(batch: Batch) -> None:
    choice = await batch.say("Weather and time in Paris?", tools=[WEATHER, TIME])
    assert calls_in(choice) == [("get_weather", {"location": "Paris"}), ("get_time", {})]
    body = await batch.complete(
        user("Weather and time in Paris?"), *results_of(choice["message"], "rain", "noon"), tools=[WEATHER, TIME]
    )
    assert body["choices"][0]["message"]["content"] == "The tools say: rain; noon."


async def test_check_83_t5_no_tool(batch: Batch) -> None:
    choice = await batch.say("Weather in Tokyo?", tools=[WEATHER], tool_choice="none")
    assert choice["finish_reason"] == "stop"
    assert "tool_calls" not in choice["message"]


async def test_check_83_t6_a_forced_tool(batch: Batch) -> None:
    choice = await batch.say("Hello", tools=[TIME, WEATHER], tool_choice=FORCED)
    assert [name for name, _ in calls_in(choice)] == ["get_weather"]


async def test_check_83_t7_a_wrong_id(batch: Batch) -> None:
    message = (await batch.say("Weather in Tokyo?", tools=[WEATHER]))["message"]
    wrong = [message, {"role": "tool", "tool_call_id": "call_wrong", "content": "22"}]
    response = await batch.post(user("Weather in Tokyo?"), *wrong, tools=[WEATHER])
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_tool_call_id")
    none = await batch.post(user("x"), {"role": "tool", "tool_call_id": "call_wrong", "content": "22"})
    assert (none.status_code, none.json()["error"]["code"]) == (400, "invalid_tool_call_id")


async def test_check_83_many_at_once(batch: Batch) -> None:
    """None of them is told what belongs to another."""
    told = await asyncio.gather(*(batch.say(f"number {number}") for number in range(20)))
    assert [choice["message"]["content"] for choice in told] == [f"you said: number {number}" for number in range(20)]
