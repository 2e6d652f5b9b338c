"""The first event of a neuron on a stretch of a step whose forces are known.

* A wall is met: a zero of S_w ⟨w, e_w⟩;
* a sliding neuron is pulled off: with independent normals where a multiplier |μ_w| exceeds sign(a) C_w by
  more than `rest`; with dependent ones where the force of least norm differs from the projected one by more;
* the outer weight of a sliding neuron passes zero.

A wall at which the neuron is, having just crossed or left it, has ⟨w, e_w⟩ = ±rounding: its next zero is
sought in the series divided by u.
"""

from __future__ import annotations

from math import sqrt

from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import ONCE, SUMS
from shallowflow.kernels.walls.arrangement import Problem
from shallowflow.kernels.walls.desk import Desk
from shallowflow.kernels.walls.field import Field
from shallowflow.kernels.walls.series import NONE, dot, first_zero, shift, value
from shallowflow.kernels.walls.settle import ON, settle
from shallowflow.kernels.walls.sliding import project, shorten

SAMPLES = 4
"""Parts of a stretch at whose ends a neuron on dependent walls is looked at."""


@njit(cache=True, **SUMS)
def _meets(w: int, order: int, tiny: float, desk: Desk, normals: Floats) -> float:
    """Return where on the stretch the neuron meets wall w, 0 if it must be decided at once, or `NONE`."""
    series, sign = desk.passing, float(desk.signs[w])
    for p in range(order + 1):
        part = 0.0
        for i in range(normals.shape[1]):
            part += desk.inner[p, i] * normals[w, i]
        series[p] = part
    if sign * series[0] > tiny:
        return first_zero(series, order, sign, 0.0)
    if order == 0:
        return NONE
    # At the wall: the zero at u = 0 is taken out.
    if sign * series[1] > tiny:
        return first_zero(series[1:], order - 1, sign, 0.0)
    if sign * series[1] < -tiny:
        return 0.0
    series[0] = 0.0
    for k in range(1, 17):
        height = sign * value(series, order, k / 16.0)
        if height < -tiny:
            return 0.0
        if height > tiny:
            return NONE
    return NONE


@njit(cache=True, **ONCE)
def first_wall(order: int, tiny: float, desk: Desk, problem: Problem) -> float:
    """Return where on the stretch the neuron first meets a wall, or `NONE`."""
    normals, reach = problem.normals, 0.0
    for p in range(1, order + 1):
        reach += desk.norms[p]
    first = NONE
    for w in range(normals.shape[0]):
        if desk.signs[w] == 0:
            continue
        z = desk.inner[0, w] if problem.aligned else dot(desk.w, normals, w)
        if desk.signs[w] * z > reach + tiny:
            continue
        first = min(first, _meets(w, order, tiny, desk, normals))
    return first


@njit(cache=True, **ONCE)
def _leaves(
    u: float, start: float, length: float, way: float, rest: float, desk: Desk, field: Field, problem: Problem
) -> bool:
    """Return whether a neuron on walls with dependent normals is pulled off at u."""
    frame, meeting, normals = desk.frame, desk.meeting, problem.normals
    box, size = meeting.box, normals.shape[1]
    share = start + length * u
    for i in range(size):
        total = desk.forces[desk.poly.size - 1, i]
        for p in range(desk.poly.size - 2, -1, -1):
            total = total * share + desk.forces[p, i]
        meeting.rest[i], box.force[i], desk.pulls[i] = total, total, total
    project(desk.pulls, frame)
    repelled = False
    for k in range(frame.sizes[0]):
        w = frame.walls[k]
        shift(field.jumps, w, share, 1.0, desk.poly)
        meeting.walls[k], meeting.sides[k], meeting.jumps[k] = w, ON, desk.poly[0]
        box.walls[k], box.bounds[k], box.x[k] = w, abs(desk.poly[0]), 0.0
        repelled = repelled or way * desk.poly[0] <= 0.0
    if repelled:
        settle(frame.sizes[0], frame.sizes[0], way, rest, meeting, normals)
    else:
        shorten(box, frame.sizes[0], normals)
    square = 0.0
    for i in range(size):
        apart = box.force[i] - desk.pulls[i]
        square += apart * apart
    return sqrt(square) > rest


@njit(cache=True, **ONCE)
def first_release(
    start: float, length: float, way: float, rest: float, desk: Desk, field: Field, problem: Problem
) -> float:
    """Return where on the stretch a sliding neuron is pulled off its walls, or `NONE`."""
    frame, terms = desk.frame, desk.forces.shape[0]
    count, first = frame.sizes[0], NONE
    if not problem.aligned and frame.sizes[1] < count:
        # Samples from the left; after the first at which it leaves, bisection.
        before, after, u = 0.0, NONE, 0.0
        while after == NONE or after - before > 1e-13:
            if _leaves(u, start, length, way, rest, desk, field, problem):
                if u == 0.0:
                    return 0.0
                after = u
            else:
                before = u
            if after == NONE and before >= 1.0:
                return NONE
            u = before + 1.0 / SAMPLES if after == NONE else 0.5 * (before + after)
        return after
    for k in range(count):
        w = frame.walls[k]
        shift(field.jumps, w, start, length, desk.poly)
        if problem.aligned:
            shift(desk.forces, w, start, length, desk.other)
        else:
            factor = 1.0
            for p in range(terms):
                desk.other[p] = desk.multipliers[p, k] * factor
                factor *= length
        for side in range(2):
            sign = 1.0 - 2.0 * side
            for p in range(terms):
                desk.passing[p] = way * desk.poly[p] + sign * desk.other[p]
            desk.passing[0] += rest
            first = min(
                first, 0.0 if desk.passing[0] <= 0.0 else first_zero(desk.passing, terms - 1, 1.0, 0.0)
            )
    return first
