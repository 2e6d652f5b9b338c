"""First passages of interpolants against polynomial roots, and the exits of knots from their gaps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.special import comb

from shallowflow.kernels.knots.flow import NEVER, NODES, RETURNING
from shallowflow.kernels.knots.stage import Stage
from shallowflow.kernels.knots.stiff_step import new_trial
from tests.kernels.knots.knot_entries import exit_fraction, first_passage
from tests.kernels.knots.knot_reference import FloatArray, IntArray

S = Polynomial([0.0, 1.0])


def bernstein(control: FloatArray) -> Polynomial:
    return sum((c * comb(4, i) * S**i * (1 - S) ** (4 - i) for i, c in enumerate(control)), Polynomial([0.0]))


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    control=st.lists(st.integers(-20, 20), min_size=5, max_size=5),
    level=st.integers(-15, 15),
    sign=st.sampled_from([-1.0, 1.0]),
    limit=st.sampled_from([0.3, 1.0]),
)
def test_first_passage_is_the_smallest_root(
    control: list[int], level: int, sign: float, limit: float
) -> None:
    # Levels between the integers, so that the polynomial does not touch them.
    height = level + 0.382
    points = np.array(control, dtype=float)
    got = first_passage(points, sign, height, limit, np.empty((64, 7)))
    polynomial = sign * bernstein(points) - height
    roots = polynomial.roots()
    inside = np.sort(roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real >= 0) & (roots.real <= 1)])
    want = 0.0 if sign * points[0] >= height else (inside[0] if inside.size else NEVER)
    if want < limit:
        assert got == pytest.approx(want, abs=1e-9)
    else:
        assert got == NEVER


def exit_of(path: Polynomial, *, ends_only: bool = False, patient: bool = False, gap: int = 1) -> float:
    """Exit fraction of one knot that follows ``path`` in gap ``gap`` of the locations 0, 1, 2."""
    start, end = path(0.0), path(1.0)
    bend = (path - (start + (end - start) * S)) // (S * (1 - S))
    k = np.pad(bend.coef, (0, 3 - bend.coef.size))
    state, trial = np.array([[start], [0.0]]), new_trial(1)
    trial.end[:, 0] = end, 0.0
    trial.dense[:, 0, 0] = k
    layout: IntArray = np.array([[gap], [-1], [0]])
    stage = Stage(layout, np.empty((6, 2)), 1, (1.0, 1.0), np.empty((6, 6)), np.array([0.0, 1.0, 2.0]))
    return float(exit_fraction(state, trial, stage, (1e-6, 1e-6), ends_only, patient))


def test_exit_is_located_half_a_window_beyond_the_point() -> None:
    path = 0.2 + 1.4 * S + 0.1 * S**4
    fraction = exit_of(path)
    assert path(fraction) == pytest.approx(1 + 0.5 * 0.01 * 2e-6, abs=1e-13)
    path = 0.5 - 1.4 * S + 0.1 * S**3
    assert path(exit_of(path)) == pytest.approx(-0.5 * 0.01 * 1e-6, abs=1e-13)
    assert exit_of(0.2 + 0.7 * S) == 1.0
    assert exit_of(0.5 - 5.0 * S, gap=0) == 1.0


def test_knot_that_leaves_and_comes_back_inside_the_step_is_seen() -> None:
    path = 0.9 + 0.6 * S * (1 - S)
    assert path(1.0) == pytest.approx(0.9)
    fraction = exit_of(path)
    assert 0 < fraction < 0.5
    assert path(fraction) == pytest.approx(1 + 1e-8, abs=1e-12)
    assert exit_of(path, ends_only=True) == 1.0
    assert exit_of(0.9 + 0.39999 * S * (1 - S)) == 1.0


def test_knot_that_returns_to_where_it_just_left_asks_for_a_shorter_step() -> None:
    start = float(np.nextafter(0.0, 1.0))
    assert exit_of(start + 1e-9 * S - 2e-9 * S**2, patient=True) == RETURNING
    assert exit_of(start + 1e-9 * S, patient=True) == 1.0
    # A dip of less than the tolerance between the ends is an error of the interpolant.
    assert exit_of(start - 1e-7 * S + 3e-7 * S**2, patient=True) == 1.0
    assert exit_of(start - 1e-4 * S + 3e-4 * S**2, patient=True) == RETURNING
    # Out of patience, it is located like any other exit.
    assert 0 < exit_of(start + 1e-6 * S - 2e-6 * S**2, patient=False) < 1
    # Leaving through the other end is a usual exit.
    assert 0 < exit_of(start + 1.5 * S, patient=True) < 1


def test_nodes_are_chebyshev_lobatto_points() -> None:
    np.testing.assert_allclose(NODES, [0, 0.5 - np.sqrt(0.125), 0.5, 0.5 + np.sqrt(0.125), 1], atol=1e-16)
