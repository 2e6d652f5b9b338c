"""The sweeps against exact sums, and the compiled Adam steps against a plain NumPy twin."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.kernels.knots import sweeps
from shallowflow.kernels.knots.sweeps import adam_steps, line_of, loss_gradient
from shallowflow.kernels.shared.vectors import sort_order
from tests.kernels.entry import entry

RATES = (1e-2, 0.9, 0.999, 1e-8)


def exact_gradient(theta: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return (∂L/∂b, ∂L/∂c) of ½Σr² by rational arithmetic, and the size of the terms that are added up."""
    knots, outer = ([Fraction(float(v)) for v in row] for row in theta)
    points = [(Fraction(float(p)), Fraction(float(q))) for p, q in zip(x, y, strict=True)]
    pairs = list(zip(knots, outer, strict=True))
    residuals = [sum(c * max(p - b, Fraction(0)) for b, c in pairs) - q for p, q in points]
    gradient, size = np.zeros(theta.shape), np.zeros(theta.shape)
    for j, (b, c) in enumerate(pairs):
        active = [(r, p - b) for r, (p, _) in zip(residuals, points, strict=True) if p > b]
        gradient[:, j] = float(-c * sum(r for r, _ in active)), float(sum(r * d for r, d in active))
        size[:, j] = float(abs(c) * sum(abs(r) for r, _ in active)), float(sum(abs(r) * d for r, d in active))
    return gradient, size


grid = st.integers(-8, 8).map(lambda i: i / 4)


@given(
    st.lists(st.tuples(grid, grid), min_size=1, max_size=7),
    st.lists(st.tuples(grid, grid), min_size=1, max_size=9),
    st.sampled_from([0.0, 1e6]),
)
@settings(deadline=None, derandomize=True, max_examples=100)
def test_gradient_equals_exact_sums(
    neurons: list[tuple[float, float]], samples: list[tuple[float, float]], shift: float
) -> None:
    """Equal knots, knots on data, repeated data, dead knots; and all of it far from the origin."""
    theta = np.array(neurons).T.copy()
    theta[0] += shift
    x, y = np.array(sorted(samples)).T.copy()
    x += shift
    expected, size = exact_gradient(theta, x, y)
    found = loss_gradient(theta, x, y, 1.0)
    assert np.all(np.abs(found - expected) <= 1e-14 * (size + 1.0))


def test_loss_equals_exact_sums() -> None:
    for seed in range(4):
        theta, x, y = problem(seed)
        predicted = np.maximum(x[:, None] - theta[0], 0.0) @ theta[1]
        expected = 0.5 * 0.1 * np.sum((predicted - y) ** 2)
        np.testing.assert_allclose(sweeps.loss(theta, x, y, 0.1), expected, rtol=1e-13)


def plain_adam(theta: Floats, x: Floats, y: Floats, scale: float, steps: int) -> Floats:
    step, beta1, beta2, offset = RATES
    theta, mean, square = theta.copy(), np.zeros_like(theta), np.zeros_like(theta)
    for t in range(1, steps + 1):
        gates = x[:, None] > theta[0]
        features = gates * (x[:, None] - theta[0])
        slopes = scale * (features @ theta[1] - y)
        gradient = np.array([-theta[1] * (slopes @ gates), slopes @ features])
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        theta -= step * (mean / (1 - beta1**t)) / (np.sqrt(square / (1 - beta2**t)) + offset)
    return theta


def problem(seed: int) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.choice(rng.uniform(-1, 1, 30), 40))
    theta = np.array([rng.uniform(-1.5, 1.5, 9), rng.standard_normal(9)])
    theta[0, 3] = theta[0, 1]
    return theta, x, np.sin(3 * x)


def test_steps_equal_the_plain_loop() -> None:
    for seed in range(4):
        theta, x, y = problem(seed)
        expected = plain_adam(theta, x, y, 1 / 40, 500)
        found, moments = theta.copy(), np.zeros((2, 2, 9))
        assert adam_steps(found, moments, 0, 500, line_of(found, x, y), 1 / 40, RATES) == 500
        np.testing.assert_allclose(found, expected, atol=1e-11)


def test_a_run_may_be_cut_anywhere() -> None:
    theta, x, y = problem(0)
    whole, pieces = theta.copy(), theta.copy()
    adam_steps(whole, np.zeros((2, 2, 9)), 0, 300, line_of(whole, x, y), 1.0, RATES)
    line, moments = line_of(pieces, x, y), np.zeros((2, 2, 9))
    for made, steps in ((0, 1), (1, 99), (100, 200)):
        adam_steps(pieces, moments, made, steps, line, 1.0, RATES)
    assert np.array_equal(whole, pieces)


def test_the_last_finite_parameters_are_kept() -> None:
    theta, x, y = problem(1)
    theta[1] = 1e200
    start = theta.copy()
    line, rates = line_of(theta, x, y), (1e300, *RATES[1:])
    done = adam_steps(theta, np.zeros((2, 2, 9)), 0, 5, line, 1.0, rates)
    assert done < 5
    assert np.isfinite(theta).all()
    if done == 0:
        assert np.array_equal(theta, start)


def test_sort_order_sorts() -> None:
    rng = np.random.default_rng(2)
    knots, order = rng.standard_normal(50), rng.permutation(50)
    entry(sort_order)(knots, order)
    assert np.array_equal(knots[order], np.sort(knots))
    assert sorted(order) == list(range(50))
