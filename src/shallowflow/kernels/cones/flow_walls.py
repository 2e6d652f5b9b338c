"""What a neuron does where it meets a wall, where it stops sliding along one, and how it begins on one.

* From a cone it goes on into the next cone if that pushes it on, and else it **slides** along the wall: both
  sides push towards it (Filippov; the minimal-norm subgradient of [early_alignment]).
* Along a wall, w = ω e, it leaves only where ω = 0 or a = 0. At **ω = 0** it rests (ω' would be negative on
  every ray) unless some direction is downhill: a cone that contains σD, or a wall along which it would slide
  outwards. At **a = 0** the wall becomes repelling, and the solution has two continuations: the side is drawn
  with the share of time η = G₋/(G₋ - G₊) that a chattering descent spends on it, by a hash of the neuron's
  number.

A sliding group is released, and a resting neuron leaves w = 0, when it is pulled off faster than `rest`: with
no such hysteresis groups near an equilibrium, where all forces vanish, would be released and caught forever.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cones.flow_groups import signs_of
from shallowflow.kernels.cones.flow_state import (
    NEVER,
    PLAIN,
    TWO_VALUED,
    Field,
    Problem,
    Rule,
    Work,
    first_zero,
    interpolation_matrix,
    normal_force,
    resting_group,
    sign_of,
    sliding_group,
)
from shallowflow.kernels.cones.geometry import BEFORE
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

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


BISECTIONS = 50


def pushes(forces: Floats, walls: Ints, problem: Problem) -> tuple[Floats, Floats]:
    """Return <D, n> on walls for the cones before and behind them, (…, r) each; forces (…, C, 2)."""
    normals = problem.walls.normals[walls, :2] * problem.walls.normals[walls, 2:]
    cones = len(problem.rays)
    before = (forces[..., (walls - 1) % cones, :] * normals).sum(axis=-1)
    return before, (forces[..., walls, :] * normals).sum(axis=-1)


def first_release(number: int, when: Floats, rest: float, work: Work, rule: Rule, problem: Problem) -> float:
    """Return when the first sliding group or resting neurons must be released, or `NEVER`.

    when (3C + 2,): the share of the step from which a group has neurons.
    """
    cones = len(problem.rays)
    groups = work.active[:number]
    groups = groups[(groups >= cones) & (when[groups] <= 1.0)]
    cut = NEVER
    if groups.size:
        before, behind = pushes(work.field.forces, (groups - cones) // 2, problem)
        sign = signs_of(groups, cones)
        margins = np.concatenate([rest - sign * behind, rest + sign * before], axis=1).T
        slopes = margins @ rule.derivative.T
        # A margin that no slope can use up between two nodes needs no closer look.
        close = margins.min(axis=1) <= np.abs(slopes).max(axis=1) * np.diff(rule.grid.nodes).max()
        starts = np.concatenate([when[groups], when[groups]])
        for at in np.flatnonzero(close):
            cut = min(cut, first_zero(starts[at], margins[at], slopes[at], 0.0, rule.grid))
    for b, sign_of_a in enumerate((1.0, -1.0)):
        if when[3 * cones + b] <= 1.0:
            cut = min(cut, _first_downhill(sign_of_a, float(when[3 * cones + b]), rest, work, rule, problem))
    return cut


def _first_downhill(
    sign: float, start: float, rest: float, work: Work, rule: Rule, problem: Problem
) -> float:
    """Return when neurons at w = 0 first find a way downhill, or `NEVER`."""
    left = start
    for i in np.flatnonzero(rule.grid.nodes > start):
        right = float(rule.grid.nodes[i])
        if downhill(sign, work.field.forces[i], rest, problem.walls.normals, problem.rays)[1]:
            for _ in range(BISECTIONS):
                middle = 0.5 * (left + right)
                weights = interpolation_matrix(np.array([middle]), rule.grid)[0]
                now = np.tensordot(weights, work.field.forces, axes=1)
                if downhill(sign, now, rest, problem.walls.normals, problem.rays)[1]:
                    right = middle
                else:
                    left = middle
            return right
        left = right
    return NEVER


def released(counts: Ints, forces: Floats, rest: float, problem: Problem) -> tuple[Ints, Ints]:
    """Return where the neurons of every group go now, and how many ways there are (0: they stay).

    counts (3C + 2,); forces (C, 2): D now. Of two ways off a wall the one behind it is named.
    """
    cones = len(problem.rays)
    targets, ways = np.arange(3 * cones + 2), np.zeros(3 * cones + 2, np.int64)
    sliding = cones + np.flatnonzero(counts[cones : 3 * cones])
    walls, sign = (sliding - cones) // 2, signs_of(sliding, cones)
    before, behind = pushes(forces, walls, problem)
    onward, back = sign * behind > rest, -sign * before > rest
    targets[sliding] = np.where(onward, walls, (walls - 1) % cones)
    ways[sliding] = onward.astype(np.int64) + back
    for b, sign_of_a in enumerate((1.0, -1.0)):
        if counts[3 * cones + b]:
            way = downhill(sign_of_a, forces, rest, problem.walls.normals, problem.rays)
            targets[3 * cones + b], ways[3 * cones + b] = way
    return targets, ways


def starting_cones(w: Floats, problem: Problem) -> tuple[Ints, Ints]:
    """Return the cone of every w (m, 2), -1 for w = 0, and the wall on which it lies up to rounding, or -1.

    On a wall the cone is the one with its pattern (`geometry`), or the one behind it if none has.
    """
    rays, owners, cones = problem.rays, problem.walls.owners, len(problem.rays)
    normals = problem.walls.normals[:, :2] * problem.walls.normals[:, 2:]
    angles = np.arctan2(rays[:, 1], rays[:, 0])
    order = np.argsort(angles)
    cone = order[np.searchsorted(angles[order], np.arctan2(w[:, 1], w[:, 0]), side="right") - 1]
    # Angles are off by rounding; the products with the normals decide.
    for _ in range(2):
        first, last = _distances(w, cone, normals)
        cone = (cone - (first < 0.0) + (last < 0.0)) % cones
    size, wall = np.hypot(w[:, 0], w[:, 1]), np.full(len(w), -1)
    for side, distance in enumerate(_distances(w, cone, normals)):
        near = np.flatnonzero(np.abs(distance) <= NOISE * size)
        candidate = (cone[near] + side) % cones
        ahead = (w[near] * rays[candidate]).sum(axis=1) > 0.0
        wall[near[ahead]] = candidate[ahead]
    on = wall >= 0
    cone[on] = np.where(owners[wall[on]] == BEFORE, (wall[on] - 1) % cones, wall[on])
    cone[size == 0.0] = -1
    return cone, wall


def _distances(w: Floats, cone: Ints, normals: Floats) -> tuple[Floats, Floats]:
    """Return the distances of w from the first and the last wall of its cone, positive inside."""
    first = w[:, 0] * normals[cone, 0] + w[:, 1] * normals[cone, 1]
    return first, -(w[:, 0] * normals[cone + 1, 0] + w[:, 1] * normals[cone + 1, 1])


def beside_wall(j: int, wall: int, outer: float, forces: Floats, problem: Problem) -> tuple[int, int]:
    """Return the group of a neuron that starts on a wall, by the side it is pushed to, and the kind of move.

    forces (C, 2); where nothing pushes, it belongs to the cone behind the wall.
    """
    cones, sign = len(problem.rays), -1.0 if outer < 0.0 else 1.0
    before, behind = (float(sign * push[0]) for push in pushes(forces, np.array([wall]), problem))
    back, sliding = (wall - 1) % cones, cones + 2 * wall + (sign < 0.0)
    if before > 0.0 > behind:
        return sliding, PLAIN
    if before < 0.0 < behind:
        return (wall if uniform(j) < before / (before - behind) else back), TWO_VALUED
    return (back if before < 0.0 or behind < 0.0 else wall), PLAIN
