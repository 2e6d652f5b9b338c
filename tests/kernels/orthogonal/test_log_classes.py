"""Which points move and which neurons feel them: cases by hand."""

from __future__ import annotations

import numpy as np

from shallowflow.kernels.orthogonal.flow import classify
from shallowflow.kernels.orthogonal.step import new_space, problem_of
from tests.rounding import assert_rounded


def classified(
    rho: list[float], g: list[list[float]], targets: list[float], tiny: float = 1e-10
) -> tuple[int, list[float], list[bool], list[bool]]:
    space = new_space(len(rho), len(targets))
    problem = problem_of(np.ones(len(rho)), np.array(targets), 1.0, tiny)
    moving = classify(np.array(rho), np.array(g), problem, space)
    return moving, space.residual.tolist(), space.fixed.tolist(), space.live.tolist()


def test_points_of_small_neurons_are_untouched() -> None:
    assert classified([-900.0], [[0.6, 0.8]], [1.0, 2.0]) == (0, [1.0, 2.0], [True, True], [False])


def test_a_growing_neuron_makes_its_points_move() -> None:
    moving, residual, fixed, live = classified([-2.0, -900.0], [[0.6, 0.0], [0.6, 0.8]], [1.0, 2.0])
    assert (moving, fixed, live) == (1, [False, True], [True, True])
    assert_rounded(residual, [1.0 - 0.6 * np.exp(-4.0), 2.0], 4)


def test_a_fitted_neuron_settles_its_points() -> None:
    assert classified([0.0], [[1.0]], [1.0]) == (0, [0.0], [True], [False])


def test_a_fitted_point_moves_again_when_a_growing_neuron_can_disturb_it() -> None:
    """The second neuron grows on its own point and holds a share of the first one's."""
    disturbed = classified([0.0, -4.0], [[1.0, 0.0], [1e-7, 0.9]], [1.0 + 1e-7 * np.exp(-8.0), 2.0])
    assert disturbed[2:] == ([False, False], [True, True])
    aside = classified([0.0, -4.0], [[1.0, 0.0], [1e-13, 0.9]], [1.0, 2.0])
    assert aside[2:] == ([True, False], [False, True])
