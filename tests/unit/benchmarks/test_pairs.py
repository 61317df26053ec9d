"""Ratios of pairs, and their intervals."""

from __future__ import annotations

import math

import pytest

from benchmarks.pairs import Ratio, interval, paired


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    """Not the ratio of the medians: a round that was slow for both counts as any other."""
    ratio = paired([10, 200, 33], [20, 100, 30])
    assert ratio.median == pytest.approx(1.1)
    assert ratio.pairs == 3


def test_equal_figures_give_one_with_no_width() -> None:
    assert paired([5.0] * 9, [5.0] * 9) == Ratio(1.0, 1.0, 1.0, 9)


def test_noise_that_both_share_is_taken_out() -> None:
    """However far the rounds lie apart, a steady ratio has a narrow interval."""
    theirs = [10.0, 90.0, 25.0, 400.0, 13.0, 61.0, 8.0, 120.0, 33.0]
    ratio = paired([1.5 * figure for figure in theirs], theirs)
    assert (ratio.median, ratio.low, ratio.high) == pytest.approx((1.5, 1.5, 1.5))


def test_the_interval_is_the_bootstrap_of_the_median() -> None:
    """Of nine different figures the exact bootstrap puts 2.5 % below the third smallest, give or take its steps.

    P(median of a resample <= k-th smallest) = P(Binomial(9, k / 9) >= 5): 0.0014, 0.030 and 0.145 for k = 1, 2 and 3,
    so the 2.5 % quantile is the second smallest, and by symmetry the 97.5 % quantile the second largest.
    """
    below = [sum(math.comb(9, n) * (k / 9) ** n * (1 - k / 9) ** (9 - n) for n in range(5, 10)) for k in (1, 2)]
    assert below[0] < 0.025 < below[1]
    assert interval([9, 1, 8, 2, 7, 3, 6, 4, 5]) == (2, 8)


def test_the_interval_is_always_the_same_for_the_same_figures() -> None:
    figures = [1.0, 1.3, 0.9, 1.1, 1.2]
    assert interval(figures) == interval(figures)


def test_one_pair_is_its_own_interval() -> None:
    assert paired([3], [2]) == Ratio(1.5, 1.5, 1.5, 1)


@pytest.mark.parametrize(("low", "holds"), [(1.09, True), (1.1, True), (1.11, False)])
def test_a_limit_holds_when_the_lower_bound_is_within_it(low: float, holds: bool) -> None:
    assert Ratio(1.2, low, 1.3, 9).holds(1.1) is holds


@pytest.mark.parametrize(
    ("ours", "theirs"), [([], []), ([1], [1, 2]), ([1], [0]), ([-1], [1]), ([math.nan], [1]), ([1], [math.inf])]
)
def test_what_cannot_be_paired_is_refused(ours: list[float], theirs: list[float]) -> None:
    with pytest.raises(ValueError, match=r"pair|above 0"):
        paired(ours, theirs)
