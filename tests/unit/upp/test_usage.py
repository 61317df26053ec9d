"""Token usage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perdure.upp.json_value import dumps, loads
from perdure.upp.usage import CycleUsage, TokenUsage, aggregate_usage, empty_usage
from tests.unit.upp import strategies as upp


@given(upp.usages)
def test_a_usage_survives_json(usage: TokenUsage) -> None:
    """Counts and cycles are read back equal."""
    assert TokenUsage.from_json(loads(dumps(usage.to_json()))) == usage


@given(st.lists(upp.usages, max_size=4))
def test_a_sum_of_sums_is_the_sum(usages: list[TokenUsage]) -> None:
    """It does not matter in which groups model calls are summed."""
    once = aggregate_usage(usages)
    parts = [aggregate_usage(usages[:1]), empty_usage(), aggregate_usage(usages[1:])]
    assert aggregate_usage(parts) == once


def test_totals_are_the_sums_of_input_and_output() -> None:
    """A vendor's own total is not summed; each model call is a cycle."""
    total = aggregate_usage([TokenUsage(10, 5, 99, 1, 2), TokenUsage(20, 7, 27)])
    assert total == TokenUsage(30, 12, 42, 1, 2, [CycleUsage(10, 5, 1, 2), CycleUsage(20, 7)])


def test_nothing_used_is_zero() -> None:
    """The empty usage has no cycles."""
    assert empty_usage() == TokenUsage(0, 0, 0, 0, 0, [])
    assert aggregate_usage([]) == empty_usage()


def test_absent_counts_are_zero() -> None:
    """An older writer has no cache counts."""
    assert TokenUsage.from_json({"inputTokens": 3, "outputTokens": 4}) == TokenUsage(3, 4, 7)
