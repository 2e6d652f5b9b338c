"""Full-batch gradient descent of f(x) = a_0 + Σ_k Σ_j a_jk σ((x_k − u_jk)/η), O(d(n + m) + windows) per step.

The samples are sorted once along every coordinate. Going through them in that order, a neuron is off, then
inside its window, then fully on; only samples inside windows need σ. With weights s_i = ∂L/∂f(x_i),

    ∂L/∂a_jk = Σ_{fully on} s_i + Σ_{window} s_i σ_jk(x_i),      ∂L/∂u_jk = −(a_jk/η) Σ_{window} s_i
    σ'_jk(x_i),

where the first sum is the total minus a running sum. [two_timescale] §6, loss weight·½Σr² or ‖r‖/n.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.steps.activation import slope, step


@njit(cache=True)
def sort_slots(u: Floats, slots: Ints) -> None:
    """Make `slots` (m,) sort u (m,), in place; fast if it nearly does."""
    for p in range(1, slots.size):
        moving = slots[p]
        q = p
        while q > 0 and u[slots[q - 1]] > u[moving]:
            slots[q] = slots[q - 1]
            q -= 1
        slots[q] = moving


@njit(cache=True)
def add_coordinate(
    u: Floats, a: Floats, slots: Ints, eta: float, x: Floats, order: Ints, values: Floats
) -> None:
    """Add Σ_j a_j σ((x_i − u_j)/η) to values[order[i]] for sorted x (n,)."""
    half, on, entered, plateau = 0.5 * eta, 0, 0, 0.0
    for i in range(x.size):
        while entered < slots.size and u[slots[entered]] - half < x[i]:
            entered += 1
        while on < entered and u[slots[on]] + half <= x[i]:
            plateau += a[slots[on]]
            on += 1
        value = plateau
        for p in range(on, entered):
            value += a[slots[p]] * step((x[i] - u[slots[p]]) / eta)
        values[order[i]] += value


@njit(cache=True)
def pull_coordinate(
    u: Floats,
    a: Floats,
    slots: Ints,
    eta: float,
    x: Floats,
    order: Ints,
    covector: Floats,
    total: float,
    grad_u: Floats,
    grad_a: Floats,
) -> None:
    """Write the gradients (m,) of one coordinate; total = Σ covector."""
    grad_u[:] = 0.0
    grad_a[:] = 0.0
    half, on, entered, passed = 0.5 * eta, 0, 0, 0.0
    for i in range(x.size):
        while entered < slots.size and u[slots[entered]] - half < x[i]:
            entered += 1
        while on < entered and u[slots[on]] + half <= x[i]:
            grad_a[slots[on]] += total - passed
            on += 1
        s = covector[order[i]]
        for p in range(on, entered):
            j = slots[p]
            z = (x[i] - u[j]) / eta
            grad_a[j] += s * step(z)
            grad_u[j] -= s * slope(z) * a[j] / eta
        passed += s


@njit(cache=True)
def advance_windows(
    u: Floats,
    a: Floats,
    offset: Floats,
    eta: float,
    samples: tuple[Floats, Ints, Floats],
    rates: tuple[float, float],
    loss: tuple[bool, float],
    steps: int,
) -> int:
    """Make up to `steps` steps in place; u, a (d, m), offset (1,).

    samples: x sorted (d, n), its order (d, n), y (n,); rates: of the outer and of the inner layer; loss:
    whether it is the norm, and the weight. Returns how many steps left all parameters finite.
    """
    x, order, y = samples
    norm, weight = loss
    fast, slow = rates
    d, m = u.shape
    n = y.size
    slots = np.empty((d, m), np.int64)
    for k in range(d):
        for j in range(m):
            slots[k, j] = j
    values, grad_u, grad_a = np.empty(n), np.empty((d, m)), np.empty((d, m))
    for done in range(steps):
        for i in range(n):
            values[i] = offset[0]
        for k in range(d):
            sort_slots(u[k], slots[k])
            add_coordinate(u[k], a[k], slots[k], eta, x[k], order[k], values)
        squares = 0.0
        for i in range(n):
            values[i] -= y[i]
            squares += values[i] * values[i]
        factor = weight
        if norm:
            factor = 1.0 / (n * sqrt(squares)) if squares > 0.0 else 0.0
        total = 0.0
        for i in range(n):
            values[i] *= factor
            total += values[i]
        for k in range(d):
            pull_coordinate(u[k], a[k], slots[k], eta, x[k], order[k], values, total, grad_u[k], grad_a[k])
        if not squares < np.inf:
            return done
        offset[0] -= fast * total
        for k in range(d):
            for j in range(m):
                u[k, j] -= slow * grad_u[k, j]
                a[k, j] -= fast * grad_a[k, j]
    return steps
