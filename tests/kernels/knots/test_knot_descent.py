"""Both kernels of descent against plain NumPy gradient descent, exact sums and exact rational gradients."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shallowflow.kernels.knots import descent as knot_descent
from shallowflow.kernels.knots.descent import Descended, advance, prefix_sums, prepare
from tests.rounding import assert_rounded

FloatArray = NDArray[np.float64]
Crossing = tuple[int, int, int, int]

NEAR_TIE = 1e-9
AT_ONCE = 50


@pytest.fixture(scope="module", autouse=True, params=["blocks", "samples"])
def kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run every test of this file with each kernel, whatever the rule that chooses between them says."""
    with mock.patch.object(knot_descent, "faster_kernel", return_value=request.param):
        yield


@dataclass(frozen=True, eq=False)
class Problem:
    """An initial network, sorted data and the two rates."""

    knots: FloatArray
    outer: FloatArray
    x: FloatArray
    y: FloatArray
    rates: tuple[float, float]

    def advance(self, steps: int) -> Descended:
        """The kernel, from the start."""
        return advance(self.knots, self.outer, prepare(self.x, self.y), self.rates, steps)

    def listed(self, steps: int) -> list[Crossing]:
        """The crossings of the kernel, from steps one by one where a call over AT_ONCE of them counts any."""
        samples, now = prepare(self.x, self.y), Descended(self.knots, self.outer, 0, 0)
        gaps = np.searchsorted(self.x, now.knots, side="right")
        crossings: list[Crossing] = []
        for start in range(0, steps, AT_ONCE):
            stop = min(start + AT_ONCE, steps)
            ahead = advance(now.knots, now.outer, samples, self.rates, stop - start)
            if ahead.crossings == 0:
                now = ahead
                continue
            for step in range(start + 1, stop + 1):
                now = advance(now.knots, now.outer, samples, self.rates, 1)
                if now.crossings == 0:
                    continue
                before, gaps = gaps, np.searchsorted(self.x, now.knots, side="right")
                assert now.crossings == np.abs(gaps - before).sum()
                for neuron in np.flatnonzero(gaps != before):
                    low, high = sorted((int(before[neuron]), int(gaps[neuron])))
                    direction = 1 if gaps[neuron] > before[neuron] else -1
                    crossings += [(step, int(neuron), sample, direction) for sample in range(low, high)]
        return crossings

    def iterates(self, steps: int) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Knots and outer weights at the start and after each step of plain gradient descent in NumPy."""
        knots, outer = self.knots.copy(), self.outer.copy()
        yield knots, outer
        for _ in range(steps):
            distance = self.x - knots[:, None]
            active = distance > 0.0
            hidden = np.where(active, distance, 0.0)
            residual = outer @ hidden - self.y
            knots = knots + self.rates[0] * outer * (active @ residual)
            outer = outer - self.rates[1] * (hidden @ residual)
            yield knots, outer

    @lru_cache(maxsize=16)  # noqa: B019 (both kernels are compared with the same run)
    def plain(self, steps: int) -> tuple[FloatArray, FloatArray, list[Crossing]]:
        """The last iterate, with every crossing of a sample by a knot on the way."""
        crossings: list[Crossing] = []
        active = self.x > self.knots[:, None]
        for step, iterate in enumerate(self.iterates(steps)):
            was, active = active, self.x > iterate[0][:, None]
            if (was != active).any():
                for neuron, sample in np.argwhere(was != active):
                    direction = 1 if was[neuron, sample] else -1
                    crossings.append((step, int(neuron), int(sample), direction))
        return *iterate, crossings


def first_difference(ours: Sequence[Crossing], plain: Sequence[Crossing]) -> set[Crossing]:
    """Crossings of the first step that has not the same ones in both runs; empty if all agree."""
    different = set(ours) ^ set(plain)
    start = min((crossing[0] for crossing in different), default=0)
    return {crossing for crossing in different if crossing[0] == start}


def assert_same_descent(problem: Problem, steps: int, tolerance: float) -> int:
    """The kernel makes the iterates of plain descent; returns up to which step that was compared.

    A knot that lands on a sample up to rounding may be counted on either side of it, and the runs differ from
    then on by a genuine, if small, kick. So the runs are compared as long as the same knots cross the same
    samples in the same steps, and where that ends, the crossing must be such a tie.
    """
    our_knots, our_outer, done, crossings = problem.advance(steps)
    ours = problem.listed(steps)
    knots, outer, plain = problem.plain(steps)
    assert done == steps
    assert crossings == len(ours)
    different = first_difference(ours, plain)
    if different:
        steps = min(different)[0]
        knots, *_ = problem.plain(steps)
        assert all(abs(knots[neuron] - problem.x[sample]) < NEAR_TIE for _, neuron, sample, _ in different)
        steps -= 1
        knots, outer, _ = problem.plain(steps)
        our_knots, our_outer, *_ = problem.advance(steps)
    np.testing.assert_allclose(our_knots, knots, rtol=0, atol=tolerance)
    np.testing.assert_allclose(our_outer, outer, rtol=0, atol=tolerance)
    return steps


def stable_rate(knots: FloatArray, outer: FloatArray, x: FloatArray) -> float:
    """1 / trace(J^T J) for outer weights larger by 1: below the 2 / lambda_max at which descent is unstable.

    Beyond that, rounding is amplified from step to step and no two implementations agree.
    """
    distance = np.maximum(x - knots[:, None], 0.0)
    slopes = (distance > 0.0) * (np.abs(outer[:, None]) + 1.0)
    return 1.0 / float(1.0 + (distance**2 + slopes**2).sum())


def stays_stable(problem: Problem, steps: int) -> bool:
    """Whether rates × trace(J^T J) stays within half of what is stable, at every step."""
    for knots, outer in problem.iterates(steps):
        distance = np.maximum(problem.x - knots[:, None], 0.0)
        slopes = (distance > 0.0) * outer[:, None]
        if float(problem.rates[0] * (slopes**2).sum() + problem.rates[1] * (distance**2).sum()) > 1.0:
            return False
    return True


def rounding_decides(problem: Problem, steps: int) -> bool:
    """Whether outer weights changed in their last digits lead elsewhere: a start may run into a saddle."""
    moved = replace(problem, outer=problem.outer * (1.0 + 1e-13))
    pairs = zip(problem.plain(steps)[:2], moved.plain(steps)[:2], strict=True)
    return any(float(np.abs(one - other).max()) > NEAR_TIE for one, other in pairs)


def sine(width: int, samples: int, frequency: int, seed: int) -> Problem:
    """The experiments of the paper's introduction: He initialisation, rate 10^-3 on the mean squared loss."""
    generator = np.random.default_rng(seed)
    knots = generator.normal(0.0, math.sqrt(2.0), width)
    outer = generator.normal(0.0, math.sqrt(2.0 / width), width)
    x = np.linspace(-1.0, 1.0, samples)
    rate = 1e-3 * 2 / samples
    return Problem(knots, outer, x, np.sin(frequency * np.pi * x), (rate, rate))


