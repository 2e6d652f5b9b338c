"""The plain flow of kinks beside the compiled one, and the two-timescale limit of ReLU networks: what must
change nothing changes nothing, and steps of Euler's method tend to it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.loop import run
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.trajectory import Setting
from shallowflow.dynamics.engines.dense_flow import DenseFlow

UNTIL = 5.0


def problem(seed: int) -> tuple[sf.ReLUNetwork, sf.Dataset, np.random.Generator]:
    """d in 1..4, n in 3..8, m < n − 1; some inputs are opposite, collinear or repeated."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 5)), int(rng.integers(3, 9))
    m = int(rng.integers(1, max(2, n - 1)))
    inputs, targets = rng.normal(size=(n, d)), rng.normal(size=n)
    if seed % 4 == 1:
        inputs[1] = -inputs[0] * rng.uniform(0.5, 2)
    if seed % 4 == 2:
        inputs[1], inputs[2] = inputs[0] * rng.uniform(0.5, 2), inputs[0]
    slope = 0.2 if seed % 3 == 0 else 0.0
    return sf.ReLUNetwork(rng.normal(size=(m, d)), np.zeros(m), slope, 0.7), sf.Dataset(inputs, targets), rng


def end(network: sf.ReLUNetwork, inputs: Any, targets: Any, until: float = UNTIL) -> Floats:
    """Return the inner weights at the end of the limit; losses do not rise, to the tolerance."""
    found = sf.two_timescale_limit(network, sf.Dataset(inputs, targets), until=until, tolerance=1e-9)
    assert found.outcome.ok
    assert np.all(np.diff(found.losses) <= 1e-9 * found.losses[0])
    assert isinstance(found.final, sf.ReLUNetwork)
    return found.final.inner


def with_inner(network: sf.ReLUNetwork, inner: Floats) -> sf.ReLUNetwork:
    return sf.ReLUNetwork(inner, np.zeros(len(inner)), network.slope, network.scale)


def unchanged(seed: int) -> None:
    """Assert what must change nothing: 100 tolerances are allowed for."""
    network, data, rng = problem(seed)
    inputs, targets, inner = data.inputs, data.targets, network.inner
    (m, d), n, root = inner.shape, data.size, np.sqrt(2.0)
    plain = end(network, inputs, targets)
    close = partial(np.testing.assert_allclose, desired=plain, rtol=0, atol=1e-7)
    # The mean is over one more sample: time runs slower.
    longer = UNTIL * (n + 1) / n
    close(end(network, np.vstack([inputs, np.zeros(d)]), np.append(targets, 0.7), longer))
    close(end(with_inner(network, np.vstack([inner, np.zeros(d)])), inputs, targets)[:m])
    shrunk = np.vstack([inner[:1] / root, inner[1:], inner[:1] / root])
    split = end(with_inner(network, shrunk), inputs, targets)
    close(np.vstack([root * split[:1], split[1:m]]))
    np.testing.assert_array_equal(split[m], split[0])
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    close(end(with_inner(network, inner @ turn.T), inputs @ turn.T, targets) @ turn)
    order, places = rng.permutation(m), rng.permutation(n)
    close(end(with_inner(network, inner[order]), inputs[places], targets[places])[np.argsort(order)])
    np.testing.assert_allclose(np.linalg.norm(plain, axis=1), np.linalg.norm(inner, axis=1), atol=1e-7)
    # A sample that is repeated is one with its weight.
    heavy = np.where(np.arange(n) == 0, root, 1.0)
    twice = end(network, np.vstack([inputs, inputs[:1]]), np.append(targets, targets[0]), longer)
    once = end(network, heavy[:, None] * inputs, heavy * targets)
    np.testing.assert_allclose(twice, once, atol=1e-7)


@pytest.mark.parametrize("seed", [0, 1, 5, 8, 17, 24, 28, 59])
def test_what_must_change_nothing_in_the_limit_changes_nothing(seed: int) -> None:
    unchanged(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 260))
def test_what_must_change_nothing_in_the_limit_changes_nothing_often(seed: int) -> None:
    unchanged(seed)


def euler(network: sf.ReLUNetwork, data: sf.Dataset, until: float, step: float) -> Floats:
    """Return the inner weights after steps −h·∂L/∂W at the outer weights of least squares; σ'(0) = γ."""
    inner = network.inner.copy()
    for _ in range(round(until / step)):
        z = inner @ data.inputs.T
        gates = network.scale * np.where(z > 0, 1.0, network.slope)
        outer = np.linalg.lstsq((gates * z).T, data.targets, rcond=1e-10)[0]
        pulls = (outer @ (gates * z) - data.targets) / data.size
        inner -= step * outer[:, None] * ((gates * pulls) @ data.inputs)
    return inner


