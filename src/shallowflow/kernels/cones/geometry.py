"""Activation cones in the plane: which data points a neuron sees, and the force on the neurons of a cone.

A data point x ≠ 0 is active for the neuron w iff <w, x> > 0 ([early_alignment], the sign pattern A(w);
inactive on the border itself: ReLU'(0) = 0). In d = 2 the borders are rays. Turn counter-clockwise: x becomes
active when w passes the ray at a right angle behind x, its *wall*, and inactive half a turn later, on the
opposite wall. Number the walls 0 … 2L-1 by angle, wall r + L opposite to wall r; L is the number of different
lines through the data points. Wall r has the normal n_r that points counter-clockwise (a data point of its
line or minus that), and **cone c** lies between the walls c and c + 1 (mod 2L):

    w in cone c   iff   <n_c, w> > 0 > <n_{c+1}, w>,        active in cone c: points of the walls c-L+1, …, c.

On a wall only the points that enter or leave there are inactive besides the others: the wall belongs to the
cone before it if points only enter there, to the cone behind it if points only leave. If both happen (data
points in opposite directions), or if w = 0, the pattern is that of no cone: the neuron is a *stray*.

Points on one line up to rounding share their walls. Points at the origin are never active and are left out.

From Σ a w of every cone the force D of every cone is found in O(data points). With β_c = Σ_{j in c} a_j w_j,
the network ([early_alignment], (1); leaky slope γ) is at data point x_k

    h_k = <(1 - γ) Σ_{c sees k} β_c + γ Σ_c β_c, x_k>,

and the neurons of cone c all move along

    D_c = (1 - γ) Σ_{k seen by c} g_k x_k + γ Σ_k g_k x_k,        g_k = -∂L/∂h_k.

A point that enters at wall r is seen by the L cones r, …, r + L - 1 (mod 2L): both sums are sums over half a
turn. They are made of running sums from both ends of either half of the circle, never of
differences: a cone that sees nothing has D = 0 exactly.
"""

from __future__ import annotations

from itertools import pairwise
from math import exp, log, log1p
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import LEAN, ONCE, Signed

BEFORE, BEHIND, NEITHER = 0, 1, 2
"""Whose pattern a neuron on a wall has: that of the cone before it (clockwise), behind it, or of neither."""
STRAY = -1
"""The cone of a neuron whose pattern no cone has."""
SAME_LINE = 4 * np.finfo(np.float64).eps
"""Two inputs count as on one line if the sine of their angle is no larger."""


class Walls(NamedTuple):
    """The 2L walls and the first one again, so that every cone c lies between the rows c and c + 1.

    normals (2L + 1, 3) holds n_r and 1/|n_r|; owners (2L + 1,) is `BEFORE`, `BEHIND` or `NEITHER`.
    """

    normals: Floats
    owners: Ints


class Samples(NamedTuple):
    """The k data points off the origin: points (k, 2), targets (k,), walls (k,) where they enter."""

    points: Floats
    targets: Floats
    walls: Ints


def arrange(inputs: Floats, targets: Floats) -> tuple[Walls, Samples]:
    """Sort the data by walls: O(n log n), once per data set. [early_alignment], the cones A^{-1}(u) in d = 2.

    inputs (n, 2); targets (n,).
    """
    kept = np.flatnonzero(np.any(inputs != 0, axis=1))
    points = inputs[kept]
    flipped = (points[:, 1] < 0) | ((points[:, 1] == 0) & (points[:, 0] < 0))
    upward = np.where(flipped[:, None], -points, points) + 0.0
    order = np.argsort(np.arctan2(upward[:, 1], upward[:, 0]), kind="stable")
    points, upward, flipped, kept = points[order], upward[order], flipped[order], kept[order]
    line = _lines(upward)
    if line.size and line[-1] > 0 and _same_line(upward[-1], upward[0]):
        last = line == line[-1]
        line[last], flipped[last] = 0, ~flipped[last]
    lines = int(line.max(initial=-1)) + 1
    wall = np.where(flipped, line + lines, line)
    order = np.argsort(wall, kind="stable")
    samples = Samples(np.ascontiguousarray(points[order]), targets[kept[order]], wall[order])
    if lines == 0:
        return Walls(np.zeros((1, 3)), np.array([NEITHER])), samples
    first = np.unique(line, return_index=True)[1]
    around = np.concatenate([upward[first], -upward[first], upward[:1]])
    normals = np.column_stack([around, 1.0 / np.hypot(around[:, 0], around[:, 1])])
    entering = np.bincount(wall, minlength=2 * lines) > 0
    leaving = np.roll(entering, lines)
    owners = np.where(entering & leaving, NEITHER, np.where(entering, BEFORE, BEHIND))
    return Walls(normals, np.append(owners, owners[0])), samples


