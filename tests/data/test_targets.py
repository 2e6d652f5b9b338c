"""Targets against plain loops and np.interp."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Additive, PiecewiseAffine, PiecewiseConstant, Target
from shallowflow.errors import InvalidInputError

NOT_A_TARGET: Any = np.sin
SEEDS = st.integers(0, 2**32 - 1)


def breakpoints(rng: np.random.Generator, size: int) -> Floats:
    return np.cumsum(rng.uniform(0.1, 1.0, size)) - 0.3 * size


@settings(deadline=None, derandomize=True, max_examples=60)
@given(size=st.integers(0, 6), seed=SEEDS)
def test_piecewise_constant(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    jumps, values = breakpoints(rng, size), rng.standard_normal(size + 1)
    target = PiecewiseConstant(jumps, values)
    points = np.concatenate([3 * rng.standard_normal(20), jumps])
    expected = [values[sum(x >= v for v in jumps)] for x in points]
    np.testing.assert_array_equal(target(points), expected)
    np.testing.assert_allclose(target.jumps, [b - a for a, b in pairwise(values)])


@settings(deadline=None, derandomize=True, max_examples=60)
@given(size=st.integers(2, 7), seed=SEEDS)
def test_piecewise_affine(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    knots, values = breakpoints(rng, size), rng.standard_normal(size)
    target = PiecewiseAffine(knots, values)
    inside = np.concatenate([rng.uniform(knots[0], knots[-1], 20), knots])
    np.testing.assert_allclose(target(inside), np.interp(inside, knots, values), rtol=0, atol=1e-13)
    first = (values[1] - values[0]) / (knots[1] - knots[0])
    last = (values[-1] - values[-2]) / (knots[-1] - knots[-2])
    assert target(knots[0] - 2.0) == pytest.approx(values[0] - 2 * first, abs=1e-12)
    assert target(knots[-1] + 2.0) == pytest.approx(values[-1] + 2 * last, abs=1e-12)
    assert len(target.slopes) == size - 1


def test_additive_is_the_sum_over_coordinates() -> None:
    rng = np.random.default_rng(2)
    step, ramp = PiecewiseConstant([0.5], [1.0, 4.0]), PiecewiseAffine([0.0, 1.0], [0.0, 2.0])
    target = Additive(part for part in (step, ramp, step))
    x = rng.uniform(size=(30, 3))
    expected = [(4 if a >= 0.5 else 1) + 2 * b + (4 if c >= 0.5 else 1) for a, b, c in x]
    np.testing.assert_allclose(target(x), expected, rtol=1e-14)
    assert target.dimension == 3


@pytest.mark.parametrize("target", [PiecewiseConstant([0.5], [1, 2]), PiecewiseAffine([0, 1], [1, 3])])
def test_points_may_have_any_shape(target: PiecewiseConstant | PiecewiseAffine) -> None:
    points = np.linspace(-1, 2, 6)
    values = target(points)
    np.testing.assert_array_equal(target(points.reshape(2, 3)), values.reshape(2, 3))
    assert target(points[3]) == values[3]
    assert target([]).shape == (0,)


TARGETS: list[Target] = [
    PiecewiseConstant([0.5], [1.0, 4.0]),
    PiecewiseAffine([0.0, 1.0], [0.0, 2.0]),
    Additive([PiecewiseConstant([], [1.0]), PiecewiseAffine([0.0, 1.0], [0.0, 2.0])]),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: type(target).__name__)
def test_targets_are_read_only_values(target: Target) -> None:
    for twin in (copy.deepcopy(target), pickle.loads(pickle.dumps(target))):
        assert twin == target
        for part in twin.components if isinstance(twin, Additive) else [twin]:
            with pytest.raises(ValueError, match="read-only"):
                part.values[0] = 9.0
    assert target != PiecewiseConstant([0.5], [1.0, 5.0])
    with pytest.raises(AttributeError, match="cannot assign"):
        target.name = "x"  # type: ignore[union-attr]


def test_the_callers_arrays_are_copied() -> None:
    jumps, values = np.array([0.5]), np.array([1.0, 2.0])
    constant, affine = PiecewiseConstant(jumps, values), PiecewiseAffine(values, values)
    jumps[:], values[:] = 9.0, 9.0
    assert constant == PiecewiseConstant([0.5], [1.0, 2.0])
    assert affine == PiecewiseAffine([1.0, 2.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: PiecewiseConstant([0.5, 0.5], [1, 2, 3]),
            r"^breakpoints: must be strictly increasing, got 0\.5 before 0\.5",
        ),
        (
            lambda: PiecewiseConstant([0.5], [1]),
            r"^values: must be one more than the breakpoints \(1\), got 1$",
        ),
        (lambda: PiecewiseConstant([], []), r"^values: must not be empty, got shape \(0,\)$"),
        (
            lambda: PiecewiseConstant([np.nan], [1, 2]),
            r"^breakpoints: entries must be finite, got nan at index \(0,\)$",
        ),
        (lambda: PiecewiseAffine([1.0], [1.0]), r"^breakpoints: must be at least 2, got 1$"),
        (
            lambda: PiecewiseAffine([0, 1], [1, 2, 3]),
            r"^breakpoints, values: must have equal lengths, got 2 and 3$",
        ),
        (
            lambda: PiecewiseAffine([1, 0], [1, 2]),
            r"^breakpoints: must be strictly increasing, got 1\.0 before 0\.0",
        ),
        (lambda: Additive([]), r"^components: must not be empty, got \(\)$"),
        (
            lambda: Additive([NOT_A_TARGET]),
            r"^components: must be a sequence of one-dimensional targets, got \[<ufunc 'sin'>\]$",
        ),
        (lambda: PiecewiseConstant([0.5], [1, 2])("a"), r"^x: must be an array of numbers, got 'a'$"),
        (
            lambda: PiecewiseConstant([0.5], [1, 2])([0.0, np.nan]),
            r"^x: entries must be finite, got nan at index \(1,\)$",
        ),
        (lambda: PiecewiseAffine([0, 1], [1, 2])(np.inf), r"^x: entries must be finite, got inf$"),
        (lambda: Additive([PiecewiseConstant([], [1])])([0.5]), r"^x: must have 2 axes, got shape \(1,\)"),
        (
            lambda: Additive([PiecewiseConstant([], [1])])([[0.5, 1]]),
            r"^x: must have shape \(k, 1\), got \(1, 2\)$",
        ),
    ],
)
def test_borders(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(("gap", "values"), [(5e-324, [0.0, 1.0, 2.0]), (1.0, [0.0, 1e308, -1e308])])
def test_slopes_that_overflow_are_refused(gap: float, values: list[float]) -> None:
    with pytest.raises(InvalidInputError, match="breakpoints: must be far enough apart"):
        PiecewiseAffine([-1.0, 0.0, gap], values)
