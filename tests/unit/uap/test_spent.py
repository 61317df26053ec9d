"""What a run has spent, counted from its events."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from perdure.uap.spent import Spent
from perdure.uap.state import ExecutionState
from perdure.upp.json_value import JSONObject
from perdure.upp.usage import CycleUsage, TokenUsage, aggregate_usage, empty_usage


def ended(*usages: TokenUsage) -> list[JSONObject]:
    return [{"usage": usage.to_json()} for usage in usages]


def used(tokens: int, cost: Decimal | None = None) -> TokenUsage:
    return TokenUsage(tokens, 0, tokens, cycles=[CycleUsage(tokens, 0)], cost=cost)


def counted(data: list[JSONObject]) -> Spent:
    spent = Spent()
    for step, item in enumerate(data, 1):
        spent = spent.after_step(step, item)
    return spent


def test_nothing_is_spent_at_first() -> None:
    assert Spent() == Spent(0, 0, Decimal(0))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.decimals(0, 100, places=6)), max_size=6), st.data())
def test_a_step_that_is_told_again_changes_nothing(steps: list[tuple[int, Decimal]], data: st.DataObject) -> None:
    events = ended(*(used(tokens, cost) for tokens, cost in steps))
    spent = Spent()
    for step, event in enumerate(events, 1):
        for again in data.draw(st.lists(st.integers(1, step), max_size=2)):
            if again < step:
                spent = spent.after_step(again, events[again - 1])
        spent = spent.after_step(step, event).after_step(step, event)
    assert spent == counted(events)
    assert (spent.tokens, spent.steps) == (sum(tokens for tokens, _ in steps), len(steps))
    assert spent.cost == sum((cost for _, cost in steps), Decimal(0))


def test_a_cost_that_is_not_known_once_is_not_known_at_all() -> None:
    assert counted(ended(used(1, Decimal(1)), used(1), used(1, Decimal(1)))).cost is None


def test_a_server_that_counts_no_tokens_leaves_the_cost_open() -> None:
    assert counted(ended(used(0))).cost is None


def test_a_step_without_a_model_call_costs_nothing() -> None:
    assert counted(ended(used(1, Decimal(1)), empty_usage())).cost == Decimal(1)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.decimals(0, 100, places=6)), max_size=6), st.integers(0, 6))
def test_a_run_that_is_taken_up_counts_on_as_if_it_had_not_stopped(
    steps: list[tuple[int, Decimal]], stopped: int
) -> None:
    usages = [used(tokens, cost) for tokens, cost in steps]
    before = usages[:stopped]
    state = ExecutionState(step=len(before), usage=aggregate_usage(before), cycles=len(before))
    spent = Spent.by(state)
    for step, event in enumerate(ended(*usages), 1):
        spent = spent.after_step(step, event)
    assert spent == counted(ended(*usages))
