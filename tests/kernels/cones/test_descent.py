"""Descent by cones against plain descent: the same iterates, the same neurons crossing in the same steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.data.generators import stewart, three_points
from shallowflow.kernels.cones.descent import advance, neurons_now, note_changes
from shallowflow.kernels.cones.geometry import first_cone
from shallowflow.kernels.cones.groups import CROSSINGS, MOST_STEPPED, STEPPED, STEPS, STRAYS
from shallowflow.models import initialize
from tests.kernels.cones.cone_reference import Problem, bucketed_loop, plain_loop, random_problem


def small_network(width: int, balanced: bool) -> Floats:
    """A small initialisation of [early_alignment], as rows (w, a)."""
    make = initialize.balanced if balanced else initialize.gaussian
    network = make(width, 2, init_scale=1e-3, seed=0)
    return np.column_stack([network.inner, network.outer])


@settings(deadline=None, derandomize=True, max_examples=12)
@given(st.integers(0, 10**6))
def test_iterates_and_crossings_are_those_of_plain_descent(seed: int) -> None:
    problem = random_problem(seed)
    state, kernel = problem.begin(), problem.kernel()
    theta, active, crossings = problem.theta, problem.patterns(problem.theta), 0
    for step in range(1, 5001):
        theta = problem.plain(theta)
        if problem.tied(theta):
            # Neurons that chatter ever less come so close to a wall in the end, never soon.
            assert step > 1000
            break
        was, active = active, problem.patterns(theta)
        crossings += np.unique(np.nonzero(was != active)[0]).size
        if step in (1, 10, 100, 1000, 5000):
            advance(state, *kernel, step - int(state.counters[STEPS]))
            assert np.abs(neurons_now(state) - theta).max() <= 1e-9 * np.abs(theta).max()
            assert state.counters[CROSSINGS] == crossings


@pytest.mark.parametrize("seed", range(6))
def test_every_neuron_is_in_its_cone_after_every_step(seed: int) -> None:
    problem = random_problem(seed)
    state, kernel = problem.begin(), problem.kernel()
    theta = problem.theta
    for _ in range(400):
        advance(state, *kernel, 1)
        theta = problem.plain(theta)
        now = neurons_now(state)
        np.testing.assert_array_equal(problem.patterns(now), problem.patterns(theta))
        held = state.neurons.heap >= 0
        cones = np.array([first_cone(w0, w1, kernel[0]) for w0, w1, _ in now])
        np.testing.assert_array_equal(state.neurons.heap[held] // 2, cones[held])
        np.testing.assert_array_equal(state.neurons.heap[held] % 2 == 1, now[held, 2] < 0)


def test_three_points_for_long() -> None:
    data = three_points()
    problem = Problem(data.inputs, data.targets, small_network(2000, balanced=True), 1e-3)
    state, kernel, theta = problem.begin(), problem.kernel(), problem.theta.copy()
    assert advance(state, *kernel, 200_000) == 200_000
    crossings = bucketed_loop(theta, data.inputs, data.targets, 1e-3, 200_000)
    assert np.abs(neurons_now(state) - theta).max() <= 1e-8 * np.abs(theta).max()
    assert state.counters[CROSSINGS] == crossings


def test_neurons_that_cross_again_and_again() -> None:
    """Stewart's data, where about a fifth of the neurons chatter: most crossings are theirs."""
    data = stewart()
    problem = Problem(data.inputs, data.targets, small_network(100, balanced=False), 1e-3)
    state, kernel, theta = problem.begin(), problem.kernel(), problem.theta.copy()
    crossings = plain_loop(theta, data.inputs, data.targets, 1e-3, 100_000)
    for steps in (1, 999, 49_000, 50_000):
        advance(state, *kernel, steps)
    assert state.counters[MOST_STEPPED] > 10
    assert state.counters[STEPPED] > 0
    assert crossings > 10_000
    assert state.counters[CROSSINGS] == crossings
    assert np.abs(neurons_now(state) - theta).max() <= 1e-10 * np.abs(theta).max()


@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_neurons_on_walls_and_at_zero(slope: float) -> None:
    """Integer data with opposite inputs; steps are powers of two, so the first ones are exact."""
    inputs = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    neurons = [
        (0, 1, 1),
        (0, -1, -1),
        (0, 0, 1),
        (0, 0, 0),
        (1, 0, 1),
        (-1, 0, 1),
        (1, -1, 2),
        (-1, 1, 2),
        (2, 1, 0),
    ]
    problem = Problem(inputs, np.array([1.0, -2.0, 0.5, 1.0]), np.array(neurons, dtype=float), 2.0**-6, slope)
    state, kernel, theta = problem.begin(), problem.kernel(), problem.theta
    assert state.counters[STRAYS] >= 2
    for _ in range(3):
        advance(state, *kernel, 1)
        theta = problem.plain(theta)
        np.testing.assert_allclose(neurons_now(state), theta, rtol=1e-13, atol=1e-14)


def test_long_steps_are_exact_too() -> None:
    """Forces above the certificates' limit: every neuron is looked at in every step."""
    rng = np.random.default_rng(3)
    problem = Problem(
        rng.standard_normal((6, 2)), 3 * rng.standard_normal(6), 0.2 * rng.standard_normal((50, 3)), 0.2
    )
    state, kernel, theta = problem.begin(), problem.kernel(), problem.theta
    forces = []
    for _ in range(60):
        advance(state, *kernel, 1)
        theta = problem.plain(theta)
        forces.append(np.linalg.norm(state.work.forces, axis=1).max())
        np.testing.assert_array_equal(problem.patterns(neurons_now(state)), problem.patterns(theta))
    assert max(forces) > 0.3
    assert np.abs(neurons_now(state) - theta).max() <= 1e-11 * np.abs(theta).max()


def test_divergence_stops_at_a_finite_iterate() -> None:
    rng = np.random.default_rng(0)
    problem = Problem(rng.standard_normal((5, 2)), rng.standard_normal(5), rng.standard_normal((20, 3)), 10.0)
    state, kernel = problem.begin(), problem.kernel()
    done = advance(state, *kernel, 1000)
    assert 0 < done < 100
    assert np.isfinite(neurons_now(state)).all()


def test_changes_are_those_of_bits_and_of_cones() -> None:
    rng = np.random.default_rng(0)
    theta, heaps = rng.standard_normal((50, 3)), rng.integers(-2, 9, 50).astype(np.int32)
    theta[:5] = 0.0
    known, known_heaps, changed = theta.copy(), heaps & -2, np.zeros(50, np.int32)

    def noted() -> list[int]:
        found = note_changes(theta.view(np.int64), heaps, known.view(np.int64), known_heaps, changed)
        return [int(j) for j in changed[:found]]

    assert noted() == []
    theta[3, 1], theta[17, 2] = -0.0, np.nextafter(theta[17, 2], 1.0)
    # The other heap of a cone, or another reason to be in none, is no change; another cone is one.
    heaps[30], heaps[31], heaps[32] = heaps[30] ^ 1, -1, 40
    expected = [3, 17, 31, 32] if known_heaps[31] != -2 else [3, 17, 32]
    assert noted() == expected
    assert known.tobytes() == theta.tobytes()
    np.testing.assert_array_equal(known_heaps // 2, heaps // 2)
    assert noted() == []
