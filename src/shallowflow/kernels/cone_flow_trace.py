"""Following one neuron through a step: which walls it meets, when, and what it does there.

Within a step a neuron of group g is Φ_g(s) ψ; ψ is its value at the start, or what that would have been had
it always been there. Its distance to a wall is a polynomial in s whose first zero is located; then

* from a cone it goes on into the next cone if that pushes it on, and else it **slides** along the wall: both
  sides push towards it (Filippov; the minimal-norm subgradient of [early_alignment]);
* along a wall, w = ω e, it follows the hyperbolic rotation by Λ, and leaves only where ω = 0 or a = 0, where
  Λ passes ∓artanh of the ratio of the two. At **ω = 0** it rests (ω' would be negative on every ray)
  unless some direction is downhill: a cone that contains σD, or a wall along which it would slide outwards.
  At **a = 0** the wall becomes repelling, and the solution has two continuations: the side is drawn with the
  share of time η = G₋/(G₋ - G₊) that a chattering descent spends on it, by a hash of the neuron's number.

A neuron that meets a wall changes predictions with a kink of slope ~ a² G. If that matters for the tolerance,
the step must end there (`heavy`); if not, it is accounted for within the step.
"""

from __future__ import annotations

from math import atanh, inf, sqrt

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.collocation import NEVER, Rule, first_zero, value_at, weights_at
from shallowflow.kernels.cone_flow_picard import activate, boost
from shallowflow.kernels.cone_flow_state import (
    MATRIX,
    PLAIN,
    SLOPES,
    TWO_VALUED,
    VALUES,
    WEIGHTS,
    Moves,
    Problem,
    Work,
    normal_force,
    resting_group,
    sign_of,
    sliding_group,
)
from shallowflow.kernels.cone_geometry import INTERNAL, Walls
from shallowflow.kernels.cone_groups import present, referred

MOST_HOPS = 40
NOISE = 4e-15
"""A distance to a wall is zero when it is below this share of the neuron's size."""
KINK = 0.01
"""What the polynomial of degree q - 1 misses of a kink, as a share of its slope's jump."""


