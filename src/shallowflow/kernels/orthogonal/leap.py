"""One neuron under a frozen residual on orthonormal data, in closed form: the leap over a plateau.

In data coordinates f_k = ⟨w, x_k⟩ a neuron obeys f_k' = a b_k where f_k > 0 (else f_k is frozen for ever) and
a' = Σ_{f_k>0} f_k b_k, b_k = s·rate·r_k with s = sign a, [incremental] (4). With the residual r frozen, ρ =
ln|a|, g = f/|a|, Λ = |b| over the active points, β = ⟨b, g⟩/Λ and x = Λt,

    |a|/|a_0| = cosh x + β sinh x,      f_k/|a_0| = g_k + (b_k/Λ)(sinh x + β (cosh x − 1)).

A coordinate with b_k < 0 reaches 0 when e^x = (u + √(u² + 1 − β²))/(1 + β), u = β + Λ g_k/|b_k|; it is
switched off there (g_k = 0) and the formulas start afresh. ρ rises by Δ > 0 when
x = Δ + ln(1 + √(1 − (1 − β²) e^{−2Δ})) − ln(1 + β). |a| ≥ ‖w‖ keeps β ≥ −1; at β = −1 the neuron shrinks
along its own direction. Active means g_k > 0 throughout; `factor` is s·rate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

OPPOSED = 1e-15
"""1 + β below this: the neuron shrinks along its own direction."""


class Deaths(NamedTuple):
    """Times and points, (n,), of the coordinates of one neuron that reached 0."""

    times: Floats
    points: Ints


@njit(cache=True, **LEAN)
def leap(
    rho: float, g: Floats, residual: Floats, factor: float, time: float, target: float, deaths: Deaths
) -> tuple[float, float, int]:
    """Move one neuron by `time`, or until ρ reaches `target` from below; return (ρ, time moved, deaths).

    g is changed in place; the coordinates that died are written into `deaths`.
    """
    moved, died = 0.0, 0
    while True:
        length, beta = _drive(g, residual, factor)
        if length == 0.0:
            return rho, time, died
        left, until_death, point, until_target = time - moved, np.inf, -1, np.inf
        if 1.0 + beta >= OPPOSED:
            until_death, point = _next_death(g, residual, factor, length, beta)
            if rho < target:
                until_target = _rise_time(length, beta, target - rho)
        step = min(left, until_death, until_target)
        rho = _move(rho, g, residual, factor, length, beta, step)
        moved += step
        if step == until_death and until_death <= until_target and point >= 0:
            g[point] = 0.0
            deaths.times[died], deaths.points[died] = moved, point
            died += 1
        elif step == until_target:
            return target, moved, died
        if step == left:
            return rho, time, died


@njit(cache=True, **INTERNAL)
def _drive(g: Floats, residual: Floats, factor: float) -> tuple[float, float]:
    """Return (Λ, β)."""
    square, product = 0.0, 0.0
    for k in range(len(g)):
        if g[k] > 0.0:
            b = factor * residual[k]
            square += b * b
            product += b * g[k]
    length = np.sqrt(square)
    return length, max(product / length, -1.0) if length > 0.0 else 0.0


@njit(cache=True, **INTERNAL)
def _next_death(g: Floats, residual: Floats, factor: float, length: float, beta: float) -> tuple[float, int]:
    """Return the time until the first active coordinate reaches 0, and which; (∞, −1) if none does."""
    best, which = np.inf, -1
    for k in range(len(g)):
        b = factor * residual[k]
        if g[k] > 0.0 and b < 0.0:
            u = beta - length * g[k] / b
            time = np.log((u + np.sqrt(u * u + 1.0 - beta * beta)) / (1.0 + beta)) / length
            if time < best:
                best, which = time, k
    return max(best, 0.0), which


@njit(cache=True, **INTERNAL)
def _rise_time(length: float, beta: float, rise: float) -> float:
    """Return the time until ρ has risen by `rise` > 0, no coordinate dying."""
    root = np.sqrt(max(1.0 - (1.0 - beta * beta) * np.exp(-2.0 * rise), 0.0))
    return float((rise + np.log(1.0 + root) - np.log(1.0 + beta)) / length)


@njit(cache=True, **INTERNAL)
def _move(
    rho: float, g: Floats, residual: Floats, factor: float, length: float, beta: float, time: float
) -> float:
    """Move the active coordinates g by `time`, in place, no coordinate dying; return the new ρ."""
    x = length * time
    if x == 0.0:
        return rho
    if 1.0 + beta < OPPOSED:
        return rho - x
    up, down = 0.5 * (1.0 + beta), 0.5 * (1.0 - beta) * np.exp(-2.0 * x)
    growth = x + np.log(up + down)
    pushed = (up - down - beta * np.exp(-x)) / (up + down) / length
    shrink = np.exp(-growth)
    for k in range(len(g)):
        if g[k] > 0.0:
            g[k] = max(g[k] * shrink + factor * residual[k] * pushed, 0.0)
    return float(rho + growth)