def repeated_inputs(seed: int) -> Problem:
    """Forty neurons (enough for the vectorised step) on twelve samples, some of which share their input."""
    generator = np.random.default_rng(seed)
    x = np.sort(np.round(generator.uniform(-1.0, 1.0, 12), 1))
    assert np.unique(x).size < x.size
    knots, outer = generator.normal(0.0, 1.0, 40), generator.normal(0.0, 0.3, 40)
    rate = stable_rate(knots, outer, x)
    return Problem(knots, outer, x, generator.normal(0.0, 1.0, 12), (rate, rate))


def far_away(seed: int, origin: float) -> Problem:
    """Data and knots within 1 of `origin`; the offsets are multiples of 2^-20, so that shifting is exact."""
    generator = np.random.default_rng(seed)
    x = np.sort(generator.integers(0, 2**20, 30)) / 2**20
    knots = generator.integers(-(2**19), 2**20, 6) / 2**20
    outer = generator.normal(0.0, 1.0, 6)
    rate = stable_rate(knots, outer, x)
    return Problem(knots + origin, outer, x + origin, np.cos(9.0 * x), (rate, rate))


@st.composite
def problems(draw: Any) -> Problem:
    """Random problems, half of them on a grid: repeated inputs, equal knots, knots on or beyond samples."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width = draw(st.integers(1, 40))
    samples = draw(st.integers(1, 24))
    digits = draw(st.sampled_from([1, 16]))
    x = np.sort(np.round(generator.uniform(-1.0, 1.0, samples), digits))
    y = np.round(generator.normal(0.0, 1.0, samples), digits)
    knots = np.round(generator.normal(0.0, 1.0, width), digits)
    outer = np.round(generator.normal(0.0, 1.0, width), digits)
    rate = stable_rate(knots, outer, x)
    return Problem(knots, outer, x, y, (rate * draw(st.sampled_from([0.3, 1.0])), rate))


@settings(deadline=None, derandomize=True, max_examples=16)
@given(problem=problems())
def test_short_runs_equal_plain_descent(problem: Problem) -> None:
    assume(stays_stable(problem, 2000) and not rounding_decides(problem, 2000))
    assert_same_descent(problem, 2000, tolerance=1e-9)


@pytest.mark.parametrize(
    "problem",
    [sine(10, 100, 1, seed=1), repeated_inputs(seed=0), far_away(seed=1, origin=1000.0)],
    ids=["sine", "repeated inputs", "far from the origin"],
)
def test_long_runs_equal_plain_descent(problem: Problem) -> None:
    """Knots cross samples 14,527, 155,871 and 84,923 times, every time in the same step in both runs."""
    assert assert_same_descent(problem, 100_000, tolerance=1e-9) == 100_000


def test_paper_size_equals_plain_descent() -> None:
    """sin(5 pi x), 500 samples, 100 neurons: the paper's first figure."""
    assert assert_same_descent(sine(100, 500, 5, seed=0), 5_000, tolerance=1e-12) == 5_000


