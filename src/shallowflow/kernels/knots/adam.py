"""Adam for a univariate ReLU network, O(width + samples) per step: one sweep to the right, one to the left.

Model f(x) = Σ_j c_j relu(x − b_j) and loss L = scale · ½ Σ_i (f(x_i) − y_i)² [plateau, (2.1), (2.2)]. With
r_i = scale · (f(x_i) − y_i) and ReLU'(0) = 0,

    ∂L/∂b_j = −c_j Σ_{x_i > b_j} r_i,      ∂L/∂c_j = Σ_{x_i > b_j} r_i (x_i − b_j).

Sweeping from knot to knot, f gains slope · distance and Σ r (x − b) gains Σ r · distance; the data between
two knots are taken from the knot to their left. Only distances enter, so data far from the origin lose no
digits. The order of the knots is kept up by insertion sort: from one step to the next it hardly changes.

Adam [Kingma & Ba 2015, Algorithm 1]: with gradient g and step number t,

    m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²,  θ ← θ − step · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε).
"""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints


@njit(cache=True)
def sort_order(knots: Floats, order: Ints) -> None:
    """Make `order` (n,) sort the knots (n,), in place; fast if it nearly does."""
    for p in range(1, order.size):
        moving = order[p]
        q = p
        while q > 0 and knots[order[q - 1]] > knots[moving]:
            order[q] = order[q - 1]
            q -= 1
        order[q] = moving


@njit(cache=True)
def first_active(theta: Floats, order: Ints, x: Floats, starts: Ints) -> None:
    """Write how many data are ≤ each knot, in sorted order, into `starts` (n + 1,), and at the end all."""
    i = 0
    for p in range(order.size):
        while i < x.size and x[i] <= theta[0, order[p]]:
            i += 1
        starts[p] = i
    starts[order.size] = x.size


@njit(cache=True)
def sweep_right(
    theta: Floats, order: Ints, starts: Ints, data: tuple[Floats, Floats], scale: float, residuals: Floats
) -> None:
    """Write r_i = scale · (f(x_i) − y_i) into `residuals` (m,); theta (2, n): knots and outer weights."""
    x, y = data
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


@njit(cache=True)
def sweep_left(
    theta: Floats, order: Ints, starts: Ints, x: Floats, residuals: Floats, gradient: Floats
) -> None:
    """Write (∂L/∂b, ∂L/∂c) into `gradient` (2, n), from the residuals (m,)."""
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


def loss_gradient(theta: Floats, x: Floats, y: Floats, scale: float) -> Floats:
    """Return (∂L/∂b, ∂L/∂c) (2, n); theta (2, n): knots in any order, outer weights; x (m,) sorted."""
    order = np.argsort(theta[0])
    starts = np.empty(order.size + 1, np.int64)
    residuals, gradient = np.empty(x.size), np.empty_like(theta)
    first_active(theta, order, x, starts)
    sweep_right(theta, order, starts, (x, y), scale, residuals)
    sweep_left(theta, order, starts, x, residuals, gradient)
    return gradient


@njit(cache=True)
def adam_update(
    theta: Floats,
    gradient: Floats,
    mean: Floats,
    square: Floats,
    factors: tuple[float, float, float, float, float],
) -> None:
    """Write θ − length · m / (√v · spread + ε) into `theta` (P,); renew m and v; see `adam_steps`."""
    beta1, beta2, length, spread, damping = factors
    for j in range(theta.size):
        g = gradient[j]
        mean[j] = beta1 * mean[j] + (1.0 - beta1) * g
        square[j] = beta2 * square[j] + (1.0 - beta2) * g * g
        theta[j] -= length * mean[j] / (sqrt(square[j]) * spread + damping)


@njit(cache=True)
def adam_steps(
    theta: Floats,
    order: Ints,
    moments: Floats,
    made: int,
    steps: int,
    x: Floats,
    y: Floats,
    scale: float,
    rates: tuple[float, float, float, float],
) -> int:
    """Make up to `steps` Adam steps in place; return how many left θ finite (θ is the last finite one).

    theta (2, n): knots and outer weights; order (n,): sorts the knots, or once did (kept up here, so that a
    run may be cut anywhere and stays the same to the last bit); moments (2, 2, n): m and v after `made`
    earlier steps; x (m,) sorted, y (m,); rates: step, β₁, β₂, ε.
    """
    step, beta1, beta2, damping = rates
    starts = np.empty(order.size + 1, np.int64)
    residuals, gradient, before = np.empty(x.size), np.empty_like(theta), np.empty_like(theta)
    for t in range(made + 1, made + steps + 1):
        sort_order(theta[0], order)
        first_active(theta, order, x, starts)
        sweep_right(theta, order, starts, (x, y), scale, residuals)
        sweep_left(theta, order, starts, x, residuals, gradient)
        for j in range(order.size):
            before[0, j], before[1, j] = theta[0, j], theta[1, j]
        factors = (beta1, beta2, step / (1.0 - beta1**t), 1.0 / sqrt(1.0 - beta2**t), damping)
        adam_update(theta.ravel(), gradient.ravel(), moments[0].ravel(), moments[1].ravel(), factors)
        if not isfinite(theta.sum()):
            for j in range(order.size):
                theta[0, j], theta[1, j] = before[0, j], before[1, j]
            return t - made - 1
    return steps
