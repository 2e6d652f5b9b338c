"""One step of the O(width) integrator against the same method written with matrices."""

import numpy as np

from shallowflow.kernels.knots.flow import NODES
from shallowflow.kernels.knots.stiff_step import (
    COUPLING,
    DENSE_WEIGHTS,
    GAMMA,
    STAGE_WEIGHTS,
    STAGES,
    Start,
    new_trial,
)
from tests.kernels.knots.knot_entries import attempt_step, error_norm, interpolate, set_interpolant, velocity
from tests.kernels.knots.knot_layouts import kernel_arrays
from tests.kernels.knots.knot_reference import Stage


def test_step_error_and_interpolant_equal_the_matrix_form() -> None:
    stage = Stage.random(11, 14, 90, held=0.2)
    width, rates, h, tolerances = 14, (0.02, 0.05), 0.3, (1e-3, 1e-4)
    state, arranged, order = kernel_arrays(stage, 0, rates)
    rate, sums, live = np.zeros((2, width)), np.zeros((2, width)), arranged.live
    velocity(state, arranged, sums, rate)
    trial = new_trial(width)
    assert attempt_step(Start(state, rate, sums[0]), arranged, h, trial)

    scale = np.repeat(rates, width)
    start = np.concatenate([stage.knots, stage.outer])
    frozen = np.concatenate([stage.held >= 0, np.zeros(width, bool)])
    jacobian = -scale[:, None] * stage.hessian()
    jacobian[frozen], jacobian[:, frozen] = 0.0, 0.0
    matrix = np.eye(2 * width) / (h * GAMMA) - jacobian
    u = np.zeros((STAGES, 2 * width))
    for i in range(STAGES):
        inner = start + STAGE_WEIGHTS[i, :i] @ u[:i]
        u[i] = np.linalg.solve(matrix, -scale * stage.gradient(inner) + COUPLING[i, :i] @ u[:i] / h)
    end = inner + u[-1]

    alive = order[:live]
    np.testing.assert_allclose(trial.end[:, :live], end.reshape(2, width)[:, alive], atol=1e-12)
    columns = np.concatenate([alive, width + alive])
    ratio = (u[-1] / (1e-4 + 1e-3 * np.maximum(np.abs(start), np.abs(end))))[columns]
    assert abs(error_norm(state, trial, live, tolerances) - np.sqrt(np.mean(ratio**2))) < 1e-10
    between = np.zeros((2, width))
    set_interpolant(trial, live)
    k = DENSE_WEIGHTS @ u
    for s in NODES:
        interpolate(state, trial, live, s, between)
        want = (1 - s) * start + s * (end + (1 - s) * (k[0] + s * (k[1] + s * k[2])))
        np.testing.assert_allclose(between[:, :live], want.reshape(2, width)[:, alive], atol=1e-11)


def test_step_over_an_unstable_direction_is_refused() -> None:
    # With c = Σ r (x − b) = 0, Σ r = G ≠ 0 a neuron rests on a saddle: Hess = [[0, −G], [−G, Σ (x − b)²]].
    x = np.array([1.0, 2.0])
    y = np.array([2.0, -1.0])
    none = np.array([-1])
    stage = Stage(x, y, np.array([0.0]), np.array([0.0]), none, np.ones((2, 1), bool))
    state, arranged, _ = kernel_arrays(stage)
    rate, sums = np.zeros((2, 1)), np.zeros((2, 1))
    velocity(state, arranged, sums, rate)
    assert not rate.any()
    growth = -np.linalg.eigvalsh(stage.hessian())[0]
    for multiple, accepted in ((0.99, True), (1.01, False)):
        h = multiple / (GAMMA * growth)
        assert attempt_step(Start(state, rate, sums[0]), arranged, h, new_trial(1)) == accepted