@pytest.mark.parametrize("seed", range(3))
def test_origin_does_not_matter(seed: int) -> None:
    near, far = far_away(seed, 0.0), far_away(seed, 1000.0)
    knots, outer, _, crossings = near.advance(2_000)
    far_knots, far_outer, _, far_crossings = far.advance(2_000)
    assert crossings == far_crossings > 100
    # A knot near 1000 is itself only known to 1e-13, in each of the steps.
    assert_rounded(far_knots - 1000.0, knots, 2_000, size=1000.0)
    assert_rounded(far_outer, outer, 2_000, size=1000.0)


def exact_gradient(problem: Problem) -> tuple[list[Fraction], list[Fraction]]:
    """(dL/db, dL/dc) of 1/2 sum r^2 in rational arithmetic."""
    arrays = (problem.knots, problem.outer, problem.x, problem.y)
    knots, outer, x, y = ([Fraction(float(value)) for value in array] for array in arrays)
    hidden = [[max(at - knot, Fraction(0)) for at in x] for knot in knots]
    residual = [
        sum((c * row[k] for c, row in zip(outer, hidden, strict=True)), -target) for k, target in enumerate(y)
    ]
    by_knot = [
        -c * sum((r for r, h in zip(residual, row, strict=True) if h > 0), Fraction(0))
        for c, row in zip(outer, hidden, strict=True)
    ]
    by_outer = [sum((r * h for r, h in zip(residual, row, strict=True)), Fraction(0)) for row in hidden]
    return by_knot, by_outer


@pytest.mark.parametrize("origin", [0.0, 1000.0])
@pytest.mark.parametrize("width", [5, 50])
def test_gradient_equals_rational_arithmetic(width: int, origin: float) -> None:
    generator = np.random.default_rng(width)
    x = np.sort(generator.uniform(0.0, 1.0, 60)) + origin
    knots, outer = generator.uniform(-0.5, 1.1, width) + origin, generator.normal(0.0, 1.0, width)
    knots[0] = x[-1]
    # A huge rate leaves nothing but the gradient in the new iterate.
    rate = 2.0**60
    problem = Problem(knots, outer, x, generator.normal(0.0, 1.0, 60), (rate, rate))
    new_knots, new_outer, *_ = problem.advance(1)
    by_knot, by_outer = (np.array(gradient, dtype=float) for gradient in exact_gradient(problem))
    tolerance = 1e-15 * x.size * float(np.abs(outer).sum())
    np.testing.assert_allclose((knots - new_knots) / rate, by_knot, rtol=0, atol=tolerance)
    np.testing.assert_allclose((outer - new_outer) / rate, by_outer, rtol=0, atol=tolerance)
    assert (by_knot == 0.0).tolist() == (knots >= x[-1]).tolist()


