"""What all runs of a session may use together, in process; that a durable session does the same is an integration test's part."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import InvalidInput, LimitExceeded, SessionLimitReached
from perdure.inprocess import InProcessHost
from perdure.uap.agent import Agent, agent
from perdure.uap.allowance import Allowance
from perdure.uap.host import connected
from perdure.uap.options import RunOptions
from perdure.uap.session import session
from perdure.uap.session_limits import SessionLimits, SessionUsed
from perdure.upp.function_tool import tool
from perdure.upp.json_value import dumps, loads
from perdure.upp.prices import Price
from perdure.upp.provider import LLMRequest
from perdure.upp.providers.scripted import Answer, call, scripted
from perdure.upp.usage import TokenUsage

PRICES = {"scripted": {"scripted": Price(Decimal(1), Decimal(2))}}
USAGE = TokenUsage(1000, 500, 1500)
LIMITS = st.builds(
    SessionLimits,
    max_steps=st.none() | st.integers(1, 10**9),
    max_total_tokens=st.none() | st.integers(1, 10**12),
    max_cost=st.none() | st.decimals("0.000001", 10**6, places=6),
    max_duration=st.none() | st.timedeltas(timedelta(milliseconds=1), timedelta(days=3650)),
)


@tool(effect="none")
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "waited"


def worker(seconds: float = 0.0, rounds: int = 9) -> Agent:
    """Calls its tool so often for each input."""

    def answer(request: LLMRequest) -> Answer:
        last = max(place for place, message in enumerate(request.messages) if message.type == "user")
        given = sum(message.type == "assistant" for message in request.messages[last:])
        calls = [call("wait", seconds=seconds)] if given < rounds else []
        return Answer("done", tool_calls=calls, usage=USAGE)

    return agent(model=scripted(answer), tools=[wait])


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (SessionLimits(max_steps=5), "max_steps"),
        (SessionLimits(max_total_tokens=7500), "max_total_tokens"),
        (SessionLimits(max_cost=Decimal(10)), "max_cost"),
    ],
    ids=["steps", "tokens", "cost"],
)
async def test_a_run_ends_where_its_session_has_nothing_left_and_the_next_is_refused(
    limits: SessionLimits, code: str
) -> None:
    """The first run takes three steps of 1500 tokens, which cost 2; the second one two of them."""
    with connected(InProcessHost(PRICES)):
        chat = session(worker(rounds=2), limits=limits)
        assert (await chat.run("first")).response.text == "done"
        with pytest.raises(LimitExceeded) as ended:
            await chat.run("second")
        assert ended.value.code == f"session_{code}"
        for _ in range(2):
            with pytest.raises(SessionLimitReached, match=f"has reached its {code} of") as refused:
                await chat.run("third")
            assert refused.value.code == f"session_{code}"
        assert len(chat.thread_tree.current.thread) == 6


async def test_a_sessions_time_ends_its_run() -> None:
    """The tool is cancelled in the middle of its work."""
    with connected(InProcessHost()):
        chat = session(worker(seconds=600), limits=SessionLimits(max_duration=timedelta(seconds=0.2)))
        with pytest.raises(LimitExceeded) as ended:
            await chat.run("go")
        assert ended.value.code == "session_max_duration"
        with pytest.raises(SessionLimitReached):
            await chat.run("again")


async def test_a_run_that_goes_on_has_counted_what_it_used_before() -> None:
    """Two steps were taken, and the session's limit leaves two more."""
    with connected(InProcessHost()):
        chat = session(worker(rounds=9), limits=SessionLimits(max_steps=4))
        with pytest.raises(LimitExceeded) as ended:
            await chat.run("go", options=RunOptions(max_steps=2))
        assert ended.value.code == "max_steps"
        with pytest.raises(LimitExceeded) as ended:
            await chat.resume()
        assert ended.value.code == "session_max_steps"
        assert [checkpoint.step for checkpoint in chat.checkpoints] == [1, 2, 3, 4]
        with pytest.raises(SessionLimitReached):
            await chat.resume()


async def test_a_session_without_limits_has_none() -> None:
    with connected(InProcessHost()):
        chat = session(worker(rounds=1))
        for _ in range(3):
            await chat.run("go")


@given(LIMITS)
def test_limits_survive_json(limits: SessionLimits) -> None:
    assert SessionLimits.from_json(loads(dumps(limits.to_json()))) == limits


@pytest.mark.parametrize("wrong", [[], 7, {"max_stepz": 1}, {"max_steps": 0}, {"max_cost": "x"}, {"max_duration": -1}])
def test_limits_that_can_be_none_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="session"):
        SessionLimits.from_json(wrong)


def test_a_cost_that_is_not_known_leaves_nothing() -> None:
    limits = SessionLimits(max_cost=Decimal(5))
    assert limits.left(SessionUsed(cost=None)).cost == 0
    assert limits.left(SessionUsed(cost=Decimal(2))) == Allowance(cost=Decimal(3), session=True)


numbers = st.none() | st.integers(-5, 5)


@given(numbers, numbers, st.none() | st.decimals(-9, 9, places=2), st.none() | st.floats(-9, 9), st.booleans())
def test_an_allowance_survives_json(
    steps: int | None, tokens: int | None, cost: Decimal | None, seconds: float | None, of_session: bool
) -> None:
    allowed = Allowance(steps, tokens, cost, seconds, of_session)
    assert Allowance.from_json(loads(dumps(allowed.to_json()))) == allowed  # pyright: ignore[reportArgumentType]
