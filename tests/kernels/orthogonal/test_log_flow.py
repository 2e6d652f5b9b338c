"""The flow of any scale: the path between its knots."""

from __future__ import annotations

import numpy as np

from shallowflow.kernels.orthogonal import flow as log_flow
from shallowflow.kernels.orthogonal.step import problem_of


def test_a_replayed_step_meets_the_next_knot_and_lies_in_between() -> None:
    """Half a step twice is the whole step, on leaps and on steps: it does not matter how a path is read."""
    rng = np.random.default_rng(1)
    m, n, tolerance = 5, 9, 1e-10
    w = rng.standard_normal((m, n))
    g = np.maximum(w / np.linalg.norm(w, axis=1, keepdims=True), 0.0)
    signs, targets, rho = np.array([1.0, -1.0, 1.0, -1.0, 1.0]), rng.standard_normal(n), np.full(m, -300.0)
    problem = problem_of(signs, targets, 1.0 / n, 1e-12)
    before = (0.0, rho.copy(), g.copy())
    clock = log_flow.Clock(0.0, 20_000.0, 0.0)
    status, clock, path = log_flow.integrate(rho, g, problem, clock, tolerance, 400)
    assert (status, clock.time) == (log_flow.DONE, clock.until)
    assert path.counts[log_flow.LEAPS] > 1
    assert path.counts[log_flow.STEPS] > 20
    for time, later_rho, later_g in zip(path.times, path.rho, path.g, strict=True):
        start, at_rho, at_g = before
        at_rho, at_g = at_rho.copy(), at_g.copy()
        log_flow.replay(at_rho, at_g, problem, 0.5 * (time - start))
        log_flow.replay(at_rho, at_g, problem, time - start - 0.5 * (time - start))
        np.testing.assert_allclose(at_rho, later_rho, atol=1e-8, rtol=0)
        np.testing.assert_allclose(at_g, later_g, atol=1e-8)
        before = (float(time), later_rho, later_g)
