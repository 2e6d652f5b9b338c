"""The walls of a data set, and from neurons to forces: pulls, D over a step; series of one neuron.

With c_k = speed·∂L/∂h_k and f_k = scale·ρ_k·c_k, a wall has the half jump C_w and the mean F_w,

    C_w = ½(1−γ) Σ_k f_k,   F_w = ½(1+γ) Σ_k s_k f_k,   D_j = Σ_w (F_w + S_jw C_w) e_w,

S_jw = ±1 the side of neuron j, 0 where it slides (D_j is then projected). In a step [t, t + H] the pulls are
polynomials in the share θ ∈ [0, 1], given by their values c (q, n) at q nodes. With B⁺_w = Σ_{S_jw > 0} a_j
z_jw and B⁻_w = Σ_{S_jw < 0} a_j |z_jw| a prediction is h(x_k) = scale·ρ_k (B^s − γ B^{−s}), s = s_k.

Polynomials and Taylor series of one neuron, and their first zero, found without missing one.

With D(u) = Σ_p D_p u^p known, w' = −a D, a' = −⟨w, D⟩ have the Taylor coefficients

    w_{l+1} = −Σ_p a_{l−p} D_p / (l+1),    a_{l+1} = −Σ_p ⟨w_{l−p}, D_p⟩ / (l+1).

On a stretch with Σ_p ‖D_p‖ ≤ 1 the terms fall like 1/l!. With s_l = ‖(w_l, a_l)‖ those after the term l have
a sum of at most Σ_j s_{l−j} Σ_{p≥j} ‖D_p‖ / l; the series ends where that is negligible.

The hyperplanes of a data set as walls, and coordinates in the span of the inputs.

Samples on one line through the origin share a wall with unit normal e_w: x_k = s_k ρ_k e_w, s_k = ±1.
Repeated, collinear and opposite inputs are thereby one wall, and normals are pairwise not parallel. An input
at the origin has no wall: it adds a constant to the loss.

Inner weights are kept in an orthonormal basis of the span of the normals; what lies outside never moves. If
the normals are orthogonal to each other they are the basis themselves, whatever the norms of the inputs:
then each coordinate has a wall of its own, and what is frozen stays frozen to the last bit.
"""

from __future__ import annotations

from math import exp, log1p, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE, SUMS

ORDER = 20
TERMS = 6
"""Coefficients of the forces: as many as a step has nodes."""
STRETCH = 1.0
"""∫‖D‖ of a stretch that one series covers."""
NEGLIGIBLE, UNSEEN = 1e-17, 1e-6
"""A sum of terms counts for nothing below this share of the neuron's size, or below this of the tolerance:
what is left out comes back times the length of a step, and sweeps must agree all the same."""
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
def squared(x: Floats) -> float:
    """Return ‖x‖²."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
    return total


@njit(cache=True, **SUMS)
def add_row(target: Floats, factor: float, rows: Floats, row: int) -> None:
    """Add factor·rows[row] to a vector."""
    for i in range(target.size):
        target[i] += factor * rows[row, i]


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

    forces (TERMS, r): D_p; tails (TERMS,): Σ_{p≥j} ‖D_p‖; inner (ORDER + TERMS, r), outer (ORDER + TERMS,):
    the series, and zeros after it, which are what the rows −1, −2, … before it are; norms (ORDER + 1,):
    ‖w_l‖; negligible: what may be left out, as a share of ‖(w, a)‖.
    """
    square = 0.0
    for i in range(w.size):
        inner[0, i] = w[i]
        square += w[i] * w[i]
    outer[0], norms[0] = a, sqrt(square)
    s1 = s2 = s3 = s4 = s5 = 0.0
    s0 = sqrt(square + a * a)
    small = negligible * s0
    for row in range(1, ORDER + 1):
        left = tails[0] * s0 + tails[1] * s1 + tails[2] * s2 + tails[3] * s3 + tails[4] * s4 + tails[5] * s5
        if left <= small * row:
            return row - 1
        share = -1.0 / row
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
        outer[row], norms[row] = pull, sqrt(square)
        s5, s4, s3 = s4, s3, s2
        s2, s1, s0 = s1, s0, sqrt(square + pull * pull)
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


PARALLEL = 1e-14
"""Unit vectors that differ by less in every coordinate are one."""
ORTHOGONAL = 1e-13
"""Cosine up to which normals count as orthogonal: what rounding makes of an orthogonal family."""
SQUARE, LOGISTIC, NORM = 0, 1, 2
"""Losses: weight·½Σ(h_k − y_k)², weight·Σ ln(1 + e^{−h_k y_k}), weight·‖h − y‖."""


