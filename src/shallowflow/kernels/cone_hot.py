"""Neurons that are stepped one by one: those that cross a wall again and again, and strays.

Where the flow would slide along a wall (pushed back to it from both sides, [early_alignment], the subgradient
set on a face) descent crosses the wall every few steps. Such a *hot* neuron is kept with its present value
and moved by the force of the cone in which it is, O(1) per step, until it has been quiet for a while. A
stray, whose pattern is that of no cone (`cone_geometry`), is moved by plain descent, O(data points).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.cone_forces import Forces
from shallowflow.kernels.cone_geometry import INTERNAL, STRAY, Samples, Signed, Walls, cone_of, near_cone
from shallowflow.kernels.cone_heap import Indices

RECROSSING = 64
"""A neuron that turns round and crosses a wall within so many steps of its last crossing becomes hot."""
QUIET = 128
"""A hot neuron that has not crossed a wall for so many steps goes back to its cone."""
COOLING_PERIOD = 64
"""Number of steps between two looks for hot neurons that are quiet."""


class Hot(NamedTuple):
    """The hot neurons, as many as there are: θ (m, 3), index, cone, step of the last crossing (m,).

    moments (2L, 2): Σ a w of the hot neurons in each cone.
    """

    theta: Floats
    neuron: Indices
    cone: Indices
    crossed: Ints
    moments: Floats


def new_hot(width: int, cones: int) -> Hot:
    """Return an empty list with room for all neurons (memory is taken from the system only when used)."""
    return Hot(
        np.empty((width, 3)),
        np.empty(width, np.int32),
        np.empty(width, np.int32),
        np.empty(width, np.int64),
        np.zeros((cones, 2)),
    )


@njit(cache=True, **INTERNAL)
def append_hot(j: int, w0: float, w1: float, a: float, cone: int, step: int, hot: Hot, number: int) -> None:
    """Append neuron j, which crossed into `cone` (or became a stray) at this step, to a list of `number`."""
    hot.theta[number, 0], hot.theta[number, 1], hot.theta[number, 2] = w0, w1, a
    hot.neuron[number], hot.cone[number], hot.crossed[number] = j, cone, step
    if cone != STRAY:
        hot.moments[cone, 0] += a * w0
        hot.moments[cone, 1] += a * w1


@njit(cache=True, **INTERNAL)
def step_hot(
    hot: Hot, number: int, work: Forces, samples: Samples, slope: float, walls: Walls, step: int
) -> tuple[int, int]:
    """Move the hot neurons, and sum their a w by cone; return how many crossed and how many are strays."""
    crossings, strays = 0, 0
    hot.moments[:] = 0.0
    for i in range(number):
        old = Signed(hot.cone[i])
        if old == STRAY:
            cone = step_stray(i, hot, work.pulls, samples, slope, walls)
        else:
            w0, w1, a = hot.theta[i, 0], hot.theta[i, 1], hot.theta[i, 2]
            g0, g1 = work.forces[old, 0], work.forces[old, 1]
            w0, w1, a = w0 + g0 * a, w1 + g1 * a, a + (g0 * w0 + g1 * w1)
            hot.theta[i, 0], hot.theta[i, 1], hot.theta[i, 2] = w0, w1, a
            cone = near_cone(w0, w1, old, walls)
        hot.cone[i] = cone
        # Arithmetic instead of a branch, which could not be predicted here.
        crossed = Signed(cone != old)
        hot.crossed[i] += crossed * (step - hot.crossed[i])
        crossings += crossed
        if cone == STRAY:
            strays += 1
        else:
            hot.moments[cone, 0] += hot.theta[i, 2] * hot.theta[i, 0]
            hot.moments[cone, 1] += hot.theta[i, 2] * hot.theta[i, 1]
    return crossings, strays


@njit(cache=True, **INTERNAL)
def step_stray(i: int, hot: Hot, pulls: Floats, samples: Samples, slope: float, walls: Walls) -> int:
    """Move the i-th hot neuron, a stray, by its own sign pattern; return its new cone."""
    w0, w1, a = hot.theta[i, 0], hot.theta[i, 1], hot.theta[i, 2]
    g0, g1 = 0.0, 0.0
    for k in range(samples.targets.size):
        x0, x1 = samples.points[k, 0], samples.points[k, 1]
        pull = pulls[k] * (1.0 if w0 * x0 + w1 * x1 > 0.0 else slope)
        g0 += pull * x0
        g1 += pull * x1
    hot.theta[i, 0], hot.theta[i, 1], hot.theta[i, 2] = w0 + g0 * a, w1 + g1 * a, a + (g0 * w0 + g1 * w1)
    cone: int = cone_of(hot.theta[i, 0], hot.theta[i, 1], Signed(0), walls)
    return cone


@njit(cache=True, **INTERNAL)
def sum_strays(hot: Hot, number: int, samples: Samples, slope: float, outputs: Floats) -> int:
    """Set what the strays add to the predictions, (k,); return how many there are."""
    outputs[:] = 0.0
    strays = 0
    for i in range(number):
        if hot.cone[i] != STRAY:
            continue
        strays += 1
        for k in range(samples.targets.size):
            z = hot.theta[i, 0] * samples.points[k, 0] + hot.theta[i, 1] * samples.points[k, 1]
            outputs[k] += hot.theta[i, 2] * (z if z > 0.0 else slope * z)
    return strays


@njit(cache=True, **INTERNAL)
def sum_moments(hot: Hot, number: int) -> None:
    """Sum a w of the hot neurons of every cone afresh."""
    hot.moments[:] = 0.0
    for i in range(number):
        cone = Signed(hot.cone[i])
        if cone != STRAY:
            hot.moments[cone, 0] += hot.theta[i, 2] * hot.theta[i, 0]
            hot.moments[cone, 1] += hot.theta[i, 2] * hot.theta[i, 1]
