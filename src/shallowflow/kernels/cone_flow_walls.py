"""What a neuron does where it meets a wall, and where it stops sliding along one.

* From a cone it goes on into the next cone if that pushes it on, and else it **slides** along the wall: both
  sides push towards it (Filippov; the minimal-norm subgradient of [early_alignment]).
* Along a wall, w = ω e, it leaves only where ω = 0 or a = 0. At **ω = 0** it rests (ω' would be negative on
  every ray) unless some direction is downhill: a cone that contains σD, or a wall along which it would slide
  outwards. At **a = 0** the wall becomes repelling, and the solution has two continuations: the side is drawn
  with the share of time η = G₋/(G₋ - G₊) that a chattering descent spends on it, by a hash of the neuron's
  number.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.cone_flow_state import (
    PLAIN,
    TWO_VALUED,
    Field,
    normal_force,
    resting_group,
    sign_of,
    sliding_group,
)
from shallowflow.kernels.cone_geometry import INTERNAL, LEAN

NOISE = 4e-15
"""A distance to a wall is zero when it is below this share of the neuron's size."""


@njit(cache=True, **LEAN)
def uniform(neuron: int) -> float:
    """Return a number in (0, 1) that depends on the neuron's number only (SplitMix64)."""
    z = np.uint64(neuron) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (float(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@njit(cache=True, **INTERNAL)
def _force_at(cone: int, weights: Floats, forces: Floats) -> tuple[float, float]:
    """Return D of a cone at the share that the weights belong to."""
    f0, f1 = 0.0, 0.0
    for i in range(weights.size):
        f0 += weights[i] * forces[i, cone, 0]
        f1 += weights[i] * forces[i, cone, 1]
    return f0, f1


@njit(cache=True, **LEAN)
def downhill(sign: float, forces: Floats, rest: float, normals: Floats, rays: Floats) -> tuple[int, int]:
    """Return where a neuron at w = 0 goes, by the steepest of its ways, and how many it has (0: it rests).

    forces (C, 2); rest: a speed below which it stays.
    """
    cones = rays.shape[0]
    best, steepest, ways = resting_group(sign, cones), rest, 0
    for c in range(cones):
        f0, f1 = sign * forces[c, 0], sign * forces[c, 1]
        speed = sqrt(f0 * f0 + f1 * f1)
        if speed > rest:
            first = normal_force(forces, c, c, normals) * sign
            last = -normal_force(forces, c, c + 1, normals) * sign
            if first > 0.0 and last > 0.0:
                ways += 1
                if speed > steepest:
                    best, steepest = c, speed
        before = c - 1 if c > 0 else cones - 1
        speed = f0 * rays[c, 0] + f1 * rays[c, 1]
        if speed > rest:
            behind = sign * normal_force(forces, c, c, normals)
            ahead = sign * normal_force(forces, before, c, normals)
            if ahead > 0.0 >= behind:
                ways += 1
                if speed > steepest:
                    best, steepest = sliding_group(c, sign, cones), speed
    return best, ways


@njit(cache=True, **INTERNAL)
def meets_wall(cone: int, through: int, theta: Floats, weights: Floats, field: Field) -> tuple[int, float]:
    """Return the group that a neuron at a wall of its cone enters, and the slope of the kink."""
    cones, wall = field.rays.shape[0], cone + through
    n = field.normals[wall]
    target = (cone + 1) % cones if through == 1 else (cone - 1 + cones) % cones
    sign = -1.0 if theta[2] < 0.0 else 1.0
    inward = sign if through == 1 else -sign
    f0, f1 = _force_at(target, weights, field.forces)
    g0, g1 = _force_at(cone, weights, field.forces)
    jump = abs((g0 * n[0] + g1 * n[1]) * n[2])
    kink = theta[2] * theta[2] * jump / n[2]
    if inward * (f0 * n[0] + f1 * n[1]) > 0.0:
        return target, kink
    if f0 == 0.0 and f1 == 0.0:
        # With no active point left it is dead; rounding must not leave it on the other side for ever.
        onward = 1.0 if through == 1 else -1.0
        size = sqrt(theta[0] * theta[0] + theta[1] * theta[1])
        behind = NOISE * size - onward * (theta[0] * n[0] + theta[1] * n[1]) * n[2]
        theta[0] += onward * behind * n[0] * n[2]
        theta[1] += onward * behind * n[1] * n[2]
        return target, kink
    wall = wall % cones
    e0, e1 = field.rays[wall, 0], field.rays[wall, 1]
    along = theta[0] * e0 + theta[1] * e1
    theta[0], theta[1] = along * e0, along * e1
    return sliding_group(wall, theta[2], cones), kink


@njit(cache=True, **INTERNAL)
def ends_sliding(
    j: int,
    group: int,
    theta: Floats,
    weights: Floats,
    rest: float,
    now: Floats,
    field: Field,
) -> tuple[int, int, float]:
    """Return the group that a sliding neuron with ω = 0 or a = 0 enters, the kind of move, and the kink.

    now (C, 2): working memory.
    """
    cones = field.rays.shape[0]
    wall = (group - cones) // 2
    sign = sign_of(group, cones)
    e0, e1 = field.rays[wall, 0], field.rays[wall, 1]
    along = theta[0] * e0 + theta[1] * e1
    f0, f1 = _force_at(wall, weights, field.forces)
    size = along * along + theta[2] * theta[2]
    kink = size * abs(f0 * e0 + f1 * e1) / field.normals[wall, 2]
    if abs(along) < abs(theta[2]):
        theta[0], theta[1] = 0.0, 0.0
        for c in range(cones):
            now[c, 0], now[c, 1] = _force_at(c, weights, field.forces)
        target, ways = downhill(sign, now, rest, field.normals, field.rays)
        return target, TWO_VALUED if ways > 1 else PLAIN, kink
    theta[0], theta[1], theta[2] = along * e0, along * e1, 0.0
    before = wall - 1 if wall > 0 else cones - 1
    b0, b1 = _force_at(before, weights, field.forces)
    n = field.normals[wall]
    ahead, behind = abs(b0 * n[0] + b1 * n[1]), abs(f0 * n[0] + f1 * n[1])
    share = ahead / (ahead + behind) if ahead + behind > 0.0 else 0.5
    return (wall if uniform(j) < share else before), TWO_VALUED, kink
