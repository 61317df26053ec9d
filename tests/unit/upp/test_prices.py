"""What a model call costs."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.messages import AssistantMessage
from perdure.upp.prices import Price, cost_of, with_cost
from perdure.upp.provider import LLMResponse
from perdure.upp.usage import TokenUsage, aggregate_usage, empty_usage

D = Decimal
PRICE = Price(input=D("3"), output=D("15"), cache_read=D("0.3"), cache_write=D("3.75"))
USED = TokenUsage(
    input_tokens=1000, output_tokens=200, total_tokens=1200, cache_read_tokens=400, cache_write_tokens=100
)


@pytest.mark.parametrize(
    ("provider", "price", "cost"),
    [
        ("anthropic", PRICE, D("3") + D("3") + D("0.12") + D("0.375")),  # its input tokens leave the cached ones out
        ("openai", PRICE, D("1.5") + D("3") + D("0.12") + D("0.375")),
        ("openai", Price(D("3"), D("15")), D("3") + D("3")),  # without a price of their own they cost as input
        ("anthropic", Price(D(0), D(0)), D(0)),
    ],
)
def test_every_token_is_paid_once(provider: str, price: Price, cost: Decimal) -> None:
    assert cost_of(USED, price, provider) == cost


def test_the_cost_is_exact() -> None:
    """A tenth of a cent, ten million times, is ten thousand: no float has a part in it."""
    one = cost_of(TokenUsage(1, 0, 1), Price(D("1"), D("1")), "openai")
    assert (one, one * 10_000_000) == (D("0.001"), D("10000"))


def test_a_vendor_that_counts_more_cached_than_input_costs_no_less_than_nothing() -> None:
    assert cost_of(TokenUsage(10, 0, 10, 50), Price(D("1"), D("1"), D("0")), "openai") == 0


def test_a_model_without_a_price_has_no_cost() -> None:
    """Neither 0 nor a guess."""
    response = LLMResponse(AssistantMessage("hi"), USED)
    table = {"openai": {"gpt-5": PRICE}}
    assert with_cost(response, table, "openai", "gpt-5-mini") is response
    assert with_cost(response, table, "openrouter", "gpt-5").usage.cost is None
    assert with_cost(response, table, "openai", "gpt-5").usage.cost == D("4.995")


def priced(tokens: int, cost: str | None) -> TokenUsage:
    return TokenUsage(tokens, 0, tokens, cost=None if cost is None else D(cost))


@pytest.mark.parametrize(
    ("usages", "cost"),
    [
        ([priced(1, "0.1"), priced(1, "0.2")], D("0.3")),
        ([priced(1, "0.1"), priced(1, None)], None),
        ([priced(1, "0.1"), empty_usage()], D("0.1")),
        ([empty_usage()], None),
        ([], None),
    ],
)
def test_a_sum_costs_what_its_parts_cost(usages: list[TokenUsage], cost: Decimal | None) -> None:
    """One part of unknown cost makes the sum unknown; what used nothing has a part in neither."""
    assert aggregate_usage(usages).cost == cost


@given(st.decimals(0, 10**6, places=9) | st.decimals(0, 1, places=40))
def test_a_cost_survives_json(cost: Decimal) -> None:
    """As text, digit by digit; never as 1E-9, which other readers take for a word."""
    written = TokenUsage(1, 1, 2, cost=cost).to_json()
    assert "E" not in str(written["cost"])
    assert TokenUsage.from_json(written).cost == cost
