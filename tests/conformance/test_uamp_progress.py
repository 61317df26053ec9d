"""Checks 50 to 56 of UAMP 1.0's events: responses that end in another way, and what is told beside their text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.uamp_agents import call, gate, plan
from tests.conformance.uamp_client import HTTP, TERMINAL, Line, line_to, new_id
from tests.conformance.uamp_server import UampServer, new_gate

COUNTS = ("input_tokens", "output_tokens", "total_tokens", "cached_tokens")
TARGETS = {"tool", "response", "upload", "reasoning"}


async def test_check_50_cancelling_nothing_does_nothing(line: Line) -> None:
    """Neither without a response, nor with a wrong id while one runs, nor behind its end."""
    talk = await line.open()
    await talk.send("response.cancel")
    await talk.send("response.cancel", response_id="resp_nobody")
    await talk.pause()
    assert set(talk.types) == {"session.created", "capabilities"}


async def test_check_50_a_cancel_of_another_response_leaves_this_one(line: Line, uamp: UampServer) -> None:
    """And a cancel that comes too late changes nothing."""
    talk, name = await line.open(), new_gate()
    response = await talk.begin(plan({"say": ["one ", gate(name), "two"]}))
    await talk.send("response.cancel", response_id=f"resp_{new_id()}")
    await talk.pause()
    uamp.open_gate(name)
    answer = await talk.end_of(response)
    assert answer.text == "one two"
    await talk.send("response.cancel", response_id=response)
    await talk.send("response.cancel")
    await talk.pause()
    assert "response.cancelled" not in talk.types
    assert "response.error" not in talk.types


@pytest.mark.parametrize("code", ["INVALID_REQUEST", "CONTENT_FILTERED", "CONTEXT_LENGTH_EXCEEDED", "QUOTA_EXCEEDED"])
async def test_check_51_a_failing_model_is_an_error_of_the_response(line: Line, code: str) -> None:
    """With the response's id, a code and a message; it is the response's end, and the session goes on."""
    talk = await line.open()
    answer = await talk.ask(plan({"say": "almost", "fail": code}))
    end = answer.end
    assert (end["type"], end["response_id"]) == ("response.error", answer.id)
    assert end["error"]["code"] == ("rate_limit_exceeded" if code == "QUOTA_EXCEEDED" else code.lower())
    assert end["error"]["message"]
    assert answer.types[-1] == "response.error"
    assert (await talk.ask("go on")).text == "echo: go on"


async def test_check_52_usage_is_told_with_the_end(line: Line) -> None:
    """Tokens in, out and in all; what was cached is part of what went in."""
    talk = await line.open()
    usage = (await talk.ask(plan({"say": "counted", "usage": [100, 20, 60]}))).done["usage"]
    assert usage == {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120, "cached_tokens": 60}
    plain = (await talk.ask("hello")).done["usage"]
    assert plain["total_tokens"] == plain["input_tokens"] + plain["output_tokens"] > 0
    assert plain.get("cached_tokens", 0) <= plain["input_tokens"]


async def test_check_53_usage_deltas_sum_up_to_the_usage(line: Line) -> None:
    """Also over several model calls."""
    talk = await line.open()
    steps = [{"calls": [call("weather", city=city)], "usage": [50, 7, 10]} for city in ("Rome", "Oslo")]
    answer = await talk.ask(plan(*steps, {"say": "sunny", "usage": [90, 3, 0]}))
    deltas = [event["delta"] for event in answer.events if event["type"] == "usage.delta"]
    assert len(deltas) > 1
    for name in COUNTS:
        assert sum(delta.get(name, 0) for delta in deltas) == answer.done["usage"].get(name, 0)
    assert answer.done["usage"]["total_tokens"] == 2 * 57 + 93


@pytest.fixture(scope="module")
def limited(uamp: UampServer) -> Iterator[str]:
    """The address of a process that lets each caller send little."""
    api = uamp.new_api(PERDURE_REQUESTS_PER_SECOND="0.001", PERDURE_REQUEST_BURST="8").wait_ready()
    yield api.url
    api.kill()


@pytest.mark.parametrize("kind", ["ws", "http"])
async def test_check_54_a_limit_is_told_and_kept(uamp: UampServer, limited: str, kind: str) -> None:
    """While there is something left a rate_limit event says how much, then a refusal says when to try again."""
    user = {"ws": "ann", "http": "bob"}[kind]
    async with line_to(limited, kind, uamp.tokens[user]) as line:
        talk = await line.open()
        answer = await talk.ask("hello")
        told = await line.wait(lambda event: event["type"] == "rate_limit")
        assert told["limit"] == 8
        assert 0 <= told["remaining"] < 8
        assert 1e9 < told["reset_at"] < 1e11, "seconds"
        assert answer.text == "echo: hello"
        await talk.hear(*TERMINAL)
        for _ in range(9):
            asking = await talk.send("response.create")
            if asking in line.refused:
                refusal = line.refused[asking]
                assert (line.kind, refusal.code, refusal.status) == (HTTP, "rate_limited", 429)
                return
            if (end := await talk.hear(*TERMINAL))["type"] == "response.error":
                assert end["error"]["code"] == "rate_limit_exceeded"
                assert end["error"]["details"]["retry_after"] >= 1
                return
        raise AssertionError("nothing was refused")


async def test_check_55_thinking_is_told_apart_from_text(line: Line) -> None:
    """In deltas, with the flag that says whether something was left out; a client that supports none gets none."""
    asked = plan({"think": "let me see ", "say": "22 degrees"})
    talk = await line.open(client_capabilities={"modalities": ["text"], "supports_thinking": True})
    answer = await talk.ask(asked)
    thoughts = [event for event in answer.events if event["type"] == "thinking"]
    assert "".join(event["content"] for event in thoughts) == "let me see "
    assert all((event["is_delta"], event["redacted"]) == (True, False) for event in thoughts)
    assert answer.told == answer.text == "22 degrees"
    await talk.send("client.capabilities", capabilities={"modalities": ["text"], "supports_thinking": False})
    quiet = await talk.ask(asked)
    assert "thinking" not in quiet.types
    assert quiet.text == "22 degrees"
    spare = await line.open(client_capabilities={"modalities": ["text"], "supports_thinking": False})
    assert "thinking" not in (await spare.ask(asked)).types
    unsaid = await line.open(client_capabilities={"modalities": ["text"]})
    assert "thinking" in (await unsaid.ask(asked)).types


async def test_check_56_progress_is_of_something_and_within_bounds(line: Line) -> None:
    """One of four targets; a share, where there is one, of a hundred."""
    talk = await line.open()
    await talk.ask(plan({"calls": [call("weather", city="Rome"), call("failing", reason="no")]}, {"say": "done"}))
    told = [event for event in talk.heard if event["type"] == "progress"]
    assert {event["target"] for event in told} >= {"tool", "response"}
    for event in told:
        assert event["target"] in TARGETS
        assert 0 <= event.get("percent", 0) <= 100
        assert event["target_id"]