@njit(cache=True, **INTERNAL)
def uniform(neuron: int) -> float:
    """Return a number in (0, 1) that depends on the neuron's number only (SplitMix64)."""
    z = np.uint64(neuron) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (float(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@njit(cache=True, **INTERNAL)
def set_facets(cone: int, length: float, work: Work, rule: Rule, walls: Walls) -> None:
    """Set the distances to a cone's walls at the nodes as functionals of θ at the start of the step."""
    phi, q = work.phi[cone], rule.nodes.size
    for side in range(2):
        n = walls.normals[cone + side]
        sign = n[2] if side == 0 else -n[2]
        steepest, size = 0.0, 0.0
        for i in range(q):
            for k in range(3):
                work.facets[cone, side, i, k] = sign * (n[0] * phi[i, k] + n[1] * phi[i, 3 + k])
                size = max(size, abs(phi[i, 6 + k]))
            steepest = max(steepest, abs(normal_force(work.forces[i], cone, cone + side, walls)))
        gap = rule.nodes[q // 2] - rule.nodes[q // 2 - 1]
        work.dips[cone, side] = length * steepest * gap * 2.0 * size + NOISE


@njit(cache=True, **INTERNAL)
def _cone_exit(
    cone: int, psi: Floats, start: float, length: float, work: Work, rule: Rule, walls: Walls
) -> tuple[float, int]:
    """Return when a neuron leaves a cone, and through which wall (0 first, 1 last)."""
    q = rule.nodes.size
    size = max(abs(psi[0]), abs(psi[1]), abs(psi[2]))
    when, through = NEVER, 0
    for side in range(2):
        facets = work.facets[cone, side]
        least = inf
        for i in range(1, q):
            if rule.nodes[i] > start:
                least = min(least, facets[i, 0] * psi[0] + facets[i, 1] * psi[1] + facets[i, 2] * psi[2])
        if least > work.dips[cone, side] * size:
            continue
        values, slopes = work.scratch[VALUES], work.scratch[SLOPES]
        sign = length if side == 0 else -length
        phi = work.phi[cone]
        for i in range(q):
            values[i] = facets[i, 0] * psi[0] + facets[i, 1] * psi[1] + facets[i, 2] * psi[2]
            outer = phi[i, 6] * psi[0] + phi[i, 7] * psi[1] + phi[i, 8] * psi[2]
            slopes[i] = sign * outer * normal_force(work.forces[i], cone, cone + side, walls)
        share = first_zero(start, values, slopes, NOISE * size, rule)
        if share < when:
            when, through = share, side
    return when, through


@njit(cache=True, **INTERNAL)
def patience(along: float, outer: float) -> float:
    """Return how far -σΛ may advance before ω or a of a sliding neuron vanishes: artanh of their ratio."""
    small, large = abs(along), abs(outer)
    if small > large:
        small, large = large, small
    if small >= large:
        return inf
    return atanh(small / large)


@njit(cache=True, **INTERNAL)
def _slide_exit(
    group: int, psi: Floats, start: float, length: float, work: Work, rule: Rule, rays: Floats
) -> float:
    """Return when ω or a of a sliding neuron vanishes."""
    cones, q = rays.shape[0], rule.nodes.size
    wall, sign = (group - cones) // 2, sign_of(group, cones)
    e0, e1 = rays[wall, 0], rays[wall, 1]
    limit = patience(psi[0] * e0 + psi[1] * e1, psi[2])
    if limit == inf:
        return NEVER
    # Where the virtual start lies on the other side of zero, the limit is behind it.
    if (psi[0] * e0 + psi[1] * e1) < 0.0 or sign * psi[2] < 0.0:
        limit = -limit
    values, slopes = work.scratch[VALUES], work.scratch[SLOPES]
    for i in range(q):
        along = work.forces[i, wall, 0] * e0 + work.forces[i, wall, 1] * e1
        values[i] = limit + sign * work.turns[group, i]
        slopes[i] = sign * length * along
    share: float = first_zero(start, values, slopes, NOISE, rule)
    return share


@njit(cache=True, **INTERNAL)
def phi_at(
    share: float, group: int, turns: Floats, phi: Floats, rule: Rule, rays: Floats, weights: Floats, p: Floats
) -> None:
    """Set p (9,) to Φ of a group at a share of the step; turns (q,), phi (q, 9); weights of `weights_at`."""
    cones = rays.shape[0]
    if group >= cones:
        wall = (group - cones) // 2
        boost(value_at(share, turns, rule), rays[wall, 0], rays[wall, 1], p)
        return
    p[:] = 0.0
    for i in range(weights.size):
        for k in range(9):
            p[k] += weights[i] * phi[i, k]


@njit(cache=True, **INTERNAL)
def force_at(cone: int, weights: Floats, forces: Floats) -> tuple[float, float]:
    """Return D of a cone at the share that the weights belong to."""
    f0, f1 = 0.0, 0.0
    for i in range(weights.size):
        f0 += weights[i] * forces[i, cone, 0]
        f1 += weights[i] * forces[i, cone, 1]
    return f0, f1


@njit(cache=True, **INTERNAL)
def downhill(sign: float, forces: Floats, rest: float, problem: Problem) -> tuple[int, int]:
    """Return where a neuron at w = 0 goes, by the steepest of its ways, and how many it has (0: it rests).

    forces (C, 2); rest: a speed below which it stays.
    """
    cones = problem.rays.shape[0]
    walls, rays = problem.walls, problem.rays
    best, steepest, ways = resting_group(sign, cones), rest, 0
    for c in range(cones):
        f0, f1 = sign * forces[c, 0], sign * forces[c, 1]
        speed = sqrt(f0 * f0 + f1 * f1)
        if speed > rest:
            first = normal_force(forces, c, c, walls) * sign
            last = -normal_force(forces, c, c + 1, walls) * sign
            if first > 0.0 and last > 0.0:
                ways += 1
                if speed > steepest:
                    best, steepest = c, speed
        before = c - 1 if c > 0 else cones - 1
        speed = f0 * rays[c, 0] + f1 * rays[c, 1]
        if speed > rest:
            behind = sign * normal_force(forces, c, c, walls)
            ahead = sign * normal_force(forces, before, c, walls)
            if ahead > 0.0 >= behind:
                ways += 1
                if speed > steepest:
                    best, steepest = sliding_group(c, sign, cones), speed
    return best, ways


@njit(cache=True, **INTERNAL)
def _meets_wall(
    cone: int, through: int, theta: Floats, weights: Floats, forces: Floats, problem: Problem
) -> tuple[int, float]:
    """Return the group that a neuron at a wall of its cone enters, and the slope of the kink."""
    walls = problem.walls
    cones = problem.rays.shape[0]
    wall = cone + through
    n = walls.normals[wall]
    target = (cone + 1) % cones if through == 1 else (cone - 1 + cones) % cones
    sign = -1.0 if theta[2] < 0.0 else 1.0
    inward = sign if through == 1 else -sign
    f0, f1 = force_at(target, weights, forces)
    g0, g1 = force_at(cone, weights, forces)
    jump = abs((g0 * n[0] + g1 * n[1]) * n[2])
    kink = problem.loss[1] * problem.loss[2] * theta[2] * theta[2] * jump / n[2]
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
    e0, e1 = problem.rays[wall, 0], problem.rays[wall, 1]
    along = theta[0] * e0 + theta[1] * e1
    theta[0], theta[1] = along * e0, along * e1
    return sliding_group(wall, theta[2], cones), kink


@njit(cache=True, **INTERNAL)
def _ends_sliding(
    j: int,
    group: int,
    theta: Floats,
    weights: Floats,
    rest: float,
    forces: Floats,
    now: Floats,
    problem: Problem,
) -> tuple[int, int, float]:
    """Return the group that a sliding neuron with ω = 0 or a = 0 enters, the kind of move, and the kink.

    now (C, 2): working memory.
    """
    walls = problem.walls
    cones = problem.rays.shape[0]
    wall = (group - cones) // 2
    sign = sign_of(group, cones)
    e0, e1 = problem.rays[wall, 0], problem.rays[wall, 1]
    along = theta[0] * e0 + theta[1] * e1
    f0, f1 = force_at(wall, weights, forces)
    size = along * along + theta[2] * theta[2]
    kink = problem.loss[1] * problem.loss[2] * size * abs(f0 * e0 + f1 * e1) / walls.normals[wall, 2]
    if abs(along) < abs(theta[2]):
        theta[0], theta[1] = 0.0, 0.0
        for c in range(cones):
            now[c, 0], now[c, 1] = force_at(c, weights, forces)
        target, ways = downhill(sign, now, rest, problem)
        return target, TWO_VALUED if ways > 1 else PLAIN, kink
    theta[0], theta[1], theta[2] = along * e0, along * e1, 0.0
    before = wall - 1 if wall > 0 else cones - 1
    b0, b1 = force_at(before, weights, forces)
    n = walls.normals[wall]
    ahead, behind = abs(b0 * n[0] + b1 * n[1]), abs(f0 * n[0] + f1 * n[1])
    share = ahead / (ahead + behind) if ahead + behind > 0.0 else 0.5
    return (wall if uniform(j) < share else before), TWO_VALUED, kink


@njit(cache=True, **INTERNAL)
def trace(
    j: int,
    group: int,
    psi: Floats,
    length: float,
    limits: tuple[float, float],
    count: int,
    number: int,
    moves: Moves,
    work: Work,
    rule: Rule,
    problem: Problem,
) -> tuple[int, int, float]:
    """Follow neuron j from the start of the step to its end and list its moves from `count` on.

    limits: the largest kink that a step may contain (as slope × length), and the speed below which a
    neuron at w = 0 rests. Return how many moves and active groups there are, and the share of the step at
    which the first heavy move happens (`NEVER`: none). The number of moves is -1 if the neuron never comes to
    an end, and -2 if the list is full.
    """
    cones = problem.rays.shape[0]
    rays = problem.rays
    start, cut = 0.0, NEVER
    weights, p = work.scratch[WEIGHTS], work.scratch[MATRIX]
    for _ in range(MOST_HOPS):
        through = 0
        if group < cones:
            share, through = _cone_exit(group, psi, start, length, work, rule, problem.walls)
        elif group < 3 * cones:
            share = _slide_exit(group, psi, start, length, work, rule, rays)
        else:
            share = NEVER
        if share > 1.0:
            return count, number, cut
        if count >= moves.neuron.size:
            return -2, number, cut
        weights_at(share, rule, weights)
        phi_at(share, group, work.turns[group], work.phi[group], rule, rays, weights, p)
        theta = moves.theta[count]
        theta[0], theta[1], theta[2] = present(p, psi)
        kind = PLAIN
        if group < cones:
            target, kink = _meets_wall(group, through, theta, weights, work.forces, problem)
        else:
            target, kind, kink = _ends_sliding(
                j, group, theta, weights, limits[1], work.forces, work.here.forces, problem
            )
        if kink * length * min(KINK, share, 1.0 - share) > limits[0]:
            cut = min(cut, share)
        if target < 3 * cones:
            if not work.is_active[target]:
                number = activate(target, number, length, work, rule, rays)
                if target < cones:
                    set_facets(target, length, work, rule, problem.walls)
            phi_at(share, target, work.turns[target], work.phi[target], rule, rays, weights, p)
            theta[0], theta[1], theta[2] = referred(p, theta[0], theta[1], theta[2])
        moves.neuron[count], moves.share[count] = j, share
        moves.left[count], moves.entered[count], moves.kind[count] = group, target, kind
        group, start = target, share
        psi[0], psi[1], psi[2] = theta[0], theta[1], theta[2]
        count += 1
    return -1, number, cut
