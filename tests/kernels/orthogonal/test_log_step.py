"""The explicit step, beside SciPy's DOP853."""

from __future__ import annotations

import numpy as np
from scipy.integrate import DOP853

from shallowflow.arrays import Floats
from shallowflow.kernels.orthogonal.step import (
    STAGES,
    Problem,
    Space,
    error_norm,
    new_space,
    problem_of,
    step,
    velocity,
)
from tests.rounding import assert_rounded

RNG = np.random.default_rng(5)
SIGNS, TARGETS = np.array([1.0, -1.0, 1.0]), RNG.standard_normal(4)
ON = RNG.random((3, 4)) < 0.7
STATE = np.column_stack([[-0.5, -0.2, -1.0], np.where(ON, RNG.random((3, 4)), 0.0)])
FIXED, RESIDUAL, RATE = np.array([False, True, False, False]), np.array([9.0, 0.3, 9.0, 9.0]), 0.25


def problem_and_space() -> tuple[Problem, Space]:
    """The three neurons, all live, at the start of a step."""
    space = new_space(3, 4)
    space.state[:], space.on[:], space.signs[:] = STATE, ON, SIGNS
    space.fixed[:], space.residual[:] = FIXED, RESIDUAL
    return problem_of(SIGNS, TARGETS, RATE, 1e-12), space


def by_numpy(state: Floats) -> Floats:
    rho, g = state[:, 0], np.where(ON, state[:, 1:], 0.0)
    residual = np.where(FIXED, RESIDUAL, TARGETS - (SIGNS * np.exp(2 * rho)) @ g)
    growth = SIGNS * RATE * (g @ residual)
    turn = np.where(ON, SIGNS[:, None] * RATE * residual - g * growth[:, None], 0.0)
    return np.column_stack([growth, turn])


def test_the_velocity_is_that_of_the_paper() -> None:
    out = np.empty_like(STATE)
    problem, space = problem_and_space()
    velocity(STATE, 3, problem, space, out)
    assert_rounded(out, by_numpy(STATE), 10 * 4, size=float(np.max(np.abs(TARGETS))))


def test_a_step_and_its_error_are_those_of_scipy() -> None:
    h = 0.7
    problem, space = problem_and_space()
    new, stages = space.new, space.stages
    velocity(space.state, 3, problem, space, stages[0])
    step(3, problem, space, h)
    solver = DOP853(
        lambda _, y: by_numpy(y.reshape(STATE.shape)).ravel(), 0.0, STATE.ravel(), h, first_step=h, rtol=1e-3
    )
    solver.step()
    assert solver.t == h
    assert_rounded(new.ravel(), solver.y, 10 * STAGES, size=float(np.max(np.abs(TARGETS))))
    assert_rounded(stages[STAGES].ravel(), solver.f, 20 * STAGES, size=float(np.max(np.abs(TARGETS))))
    scipy_norm = solver._estimate_error_norm(solver.K, h, np.full(STATE.size, 1e-6))
    mine = error_norm(stages, 3, h, 1e-6) * np.sqrt(len(STATE) / STATE.size)
    # An error is what is left of stages that cancel.
    assert_rounded(mine, scipy_norm, STAGES, size=h * float(np.max(np.abs(stages))) / 1e-6)
