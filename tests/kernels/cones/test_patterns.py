"""Descent by sign patterns against plain descent: the same iterates, crossings in the same steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Bools
from shallowflow.data.generators import three_points
from shallowflow.kernels.cones.geometry import LOGISTIC, SQUARE, Loss
from shallowflow.kernels.cones.pattern_table import CROSSINGS, STEPPED, STEPS, Points, points_off_origin
from shallowflow.kernels.cones.patterns import State, advance, begin, neurons_now
from shallowflow.models import initialize
from tests.kernels.cones.cone_reference import Problem, bucketed_loop


def kernel(problem: Problem) -> tuple[Points, Loss]:
    """The problem as the kernel takes it."""
    points = points_off_origin(problem.inputs, problem.targets, problem.slope)
    rate = problem.step * problem.scale / len(problem.targets)
    return points, (LOGISTIC if problem.logistic else SQUARE, problem.scale, rate)


def start(problem: Problem) -> State:
    """The kernel's state at the start."""
    return begin(problem.theta[:, :-1], problem.theta[:, -1], kernel(problem)[0])


def random_problem(seed: int, dimension: int) -> Problem:
    """Random data, with repeated, opposite and zero inputs too, and a random network."""
    rng = np.random.default_rng(seed)
    size, width = int(rng.integers(1, 13)), int(rng.integers(1, 301))
    inputs = rng.standard_normal((size, dimension))
    kind = int(rng.integers(4))
    if kind == 1:
        inputs[:, -1] = 1.0
    elif kind == 2:
        inputs[size // 2 :] = -2.0 * inputs[: size - size // 2]
        inputs[-1] = 0.0
    logistic = bool(rng.integers(2))
    targets = rng.choice([-1.0, 1.0], size) if logistic else rng.standard_normal(size)
    theta = rng.standard_normal((width, dimension + 1))
    if rng.integers(2):
        theta[:, -1] = np.sign(theta[:, -1]) * np.linalg.norm(theta[:, :-1], axis=1)
    theta *= rng.choice([1e-4, 1e-2, 0.5]) / np.sqrt(width)
    scale, slope = float(rng.choice([1.0, 0.5])), float(rng.choice([0.0, 0.0, 0.1, 0.7]))
    step = float(rng.choice([2e-3, 1e-2, 3e-2])) / max(1.0, float(np.mean(inputs**2)))
    return Problem(inputs, targets, theta, step, slope, logistic, scale)


def changed(before: Bools, after: Bools) -> int:
    """How many neurons changed their pattern."""
    return np.unique(np.nonzero(before != after)[0]).size


@settings(deadline=None, derandomize=True, max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 3, 5]))
def test_iterates_and_crossings_are_those_of_plain_descent(seed: int, dimension: int) -> None:
    problem = random_problem(seed, dimension)
    state, given = start(problem), kernel(problem)
    theta, active, crossings = problem.theta, problem.patterns(problem.theta), 0
    for step in range(1, 5001):
        theta = problem.plain(theta)
        if problem.tied(theta):
            # Neurons that chatter ever less come so close to a border in the end, never soon.
            assert step > 1000
            break
        was, active = active, problem.patterns(theta)
        crossings += changed(was, active)
        if step in (1, 10, 100, 1000, 5000):
            advance(state, *given, step - int(state.counters[STEPS]))
            assert np.abs(neurons_now(state) - theta).max() <= 1e-9 * np.abs(theta).max()
            assert state.counters[CROSSINGS] == crossings


@pytest.mark.parametrize("seed", [4, 5, 9])
def test_every_neuron_has_its_pattern_after_every_step(seed: int) -> None:
    problem = random_problem(seed, 3)
    state, given = start(problem), kernel(problem)
    theta, table = problem.theta, state.table
    for _ in range(300):
        advance(state, *given, 1)
        theta = problem.plain(theta)
        now = neurons_now(state)
        np.testing.assert_array_equal(problem.patterns(now), problem.patterns(theta))
        used = table.used[: table.size[0]]
        assert table.members[used].sum() == len(theta)
        kept = {tuple(row) for row in table.active[used]}
        active = now[:, :-1] @ given[0].inputs.T > 0
        assert kept == {tuple(row) for row in active.astype(np.int8)}
        held = state.groups.heap >= 0
        np.testing.assert_array_equal(table.active[state.groups.heap[held] // 2], active[held])


def test_three_points_for_long() -> None:
    data = three_points()
    network = initialize.balanced(2000, 2, init_scale=1e-3, seed=0)
    steps = 200_000
    theta = np.column_stack([network.inner, network.outer])
    problem = Problem(data.inputs, data.targets, theta.copy(), 1e-3)
    state = start(problem)
    assert advance(state, *kernel(problem), steps) == steps
    crossings = bucketed_loop(theta, data.inputs, data.targets, 1e-3, steps)
    assert np.abs(neurons_now(state) - theta).max() <= 1e-8 * np.abs(theta).max()
    assert state.counters[CROSSINGS] == crossings


def test_neurons_that_cross_again_and_again_are_stepped_one_by_one() -> None:
    rng = np.random.default_rng(2)
    inputs, targets = rng.standard_normal((8, 3)), rng.standard_normal(8)
    problem = Problem(inputs, targets, 1e-3 * rng.standard_normal((60, 4)), 5e-3)
    state, theta = start(problem), problem.theta
    advance(state, *kernel(problem), 6000)
    for _ in range(6000):
        theta = problem.plain(theta)
    assert 0 < state.counters[STEPPED] < 60
    assert state.counters[CROSSINGS] > 2000
    assert np.abs(neurons_now(state) - theta).max() <= 1e-10 * np.abs(theta).max()


def test_long_steps_and_divergence() -> None:
    rng = np.random.default_rng(3)
    inputs, targets = rng.standard_normal((6, 3)), 3 * rng.standard_normal(6)
    problem = Problem(inputs, targets, 0.2 * rng.standard_normal((50, 4)), 0.15)
    state, theta = start(problem), problem.theta
    forces = []
    for _ in range(40):
        advance(state, *kernel(problem), 1)
        theta = problem.plain(theta)
        forces.append(state.table.lengths[state.table.used[: state.table.size[0]]].max())
        np.testing.assert_array_equal(problem.patterns(neurons_now(state)), problem.patterns(theta))
    assert max(forces) > 0.2
    assert np.abs(neurons_now(state) - theta).max() <= 1e-11 * np.abs(theta).max()
    wild = Problem(inputs, targets, rng.standard_normal((50, 4)), 10.0)
    state = start(wild)
    assert 0 < advance(state, *kernel(wild), 1000) < 100
    assert np.isfinite(neurons_now(state)).all()
