"""Usage as records carry it: sums, and what is left without a part."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perdure.uap.recorded_usage import join_usage, less_usage, plain_usage
from perdure.upp.usage import TokenUsage


def _usage(counts: tuple[int, int, int]) -> dict[str, Any]:
    spent, made, cost = counts
    return plain_usage(TokenUsage(spent, made, spent + made, cost=Decimal(cost) / 1000))


_by_agent = st.dictionaries(
    st.sampled_from(["a", "a/b", "a#memory"]), st.tuples(*[st.integers(0, 500)] * 3).map(_usage), min_size=1
)


@given(_by_agent, _by_agent)
def test_what_is_left_is_what_was_added(part: dict[str, Any], rest: dict[str, Any]) -> None:
    """By every path of the whole; a count that is used up is not written."""
    left = less_usage(join_usage(part, rest), part)
    assert left.keys() == part.keys() | rest.keys()
    for path, usage in left.items():
        given_ = rest.get(path, {})
        assert Decimal(usage.pop("cost")) == Decimal(given_.get("cost", 0))
        assert usage == {name: count for name, count in given_.items() if name != "cost"}
