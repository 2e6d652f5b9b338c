"""Loss, gradient and Adam of a univariate ReLU network: one sweep to the right, one to the left.

Model f(x) = Σ_j c_j relu(x − b_j) and loss L = scale · ½ Σ_i (f(x_i) − y_i)² [plateau, (2.1), (2.2)]. With
r_i = scale · (f(x_i) − y_i) and ReLU'(0) = 0,

    ∂L/∂b_j = −c_j Σ_{x_i > b_j} r_i,      ∂L/∂c_j = Σ_{x_i > b_j} r_i (x_i − b_j).

Sweeping from knot to knot, f gains slope · distance and Σ r (x − b) gains Σ r · distance; the data between
two knots are taken from the knot to their left. Only distances enter, so data far from the origin lose no
digits. The order of the knots is kept up by insertion sort: from one step to the next it hardly changes. All
of it costs O(width + samples).

Adam [Kingma & Ba 2015, Algorithm 1]: with gradient g and step number t,

    m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  θ ← θ − step · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε).
"""

from __future__ import annotations

from math import isfinite, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN
from shallowflow.kernels.shared.vectors import sort_order


class Line(NamedTuple):
    """Data x (m,) sorted, y (m,), the order of the knots (n,), and room for the sweeps.

    starts (n + 1,): how many data are ≤ each knot, in sorted order, and at the end all; residuals (m,).
    """

    x: Floats
    y: Floats
    order: Ints
    starts: Ints
    residuals: Floats


def line_of(theta: Floats, x: Floats, y: Floats) -> Line:
    """Return what sweeps over theta (2, n), knots and outer weights, need."""
    order = np.argsort(theta[0], kind="stable")
    return Line(x, y, order, np.empty(order.size + 1, np.int64), np.empty(x.size))


@njit(cache=True, **LEAN)
def sweep_right(theta: Floats, line: Line, scale: float) -> None:
    """Bring the order up to date and write r_i = scale · (f(x_i) − y_i)."""
    x, y, order, starts, residuals = line
    sort_order(theta[0], order)
    i = 0
    for p in range(order.size):
        while i < x.size and x[i] <= theta[0, order[p]]:
            i += 1
        starts[p] = i
    starts[order.size] = x.size
    for i in range(starts[0]):
        residuals[i] = -scale * y[i]
    value = slope = 0.0
    for p in range(order.size):
        knot = theta[0, order[p]]
        slope += theta[1, order[p]]
        for i in range(starts[p], starts[p + 1]):
            residuals[i] = scale * (value + slope * (x[i] - knot) - y[i])
        if p + 1 < order.size:
            value += slope * (theta[0, order[p + 1]] - knot)


@njit(cache=True, **LEAN)
def sweep_left(theta: Floats, line: Line, gradient: Floats) -> None:
    """Write (∂L/∂b, ∂L/∂c) into `gradient` (2, n), from the residuals."""
    x, _, order, starts, residuals = line
    push = lever = right = 0.0
    for p in range(order.size - 1, -1, -1):
        j = order[p]
        knot = theta[0, j]
        lever += push * (right - knot)
        for i in range(starts[p], starts[p + 1]):
            push += residuals[i]
            lever += residuals[i] * (x[i] - knot)
        right = knot
        gradient[0, j] = -theta[1, j] * push
        gradient[1, j] = lever


def loss(theta: Floats, x: Floats, y: Floats, scale: float) -> float:
    """Return L; theta (2, n): knots in any order, outer weights; x (m,) sorted."""
    line = line_of(theta, x, y)
    sweep_right(theta, line, 1.0)
    return 0.5 * scale * float(line.residuals @ line.residuals)


def loss_gradient(theta: Floats, x: Floats, y: Floats, scale: float) -> Floats:
    """Return (∂L/∂b, ∂L/∂c) (2, n); arguments as those of `loss`."""
    line, gradient = line_of(theta, x, y), np.empty_like(theta)
    sweep_right(theta, line, scale)
    sweep_left(theta, line, gradient)
    return gradient


@njit(cache=True, **INTERNAL)
def _adam_update(
    theta: Floats, gradient: Floats, moments: Floats, before: Floats, factors: tuple[float, ...]
) -> float:
    """Write θ − length · m / (√v · spread + ε) into `theta` (2, n), the old one into `before`; return Σ θ."""
    beta1, beta2, length, spread, damping = factors
    total = 0.0
    for row in range(2):
        for j in range(theta.shape[1]):
            g = gradient[row, j]
            mean = beta1 * moments[0, row, j] + (1.0 - beta1) * g
            square = beta2 * moments[1, row, j] + (1.0 - beta2) * g * g
            moments[0, row, j], moments[1, row, j] = mean, square
            before[row, j] = theta[row, j]
            theta[row, j] -= length * mean / (sqrt(square) * spread + damping)
            total += theta[row, j]
    return total


@njit(cache=True, **LEAN)
def _adam_steps(
    theta: Floats,
    moments: Floats,
    made: int,
    steps: int,
    line: Line,
    scale: float,
    rates: tuple[float, float, float, float],
    scratch: Floats,
) -> int:
    step, beta1, beta2, damping = rates
    gradient, before = scratch[0], scratch[1]
    for t in range(made + 1, made + steps + 1):
        sweep_right(theta, line, scale)
        sweep_left(theta, line, gradient)
        factors = (beta1, beta2, step / (1.0 - beta1**t), 1.0 / sqrt(1.0 - beta2**t), damping)
        # A sum is finite only if all its terms are.
        if not isfinite(_adam_update(theta, gradient, moments, before, factors)):
            for row in range(2):
                for j in range(theta.shape[1]):
                    theta[row, j] = before[row, j]
            return t - made - 1
    return steps


def adam_steps(
    theta: Floats,
    moments: Floats,
    made: int,
    steps: int,
    line: Line,
    scale: float,
    rates: tuple[float, float, float, float],
) -> int:
    """Make up to `steps` Adam steps in place; return how many left θ finite (θ is the last finite one).

    theta (2, n): knots and outer weights; moments (2, 2, n): m and v after `made` earlier steps; line: of
    `line_of` at the start (its order is kept up, so that a run may be cut anywhere and stays the same to the
    last bit); rates: step, β₁, β₂, ε.
    """
    scratch = np.empty((2, *theta.shape))
    return int(_adam_steps(theta, moments, made, steps, line, scale, rates, scratch))
