"""Fact 91 of the UPP reference: the values of retry strategies, key strategies and Retry-After, by the public names."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.errors import InvalidInput
from perdure.upp import (
    ErrorCode,
    ExponentialBackoff,
    LinearBackoff,
    NoRetry,
    ProviderConfig,
    RetryAfterStrategy,
    RetryStrategy,
    RoundRobinKeys,
    UPPError,
    WeightedKeys,
    mask_api_key,
)
from perdure.upp.chance import CHANCE
from perdure.upp.messages import UserMessage
from perdure.upp.provider import LLMRequest
from perdure.upp.providers import openai
from tests.clients.vendor_server import VendorServer, json_reply


def ms(*delays: int | None) -> list[timedelta | None]:
    return [None if delay is None else timedelta(milliseconds=delay) for delay in delays]


def waits(strategy: RetryStrategy, attempts: int, code: ErrorCode = ErrorCode.RATE_LIMITED) -> list[timedelta | None]:
    error = UPPError("slow down", code)
    return [strategy.on_retry(error, attempt) for attempt in range(1, attempts + 1)]


def exponential(attempts: int, base: int, longest: int = 30_000, *, jitter: bool = False) -> ExponentialBackoff:
    milliseconds = timedelta(milliseconds=1)
    return ExponentialBackoff(attempts, base * milliseconds, longest * milliseconds, jitter=jitter)


def test_fact_91_exponential_backoff_doubles_up_to_its_cap() -> None:
    assert waits(exponential(2, 100), 3) == ms(100, 200, None)
    assert waits(exponential(3, 1000, 2500), 3) == ms(1000, 2000, 2500)


def test_fact_91_jitter_halves_the_wait_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHANCE, "random", lambda: 0.0)
    assert waits(exponential(2, 100, jitter=True), 2) == ms(50, 100)


def test_fact_91_linear_backoff_grows_by_the_same_amount() -> None:
    assert waits(LinearBackoff(3, timedelta(milliseconds=100)), 4) == ms(100, 200, 300, None)


@pytest.mark.parametrize("code", [code for code in ErrorCode if not UPPError("x", code).retryable])
def test_fact_91_what_does_not_pass_is_not_tried_again(code: ErrorCode) -> None:
    for strategy in (exponential(3, 100), LinearBackoff(), NoRetry(), RetryAfterStrategy()):
        assert waits(strategy, 1, code) == [None]


def test_fact_91_keys_take_turns_and_none_is_an_error() -> None:
    keys = RoundRobinKeys(["a", "b"])
    assert [keys.get_key() for _ in range(3)] == ["a", "b", "a"]
    assert {WeightedKeys({"a": 1, "b": 0}).get_key() for _ in range(20)} == {"a"}
    for empty in (lambda: RoundRobinKeys([]), lambda: WeightedKeys({})):
        with pytest.raises(InvalidInput):
            empty()
    assert [mask_api_key(key) for key in ("12345678", "sk-1234567890")] == ["***", "sk-1...7890"]


@pytest.mark.parametrize(
    ("header", "wait"),
    [("7", timedelta(seconds=7)), ("1400000", timedelta(hours=1)), ("-5", timedelta(0)), ("soon", None)],
)
async def test_fact_91_retry_after_is_clamped(vendor: VendorServer, header: str, wait: timedelta | None) -> None:
    """Days are an hour, unless the configuration says otherwise."""
    vendor.replies(json_reply({"error": {"message": "slow down"}}, 429, {"retry-after": header}))
    request = LLMRequest([UserMessage("hello")], config=ProviderConfig(api_key="sk-test", base_url=vendor.url))
    with pytest.raises(UPPError) as raised:
        await openai("gpt-5").bind().complete(request)
    assert raised.value.retry_after == wait
