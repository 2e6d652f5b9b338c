"""One force per cone: from Σ a w of every cone to D of every cone, in O(data points).

With β_c = Σ_{j in c} a_j w_j the network ([early_alignment], (1); leaky slope γ) is, at data point x_k,

    h_k = <(1 - γ) Σ_{c sees k} β_c + γ Σ_c β_c, x_k>,

and the neurons of cone c all move along

    D_c = (1 - γ) Σ_{k seen by c} g_k x_k + γ Σ_k g_k x_k,        g_k = -∂L/∂h_k.

A point that enters at wall r is seen by the L cones r, …, r + L - 1 (mod 2L), see `cone_geometry`: both sums
are sums over half a turn. They are made of running sums from both ends of either half of the circle, never of
differences: a cone that sees nothing has D = 0 exactly.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.cone_geometry import LEAN, Samples

SQUARE, LOGISTIC = 0, 1
"""Losses: weight · ½ Σ (h_k - y_k)²; weight · Σ ln(1 + exp(-h_k y_k))."""


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


@njit(cache=True, **LEAN)
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


@njit(cache=True, **LEAN)
def pull(prediction: float, target: float, loss: int) -> float:
    """Return -∂L/∂h for one point, without the loss's weight."""
    if loss == SQUARE:
        return target - prediction
    margin = prediction * target
    small = exp(-abs(margin))
    return target * (small if margin > 0.0 else 1.0) / (1.0 + small)


@njit(cache=True, **LEAN)
def set_forces(work: Forces, samples: Samples, slope: float, loss: tuple[int, float, float]) -> bool:
    """Compute all G_c from all β_c; return whether they are finite.

    loss: which one, the network's output factor, and step · weight of the loss · output factor.
    """
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
