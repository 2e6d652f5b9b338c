"""The first-order correction of jump times: closed forms, and a brute-force turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.landscape.incremental import turn_offsets


def test_the_first_jump_in_closed_form() -> None:
    """One neuron, no coordinate of the wrong sign: C = (½ ln N − ln((1 + β)/2))/γ."""
    network = sf.ReLUNetwork([[0.6, 0.8, -1.0]], [1.0])
    targets = np.array([2.0, 1.0, 5.0])
    limit = sf.saddle_to_saddle(network, sf.Dataset(np.eye(3), targets))
    norm = np.sqrt(5.0)
    beta = (0.6 * 2 + 0.8 * 1) / norm / np.sqrt(2.0)
    expected = (0.5 * np.log(norm) - np.log((1 + beta) / 2)) / (norm / 3)
    assert limit.corrections[0] == pytest.approx(expected, rel=1e-12)


def test_a_smaller_neuron_jumps_later_by_its_logarithm() -> None:
    """Norms e^{−1} below the largest: the line starts 1 lower, so it arrives 1/γ later."""
    data = sf.Dataset(np.eye(2), [3.0, -4.0])
    inner = np.array([[1.0, -1.0], [-1.0, 1.0]])
    equal = sf.saddle_to_saddle(sf.LogScaledNetwork(inner, [1.0, -1.0], [0.0, 0.0]), data)
    shrunk = sf.saddle_to_saddle(sf.LogScaledNetwork(inner, [1.0, -1.0], [-1.0, 0.0]), data)
    assert equal.neurons.tolist() == [1, 0]
    np.testing.assert_allclose(shrunk.corrections - equal.corrections, [0.0, 1.0 / (3.0 / 2.0)], atol=1e-12)


def test_a_turn_beside_plain_weights() -> None:
    """a' = φ B₁ z₁ + B₂ z₂, z₁' = φ B₁ a, z₂' = B₂ a: linear, from aligned at s = −12 to s = 30."""
    fading, lasting = 0.8, 0.5
    before = np.hypot(fading, lasting)

    def velocity(s: float, state: Floats) -> list[float]:
        phi = 1.0 / (1.0 + np.exp(2.0 * s))
        a, first, second = state
        return [phi * fading * first + lasting * second, phi * fading * a, lasting * a]

    start = [1.0, fading / before, lasting / before]
    run: Any = solve_ivp(velocity, (-12.0, 30.0), start, rtol=1e-12, atol=1e-14, method="DOP853")
    expected = np.log(run.y[0, -1]) - 12.0 * before - 30.0 * lasting
    assert turn_offsets(np.array([fading]), np.array([lasting]))[0] == pytest.approx(expected, abs=1e-8)


def test_nothing_turns_without_company() -> None:
    assert turn_offsets(np.zeros(0), np.zeros(0)).shape == (0,)
