"""Certificates under attack: no sequence of forces gets a neuron out of its cone before its key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.kernels.cones.exits import (
    FIRST_WALL,
    LAST_WALL,
    LONGEST_STEP,
    RATIO,
    advance_clock,
    approaches,
    certificate,
    clock_rate,
)
from shallowflow.kernels.cones.geometry import Walls, arrange, first_cone


def attack(theta: Floats, key: float, forces: Floats, cone: int, walls: Walls) -> Floats:
    """Move θ by the forces (steps, 2) while the clock is below `key`; return every value on the way."""
    sign = 1.0 if theta[2] >= 0 else -1.0
    clock = np.zeros(2)
    values = [theta]
    for g in forces:
        d = float(np.linalg.norm(g))
        first, last = approaches(g, cone, walls)
        advance_clock(clock, clock_rate(first, last, sign, d * (1 + 0.5 * d * d)))
        if clock[0] >= key:
            break
        w, a = values[-1][:2], values[-1][2]
        values.append(np.array([*(w + a * g), a + w @ g]))
    return np.array(values)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.integers(0, 10**6), st.sampled_from([1e-3, 0.02, LONGEST_STEP]), st.integers(0, 4))
def test_no_forces_get_a_neuron_out_before_its_key(seed: int, size: float, way: int) -> None:
    rng = np.random.default_rng(seed)
    walls, _ = arrange(rng.standard_normal((5, 2))[: rng.integers(1, 6)], np.zeros(5))
    theta = rng.standard_normal(3) * 10.0 ** rng.uniform(-3, 3, 3)
    cone = first_cone(theta[0], theta[1], walls)
    key = certificate(theta[0], theta[1], theta[2], cone, FIRST_WALL | LAST_WALL, 0.0, walls)
    steps = int(min(4.0 / size, 4000))
    sign = np.sign(theta[2])
    w = theta[:2] / np.linalg.norm(theta[:2])
    along = walls.normals[cone, 1::-1] * walls.normals[cone, 2] * [1.0, -1.0]
    aims = [
        -sign * walls.normals[cone, :2] * walls.normals[cone, 2],
        sign * walls.normals[cone + 1, :2] * walls.normals[cone + 1, 2],
        -sign * w,
        rng.standard_normal(2),
        # Slowly to the wall, and as fast as the clock allows along it, which makes |a| grow.
        -sign * walls.normals[cone, :2] * walls.normals[cone, 2] / RATIO
        + sign * np.sqrt(1 - RATIO**-2) * along,
    ]
    aim = aims[way] + 0.3 * rng.standard_normal((steps, 2)) * rng.choice([0.0, 1.0])
    forces = size * aim / np.linalg.norm(aim, axis=1, keepdims=True)
    values = attack(theta, key, forces, cone, walls)
    assert np.all(values[:, :2] @ walls.normals[cone, :2] > 0)
    assert np.all(values[:, :2] @ walls.normals[cone + 1, :2] < 0)
    assert np.all(np.sign(values[:, 2]) == sign)


@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-6])
def test_a_certificate_is_tight_to_first_order(distance: float) -> None:
    """Pushed straight to the wall with |a| = |w| = 1, the neuron gets there soon after its key."""
    walls, _ = arrange(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros(2))
    theta = np.array([np.sqrt(1 - distance**2), distance, 1.0])
    cone = first_cone(theta[0], theta[1], walls)
    key = certificate(theta[0], theta[1], theta[2], cone, FIRST_WALL | LAST_WALL, 0.0, walls)
    step = distance / 1000
    forces = np.tile([0.0, -step], (1100, 1))
    values = attack(theta, key, forces, cone, walls)
    assert 0 < values[-1, 1] < distance * (0.01 + 6 * distance)


def test_clocks_lose_nothing() -> None:
    clock = np.zeros(2)
    advance_clock(clock, 1.0)
    for _ in range(100_000):
        advance_clock(clock, 1e-17)
    assert clock[0] == pytest.approx(1.0 + 1e-12, abs=2.3e-16)
