"""Neurons under frozen forces: against explicit steps, closed forms and a bounded least-squares solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.kernels.frozen import GIVEN_UP, STANDS, Fates, Forces, Neurons, bounded_gates, follow
from shallowflow.landscape.geometry.activity import signs_of
from tests.rounding import EPSILON


def followed(
    inner: Floats, outer: Floats, inputs: Floats, strengths: Floats, duration: float, slope: float = 0.0
) -> tuple[Neurons, Fates]:
    """Run the kernel on copies."""
    lengths = np.linalg.norm(inputs, axis=1)
    sizes = np.linalg.norm(inner, axis=1)[:, None] * lengths
    neurons = Neurons(inner.copy(), outer.copy(), np.zeros(len(outer)), signs_of(inner @ inputs.T, sizes))
    count = len(outer)
    counts = np.zeros(count, np.int64)
    fates = Fates(
        np.zeros_like(inner), counts, np.zeros(count), np.full(count, np.inf), np.zeros(count, np.int64)
    )
    forces = Forces(inputs, strengths, slope, float(np.abs(strengths) @ lengths))
    follow(neurons, forces, duration, 10_000, fates)
    return neurons, fates


def stepped(
    inner: Floats, outer: Floats, inputs: Floats, strengths: Floats, duration: float, steps: int
) -> tuple[Floats, Floats]:
    """Explicit steps of w' = aD, a' = ⟨w, D⟩; a neuron that should slide hovers about its wall."""
    w, a, step = inner.copy(), outer.copy(), duration / steps
    for _ in range(steps):
        pulls = ((w @ inputs.T > 0) * strengths) @ inputs
        w, a = w + step * a[:, None] * pulls, a + step * np.einsum("jd,jd->j", w, pulls)
    return w, a


def problem(seed: int, balanced: bool = True) -> tuple[Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    inputs, strengths = rng.standard_normal((12, 3)), rng.standard_normal(12) / 12
    inner = rng.standard_normal((20, 3))
    outer = rng.choice([-1.0, 1.0], 20) * np.linalg.norm(inner, axis=1)
    return inner, outer if balanced else rng.standard_normal(20), inputs, strengths


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_small_steps_come_closer_in_proportion_to_the_step(seed: int, balanced: bool) -> None:
    case = problem(seed, balanced)
    found, _ = followed(*case, duration=6.0)
    scales = np.exp(found.log_scales)
    errors = []
    for steps in (1_000, 4_000, 16_000):
        w, a = stepped(*case, duration=6.0, steps=steps)
        sizes = np.linalg.norm(w, axis=1) + np.abs(a)
        away = np.linalg.norm(w - scales[:, None] * found.inner, axis=1) + np.abs(a - scales * found.outer)
        errors.append(np.max(away / sizes))
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 0.01


def test_balance_is_kept_to_rounding() -> None:
    inner, outer, inputs, strengths = problem(3)
    found, fates = followed(inner, outer, inputs, strengths, 30.0)
    assert fates.walls.sum() > 50
    gap = np.linalg.norm(found.inner, axis=1) ** 2 - found.outer**2
    # A neuron is moved some walls + 1 times; each move rounds a few times.
    assert np.all(np.abs(gap) <= 100 * (fates.walls + 1) * EPSILON)


def test_a_neuron_on_one_point_grows_as_the_exponential() -> None:
    found, _ = followed(np.array([[1e-9]]), np.array([1e-9]), np.array([[2.0]]), np.array([0.3]), 7.0)
    assert found.log_scales[0] == pytest.approx(np.log(1e-9) + 7.0 * 0.6, rel=1e-14)
    assert found.inner[0, 0] == found.outer[0] == pytest.approx(1.0)


def test_scales_beyond_the_range_of_numbers_are_no_trouble() -> None:
    found, _ = followed(np.array([[1.0]]), np.array([1.0]), np.array([[1.0]]), np.array([1.0]), 5_000.0)
    assert found.log_scales[0] == pytest.approx(5_000.0, rel=1e-12)


def test_a_shrinking_neuron_turns_its_outer_weight_and_grows_back() -> None:
    # p = 1, a = −½ on one point with D = 1: p² − a² = ¾, a(τ) = −½ cosh τ + sinh τ.
    found, _ = followed(np.array([[1.0]]), np.array([-0.5]), np.array([[1.0]]), np.array([1.0]), 2.0)
    scale = np.exp(found.log_scales[0])
    assert scale * found.outer[0] == pytest.approx(-0.5 * np.cosh(2.0) + np.sinh(2.0), rel=1e-12)
    assert scale * found.inner[0, 0] == pytest.approx(np.cosh(2.0) - 0.5 * np.sinh(2.0), rel=1e-12)


def test_dead_neurons_stand_and_nobody_is_given_up() -> None:
    inner, outer, inputs, strengths = problem(4)
    inputs = np.abs(inputs)
    inner[0] = -1.0
    found, fates = followed(inner, outer, inputs, strengths, np.inf)
    assert fates.ends[0] == STANDS
    assert not fates.pulls[0].any()
    assert not np.any(fates.ends == GIVEN_UP)
    np.testing.assert_allclose(np.exp(found.log_scales[0]) * found.inner[0], inner[0], rtol=4 * EPSILON)


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 4), st.sampled_from([0.0, 0.2]))
@settings(max_examples=60, deadline=None)
def test_gates_are_those_of_a_bounded_least_squares_solver(
    seed: int, count: int, dimension: int, slope: float
) -> None:
    from scipy.optimize import lsq_linear

    rng = np.random.default_rng(seed)
    known, parts = rng.standard_normal(dimension), rng.standard_normal((count, dimension))
    gates = bounded_gates(known, parts, slope)
    assert np.all((gates >= slope) & (gates <= 1.0))
    reference = lsq_linear(parts.T, -known, bounds=(slope, 1.0), method="bvls", tol=1e-15).x
    # The gates need not be unique, the shortest vector is.
    np.testing.assert_allclose(known + gates @ parts, known + reference @ parts, atol=1e-9)
