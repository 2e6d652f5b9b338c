"""The flow of any scale: what moves, what stands still, and the path in between."""

from __future__ import annotations

import numpy as np

from shallowflow.kernels import log_flow


def classified(
    rho: list[float], g: list[list[float]], targets: list[float], tiny: float = 1e-10
) -> tuple[int, list[float], list[bool], list[bool]]:
    n, m = len(targets), len(rho)
    residual, fixed, live = np.empty(n), np.empty(n, np.bool_), np.empty(m, np.bool_)
    moving = log_flow.classify(
        np.array(rho), np.array(g), np.ones(m), np.array(targets), tiny, residual, fixed, live
    )
    return moving, residual.tolist(), fixed.tolist(), live.tolist()


def test_points_of_small_neurons_are_untouched() -> None:
    assert classified([-900.0], [[0.6, 0.8]], [1.0, 2.0]) == (0, [1.0, 2.0], [True, True], [False])


def test_a_growing_neuron_makes_its_points_move() -> None:
    moving, residual, fixed, live = classified([-2.0, -900.0], [[0.6, 0.0], [0.6, 0.8]], [1.0, 2.0])
    assert (moving, fixed, live) == (1, [False, True], [True, True])
    np.testing.assert_allclose(residual, [1.0 - 0.6 * np.exp(-4.0), 2.0], rtol=1e-15)


def test_a_fitted_neuron_settles_its_points() -> None:
    assert classified([0.0], [[1.0]], [1.0]) == (0, [0.0], [True], [False])


def test_a_fitted_point_moves_again_when_a_growing_neuron_can_disturb_it() -> None:
    """The second neuron grows on its own point and holds a share of the first one's."""
    disturbed = classified([0.0, -4.0], [[1.0, 0.0], [1e-7, 0.9]], [1.0 + 1e-7 * np.exp(-8.0), 2.0])
    assert disturbed[2:] == ([False, False], [True, True])
    aside = classified([0.0, -4.0], [[1.0, 0.0], [1e-13, 0.9]], [1.0, 2.0])
    assert aside[2:] == ([True, False], [False, True])


def test_a_replayed_step_meets_the_next_knot_and_lies_in_between() -> None:
    """Half a step twice is the whole step, on leaps and on steps: it does not matter how a path is read."""
    rng = np.random.default_rng(1)
    m, n, tolerance = 5, 9, 1e-10
    w = rng.standard_normal((m, n))
    g = np.maximum(w / np.linalg.norm(w, axis=1, keepdims=True), 0.0)
    signs, targets, rho = np.array([1.0, -1.0, 1.0, -1.0, 1.0]), rng.standard_normal(n), np.full(m, -300.0)
    problem = signs, targets, 1.0 / n
    before = (0.0, rho.copy(), g.copy())
    status, *_, times, rhos, gs, _, _, counts = log_flow.integrate(
        rho, g, *problem, 0.0, 20_000.0, 0.0, tolerance, 1e-12, 400
    )
    assert status == log_flow.DONE
    assert counts[0] > 1
    assert counts[1] > 20
    for time, later_rho, later_g in zip(times, rhos, gs, strict=True):
        start, at_rho, at_g = before
        at_rho, at_g = at_rho.copy(), at_g.copy()
        log_flow.replay(at_rho, at_g, *problem, 0.5 * (time - start), 1e-12)
        log_flow.replay(at_rho, at_g, *problem, time - start - 0.5 * (time - start), 1e-12)
        np.testing.assert_allclose(at_rho, later_rho, atol=1e-8, rtol=0)
        np.testing.assert_allclose(at_g, later_g, atol=1e-8)
        before = (float(time), later_rho, later_g)