def _lines(upward: Floats) -> Ints:
    """Number the lines of directions (k, 2) that are sorted by angle."""
    new = [not _same_line(one, other) for one, other in pairwise(upward)]
    return np.concatenate([np.zeros(min(len(upward), 1)), np.cumsum(new)]).astype(np.int64)


def _same_line(one: Floats, other: Floats) -> bool:
    """Whether two vectors of the plane are parallel up to rounding."""
    one, other = one / np.hypot(one[0], one[1]), other / np.hypot(other[0], other[1])
    return bool(abs(one[0] * other[1] - one[1] * other[0]) <= SAME_LINE)


@njit(cache=True, **LEAN)
def side_of_cone(w0: float, w1: float, cone: int, walls: Walls) -> int:
    """Return 0 if w is in the cone, -1 if it lies before the cone's first wall, 1 if behind its last one."""
    normals, owners = walls
    first = normals[cone, 0] * w0 + normals[cone, 1] * w1
    last = normals[cone + 1, 0] * w0 + normals[cone + 1, 1] * w1
    if first < 0.0 or (first == 0.0 and owners[cone] != BEHIND):
        return -1
    if last > 0.0 or (last == 0.0 and owners[cone + 1] != BEFORE):
        return 1
    return 0


@njit(cache=True, **LEAN)
def cone_beside(cone: int, side: int, walls: Walls) -> int:
    """Return the cone itself (side 0), the one before it (-1) or behind it (1)."""
    cones = walls.owners.size - 1
    beside = cone + side
    beside = beside - cones if beside >= cones else beside
    return beside + cones if beside < 0 else beside


@njit(cache=True, **LEAN)
def cone_of(w0: float, w1: float, cone: int, walls: Walls) -> int:
    """Return the cone of w, found by a walk from `cone`, or `STRAY`."""
    if w0 == 0.0 and w1 == 0.0:
        return STRAY
    for _ in range(walls.owners.size + 1):
        side = side_of_cone(w0, w1, cone, walls)
        if side == 0:
            return cone
        cone = cone_beside(cone, side, walls)
    return STRAY


@njit(**ONCE)
def near_cone(w0: float, w1: float, cone: int, walls: Walls) -> int:
    """The same, made for a w that is in `cone` or in one beside it and not on a wall.

    It has no branches then: for neurons that come and go they could not be predicted.
    """
    normals = walls.normals
    first = normals[cone, 0] * w0 + normals[cone, 1] * w1
    last = normals[cone + 1, 0] * w0 + normals[cone + 1, 1] * w1
    cone = cone_beside(cone, Signed(last > 0.0) - Signed(first < 0.0), walls)
    first = normals[cone, 0] * w0 + normals[cone, 1] * w1
    last = normals[cone + 1, 0] * w0 + normals[cone + 1, 1] * w1
    return cone if (first > 0.0) & (last < 0.0) else cone_of(w0, w1, cone, walls)


@njit(cache=True, **LEAN)
def first_cone(w0: float, w1: float, walls: Walls) -> int:
    """Return the cone of w, found by bisection, or `STRAY`."""
    normals = walls.normals
    lines = (walls.owners.size - 1) // 2
    low = 0 if normals[0, 0] * w0 + normals[0, 1] * w1 >= 0.0 else lines
    high = low + lines
    while high - low > 1:
        middle = (low + high) // 2
        if normals[middle, 0] * w0 + normals[middle, 1] * w1 >= 0.0:
            low = middle
        else:
            high = middle
    cone: int = cone_of(w0, w1, low, walls)
    return cone


SQUARE, LOGISTIC = 0, 1
"""Losses: weight · ½ Σ (h_k - y_k)²; weight · Σ ln(1 + exp(-h_k y_k))."""
Loss = tuple[int, float, float]
"""Which one, the network's output factor, and step · weight of the loss · output factor."""


class Forces(NamedTuple):
    """What a step is computed with.

    moments (2L, 2): β_c; half_turns (2L, 2), pushes (2L, 2): working memory; forces (2L, 2): G_c = step ·
    D_c; strays (k,): what strays add to h_k; pulls (k,): step · g_k.
    """

    moments: Floats
    half_turns: Floats
    pushes: Floats
    forces: Floats
    strays: Floats
    pulls: Floats


def new_forces(cones: int, points: int) -> Forces:
    """Return the working memory for this many cones and data points."""
    planes = [np.zeros((cones, 2)) for _ in range(4)]
    return Forces(planes[0], planes[1], planes[2], planes[3], np.zeros(points), np.zeros(points))


