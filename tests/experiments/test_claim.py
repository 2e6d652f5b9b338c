"""Claims of three: intervals against SciPy, verdicts at the borders."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from scipy import stats

from shallowflow.experiments.experiment import Claim, Interval, apart, tally, tally_text


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (3, 10), (10, 10), (97, 100)])
def test_the_interval_of_a_share_is_that_of_scipy(successes: int, trials: int) -> None:
    found = Interval.of_share(successes, trials)
    expected = stats.binomtest(successes, trials).proportion_ci(method="exact")
    assert found.value == successes / trials
    np.testing.assert_allclose((found.low, found.high), (expected.low, expected.high), rtol=1e-10)


def test_the_interval_of_a_mean_is_that_of_scipy() -> None:
    values = np.random.default_rng(0).normal(size=12)
    found = Interval.of_mean(values)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval()
    np.testing.assert_allclose((found.low, found.high), (expected.low, expected.high), rtol=1e-10)


@pytest.mark.parametrize("size", [6, 9, 20, 101])
def test_the_interval_of_a_median_misses_it_seldom(size: int) -> None:
    found = Interval.of_median(np.arange(1.0, size + 1))
    k = int(found.low)
    assert found.high == size + 1 - k
    outside = 2 * stats.binom.cdf(k - 1, size, 0.5)
    assert outside <= 0.05 < 2 * stats.binom.cdf(k, size, 0.5)
    assert Interval.of_median([1.0] * 5).within(0, 2) is None


def test_one_value_decides_nothing() -> None:
    assert Interval.of_mean([3.0]).within(0, 1) is None


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.2, 0.8, True),
        (0, 1, True),
        (-0.1, 0.5, None),
        (1.1, 2, False),
        (-inf, inf, None),
        (nan, nan, False),
    ],
)
def test_an_interval_is_inside_outside_or_both(low: float, high: float, answer: bool | None) -> None:
    assert Interval(0.5, low, high).within(0, 1) is answer


def test_a_claim_says_what_would_make_it_fail() -> None:
    claim = Claim.that("slope", "½", Interval(0.52, 0.48, 0.56), least=0.45, most=0.55)
    assert (claim.holds, claim.measured) == (None, "0.52 [0.48, 0.56]")
    assert claim.fails_if == "below 0.45 or above 0.55"


def test_claims_are_counted_by_verdict() -> None:
    claims = [Claim("a", "", "", holds) for holds in (True, True, False, None)]
    assert tally(claims) == {"hold": 2, "fail": 1, "open": 1}
    assert tally_text(claims) == "2 of 4 claims hold, 1 fails, 1 is open"


def test_an_exact_number_has_no_width() -> None:
    assert Interval.exact(2) == Interval(2.0, 2.0, 2.0)


def test_two_values_have_an_interval() -> None:
    found = Interval.of_mean([1.0, 2.0])
    assert -np.inf < found.low < found.value == 1.5 < found.high < np.inf


def test_claims_are_the_papers_unless_they_are_said_to_be_ours() -> None:
    theirs = Claim("a", "b", "c", True)
    also = Claim.that("a", "b", Interval.exact(1.0), most=2.0)
    ours = Claim.that("a", "b", Interval.exact(1.0), ours=True)
    assert apart([ours, theirs, also]) == ([theirs, also], [ours])
    assert (also.fails_if, ours.fails_if) == ("above 2", "")
