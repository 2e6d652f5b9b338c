"""When neurons that slide or rest are let go, and where to; how neurons that start on a wall begin.

A sliding group is released, and a resting neuron leaves w = 0, when it is pulled off faster than `rest`: with
no such hysteresis groups near an equilibrium, where all forces vanish, would be released and caught forever.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.collocation import NEVER, Rule, first_zero, interpolation_matrix
from shallowflow.kernels.cone_flow_groups import signs_of
from shallowflow.kernels.cone_flow_state import PLAIN, TWO_VALUED, Problem, Work
from shallowflow.kernels.cone_flow_walls import NOISE, downhill, uniform
from shallowflow.kernels.cone_geometry import BEFORE

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

    On a wall the cone is the one with its pattern (`cone_geometry`), or the one behind it if none has.
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
