"""Forces of all cones from half-turn sums against sums over neurons and points."""

from __future__ import annotations

import numpy as np
import pytest

from shallowflow.kernels.cones.geometry import first_cone, new_forces, set_forces, sum_half_turns
from tests.kernels.cones.cone_reference import random_problem


@pytest.mark.parametrize("lines", [1, 2, 5])
def test_half_turns(lines: int) -> None:
    terms = np.random.default_rng(lines).standard_normal((2 * lines, 2))
    sums = np.empty_like(terms)
    total = sum_half_turns(terms, sums)
    expected = [np.roll(terms, -r, axis=0)[:lines].sum(axis=0) for r in range(2 * lines)]
    np.testing.assert_allclose(sums, expected, atol=1e-14)
    np.testing.assert_allclose(total, terms.sum(axis=0), atol=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_forces_are_those_of_plain_descent(seed: int) -> None:
    problem = random_problem(seed)
    walls, samples, slope, loss = problem.kernel()
    work = new_forces(walls.owners.size - 1, samples.targets.size)
    cones = [first_cone(w0, w1, walls) for w0, w1, _ in problem.theta]
    np.add.at(work.moments, cones, problem.theta[:, 2:] * problem.theta[:, :2])
    assert set_forces(work, samples, slope, loss)
    moved = problem.plain(problem.theta)
    expected = (moved - problem.theta)[:, :2] / problem.theta[:, 2:]
    size = np.abs(expected).max()
    np.testing.assert_allclose(work.forces[cones], expected, atol=1e-11 * size)


def test_a_cone_that_sees_nothing_has_no_force_at_all() -> None:
    problem = random_problem(0)
    inputs = np.column_stack([np.linspace(-1, 1, 7), np.ones(7)])
    walls, samples, _, _ = type(problem)(inputs, np.arange(7.0), problem.theta, 1.0).kernel()
    work = new_forces(14, 7)
    work.moments[:] = np.random.default_rng(0).standard_normal((14, 2))
    set_forces(work, samples, 0.0, (0, 1.0, 1.0))
    dead = first_cone(0.0, -1.0, walls)
    assert not work.forces[dead].any()
    assert np.all(np.delete(work.forces, dead, axis=0).any(axis=1))
