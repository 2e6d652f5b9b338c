"""Gradient flow of a ReLU network on inputs of the plane: between events it costs the same at every width.

Model ([early_alignment], (1) and the minimal-norm subgradient D; square or logistic loss, leaky slope γ):

    h(x) = Σ_j a_j σ(<w_j, x>),     w_j' = a_j D_j,    a_j' = <w_j, D_j>,    D_j = Σ_k η_jk g_k x_k.

Neurons of one cone, or sliding along one wall, share D (`cone_flow_state`). A step [t, t + H]:

1. solve the collocation equations for the groups' propagators on 12 nodes (`cone_flow_picard`); shorten H
   until sweeps converge and the polynomials miss less than the tolerance;
2. list the neurons whose keys are due, trace them through the step, and account for their moves in the
   groups' moments; repeat 1 and 2 until forces and moves agree (`cone_flow_moves`, `cone_flow_trace`);
3. if a heavy neuron meets a wall, a sliding group is pulled off or resting neurons find a way downhill, cut
   the step there and solve it again;
4. make the moves and go on (`cone_flow_commit`).

A sliding group is released, and a resting neuron leaves w = 0, when it is pulled off faster than `rest`: with
no such hysteresis groups near an equilibrium, where all forces vanish, would be released and caught forever.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cone_flow_commit import clear, commit, enter, file, watch
from shallowflow.kernels.cone_flow_moves import list_due, set_reach, settle_moves
from shallowflow.kernels.cone_flow_picard import FLOOR, begin_step, missed, restart, shorten, solve
from shallowflow.kernels.cone_flow_state import (
    FULL,
    PLAIN,
    TWO_VALUED,
    Groups,
    Moves,
    Problem,
    State,
    group_of,
    normal_force,
    resting_group,
    sliding_group,
)
from shallowflow.kernels.cone_flow_trace import NOISE, uniform
from shallowflow.kernels.cone_forces import set_forces
from shallowflow.kernels.cone_geometry import INTERNAL, LEAN, STRAY, Signed, first_cone
from shallowflow.kernels.cone_groups import present
from shallowflow.kernels.cone_heap import Indices

TIME, LENGTH, TOLERANCE, SCALE, REST = range(5)
"""The control: time reached, length to try next, tolerance, scale of the pulls, `rest`."""
STEPS, SWEEPS, ATTEMPTS, CUTS, CHECKS = range(5)
"""The counters."""
STALLED = -1
MOST_ATTEMPTS = 100
SHORTEST = 1e-15
OVERSHOOT = 1e-9
"""A step is cut this share of its length behind the event, which then happens within it; a step that has
become so short by cuts is not cut again."""
PICARD_SHARE, MOVES_SHARE = 0.01, 0.1
"""What sweeps, and what moves, may leave undone, as shares of the tolerance."""
MANY_SWEEPS = 22


@njit(cache=True, **LEAN)
def begin(moves: Moves, state: State, problem: Problem) -> int:
    """Put every neuron, whose θ is in θ̂, into its group; return how many start on a wall (listed in moves).

    -1: more than the list holds. Sets the forces at the start in `work.here`.
    """
    neurons, groups, work, _ = state
    cones, count = problem.rays.shape[0], 0
    for g in range(3 * cones):
        clear(g, groups, cones)
    work.here.moments[:, :] = 0.0
    for j in range(neurons.slot.size):
        w0, w1, a = neurons.theta[j, 0], neurons.theta[j, 1], neurons.theta[j, 2]
        cone = first_cone(w0, w1, problem.walls)
        wall = _wall_of(w0, w1, cone, problem)
        cone = wall if cone == STRAY else cone
        neurons.slot[j] = cone
        if cone >= 0:
            work.here.moments[cone, 0] += a * w0
            work.here.moments[cone, 1] += a * w1
    set_forces(work.here, problem.samples, problem.slope, problem.loss)
    for c in range(cones):
        watch(c, work.here.forces, groups, problem.walls)
    for j in range(neurons.slot.size):
        w0, w1, a = neurons.theta[j, 0], neurons.theta[j, 1], neurons.theta[j, 2]
        group = Signed(neurons.slot[j])
        wall = _wall_of(w0, w1, group, problem)
        if group < 0:
            group = resting_group(a, cones)
        elif wall >= 0:
            if count == moves.neuron.size:
                return -1
            moves.neuron[count], moves.share[count], moves.left[count] = j, 0.0, group
            group = _beside(
                j, group, wall, moves.kind[count : count + 1], neurons.theta[j], work.here.forces, problem
            )
            moves.entered[count] = group
            count += 1
        neurons.slot[j] = group
        enter(neurons.theta[j], group, groups)
        file(j, group, neurons, groups, problem)
    return count


@njit(cache=True, **INTERNAL)
def _wall_of(w0: float, w1: float, cone: int, problem: Problem) -> int:
    """Return the wall on which w ≠ 0 lies up to rounding, or -1; `cone` is its cone or `STRAY`."""
    size = sqrt(w0 * w0 + w1 * w1)
    cones = problem.rays.shape[0]
    if size == 0.0:
        return -1
    for at in range(cones) if cone == STRAY else range(cone, cone + 2):
        n = problem.walls.normals[at]
        ahead = w0 * problem.rays[at % cones, 0] + w1 * problem.rays[at % cones, 1]
        if ahead > 0.0 and abs(w0 * n[0] + w1 * n[1]) * n[2] <= NOISE * size:
            return int(at % cones)
    return -1


@njit(cache=True, **INTERNAL)
def _beside(
    j: int, group: int, wall: int, kind: Ints, theta: Floats, forces: Floats, problem: Problem
) -> int:
    """Return the group of a neuron that starts on a wall: the side it is pushed to, or sliding."""
    cones = problem.rays.shape[0]
    sign = -1.0 if theta[2] < 0.0 else 1.0
    before = (wall - 1 + cones) % cones
    ahead = sign * normal_force(forces, before, wall, problem.walls)
    behind = sign * normal_force(forces, wall, wall, problem.walls)
    kind[0] = PLAIN
    if ahead > 0.0 > behind:
        e0, e1 = problem.rays[wall, 0], problem.rays[wall, 1]
        along = theta[0] * e0 + theta[1] * e1
        theta[0], theta[1] = along * e0, along * e1
        return int(sliding_group(wall, sign, cones))
    if ahead < 0.0 < behind:
        kind[0] = TWO_VALUED
        return int(wall if uniform(j) < ahead / (ahead - behind) else before)
    if ahead > 0.0 or behind > 0.0:
        return int(wall)
    if ahead < 0.0 or behind < 0.0:
        return int(before)
    return int(group)


@njit(cache=True, **LEAN)
def neurons_now(theta: Floats, slots: Indices, propagators: Floats, now: Floats) -> None:
    """Set now (m, 3) to (w, a) of all neurons in the caller's order; the rest as in `cone_flow_state`."""
    groups = propagators.shape[0]
    for j in range(slots.size):
        group = group_of(Signed(slots[j]), groups // 3)
        if group < groups:
            now[j, 0], now[j, 1], now[j, 2] = present(propagators[group], theta[j])
        else:
            now[j, 0], now[j, 1], now[j, 2] = theta[j, 0], theta[j, 1], theta[j, 2]


@njit(cache=True, **LEAN)
def step(
    until: float, control: Floats, counters: Ints, moves: Moves, state: State, problem: Problem
) -> tuple[int, float, int]:
    """Make one step, not beyond `until`.

    Return the number of moves (`STALLED`, or `FULL` if the list of moves is too short), the length of the
    step, and the number of neurons looked at.
    """
    remaining = until - control[TIME]
    tolerance, scale = control[TOLERANCE], control[SCALE]
    sweeping = max(PICARD_SHARE * tolerance, FLOOR)
    aims = sweeping, max(MOVES_SHARE * tolerance, 10.0 * FLOOR), scale
    limits = tolerance * scale, control[REST]
    length, uncut = min(control[LENGTH], remaining), 0.0
    neurons, groups, work, rule = state
    number = begin_step(groups, work, problem)
    for _ in range(MOST_ATTEMPTS):
        counters[ATTEMPTS] += 1
        if length <= SHORTEST * control[TIME] or length == 0.0:
            return STALLED, 0.0, 0
        sweeps, _ = solve(number, length, sweeping, scale, work, rule, problem)
        counters[SWEEPS] += sweeps
        error = missed(number, scale, work, rule.tail) / tolerance if sweeps > 0 else np.inf
        if error > 1.0:
            length, uncut = length * _shrink(error), 0.0
            restart(number, work)
            continue
        due = 0
        if set_reach(number, length, groups, work, rule, problem):
            due = list_due(neurons, work, problem.rays.shape[0])
        counters[CHECKS] += due
        count, number, cut = settle_moves(due, number, length, limits, aims, moves, state, problem)
        if count == FULL:
            return FULL, 0.0, 0
        hair = length <= 2.0 * OVERSHOOT * uncut or length <= SHORTEST / OVERSHOOT * control[TIME]
        if count >= 0 and cut <= 1.0 - 2.0 * OVERSHOOT and not hair:
            uncut = max(uncut, length * min(1.0, max(MANY_SWEEPS / sweeps, 0.7)))
            counters[CUTS] += 1
            share = max(cut + OVERSHOOT, OVERSHOOT)
            shorten(share, number, work, rule)
            length *= share
            continue
        error = missed(number, scale, work, rule.tail) / tolerance if count >= 0 else np.inf
        if error > 1.0:
            length, uncut = length * _shrink(error), 0.0
            restart(number, work)
            continue
        commit(count, due, number, moves, state, problem)
        grown = length * min(2.0, _shrink(error), max(MANY_SWEEPS / sweeps, 0.7))
        control[LENGTH] = max(grown, uncut, control[LENGTH] if length == remaining else 0.0)
        counters[STEPS] += 1
        return count, length, due
    return STALLED, 0.0, 0


@njit(cache=True, **INTERNAL)
def _shrink(error: float) -> float:
    """Return by how much to change the length of a step, for an error in units of the tolerance."""
    if not error < 1e12:
        return 0.5
    return float(max(0.9 * max(error, 1e-12) ** (-1.0 / 11.0), 0.1))


@njit(cache=True, **LEAN)
def squared_gradient(forces: Floats, groups: Groups, rays: Floats) -> tuple[float, float]:
    """Return Σ |w'|² and Σ a'² of all neurons, from the groups' moments; forces (C, 2): D now."""
    cones = rays.shape[0]
    inner, outer = 0.0, 0.0
    for g in range(3 * cones):
        if groups.counts[g] == 0:
            continue
        wall = g if g < cones else (g - cones) // 2
        f0, f1 = forces[wall, 0], forces[wall, 1]
        if g >= cones:
            along = f0 * rays[wall, 0] + f1 * rays[wall, 1]
            f0, f1 = along * rays[wall, 0], along * rays[wall, 1]
        p, s = groups.propagators[g], groups.moments[g]
        u0, u1, u2 = f0 * p[0] + f1 * p[3], f0 * p[1] + f1 * p[4], f0 * p[2] + f1 * p[5]
        inner += (f0 * f0 + f1 * f1) * _quadratic(p[6], p[7], p[8], s)
        outer += _quadratic(u0, u1, u2, s)
    return inner, outer


@njit(cache=True, **INTERNAL)
def _quadratic(v0: float, v1: float, v2: float, s: Floats) -> float:
    """Return vᵀ S v."""
    whole = s[0] * v0 * v0 + s[3] * v1 * v1 + s[5] * v2 * v2
    return float(whole + 2.0 * (s[1] * v0 * v1 + s[2] * v0 * v2 + s[4] * v1 * v2))
