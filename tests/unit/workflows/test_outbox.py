"""Records on their way: taken along, put back in order, never lost."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure.workflows.outbox import Outbox


def record(number: int) -> dict[str, Any]:
    return {"k": "step", "step": number}


def test_what_was_carried_comes_first() -> None:
    """The execution before left it."""
    outbox = Outbox([record(1)])
    outbox.add(record(2))
    assert outbox.pending == [record(1), record(2)]


def test_taking_empties_it() -> None:
    """One activity takes everything along."""
    outbox = Outbox([record(1)])
    assert outbox.take() == [record(1)]
    assert outbox.take() == []
    assert outbox.pending == []


def test_what_comes_back_stands_before_what_is_newer() -> None:
    """The activity failed; meanwhile a step has begun."""
    outbox = Outbox([record(1), record(2)])
    taken = outbox.take()
    outbox.add(record(3))
    outbox.put_back(taken)
    assert outbox.take() == [record(1), record(2), record(3)]


def test_what_is_shown_is_a_copy() -> None:
    """It goes into the next execution's input while this one may still add."""
    carried = [record(1)]
    outbox = Outbox(carried)
    shown = outbox.pending
    outbox.add(record(2))
    assert (shown, carried) == ([record(1)], [record(1)])


@given(st.lists(st.sampled_from(["add", "take", "fail"])))
def test_no_record_is_lost_or_out_of_order(actions: list[str]) -> None:
    """Whatever succeeds and fails: what is written and what is pending are all there were, in order."""
    outbox = Outbox()
    written: list[dict[str, Any]] = []
    made = 0
    for action in actions:
        if action == "add":
            made += 1
            outbox.add(record(made))
        elif action == "take":
            written += outbox.take()
        else:
            outbox.put_back(outbox.take())
    assert written + outbox.pending == [record(number) for number in range(1, made + 1)]
