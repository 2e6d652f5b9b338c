"""Sliding groups against plain descent with the same, and with a smaller, step."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.data.generators import stewart
from shallowflow.kernels.cones import descent as cone_descent
from shallowflow.kernels.cones import sliding as cone_sliding
from shallowflow.kernels.cones.geometry import Walls
from shallowflow.models import initialize
from tests.kernels.cones.cone_reference import Problem, plain_loop


@njit(cache=False)
def drawn(count: int) -> Floats:
    """The lots of the first neurons."""
    lots = np.empty(count)
    for j in range(count):
        lots[j] = cone_sliding.draw(j)
    return lots


@njit(cache=False)
def ways(forces: Floats, walls: Walls) -> tuple[tuple[int, int], tuple[int, int]]:
    """The ways out for both signs of a."""
    return cone_sliding.way_out(1.0, forces, walls), cone_sliding.way_out(-1.0, forces, walls)


class Run:
    """A run of the kernel with sliding groups."""

    def __init__(self, problem: Problem) -> None:
        self.kernel = problem.kernel()
        self.state = problem.begin()
        self.sliding = cone_sliding.new_sliding(self.kernel[0].owners.size - 1)

    def advance(self, steps: int) -> Floats:
        """Make steps; return the neurons, (m, 3)."""
        assert cone_descent.advance(self.state, *self.kernel, steps, self.sliding) == steps
        now: Floats = cone_descent.neurons_now(self.state, self.kernel[0], self.sliding)
        return now

    def count(self, name: int) -> int:
        """One of the counts."""
        return int(self.sliding.counts[name])


def predictions(theta: Floats, inputs: Floats) -> Floats:
    """Of a ReLU network with these neurons."""
    outputs: Floats = theta[:, 2] @ np.maximum(theta[:, :2] @ inputs.T, 0.0)
    return outputs


def test_lots_are_uniform_and_fixed() -> None:
    lots = drawn(20_000)
    assert lots.min() >= 0
    assert lots.max() < 1
    counts = np.histogram(lots, 20, (0, 1))[0]
    assert np.sum((counts - 1000) ** 2) / 1000 < 43.8  # 0.1 % of the chi-square distribution with 19
    assert abs(np.corrcoef(lots[1:], lots[:-1])[0, 1]) < 0.03


@pytest.mark.parametrize("seed", range(5))
def test_the_way_out_is_where_the_frozen_field_rises(seed: int) -> None:
    """It exists iff the maximum of σ Σ_k pull_k relu(<w, x_k>) over the circle is positive, and is there."""
    rng = np.random.default_rng(seed)
    inputs, pulls = rng.standard_normal((6, 2)), rng.standard_normal(6) - (seed - 2.0)
    walls, samples = Problem(inputs, pulls, np.zeros((1, 3)), 1.0).kernel()[:2]
    angles = np.linspace(0, 2 * np.pi, 200_001)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    middles = walls.normals[:-1, :2] / np.linalg.norm(walls.normals[:-1, :2], axis=1)[:, None]
    rays = np.column_stack([middles[:, 1], -middles[:, 0]])
    inside = rays + np.roll(rays, -1, axis=0)
    forces = (inside @ samples.points.T > 0) @ (samples.targets[:, None] * samples.points)
    for sign, (cone, wall) in zip((1.0, -1.0), ways(np.ascontiguousarray(forces), walls), strict=True):
        heights = sign * np.maximum(circle @ inputs.T, 0.0) @ pulls
        assert (cone >= 0 or wall >= 0) == (heights.max() > 1e-9)
        if cone >= 0 or wall >= 0:
            way = sign * forces[cone] / np.linalg.norm(forces[cone]) if cone >= 0 else rays[wall]
            height = sign * np.maximum(inputs @ way, 0.0) @ pulls
            assert height == pytest.approx(heights.max(), rel=1e-8)


@pytest.mark.parametrize(("data_seed", "init_scale"), [(3, 0.3), (0, 1.0)])
def test_the_error_is_of_the_order_of_the_step(data_seed: int, init_scale: float) -> None:
    """Stewart's data, time 40: a quarter of the step, about a quarter of the distance to descent."""
    data = stewart(seed=data_seed)
    network = initialize.gaussian(100, 2, init_scale=init_scale, seed=0)
    start = np.column_stack([network.inner, network.outer])
    errors = []
    for step in (4e-3, 1e-3):
        run, theta = Run(Problem(data.inputs, data.targets, start, step)), start.copy()
        now = run.advance(round(40 / step))
        assert run.count(cone_sliding.MOST_SLIDING) > 20
        plain_loop(theta, data.inputs, data.targets, step, round(40 / step))
        errors.append(np.abs(predictions(now, data.inputs) - predictions(theta, data.inputs)).max())
    assert 1e-9 < errors[0] < 1e-5
    assert 2.5 < errors[0] / errors[1] < 6


def test_a_sliding_neuron_whose_outer_weight_changes_sign_is_two_valued() -> None:
    """Stewart's data with many neurons: events are listed; lots fall to both sides."""
    data = stewart()
    network = initialize.gaussian(2000, 2, init_scale=1e-3, seed=0)
    run = Run(Problem(data.inputs, data.targets, np.column_stack([network.inner, network.outer]), 1e-3))
    run.advance(150_000)
    number = run.count(cone_sliding.TWO_VALUED)
    assert number > 5
    steps, neurons, walls = run.sliding.events[:number].T
    assert np.all(np.diff(steps) >= 0)
    assert np.all((steps > 0) & (steps <= 150_000))
    assert np.all((neurons >= 0) & (neurons < 2000))
    assert np.all((walls >= 0) & (walls < 80))
    slides, releases = run.count(cone_sliding.SLIDES), run.count(cone_sliding.RELEASES)
    assert slides - releases == run.count(cone_sliding.SLIDING) == run.sliding.sizes[:-2].sum()


def test_neurons_come_to_rest_at_zero_and_wake_when_a_direction_leads_away() -> None:
    """Inputs all around, negative targets, a > |w|: w goes to zero; with positive targets it grows again."""
    turns = 2 * np.pi * np.arange(5) / 5 + 0.1
    inputs = np.column_stack([np.cos(turns), np.sin(turns)])
    rng = np.random.default_rng(1)
    inner = 0.02 * rng.standard_normal((30, 2))
    start = np.column_stack([inner, 0.1 + np.linalg.norm(inner, axis=1)])
    step, theta = 1e-3, start.copy()
    run = Run(Problem(inputs, -np.ones(5), start, step))
    now = run.advance(20_000)
    plain_loop(theta, inputs, -np.ones(5), step, 20_000)
    assert run.count(cone_sliding.RESTING) == 30
    assert np.abs(theta[:, :2]).max() < 2 * step
    np.testing.assert_array_equal(now[:, :2], 0.0)
    # Descent goes round at |w| of the order of the step, by which a falls by step · |D|² a per unit of time.
    np.testing.assert_allclose(now[:, 2], theta[:, 2], rtol=2 * step)
    turned = np.array([-1.0, -1.0, 1.0, 1.0, -1.0])
    run.kernel[1].targets[:] = [
        turned[np.argmin(np.linalg.norm(inputs - point, axis=1))] for point in run.kernel[1].points
    ]
    now = run.advance(30_000)
    plain_loop(theta, inputs, turned, step, 30_000)
    assert run.count(cone_sliding.RESTING) == 0
    assert np.abs(theta[:, :2]).max() > 0.05
    np.testing.assert_allclose(predictions(now, inputs), predictions(theta, inputs), atol=1e-3)