@pytest.mark.parametrize(
    "problem",
    [sine(10, 100, 1, seed=2), repeated_inputs(seed=1), sine(60, 80, 5, seed=3)],
    ids=["narrow", "repeated inputs", "wide"],
)
@pytest.mark.parametrize(
    "cuts", [(100,) * 10, (1,) * 50 + (950,), (333, 0, 667)], ids=["tens", "single", "three"]
)
def test_cutting_a_run_changes_no_bit(problem: Problem, cuts: tuple[int, ...]) -> None:
    rates = (20 * problem.rates[0], 20 * problem.rates[1])  # enough movement for a thousand steps
    samples = prepare(problem.x, problem.y)
    whole = advance(problem.knots, problem.outer, samples, rates, 1000)
    knots, outer, crossings = problem.knots, problem.outer, 0
    for steps in cuts:
        knots, outer, done, crossed = advance(knots, outer, samples, rates, steps)
        assert done == steps
        crossings += crossed
    assert crossings == whole.crossings > 50
    assert knots.tobytes() == whole.knots.tobytes()
    assert outer.tobytes() == whole.outer.tobytes()


def test_order_of_the_neurons_is_kept() -> None:
    problem = sine(20, 50, 1, seed=5)
    order = np.random.default_rng(0).permutation(20)
    shuffled = Problem(problem.knots[order], problem.outer[order], problem.x, problem.y, problem.rates)
    knots, outer, *_ = problem.advance(300)
    new_knots, new_outer, *_ = shuffled.advance(300)
    np.testing.assert_allclose(new_knots, knots[order], rtol=0, atol=1e-13)
    np.testing.assert_allclose(new_outer, outer[order], rtol=0, atol=1e-13)


def test_inputs_are_not_modified() -> None:
    problem = sine(5, 20, 1, seed=6)
    problem.knots.setflags(write=False)
    problem.outer.setflags(write=False)
    knots, outer, *_ = problem.advance(10)
    assert (knots != problem.knots).any()
    assert (outer != problem.outer).any()


def test_dead_neurons_are_frozen_and_dying_ones_stop() -> None:
    """Neuron 0 is pushed over the last sample and stops; 1 is beyond it and 2 on it: these never move."""
    knots, outer = np.array([0.9, 3.0, 1.0]), np.array([2.0, 0.3, -7.0])
    problem = Problem(knots, outer, np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.0, -9.0]), (0.01, 0.01))
    new_knots, new_outer, done, crossings = problem.advance(100)
    plain_knots, plain_outer, plain_crossings = problem.plain(100)
    assert (done, crossings) == (100, 1)
    assert problem.listed(100) == plain_crossings
    assert new_knots[0] > 1.0
    assert_rounded(new_knots, plain_knots, 100 * 3)
    assert_rounded(new_outer, plain_outer, 100 * 3)
    assert new_knots[1:].tolist() == [3.0, 1.0]
    assert new_outer[1:].tolist() == [0.3, -7.0]


def test_a_network_without_live_neurons_stays() -> None:
    problem = Problem(np.array([2.0, 1.0]), np.ones(2), np.array([1.0]), np.array([5.0]), (0.1, 0.1))
    knots, outer, done, crossings = problem.advance(7)
    assert (knots.tolist(), outer.tolist(), done, crossings) == ([2.0, 1.0], [1.0, 1.0], 7, 0)


def test_one_sample_and_one_neuron() -> None:
    """The two-term recursion written out; it ends where the network meets the sample, c (1 - b) = 2."""
    problem = Problem(np.array([0.0]), np.array([0.5]), np.array([1.0]), np.array([2.0]), (0.1, 0.1))
    b, c = 0.0, 0.5
    for _ in range(500):
        r = c * (1.0 - b) - 2.0
        b, c = b + 0.1 * c * r, c - 0.1 * r * (1.0 - b)
    knots, outer, *_ = problem.advance(500)
    assert (knots[0], outer[0]) == pytest.approx((b, c), abs=1e-14)
    assert outer[0] * (1.0 - knots[0]) == pytest.approx(2.0, abs=1e-12)


