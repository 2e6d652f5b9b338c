"""From neurons to forces: predictions of the samples, pulls on them, and D as polynomials over a step.

With c_k = speed·∂L/∂h_k and f_k = scale·ρ_k·c_k, a wall has the half jump C_w and the mean F_w,

    C_w = ½(1−γ) Σ_k f_k,   F_w = ½(1+γ) Σ_k s_k f_k,   D_j = Σ_w (F_w + S_jw C_w) e_w,

S_jw = ±1 the side of neuron j, 0 where it slides (D_j is then projected). In a step [t, t + H] the pulls are
polynomials in the share θ ∈ [0, 1], given by their values c (q, n) at q nodes. With B⁺_w = Σ_{S_jw > 0} a_j
z_jw and B⁻_w = Σ_{S_jw < 0} a_j |z_jw| a prediction is h(x_k) = scale·ρ_k (B^s − γ B^{−s}), s = s_k.
"""

from __future__ import annotations

from math import exp, log1p, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import INTERNAL, ONCE
from shallowflow.kernels.walls.arrangement import LOGISTIC, SQUARE, Problem


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


def new_field(nodes: Floats, problem: Problem) -> Field:
    """Return a field on these nodes, without forces."""
    walls, rank = problem.normals.shape
    terms = len(nodes)
    powers = np.ascontiguousarray(np.linalg.inv(np.vander(nodes, increasing=True)))
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
    terms, samples, normals = pulls.shape[0], problem.samples, problem.normals
    walls, rank = normals.shape
    half, mean = 0.5 * (1.0 - problem.slope), 0.5 * (1.0 + problem.slope)
    for p in range(terms):
        for w in range(walls):
            field.means[p, w] = 0.0
            field.jumps[p, w] = 0.0
        for k in range(samples.targets.size):
            coefficient = 0.0
            for node in range(terms):
                coefficient += field.powers[p, node] * pulls[node, k]
            coefficient *= problem.scale * samples.lengths[k]
            field.jumps[p, samples.walls[k]] += half * coefficient
            field.means[p, samples.walls[k]] += mean * samples.sides[k] * coefficient
    if problem.aligned:
        return
    for i in range(terms * rank):
        field.base[i] = 0.0
    for w in range(walls):
        for p in range(terms):
            lower, jump = field.means[p, w] - field.jumps[p, w], 2.0 * field.jumps[p, w]
            for i in range(rank):
                field.vectors[w, p * rank + i] = jump * normals[w, i]
                field.base[p * rank + i] += lower * normals[w, i]


@njit(cache=True, **ONCE)
def _settled(row: int, sums: Sums, problem: Problem) -> float:
    """Set the pulls of one share from its predictions; return the loss times the speed."""
    samples, total = problem.samples, problem.constant
    for k in range(samples.targets.size):
        target, prediction = samples.targets[k], sums.predictions[row, k]
        if problem.loss == LOGISTIC:
            margin = prediction * target
            small = exp(-abs(margin))
            sums.pulls[row, k] = -problem.weight * target * (small if margin > 0.0 else 1.0) / (1.0 + small)
            total += problem.weight * (max(-margin, 0.0) + log1p(small))
        else:
            residual = prediction - target
            sums.pulls[row, k] = problem.weight * residual
            total += (0.5 * problem.weight if problem.loss == SQUARE else 1.0) * residual * residual
    if problem.loss == SQUARE or problem.loss == LOGISTIC:
        return total
    norm = sqrt(total)
    for k in range(samples.targets.size):
        sums.pulls[row, k] = sums.pulls[row, k] / norm if norm > 0.0 else 0.0
    return problem.weight * norm


@njit(cache=True, **INTERNAL)
def set_pulls(shares: int, sums: Sums, problem: Problem) -> None:
    """Set predictions, pulls and losses at the shares from the sums over neurons."""
    samples, normals, slope = problem.samples, problem.normals, problem.slope
    rank = normals.shape[1]
    for row in range(shares):
        for k in range(samples.targets.size):
            w = samples.walls[k]
            plus, all_of_them = 0.0, 0.0
            if problem.aligned:
                plus, all_of_them = sums.active[w, row], sums.everyone[row * rank + w]
            else:
                for i in range(rank):
                    plus += sums.active[w, row * rank + i] * normals[w, i]
                    all_of_them += sums.everyone[row * rank + i] * normals[w, i]
            minus = plus - all_of_them
            height = plus - slope * minus if samples.sides[k] > 0.0 else minus - slope * plus
            sums.predictions[row, k] = problem.scale * samples.lengths[k] * height
        sums.losses[row] = _settled(row, sums, problem)


@njit(cache=True, **ONCE)
def largest(field: Field) -> float:
    """Return the largest force of a wall at the beginning of a step."""
    largest = 0.0
    for w in range(field.means.shape[1]):
        largest = max(largest, abs(field.means[0, w]), abs(field.jumps[0, w]))
    return largest


@njit(cache=True, **ONCE)
def spanned(pulls: Floats, step: float, problem: Problem) -> float:
    """Return H·scale·max_i Σ_k ρ_k |c_ik|, a bound on ∫‖D‖."""
    worst, lengths = 0.0, problem.samples.lengths
    for node in range(pulls.shape[0]):
        total = 0.0
        for k in range(lengths.size):
            total += lengths[k] * abs(pulls[node, k])
        # Not max, which would lose NaN.
        if not total <= worst:
            worst = total
    return step * problem.scale * worst
