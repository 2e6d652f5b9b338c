"""Polynomials and Taylor series of one neuron, and their first zero, found without missing one.

With D(u) = Σ_p D_p u^p known, w' = −a D, a' = −⟨w, D⟩ have the Taylor coefficients

    w_{l+1} = −Σ_p a_{l−p} D_p / (l+1),    a_{l+1} = −Σ_p ⟨w_{l−p}, D_p⟩ / (l+1).

On a stretch with ∫‖D‖ ≤ 1 the terms fall like 1/l!, so that `ORDER` of them are exact to rounding.
"""

from __future__ import annotations

from math import sqrt

from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import INTERNAL

ORDER = 20
STRETCH = 1.0
"""∫‖D‖ of a stretch that one series covers."""
NEGLIGIBLE = 1e-34
"""A term counts for nothing when its square is below this share of the neuron's."""
NONE = 2.0
MOST_MARCHES = 80


@njit(cache=True, **INTERNAL)
def expand(w: Floats, a: float, forces: Floats, inner: Floats, outer: Floats, norms: Floats) -> int:
    """Write the Taylor series of (w, a) over u ∈ [0, 1]; return its last order.

    forces (q, r): D_p; inner (ORDER + 1, r), outer (ORDER + 1,); norms (ORDER + 1,): ‖w_l‖.
    """
    terms, size = forces.shape
    total = 0.0
    for i in range(size):
        inner[0, i] = w[i]
        total += w[i] * w[i]
    outer[0], norms[0] = a, sqrt(total)
    total += a * a
    small = 0
    for order in range(1, ORDER + 1):
        for i in range(size):
            inner[order, i] = 0.0
        pull = 0.0
        for p in range(min(order, terms)):
            factor = outer[order - 1 - p]
            for i in range(size):
                inner[order, i] -= factor * forces[p, i]
            part = 0.0
            for i in range(size):
                part += inner[order - 1 - p, i] * forces[p, i]
            pull -= part
        square = 0.0
        for i in range(size):
            inner[order, i] /= order
            square += inner[order, i] * inner[order, i]
        outer[order] = pull / order
        norms[order] = sqrt(square)
        small = small + 1 if square + outer[order] * outer[order] <= NEGLIGIBLE * total else 0
        if small >= terms:
            return order
    return ORDER


@njit(cache=True, **INTERNAL)
def value(series: Floats, order: int, u: float) -> float:
    """Return the polynomial at u."""
    total = series[order]
    for l in range(order - 1, -1, -1):  # noqa: E741
        total = total * u + series[l]
    return total


@njit(cache=True, **INTERNAL)
def first_zero(series: Floats, order: int, sign: float, floor: float) -> float:
    """Return the first u in [0, 1] at which sign·(polynomial) falls to `floor`, or `NONE`.

    From where f > 0 it is safe to go on as long as f + f'δ − Mδ²/2 > 0, M ≥ |f''|: no zero is stepped over,
    and near a simple one the steps are those of Newton's method.
    """
    bend, rest = 0.0, 0.0
    for p in range(1, order + 1):
        rest += abs(series[p])
        bend += p * (p - 1) * abs(series[p])
    if sign * series[0] - floor > rest:
        return NONE
    u = 0.0
    for _ in range(MOST_MARCHES):
        f, slope = series[order], 0.0
        for p in range(order - 1, -1, -1):
            slope = slope * u + f
            f = f * u + series[p]
        f, slope = sign * f - floor, sign * slope
        if f <= 0.0:
            return u
        root = sqrt(slope * slope + 2.0 * bend * f)
        if slope >= 0.0 and bend == 0.0:
            return NONE
        ahead = 2.0 * f / (root - slope) if slope < 0.0 else (slope + root) / bend
        if u + ahead <= u:
            return u
        u += ahead
        if u > 1.0:
            return NONE
    return u


@njit(cache=True, **INTERNAL)
def shift(source: Floats, column: int, start: float, length: float, target: Floats) -> None:
    """Write Σ_p source[p, column] θ^p, with θ = start + length·u, as a polynomial in u, (q,)."""
    terms = source.shape[0]
    for p in range(terms):
        target[p] = source[p, column]
    if start != 0.0:
        for first in range(terms - 1):
            for p in range(terms - 2, first - 1, -1):
                target[p] += start * target[p + 1]
    factor = 1.0
    for p in range(terms):
        target[p] *= factor
        factor *= length