class Samples(NamedTuple):
    """The n samples off the origin: walls (n,), sides s (n,), lengths ρ (n,), targets (n,)."""

    walls: Ints
    sides: Floats
    lengths: Floats
    targets: Floats


class Problem(NamedTuple):
    """normals (W, r) in the coordinates of the span; aligned: whether they are the coordinate axes.

    scale, slope: of the network; weight: of the loss, times the speed; loss: `SQUARE`, `LOGISTIC` or `NORM`;
    constant: what inputs at the origin add to the loss, of `NORM` to the square of the norm.
    """

    normals: Floats
    samples: Samples
    aligned: int
    scale: float
    slope: float
    weight: float
    loss: int
    constant: float


def arrange(inputs: Floats, targets: Floats) -> tuple[Floats, Samples, Ints]:
    """Return the unit normals (W, d), the samples off the origin, and their indices in the data set (n,)."""
    lengths = np.sqrt(np.einsum("kd,kd->k", inputs, inputs))
    kept = np.flatnonzero(lengths > 0)
    directions = inputs[kept] / lengths[kept, None]
    # One representative per line: the first coordinate that is not small is positive.
    leading = np.argmax(np.abs(directions) > 0.5 / np.sqrt(inputs.shape[1]), axis=1)
    sides = np.where(directions[np.arange(len(kept)), leading] < 0, -1.0, 1.0)
    walls, normals = np.empty(len(kept), np.int64), np.empty((0, inputs.shape[1]))
    for k, direction in enumerate(directions):
        apart = np.minimum(
            np.abs(normals - direction).max(axis=1, initial=0.0),
            np.abs(normals + direction).max(axis=1, initial=0.0),
        )
        same = np.flatnonzero(apart < PARALLEL)
        walls[k] = same[0] if same.size else len(normals)
        if same.size:
            sides[k] = 1.0 if normals[walls[k]] @ direction > 0 else -1.0
        else:
            normals = np.concatenate([normals, sides[k] * direction[None]])
    return normals, Samples(walls, sides, lengths[kept], np.array(targets[kept])), kept


def basis_of(normals: Floats) -> tuple[Floats, bool]:
    """Return an orthonormal basis (d, r) of the span of the normals (W, d), and whether it is they."""
    size, dimension = normals.shape
    if size <= dimension and np.abs(normals @ normals.T - np.eye(size)).max(initial=0.0) <= ORTHOGONAL:
        return normals.T.copy(), True
    _, values, directions = np.linalg.svd(normals, full_matrices=False)
    rank = int(np.sum(values > 1e-13 * values[0] * max(size, dimension)))
    if rank == dimension:
        return np.eye(dimension), False
    return directions[:rank].T.copy(), False


def span_of(inputs: Floats, targets: Floats) -> tuple[Floats, Samples, Ints, Floats, bool]:
    """Return normals in the coordinates of the span (W, r), samples, their indices, a basis (d, r), and
    whether the normals are the basis.
    """
    normals, samples, kept = arrange(inputs, targets)
    basis, aligned = basis_of(normals)
    inside = np.eye(len(normals)) if aligned else np.ascontiguousarray(normals @ basis)
    return inside, samples, kept, basis, aligned


class Field(NamedTuple):
    """The forces of a step as polynomials in θ: means F (q, W), jumps C (q, W), their vectors 2C_w e_w
    (W, q·r), and base (q·r,): Σ_w (F_w − C_w) e_w. powers (q, q): from values at the nodes to coefficients.
    """

    means: Floats
    jumps: Floats
    vectors: Floats
    base: Floats
    powers: Floats


class Sums(NamedTuple):
    """At k shares of a step: active (W, k·r): Σ a w over the neurons with S = 1 (aligned: (W, k), the
    component on the wall); everyone (k·r,); predictions (k, n) and pulls (k, n); losses (k,).
    """

    active: Floats
    everyone: Floats
    predictions: Floats
    pulls: Floats
    losses: Floats


def new_field(powers: Floats, problem: Problem) -> Field:
    """Return a field without forces; powers (q, q): from values at the nodes to coefficients."""
    walls, rank = problem.normals.shape
    terms = len(powers)
    tables = np.zeros((terms, walls)), np.zeros((terms, walls)), np.zeros((walls, terms * rank))
    return Field(*tables, np.zeros(terms * rank), powers)