@pytest.mark.parametrize("seed", [5, 8, 28, 96, 109])
def test_steps_of_eulers_method_tend_to_the_limit(seed: int) -> None:
    """Among them sliding and released neurons, opposite inputs."""
    network, data, _ = problem(seed)
    limit: Any = sf.two_timescale_limit(network, data, until=3.0).final
    errors = [np.abs(euler(network, data, 3.0, step) - limit.inner).max() for step in (2e-3, 5e-4)]
    assert errors[0] < 2e-3
    assert errors[1] < 0.35 * errors[0]


def test_a_stiff_end_of_the_limit_takes_few_steps() -> None:
    """Features that are nearly dependent: explicit steps would stay near 0.005 to the end."""
    network, data, _ = problem(197)
    limit = sf.two_timescale_limit(network, data, until=1000.0)
    assert limit.outcome.ok
    assert limit.statistics["segments"] < 500  # type: ignore[operator]
    assert limit.losses[-1] < 1e-12


def of_rng(seed: int) -> tuple[sf.ReLUNetwork, Floats, Floats]:
    """Return a balanced network of 30 neurons and 6 samples in dimension 3."""
    rng = np.random.default_rng(seed)
    inner = 0.1 * rng.normal(size=(30, 3))
    outer = np.linalg.norm(inner, axis=1) * rng.choice([-1, 1], 30)
    return sf.ReLUNetwork(inner, outer), rng.normal(size=(6, 3)), rng.normal(size=6)


NET, X, Y = of_rng(3)
DEGENERATE: dict[str, tuple[sf.ReLUNetwork, sf.Dataset, float]] = {
    "outer weight changes sign while it slides": (
        sf.ReLUNetwork([[0.24, 0.34, -0.35]], [0.16]),
        sf.Dataset([[-0.3, 1.35, -1.03], [-1.54, 1.4, 0.43], [0.69, 0.73, 1.0]], [-0.75, 0.05, -2.02]),
        3.0,
    ),
    "the same in the plane": (
        sf.ReLUNetwork([[2.01, 0.76], [0.83, -0.88], [0.75, 0.67]], [-0.21, -0.18, -0.02]),
        sf.Dataset(
            [[0.34, -0.9], [0.39, -0.71], [-0.21, 0.45], [-0.33, 0.65], [0.46, 0.36]],
            [2.65, -2.95, -3.19, 1.23, 1.88],
        ),
        3.0,
    ),
    "a neuron at zero": (
        sf.ReLUNetwork([[-0.03, -0.01], [0.0, 0.0]], [-0.06, 0.0], 0.5),
        sf.Dataset([[1.9, -0.61], [-0.22, -1.28]], [-1.5, 0.03]),
        3.0,
    ),
    "an input at the origin": (NET, sf.Dataset(np.vstack([X, np.zeros(3)]), np.append(Y, 0.7)), 6.0),
    "opposite inputs": (
        NET,
        sf.Dataset(np.vstack([X, -X[:2], -0.5 * X[2]]), np.append(Y, [0.5, -0.8, 0.4])),
        6.0,
    ),
    "repeated inputs": (NET, sf.Dataset(np.vstack([X, X[:2]]), np.append(Y, [0.5, -0.8])), 6.0),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_are_followed_as_by_the_compiled_flow(name: str) -> None:
    """The same events, the same of two ways, the same end: one rule, written twice."""
    network, data, until = DEGENERATE[name]
    task = Task(network, data, sf.SquareLoss(), tolerance=1e-9)
    setting = Setting("gradient_flow", None, data, sf.SquareLoss(), None, 1.0, 1.0, 1e-9)
    every = sf.Record.every(1)
    plain = run(partial(DenseFlow, task), every, until, setting=setting, measure=task.measure)
    walls = sf.gradient_flow(network, data, until=until, engine="walls", tolerance=1e-10)
    named = [sorted((e.kind, e.neuron, e.point) for e in each.events) for each in (plain, walls)]
    assert named[0] == named[1]
    assert plain.statistics["two-valued"] == walls.statistics["two-valued"]
    for theta, other in zip(plain.final.parameters.values(), walls.final.parameters.values(), strict=True):
        np.testing.assert_allclose(theta, other, atol=1e-6)


def test_a_knot_that_starts_on_a_point_and_repeated_points_follow_the_stages() -> None:
    data = sf.Dataset([[-1.0], [0.0], [0.0], [0.5], [1.0]], [0.3, -0.2, 0.4, 0.9, -0.5])
    network = sf.KnotNetwork([0.0, -0.4, 0.7], [0.5, -0.3, 0.2])
    dense = sf.gradient_flow(network, data, until=10.0, engine="dense", tolerance=1e-10)
    stages = sf.gradient_flow(network, data, until=10.0, engine="stages", tolerance=1e-10)
    assert dense.losses[-1] == pytest.approx(stages.losses[-1], abs=1e-8)
    np.testing.assert_allclose(dense.final.parameters["knots"], stages.final.parameters["knots"], atol=1e-6)
