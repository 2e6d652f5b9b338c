"""Full-batch gradient descent of f(x) = a_0 + Σ_k Σ_j a_jk σ((x_k − u_jk)/η), O(d(n + m) + windows) per step.

The samples are sorted once along every coordinate. Going through them in that order, a neuron is off, then
inside its window, then fully on; only samples inside windows need σ. With weights s_i = ∂L/∂f(x_i),

    ∂L/∂a_jk = Σ_{fully on} s_i + Σ_{window} s_i σ_jk(x_i),
    ∂L/∂u_jk = −(a_jk/η) Σ_{window} s_i σ'_jk(x_i),

where the first sum is the total minus a running sum. [two_timescale] §6, loss weight·½Σr² or ‖r‖/n.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN
from shallowflow.kernels.shared.vectors import sort_order
from shallowflow.kernels.steps.activation import slope, step


class Samples(NamedTuple):
    """Inputs sorted along every coordinate (d, n), which samples these are (d, n), the targets (n,)."""

    x: Floats
    order: Ints
    y: Floats


class Neurons(NamedTuple):
    """Positions and weights (d, m), the offset (1,), the sharpness, and working memory.

    slots (d, m): their order along each coordinate; values (n,); grad_u, grad_a (d, m).
    """

    u: Floats
    a: Floats
    offset: Floats
    eta: float
    slots: Ints
    values: Floats
    grad_u: Floats
    grad_a: Floats


class Rules(NamedTuple):
    """Steps of the outer and of the inner layer; the loss: is it the norm? Otherwise its weight."""

    fast: float
    slow: float
    norm: bool
    weight: float


def new_neurons(u: Floats, a: Floats, offset: float, eta: float, samples: int) -> Neurons:
    """Return the neurons of u, a (d, m), which `advance_windows` changes in place."""
    slots = np.tile(np.arange(u.shape[1]), (u.shape[0], 1))
    gradients = np.empty(u.shape), np.empty(u.shape)
    return Neurons(u, a, np.array([float(offset)]), eta, slots, np.empty(samples), *gradients)


@njit(cache=True, **INTERNAL)
def _add_coordinate(neurons: Neurons, samples: Samples, k: int) -> None:
    """Add Σ_j a_jk σ((x_ik − u_jk)/η) to the values."""
    u, a, slots, eta = neurons.u[k], neurons.a[k], neurons.slots[k], neurons.eta
    x, order = samples.x[k], samples.order[k]
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
        neurons.values[order[i]] += value


@njit(cache=True, **INTERNAL)
def _pull_coordinate(neurons: Neurons, samples: Samples, total: float, k: int) -> None:
    """Write the gradients (m,) of one coordinate; the values are the s_i, total = Σ s_i."""
    u, a, slots, eta = neurons.u[k], neurons.a[k], neurons.slots[k], neurons.eta
    x, order, grad_u, grad_a = samples.x[k], samples.order[k], neurons.grad_u[k], neurons.grad_a[k]
    for j in range(u.size):
        grad_u[j] = grad_a[j] = 0.0
    half, on, entered, passed = 0.5 * eta, 0, 0, 0.0
    for i in range(x.size):
        while entered < slots.size and u[slots[entered]] - half < x[i]:
            entered += 1
        while on < entered and u[slots[on]] + half <= x[i]:
            grad_a[slots[on]] += total - passed
            on += 1
        s = neurons.values[order[i]]
        for p in range(on, entered):
            j = slots[p]
            z = (x[i] - u[j]) / eta
            grad_a[j] += s * step(z)
            grad_u[j] -= s * slope(z) * a[j] / eta
        passed += s


@njit(cache=True, **LEAN)
def residuals(neurons: Neurons, samples: Samples) -> float:
    """Write f(x_i) − y_i into the values of `neurons`; return the sum of their squares."""
    values = neurons.values
    for i in range(values.size):
        values[i] = neurons.offset[0]
    for k in range(neurons.u.shape[0]):
        sort_order(neurons.u[k], neurons.slots[k])
        _add_coordinate(neurons, samples, k)
    squares = 0.0
    for i in range(values.size):
        values[i] -= samples.y[i]
        squares += values[i] * values[i]
    return squares


def loss(neurons: Neurons, samples: Samples, rules: Rules) -> float:
    """Return weight·½Σr² or ‖r‖/n of the present neurons."""
    squares = float(residuals(neurons, samples))
    return sqrt(squares) / samples.y.size if rules.norm else 0.5 * rules.weight * squares


@njit(cache=True, **LEAN)
def advance_windows(neurons: Neurons, samples: Samples, rules: Rules, steps: int) -> int:
    """Make up to `steps` steps in place; return how many left all parameters finite."""
    u, a, offset, values = neurons.u, neurons.a, neurons.offset, neurons.values
    d, m = u.shape
    n = values.size
    for done in range(steps):
        squares = residuals(neurons, samples)
        if not squares < np.inf:
            return done
        factor = rules.weight
        if rules.norm:
            factor = 1.0 / (n * sqrt(squares)) if squares > 0.0 else 0.0
        total = 0.0
        for i in range(n):
            values[i] *= factor
            total += values[i]
        offset[0] -= rules.fast * total
        for k in range(d):
            _pull_coordinate(neurons, samples, total, k)
            for j in range(m):
                u[k, j] -= rules.slow * neurons.grad_u[k, j]
                a[k, j] -= rules.fast * neurons.grad_a[k, j]
    return steps