def new_sums(shares: int, problem: Problem) -> Sums:
    """Return sums at that many shares."""
    walls, rank = problem.normals.shape
    size = len(problem.samples.targets)
    tables = np.zeros((walls, shares * (1 if problem.aligned else rank))), np.zeros(shares * rank)
    return Sums(*tables, np.zeros((shares, size)), np.zeros((shares, size)), np.zeros(shares))


@njit(cache=True, **INTERNAL)
def set_field(pulls: Floats, field: Field, problem: Problem) -> None:
    """Set the polynomials of the forces from the pulls c (q, n) at the nodes."""
    means, jumps, vectors, base, powers = field
    normals, (walls, sides, lengths, _), aligned, scale, slope, _, _, _ = problem
    terms, rank = pulls.shape[0], normals.shape[1]
    for p in range(terms):
        for w in range(normals.shape[0]):
            means[p, w], jumps[p, w] = 0.0, 0.0
        for k in range(lengths.size):
            coefficient = 0.0
            for node in range(terms):
                coefficient += powers[p, node] * pulls[node, k]
            coefficient *= 0.5 * scale * lengths[k]
            jumps[p, walls[k]] += (1.0 - slope) * coefficient
            means[p, walls[k]] += (1.0 + slope) * sides[k] * coefficient
    if aligned:
        return
    for i in range(terms * rank):
        base[i] = 0.0
    for w in range(normals.shape[0]):
        for p in range(terms):
            lower, jump = means[p, w] - jumps[p, w], 2.0 * jumps[p, w]
            for i in range(rank):
                vectors[w, p * rank + i] = jump * normals[w, i]
                base[p * rank + i] += lower * normals[w, i]


@njit(cache=True, **ONCE)
def _settled(row: int, predictions: Floats, pulls: Floats, targets: Floats, problem: Problem) -> float:
    """Set the pulls of one share from its predictions; return the loss times the speed."""
    _, _, _, _, _, weight, loss, total = problem
    for k in range(targets.size):
        target, prediction = targets[k], predictions[row, k]
        if loss == LOGISTIC:
            margin = prediction * target
            small = exp(-abs(margin))
            pulls[row, k] = -weight * target * (small if margin > 0.0 else 1.0) / (1.0 + small)
            total += weight * (max(-margin, 0.0) + log1p(small))
        else:
            residual = prediction - target
            pulls[row, k] = weight * residual
            total += (0.5 * weight if loss == SQUARE else 1.0) * residual * residual
    if loss != NORM:
        return total
    norm = sqrt(total)
    for k in range(targets.size):
        pulls[row, k] = pulls[row, k] / norm if norm > 0.0 else 0.0
    return weight * norm


@njit(cache=True, **INTERNAL)
def set_pulls(shares: int, sums: Sums, problem: Problem) -> None:
    """Set predictions, pulls and losses at the shares from the sums over neurons."""
    active, everyone, predictions, pulls, losses = sums
    normals, (walls, sides, lengths, targets), aligned, scale, slope, _, _, _ = problem
    rank = normals.shape[1]
    for row in range(shares):
        for k in range(targets.size):
            w = walls[k]
            plus, all_of_them = 0.0, 0.0
            if aligned:
                plus, all_of_them = active[w, row], everyone[row * rank + w]
            else:
                for i in range(rank):
                    plus += active[w, row * rank + i] * normals[w, i]
                    all_of_them += everyone[row * rank + i] * normals[w, i]
            minus = plus - all_of_them
            height = plus - slope * minus if sides[k] > 0.0 else minus - slope * plus
            predictions[row, k] = scale * lengths[k] * height
        losses[row] = _settled(row, predictions, pulls, targets, problem)


@njit(cache=True, **ONCE)
def largest(field: Field) -> float:
    """Return the largest force of a wall at the beginning of a step."""
    means, jumps, most = field.means, field.jumps, 0.0
    for w in range(means.shape[1]):
        most = max(most, abs(means[0, w]), abs(jumps[0, w]))
    return most


@njit(cache=True, **ONCE)
def spanned(pulls: Floats, lengths: Floats) -> float:
    """Return max_i Σ_k ρ_k |c_ik|: times H·scale, a bound on ∫‖D‖."""
    worst = 0.0
    for node in range(pulls.shape[0]):
        total = 0.0
        for k in range(lengths.size):
            total += lengths[k] * abs(pulls[node, k])
        # Not max, which would lose NaN.
        if not total <= worst:
            worst = total
    return worst
