"""Pulls, shortest subgradients and the constants of Thm 1 against solvers, sampling and hand calculation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import three_points
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import alignment_threshold, cones, minimal_subgradient, pull
from shallowflow.landscape.early_alignment.pulls import Pull, still_but_alive


def test_pulls_are_minus_the_slopes_of_the_loss() -> None:
    """Against difference quotients of the loss in one prediction."""
    rng = np.random.default_rng(0)
    data = Dataset(rng.standard_normal((4, 2)), [1.0, -1.0, -1.0, 1.0])
    network = sf.initialize.gaussian(3, 2, init_scale=1.0, seed=1)
    for loss in (sf.SquareLoss(), sf.SquareLoss("sum"), sf.LogisticLoss()):
        for start, net in ((np.zeros(4), None), (network(data.inputs), network)):
            steps = 1e-6 * np.eye(4)
            change = [
                loss.value(start - h, data.targets) - loss.value(start + h, data.targets) for h in steps
            ]
            found = pull(data, loss, network=net).strengths
            np.testing.assert_allclose(found, np.array(change) / 2e-6, rtol=1e-7, atol=1e-9)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.25]))
@settings(deadline=None, derandomize=True, max_examples=40)
def test_the_subgradient_is_the_shortest(seed: int, slope: float) -> None:
    """Against a general solver on the box of gates, and against the optimality conditions."""
    rng = np.random.default_rng(seed)
    size, dimension = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    found = Pull(rng.standard_normal((size, dimension)), rng.standard_normal(size), slope)
    pattern = rng.integers(-1, 2, size).astype(np.int8)
    shortest, gates = found.minimal(pattern)
    on = pattern == 0
    fixed = np.where(pattern > 0, 1.0, slope)
    assert np.all(gates >= slope)
    assert np.all(gates <= 1)
    fixed[on] = gates
    np.testing.assert_allclose((fixed * found.strengths) @ found.inputs, shortest, atol=1e-12 * found.scale)
    if not on.any():
        return
    parts = found.strengths[on, None] * found.inputs[on]
    slopes = parts @ shortest
    inside = (gates > slope + 1e-9) & (gates < 1 - 1e-9)
    small = 1e-9 * found.scale**2
    np.testing.assert_allclose(slopes[inside], 0.0, atol=small)
    assert np.all(slopes[gates <= slope] >= -small)
    assert np.all(slopes[gates >= 1] <= small)
    known = shortest - gates @ parts

    def square(eta: Floats) -> float:
        return float(np.sum((known + eta @ parts) ** 2))

    box = LinearConstraint(np.eye(len(gates)), slope, 1.0)
    other = minimize(square, np.full(len(gates), 0.5 * (1 + slope)), constraints=box, method="SLSQP")
    assert square(gates) <= other.fun + 1e-9 * found.scale**2


def test_the_subgradient_of_a_direction_on_a_hyperplane() -> None:
    data = Dataset([[2.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], [3.0, -3.0, 6.0])
    # On ⟨w, x_2⟩ = 0: D̃ = x_1, and −η x_2 only makes it longer.
    np.testing.assert_allclose(minimal_subgradient([1.0, 0.0], data), [2.0, 0.0], atol=1e-15)
    # On ⟨w, x_3⟩ = 0: D̃ = x_1 − 0·x_2 at (1, −1); the part 2x_3 = (−2, −2) cancels half of it.
    np.testing.assert_allclose(minimal_subgradient([1.0, -1.0], data), [1.0, -1.0], atol=1e-15)
    with pytest.raises(InvalidInputError, match="direction: must have 2 entries"):
        minimal_subgradient([1.0], data)


def test_the_value_is_the_alignment_with_any_subgradient() -> None:
    rng = np.random.default_rng(0)
    found = Pull(rng.standard_normal((6, 3)), rng.standard_normal(6), 0.2)
    for w in rng.standard_normal((50, 3)):
        assert found.value(w) == pytest.approx(w @ found.minimal(found.pattern(w))[0], rel=1e-12)


@pytest.mark.parametrize("alpha_0", [0.5, 1.0])
def test_the_constants_of_the_three_points_by_hand(alpha_0: float) -> None:
    """One extremal vector in a cell; cells by active points {1}, {12}, {123}, {23}, {3} and none."""
    data = three_points()
    x, y = data.inputs, data.targets
    found = alignment_threshold(data, epsilon=0.2, alpha_0=alpha_0)
    whole = y @ x / 3
    cells = [whole, y[0] * x[0] / 3, y[:2] @ x[:2] / 3, y[1:] @ x[1:] / 3, y[2] * x[2] / 3]
    norms = [np.linalg.norm(D) for D in cells]
    assert found.d_max == pytest.approx(np.linalg.norm(whole), rel=1e-14)
    assert found.d_min == pytest.approx(min(norms), rel=1e-14)
    assert found.delta_0 == pytest.approx(np.min(x @ whole / np.linalg.norm(x, axis=1)), rel=1e-14)
    assert found.alpha_minus == pytest.approx(1.0)
    smallest = min(found.alpha_min**2 / 8 * found.d_min, alpha_0**2 / 4 * found.d_min, found.delta_0)
    inside = min(3 / np.sum(x**2) * smallest, np.min(y / np.linalg.norm(x, axis=1)))
    assert found.scale == pytest.approx(inside ** (1 / 1.2), rel=1e-13)
    assert found.time(1e-4) == pytest.approx(-0.2 * np.log(1e-4) / found.d_max)
    assert found.time(1.0) == found.time(3.0) == 0.0
    a = min(found.alpha_min, alpha_0)
    assert found.arrival() == pytest.approx(4 * found.d_max / (found.d_min * a) ** 2)
    total = np.sum(x**2) / 3
    c = 4 * found.d_max / a**2 * np.exp(4 * found.d_max**2 / (found.d_min * a) ** 2)
    c = c * np.exp(np.sqrt(2 * total / found.d_max / math.e**2)) + np.sqrt(2 * found.d_max * total)
    assert found.log_constant == pytest.approx(np.log(c), rel=1e-13)
    assert found.misalignment(1e-300, found.d_max) == pytest.approx(min(c * 1e-60, 2 * found.d_max), rel=1e-9)
    assert found.misalignment(0.5, found.d_max) == pytest.approx(2 * found.d_max)


def sampled_sines(data: Dataset, slope: float, rng: np.random.Generator) -> tuple[float, float]:
    """α_{min,±} by random points in the closures of the cones with ±D_u outside (this only overestimates)."""
    found, smallest = pull(data, slope=slope), [1.0, 1.0]
    for cone in cones(data):
        gradient = found.minimal(cone.pattern)[0]
        if not gradient.any():
            continue
        weights = rng.exponential(size=(4_000, len(cone.rays))) ** 4
        points = np.vstack([cone.rays, weights @ cone.rays])
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        cosines = points @ gradient / np.linalg.norm(gradient)
        for i, sign in enumerate((1, -1)):
            own = np.where(cone.pattern == 0, 0, np.sign(sign * data.inputs @ gradient))
            on = np.abs(data.inputs @ gradient)[cone.pattern == 0] <= 1e-9 * np.linalg.norm(gradient)
            if not (np.array_equal(own, cone.pattern) and on.all()):
                largest = max(0.0, float(np.max(sign * cosines)))
                smallest[i] = min(smallest[i], np.sqrt(max(0.0, 1 - largest**2)))
    return smallest[0], smallest[1]


@pytest.mark.parametrize("seed", range(6))
def test_the_misalignment_constants_agree_with_sampled_cones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slope = 0.3 * (seed % 2)
    data = Dataset(rng.standard_normal((4, 2 + seed % 2)), rng.standard_normal(4))
    found = alignment_threshold(data, slope=slope)
    plus, minus = sampled_sines(data, slope, rng)
    assert found.alpha_plus <= plus * (1 + 1e-9)
    assert found.alpha_minus <= minus * (1 + 1e-9)
    assert found.alpha_plus == pytest.approx(plus, rel=0.05)
    assert found.alpha_minus == pytest.approx(minus, rel=0.05)
    directions = rng.standard_normal((2_000, data.dimension))
    ours = pull(data, slope=slope)
    norms = np.array([np.linalg.norm(ours.minimal(ours.pattern(w))[0]) for w in directions])
    assert norms.max() <= found.d_max * (1 + 1e-12)
    assert norms[norms > 0].min() >= found.d_min * (1 - 1e-12)


def test_the_mean_and_the_sum_need_the_same_scale() -> None:
    """With ½Σ all pulls and their Lipschitz constant are n times as large: λ* stays, τ is n times shorter."""
    data = three_points()
    mean, total = alignment_threshold(data), alignment_threshold(data, sf.SquareLoss("sum"))
    assert total.scale == pytest.approx(mean.scale, rel=1e-13)
    assert total.time(1e-5) == pytest.approx(mean.time(1e-5) / 3, rel=1e-13)


def test_degenerate_data_have_no_threshold() -> None:
    assert alignment_threshold(Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])).scale == 0
    assert alignment_threshold(Dataset([[1.0, 0.2], [0.0, 1.0]], [1.0, 0.0])).scale == 0


def test_cones_that_are_still_by_coincidence_are_seen() -> None:
    data = Dataset([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]], [1.0, 1.0, 1.0])
    found, patterns = pull(data), cones(data).patterns
    assert not still_but_alive(found, patterns, found.minimal_all(patterns)).any()
    cancelling = Dataset([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [2.0, -1.0, 1.0])
    found, patterns = pull(cancelling), cones(cancelling).patterns
    alive = still_but_alive(found, patterns, found.minimal_all(patterns))
    assert {tuple(row) for row in patterns[alive].tolist()} == {(1, 1, -1), (1, 1, 0)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.34}, "epsilon: must lie in"),
        ({"epsilon": 0.0}, "epsilon: must be > 0"),
        ({"alpha_0": 1.5}, "alpha_0: must lie in"),
        ({"limit": 3}, "activation cones"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        alignment_threshold(three_points(), **options)  # type: ignore[arg-type]