@njit(**ONCE)
def sum_half_turns(terms: Floats, sums: Floats) -> tuple[float, float]:
    """Set sums[r] = terms[r] + … + terms[r + L - 1], indices mod 2L; both (2L, 2). Return the sum of all."""
    lines = terms.shape[0] // 2
    a0, a1, b0, b1 = 0.0, 0.0, 0.0, 0.0
    for i in range(lines):
        far = lines + i
        sums[i, 0], sums[i, 1], sums[far, 0], sums[far, 1] = b0, b1, a0, a1
        a0, a1 = a0 + terms[i, 0], a1 + terms[i, 1]
        b0, b1 = b0 + terms[far, 0], b1 + terms[far, 1]
    total0, total1 = a0 + b0, a1 + b1
    a0, a1, b0, b1 = 0.0, 0.0, 0.0, 0.0
    for i in range(lines - 1, -1, -1):
        far = lines + i
        a0, a1 = a0 + terms[i, 0], a1 + terms[i, 1]
        b0, b1 = b0 + terms[far, 0], b1 + terms[far, 1]
        sums[i, 0], sums[i, 1] = sums[i, 0] + a0, sums[i, 1] + a1
        sums[far, 0], sums[far, 1] = sums[far, 0] + b0, sums[far, 1] + b1
    return total0, total1


@njit(**ONCE)
def pull(prediction: float, target: float, loss: int) -> float:
    """Return -∂L/∂h for one point, without the loss's weight."""
    if loss == SQUARE:
        return target - prediction
    margin = prediction * target
    small = exp(-abs(margin))
    return target * (small if margin > 0.0 else 1.0) / (1.0 + small)


@njit(**ONCE)
def error(prediction: float, target: float, loss: int) -> float:
    """Return the loss of one point, without the loss's weight."""
    if loss == SQUARE:
        return 0.5 * (prediction - target) ** 2
    margin = prediction * target
    return max(-margin, 0.0) + log1p(exp(-abs(margin)))


def error_at_origin(inputs: Floats, targets: Floats, loss: int) -> float:
    """Return Σ of `error` over the points at the origin, where every network of these is 0."""
    there = targets[~np.any(inputs != 0, axis=1)]
    return 0.5 * float(there @ there) if loss == SQUARE else len(there) * log(2.0)


@njit(**ONCE)
def total_error(work: Forces, samples: Samples, slope: float, loss: Loss) -> float:
    """Return Σ_k of `error` from all β_c; only `half_turns` is written. The rest as in `set_forces`."""
    total0, total1 = sum_half_turns(work.moments, work.half_turns)
    share = 1.0 - slope
    total = 0.0
    for k in range(samples.walls.size):
        wall = samples.walls[k]
        seen0 = share * work.half_turns[wall, 0] + slope * total0
        seen1 = share * work.half_turns[wall, 1] + slope * total1
        seen = seen0 * samples.points[k, 0] + seen1 * samples.points[k, 1] + work.strays[k]
        total += error(loss[1] * seen, samples.targets[k], loss[0])
    return total


@njit(cache=True, **LEAN)
def set_forces(work: Forces, samples: Samples, slope: float, loss: Loss) -> bool:
    """Compute all G_c from all β_c; return whether they are finite."""
    kind, scale, rate = loss
    total0, total1 = sum_half_turns(work.moments, work.half_turns)
    share = 1.0 - slope
    cones = work.forces.shape[0]
    for wall in range(cones):
        work.pushes[wall, 0], work.pushes[wall, 1] = 0.0, 0.0
    for k in range(samples.walls.size):
        wall = samples.walls[k]
        x0, x1 = samples.points[k, 0], samples.points[k, 1]
        seen0 = share * work.half_turns[wall, 0] + slope * total0
        seen1 = share * work.half_turns[wall, 1] + slope * total1
        prediction = scale * (seen0 * x0 + seen1 * x1 + work.strays[k])
        value = rate * pull(prediction, samples.targets[k], kind)
        work.pulls[k] = value
        work.pushes[wall, 0] += value * x0
        work.pushes[wall, 1] += value * x1
    total0, total1 = sum_half_turns(work.pushes, work.half_turns)
    for cone in range(cones):
        # The walls cone - L + 1, …, cone: half a turn from the wall cone + L + 1 on.
        wall = cone + cones // 2 + 1
        wall = wall if wall < cones else wall - cones
        work.forces[cone, 0] = share * work.half_turns[wall, 0] + slope * total0
        work.forces[cone, 1] = share * work.half_turns[wall, 1] + slope * total1
    return bool(np.isfinite(total0) and np.isfinite(total1))
