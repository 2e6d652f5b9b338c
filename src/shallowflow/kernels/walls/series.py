"""Polynomials and Taylor series of one neuron, and their first zero, found without missing one.

With D(u) = Σ_p D_p u^p known, w' = −a D, a' = −⟨w, D⟩ have the Taylor coefficients

    w_{l+1} = −Σ_p a_{l−p} D_p / (l+1),    a_{l+1} = −Σ_p ⟨w_{l−p}, D_p⟩ / (l+1).

On a stretch with Σ_p ‖D_p‖ ≤ 1 the terms fall like 1/l!. With s_l = ‖(w_l, a_l)‖ those after the term l have
a sum of at most Σ_j s_{l−j} Σ_{p≥j} ‖D_p‖ / l; the series ends where that is negligible.
"""

from __future__ import annotations

from math import sqrt

from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import INTERNAL, SUMS

ORDER = 20
TERMS = 6
"""Coefficients of the forces: as many as a step has nodes."""
STRETCH = 1.0
"""∫‖D‖ of a stretch that one series covers."""
NEGLIGIBLE, UNSEEN = 1e-17, 1e-6
"""A sum of terms counts for nothing below this share of the neuron's size, or below this of the tolerance."""
NONE = 2.0
MOST_MARCHES = 80


@njit(cache=True, **SUMS)
def dot(x: Floats, rows: Floats, row: int) -> float:
    """Return ⟨x, rows[row]⟩."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * rows[row, i]
    return total


@njit(cache=True, **SUMS)
def lengths_of(rows: Floats, lengths: Floats) -> None:
    """Write the norms of rows."""
    for p in range(rows.shape[0]):
        square = 0.0
        for i in range(rows.shape[1]):
            square += rows[p, i] * rows[p, i]
        lengths[p] = sqrt(square)


@njit(cache=True, **SUMS)
def expand(
    w: Floats,
    a: float,
    forces: Floats,
    tails: Floats,
    inner: Floats,
    outer: Floats,
    norms: Floats,
    negligible: float,
) -> int:
    """Write the Taylor series of (w, a) over u ∈ [0, 1]; return its last order.

    forces (TERMS, r): D_p; tails (TERMS,): Σ_{p≥j} ‖D_p‖; inner (TERMS + ORDER, r), outer (TERMS + ORDER,):
    the series after TERMS − 1 zeros; norms (ORDER + 1,): ‖w_l‖; negligible: what may be left out, as a share
    of ‖(w, a)‖.
    """
    row = TERMS - 1
    square = 0.0
    for i in range(w.size):
        inner[row, i] = w[i]
        square += w[i] * w[i]
    outer[row], norms[0] = a, sqrt(square)
    s0, s1, s2, s3, s4, s5 = sqrt(square + a * a), 0.0, 0.0, 0.0, 0.0, 0.0
    small = negligible * s0
    for order in range(1, ORDER + 1):
        left = tails[0] * s0 + tails[1] * s1 + tails[2] * s2 + tails[3] * s3 + tails[4] * s4 + tails[5] * s5
        if left <= small * order:
            return order - 1
        row += 1
        share = -1.0 / order
        a0, a1, a2 = share * outer[row - 1], share * outer[row - 2], share * outer[row - 3]
        a3, a4, a5 = share * outer[row - 4], share * outer[row - 5], share * outer[row - 6]
        pull, square = 0.0, 0.0
        for i in range(w.size):
            f0, f1, f2 = forces[0, i], forces[1, i], forces[2, i]
            f3, f4, f5 = forces[3, i], forces[4, i], forces[5, i]
            new = a0 * f0 + a1 * f1 + a2 * f2 + a3 * f3 + a4 * f4 + a5 * f5
            near = inner[row - 1, i] * f0 + inner[row - 2, i] * f1 + inner[row - 3, i] * f2
            pull += near + inner[row - 4, i] * f3 + inner[row - 5, i] * f4 + inner[row - 6, i] * f5
            square += new * new
            inner[row, i] = new
        pull *= share
        outer[row], norms[order] = pull, sqrt(square)
        s5, s4, s3, s2, s1, s0 = s4, s3, s2, s1, s0, sqrt(square + pull * pull)
    return ORDER


@njit(cache=True, **INTERNAL)
def value(series: Floats, order: int, u: float) -> float:
    """Return the polynomial at u."""
    total = series[order]
    for l in range(order - 1, -1, -1):  # noqa: E741
        total = total * u + series[l]
    return total


@njit(cache=True, **INTERNAL)
def lowest(height: float, slope: float, bend: float, until: float) -> float:
    """Return the least value of height + slope·u + bend·u² for u ∈ [0, until]."""
    if slope < 0.0 and -slope < 2.0 * bend * until:
        return height - 0.25 * slope * slope / bend
    return min(height, height + until * (slope + until * bend))


@njit(cache=True, **INTERNAL)
def first_zero(series: Floats, order: int, sign: float, until: float) -> float:
    """Return the first u up to `until` ≤ 1 at which sign·(polynomial) falls to zero, or `NONE`.

    From where f > 0 it is safe to go on as long as f + f'δ − Mδ²/2 > 0, M ≥ |f''|: no zero is stepped over,
    and near a simple one the steps are those of Newton's method.
    """
    bend, rest = 0.0, 0.0
    for p in range(1, order + 1):
        rest += abs(series[p])
        bend += p * (p - 1) * abs(series[p])
    if sign * series[0] > rest:
        return NONE
    u = 0.0
    for _ in range(MOST_MARCHES):
        f, slope = series[order], 0.0
        for p in range(order - 1, -1, -1):
            slope = slope * u + f
            f = f * u + series[p]
        f, slope = sign * f, sign * slope
        if f <= 0.0:
            return u
        root = sqrt(slope * slope + 2.0 * bend * f)
        if slope >= 0.0 and bend == 0.0:
            return NONE
        ahead = 2.0 * f / (root - slope) if slope < 0.0 else (slope + root) / bend
        if u + ahead <= u:
            return u
        u += ahead
        if u > until:
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