def test_jumps_over_many_samples() -> None:
    """Steps so long that knots cross thousands of samples, further than a walk goes, in both directions."""
    x = np.sort(np.random.default_rng(4).uniform(-1.0, 1.0, 6000))
    rates = (0.5 / x.size, 0.01 / x.size)
    problem = Problem(np.array([0.3, -0.3]), np.array([1.0, -1.0]), x, 2.0 + np.sin(x), rates)
    assert assert_same_descent(problem, 3, tolerance=1e-14) == 3
    moves = Counter((step, neuron, direction) for step, neuron, _, direction in problem.listed(3))
    assert moves[1, 0, -1] > 1100
    assert moves[1, 1, 1] > 1100


@pytest.mark.parametrize("bystanders", [0, 40])
def test_landing_on_a_sample_deactivates_it(bystanders: int) -> None:
    """Without rounding: from 0 the knot goes to 1, onto the first sample, and by the second alone to 1/2."""
    knots, outer = np.zeros(1 + bystanders), np.zeros(1 + bystanders)
    knots[1:], outer[0] = -5.0, 1.0
    problem = Problem(knots, outer, np.array([1.0, 2.0]), np.array([0.5, 1.5]), (1.0, 0.0))
    assert [problem.advance(steps)[0][0] for steps in (1, 2, 3)] == [1.0, 0.5, 0.5]
    assert problem.listed(2) == [(1, 0, 0, 1), (2, 0, 0, -1)]


def test_crossings_are_those_of_plain_descent() -> None:
    problem = sine(12, 40, 2, seed=8)
    listed, (*_, plain) = problem.listed(20_000), problem.plain(20_000)
    assert problem.advance(20_000).crossings == len(listed) == len(plain) > 100
    assert sorted(listed) == sorted(plain)


@pytest.mark.parametrize("width", [3, 50])
def test_overflow_stops_at_the_last_finite_iterate(width: int) -> None:
    """Fixed knots and too large a rate: the outer weights grow by a factor per step until they overflow."""
    generator = np.random.default_rng(width)
    x = np.linspace(0.0, 1.0, 20)
    problem = Problem(generator.uniform(-1.0, 0.5, width), np.ones(width), x, np.sin(x), (0.0, 10.0))
    knots, outer, done, _ = problem.advance(100_000)
    with np.errstate(all="ignore"):
        finite = [bool(np.isfinite(problem.plain(steps)[1]).all()) for steps in range(done - 2, done + 4)]
    # Sums of products may overflow a step before or after those of the other implementation.
    assert finite[:2] == [True, True]
    assert finite[-2:] == [False, False]
    assert np.isfinite(outer).all()
    assert np.abs(outer).max() > 1e290
    again = problem.advance(done)
    assert again[0].tobytes() == knots.tobytes()
    assert again[1].tobytes() == outer.tobytes()


def test_knot_thrown_to_infinity_counts_as_overflow() -> None:
    """The first step takes the knot to +inf, where a dead neuron might be: it must not be taken for one."""
    problem = Problem(np.array([0.0]), np.array([1.0]), np.array([1.0]), np.array([-1.0]), (1.7e308, 0.1))
    knots, outer, done, crossings = problem.advance(50)
    assert (knots.tolist(), outer.tolist(), done, crossings) == ([0.0], [1.0], 0, 0)


@pytest.mark.parametrize("samples", [1, 2, 1000])
def test_prefix_sums_are_rounded_once(samples: int) -> None:
    generator = np.random.default_rng(samples)
    x = np.sort(generator.uniform(0.0, 1.0, samples)) + 7.0
    y = generator.normal(3.0, 1.0, samples)
    prefix = prefix_sums(x, y)
    z = x - x[samples // 2]
    assert prefix.shape == (samples + 2, 5)
    assert prefix[:, 0].tolist() == [-math.inf, *x, math.inf]
    for column, terms in enumerate((z, z * z, y, z * y), start=1):
        exact = [math.fsum(terms[p:]) for p in range(samples + 1)]
        np.testing.assert_allclose(prefix[:-1, column], exact, rtol=4e-16, atol=0)
