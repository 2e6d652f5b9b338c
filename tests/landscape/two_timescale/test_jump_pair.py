"""The closed form of two neurons at a jump beside an integrator and quadrature."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad, solve_ivp

from shallowflow.arrays import Floats
from shallowflow.landscape.two_timescale.step_classes import EdgePair, JumpPair

DISTANCES = st.floats(1e-4, 0.5)


def velocity(s2: float, y: Floats) -> Floats:
    left, right = y
    speeds: Floats = -0.5 * s2 * np.array([right**2, left**2]) / (left + right) ** 2
    return speeds


@settings(deadline=None, derandomize=True, max_examples=30)
@given(DISTANCES, DISTANCES, st.floats(0.01, 30.0))
def test_hitting_times_are_those_of_an_integrator(left: float, right: float, squared: float) -> None:
    near, constant = min(left, right), abs(right - left) * (right**2 + right * left + left**2)

    def slowness(x: float) -> float:
        far = np.cbrt(x**3 + constant)
        return float(((x + far) / far) ** 2)

    # The integrand changes within x ~ K^{1/3}, which may be a tiny part of the whole.
    layers = [x for x in np.cbrt(constant) * 10.0 ** np.arange(-1, 6) if 0 < x < near]
    ends = [0.0, *layers, near]
    parts = [quad(slowness, *part, epsabs=0, epsrel=1e-13, limit=400)[0] for part in pairwise(ends)]
    expected = 2 / squared * sum(parts)
    pair = JumpPair(left, right, squared)
    assert pair.hitting_time == pytest.approx(expected, rel=1e-10)
    assert pair.hitting_time <= 8 * near / squared * (1 + 1e-12)


@pytest.mark.parametrize(("left", "right"), [(0.1, 0.15), (0.3, 0.02), (0.2, 0.2001)])
@pytest.mark.parametrize("share", [0.1, 0.6, 0.99])
def test_distances_on_the_way_are_those_of_an_integrator(left: float, right: float, share: float) -> None:
    pair = JumpPair(left, right, 4.0)
    time = share * pair.hitting_time
    solution = solve_ivp(
        lambda _, y: velocity(4.0, y), (0, time), [left, right], method="DOP853", rtol=1e-13, atol=1e-15
    )
    np.testing.assert_allclose(pair.at(time), solution.y[:, -1], atol=1e-11)


def test_the_hit_and_what_remains() -> None:
    pair = JumpPair(0.1, 0.2, 1.0)
    assert pair.at(pair.hitting_time)[0] == 0
    assert pair.at(2 * pair.hitting_time)[1] == pytest.approx(np.cbrt(0.2**3 - 0.1**3))
    swapped = JumpPair(0.2, 0.1, 1.0)
    assert swapped.hitting_time == pair.hitting_time
    assert swapped.at(0.1) == pair.at(0.1)[::-1]


def test_equal_distances_move_at_constant_speed() -> None:
    pair = JumpPair(0.1, 0.1, 2.0)
    assert pair.hitting_time == pytest.approx(0.4)
    assert pair.at(0.1) == pytest.approx((0.075, 0.075))


def test_nearly_equal_distances_are_no_trouble() -> None:
    for gap in (1e-12, 1e-9, 1e-6):
        # The last stretch, of length K^{1/3}, is where unequal distances tell.
        slack = 5 * np.cbrt(3 * 0.01 * gap)
        assert 0.4 - slack < JumpPair(0.1, 0.1 + gap, 2.0).hitting_time <= 0.4
        left, right = JumpPair(0.1, 0.1 + gap, 2.0).at(0.2)
        assert left == pytest.approx(0.05, abs=1e-4)
        assert right >= left


def test_without_a_jump_nothing_moves() -> None:
    assert JumpPair(0.1, 0.2, 0.0).hitting_time == np.inf
    assert JumpPair(0.1, 0.2, 0.0).at(5.0) == pytest.approx((0.1, 0.2))


def test_one_neuron_against_the_edge() -> None:
    """(B + D)² D' = −½ s² B²."""
    pair = EdgePair(0.3, 0.2, 2.0)
    solution = solve_ivp(
        lambda _, y: -0.5 * 2.0 * 0.09 / (0.3 + y) ** 2, (0, 0.2), [0.2], rtol=1e-12, atol=1e-14
    )
    assert pair.at(0.2) == pytest.approx(solution.y[0, -1], abs=1e-10)
    assert pair.at(pair.hitting_time) == 0
    assert pair.at(pair.hitting_time * (1 - 1e-9)) == pytest.approx(0, abs=1e-8)
