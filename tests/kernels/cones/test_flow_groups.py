"""What a step knows of its groups: against the neurons themselves, and against polynomials."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from shallowflow.arrays import Floats
from shallowflow.kernels.cones import flow_groups as groupwise
from shallowflow.kernels.cones import flow_walls as release
from shallowflow.kernels.cones.flow_state import Problem, State, new_state, rays_of
from shallowflow.kernels.cones.flow_step import add_neurons
from shallowflow.kernels.cones.flow_walls import downhill
from shallowflow.kernels.cones.geometry import SQUARE, STRAY, arrange, first_cone

seeds = st.integers(0, 100_000)
ordinary = settings(deadline=None, derandomize=True, max_examples=30)


def random_problem(seed: int) -> tuple[Problem, np.random.Generator]:
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 6)
    walls, samples = arrange(rng.standard_normal((size, 2)), np.ones(size))
    return Problem(walls, samples, rays_of(walls), 0.0, (SQUARE, 1.0, 1.0)), rng


def random_state(seed: int, width: int = 40) -> tuple[State, Problem, np.random.Generator]:
    """Neurons in cones and on walls, with random propagators."""
    problem, rng = random_problem(seed)
    state = new_state(width, problem)
    neurons, groups, _, _ = state
    cones = len(problem.rays)
    neurons.theta[:] = rng.standard_normal((width, 3))
    of_all = rng.integers(0, 3 * cones, width)
    neurons.slot[:] = groupwise.slots_of(of_all, neurons.theta[:, 2], cones)
    groups.counts[:] = np.bincount(of_all, minlength=3 * cones + 2)
    groups.propagators[:] = (np.eye(3) + 0.2 * rng.standard_normal((3 * cones, 3, 3))).reshape(-1, 9)
    add_neurons(np.arange(width, dtype=np.int32), neurons, groups)
    return state, problem, rng


@ordinary
@given(seeds)
def test_every_neuron_starts_in_the_cone_of_its_pattern(seed: int) -> None:
    problem, rng = random_problem(seed)
    w = rng.standard_normal((50, 2))
    on_walls = rng.integers(0, len(problem.rays), 10)
    w[:10] = rng.uniform(0.1, 3.0, (10, 1)) * problem.rays[on_walls]
    w[10] = 0.0
    cone, wall = release.starting_cones(w, problem)
    np.testing.assert_array_equal(wall[:10], on_walls)
    assert np.all(wall[10:] == -1)
    assert cone[10] == STRAY
    assert cone[11:].tolist() == [first_cone(*row, problem.walls) for row in w[11:]]
    beside = np.stack([(wall[:10] - 1) % len(problem.rays), wall[:10]])
    assert np.all((beside == cone[:10]).any(axis=0))


@ordinary
@given(seeds)
def test_moments_and_gradients_are_those_of_the_neurons(seed: int) -> None:
    state, problem, rng = random_state(seed)
    neurons, groups, work, _ = state
    cones = len(problem.rays)
    slots = neurons.slot.astype(np.int64)
    of_all = np.where(slots < 2 * cones, slots // 2, slots - cones)
    theta = groupwise.here(of_all, neurons.theta, groups.propagators)
    number = groupwise.begin_step(groups, work)
    for group in work.active[:number]:
        mine = theta[of_all == group]
        np.testing.assert_allclose(work.now[group], (mine.T @ mine)[np.triu_indices(3)], atol=1e-12)
    forces = rng.standard_normal((cones, 2))
    wall = np.where(of_all < cones, of_all, (of_all - cones) // 2)
    rays = problem.rays[wall]
    along = (forces[wall] * rays).sum(axis=1, keepdims=True) * rays
    f = np.where((of_all < cones)[:, None], forces[wall], along)
    expected = np.sum(theta[:, 2:] ** 2 * f**2), np.sum((theta[:, :2] * f).sum(axis=1) ** 2)
    np.testing.assert_allclose(groupwise.squared_gradient(forces, groups, problem.rays), expected, rtol=1e-10)


@ordinary
@given(seeds, st.floats(0.05, 1.0))
def test_facets_are_distances_and_their_slopes(seed: int, length: float) -> None:
    """The walls' distances along θ' = M θ with constant forces; their slopes by differences."""
    state, problem, rng = random_state(seed)
    field, cones = state[2].field, len(problem.rays)
    forces, theta = rng.standard_normal((cones, 2)), rng.standard_normal(3)
    field.forces[:] = forces

    def moved(cone: int, share: float) -> Floats:
        matrix = np.zeros((3, 3))
        matrix[:2, 2] = matrix[2, :2] = length * share * forces[cone]
        return np.asarray(expm(matrix))

    for cone in range(cones):
        field.phi[cone] = [moved(cone, share).ravel() for share in field.grid.nodes]
    groupwise.set_facets(np.arange(3 * cones), length, field)
    for cone in range(cones):
        for side, sign in ((0, 1.0), (1, -1.0)):
            n = sign * problem.walls.normals[cone + side, :2] * problem.walls.normals[cone + side, 2]
            earlier, here, later = (
                np.array([n @ (moved(cone, share + h) @ theta)[:2] for share in field.grid.nodes])
                for h in (-1e-6, 0.0, 1e-6)
            )
            facets = field.facets[cone, side]
            np.testing.assert_allclose(theta @ facets[:3], here, atol=1e-12)
            np.testing.assert_allclose(theta @ facets[3:], (later - earlier) / 2e-6, atol=1e-7)


def test_a_shortened_step_keeps_its_polynomials() -> None:
    (_, groups, work, rule), _, rng = random_state(3)
    number = groupwise.begin_step(groups, work)
    coefficients = rng.standard_normal((len(work.field.phi), 9, 4))
    nodes = rule.grid.nodes

    def at(shares: Floats) -> Floats:
        powers = np.array([shares**power for power in range(4)])
        return np.asarray(np.einsum("gkc,cq->gqk", coefficients, powers))

    work.field.phi[:] = at(nodes)
    groupwise.shorten(0.3, number, work)
    active = work.active[:number]
    np.testing.assert_allclose(work.field.phi[active], at(0.3 * nodes)[active], atol=1e-12)


@ordinary
@given(seeds)
def test_a_resting_neuron_goes_where_it_can_go_down(seed: int) -> None:
    """A way exists iff σ<D, w> > 0 in the cone of some direction w: looked for on a fine circle."""
    problem, rng = random_problem(seed)
    samples, cones = problem.samples, len(problem.rays)
    pulls = rng.standard_normal(len(samples.targets))
    circle = np.linspace(0, 2 * np.pi, 20_000, endpoint=False)
    directions = np.column_stack([np.cos(circle), np.sin(circle)])
    gains = np.maximum(directions @ samples.points.T, 0.0) @ pulls
    forces = np.zeros((cones, 2))
    for c in range(cones):
        middle = problem.rays[c] + problem.rays[(c + 1) % cones]
        if cones == 2:
            middle = np.array([-problem.rays[c, 1], problem.rays[c, 0]])
        forces[c] = (samples.points @ middle > 1e-12) * pulls @ samples.points
    for sign in (1.0, -1.0):
        target, ways = downhill(sign, forces, 1e-9, problem.walls.normals, problem.rays)
        assert (ways > 0) == (np.max(sign * gains) > 1e-6)
        assert (target < 3 * cones) == (ways > 0)
