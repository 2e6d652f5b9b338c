"""The alignment flow followed from cone to cone against the same flow in small steps."""

from __future__ import annotations

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.landscape.early_alignment.extremal import ascend
from shallowflow.landscape.early_alignment.pulls import Pull


def small_steps(found: Pull, w: Floats, sign: int, step: float, steps: int) -> Floats:
    """Normalised Euler steps along sign·D(w), with the gates of the side on which w lies."""
    for _ in range(steps):
        gates = np.where(found.inputs @ w > 0, 1.0, found.slope)
        w = w + step * sign * (gates * found.strengths) @ found.inputs
        w = w / np.linalg.norm(w)
    return w


@pytest.mark.parametrize("seed", range(12))
def test_both_end_in_the_same_place(seed: int) -> None:
    """Small steps bounce around the hyperplanes on which the exact path slides, within about one step."""
    rng = np.random.default_rng(seed)
    dimension, slope, sign = 2 + seed % 2, 0.25 * (seed % 3 == 0), 1 if seed % 4 < 2 else -1
    found = Pull(
        rng.standard_normal((5, dimension)), rng.choice([-1.0, 1.0], 5) * rng.uniform(0.5, 1, 5), slope
    )
    start = rng.standard_normal(dimension)
    end = small_steps(found, start / np.linalg.norm(start), sign, 1e-3, 40_000)
    pattern = ascend(found, start, sign)
    gates = np.where(found.inputs @ end > 0, 1.0, slope)
    if pattern is None:
        assert np.linalg.norm((gates * found.strengths) @ found.inputs) == 0
        return
    assert found.pattern(end, tolerance=5e-3).tolist() == pattern.tolist()
    gradient = found.minimal(pattern)[0]
    assert abs(end @ gradient) / np.linalg.norm(gradient) == pytest.approx(1.0, abs=1e-4)


def test_a_neuron_that_nothing_pulls_is_given_up() -> None:
    found = Pull(np.array([[1.0, 0.5], [0.2, 1.0]]), np.array([1.0, 1.0]), 0.0)
    assert ascend(found, np.array([-1.0, -1.0]), 1) is None
    assert ascend(found, np.array([1.0, 1.0]), -1) is None
    pattern = ascend(found, np.array([1.0, -1.0]), 1)
    assert pattern is not None
    assert pattern.tolist() == [1, 1]
