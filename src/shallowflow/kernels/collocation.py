"""One polynomial per step: Chebyshev–Lobatto nodes of [0, 1], integration, interpolation and first zeros.

A function on a step is kept by its values at the q nodes s_i = (1 - cos(πi/(q-1)))/2. With the Lagrange
polynomials ℓ_j of the nodes,

    ∫_0^{s_i} f ≈ Σ_j Q_ij f_j,   Q_ij = ∫_0^{s_i} ℓ_j,          f(s) ≈ Σ_j ℓ_j(s) f_j  (barycentric formula),

f'(s_i) ≈ Σ_j ℓ_j'(s_i) f_j, and the last two Chebyshev coefficients of f estimate what the polynomial misses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.cone_geometry import INTERNAL, LEAN

NODES = 12
NEVER = 2.0
"""A share that no step has: there is no zero."""
HALVINGS = 24
ITERATIONS = 80
WIDTH = 2e-16
TINY = 1e-300
"""A share this close to a node is the node: the quotient would overflow."""


class Rule(NamedTuple):
    """nodes (q,); signs (q,): barycentric weights; integral (q, q): Q; derivative
    (q, q): ℓ_j'(s_i); tail (2, q): the last two Chebyshev coefficients.
    """

    nodes: Floats
    signs: Floats
    integral: Floats
    derivative: Floats
    tail: Floats


def chebyshev_rule(count: int = NODES) -> Rule:
    """Return the rule with this many nodes."""
    nodes = 0.5 * (1.0 - np.cos(np.pi * np.arange(count) / (count - 1)))
    signs = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    signs[[0, -1]] *= 0.5
    chebyshev = np.polynomial.chebyshev
    coefficients = np.linalg.inv(chebyshev.chebvander(2.0 * nodes - 1.0, count - 1))
    integrals = np.column_stack(
        [chebyshev.chebval(2.0 * nodes - 1.0, chebyshev.chebint(e, lbnd=-1.0)) / 2.0 for e in np.eye(count)]
    )
    derivatives = np.column_stack(
        [2.0 * chebyshev.chebval(2.0 * nodes - 1.0, chebyshev.chebder(e)) for e in np.eye(count)]
    )
    return Rule(
        nodes,
        signs,
        integrals @ coefficients,
        derivatives @ coefficients,
        np.ascontiguousarray(coefficients[-2:]),
    )


@njit(cache=True, **LEAN)
def weights_at(share: float, rule: Rule, weights: Floats) -> None:
    """Set weights (q,) to ℓ_j(share)."""
    total = 0.0
    for j in range(rule.nodes.size):
        gap = share - rule.nodes[j]
        if abs(gap) < TINY:
            weights[:] = 0.0
            weights[j] = 1.0
            return
        weights[j] = rule.signs[j] / gap
        total += weights[j]
    for j in range(rule.nodes.size):
        weights[j] /= total


@njit(cache=True, **LEAN)
def value_at(share: float, values: Floats, rule: Rule) -> float:
    """Return the polynomial with these values (q,) at `share`."""
    above, below = 0.0, 0.0
    for j in range(rule.nodes.size):
        gap = share - rule.nodes[j]
        if abs(gap) < TINY:
            return float(values[j])
        weight = rule.signs[j] / gap
        above += weight * values[j]
        below += weight
    return above / below


@njit(cache=True, **LEAN)
def zero_between(left: float, right: float, values: Floats, rule: Rule) -> float:
    """Return where the polynomial changes from ≥ 0 at `left` to < 0 at `right` (Illinois method)."""
    low, high = value_at(left, values, rule), value_at(right, values, rule)
    last, zero = 0, WIDTH * (low - high)
    for _ in range(ITERATIONS):
        if right - left <= WIDTH * right:
            break
        middle = left + (right - left) * (low / (low - high))
        if not left < middle < right:
            middle = 0.5 * (left + right)
            if not left < middle < right:
                break
        value = value_at(middle, values, rule)
        if value >= 0.0:
            left, low = middle, value
            if last == 1:
                high *= 0.5
            last = 1
            if value <= zero:
                break
        else:
            right, high = middle, value
            if last == -1:
                low *= 0.5
            last = -1
            if value >= -zero:
                left = middle
                break
    zero_at: float = left
    return zero_at


@njit(cache=True, **INTERNAL)
def _risen(left: float, right: float, values: Floats, rule: Rule) -> float:
    """Return a share in (left, right) at which the polynomial is positive, `left` if none is found."""
    width = 0.5 * (right - left)
    for _ in range(HALVINGS):
        if value_at(left + width, values, rule) > 0.0:
            return left + width
        width *= 0.5
    return left


@njit(cache=True, **LEAN)
def first_zero(start: float, values: Floats, slopes: Floats, noise: float, rule: Rule) -> float:
    """Return where a polynomial that is ≥ 0 at `start` (up to `noise`) first falls below 0, or `NEVER`.

    values, slopes (q,): the polynomial and its derivative at the nodes. Between two nodes with positive
    values a dip below zero is found too, if the slopes say that there is a minimum between them.
    """
    left, value, slope = start, 0.0, 0.0
    if start > 0.0:
        value, slope = value_at(start, values, rule), value_at(start, slopes, rule)
    else:
        value, slope = values[0], slopes[0]
    for i in range(rule.nodes.size):
        node = rule.nodes[i]
        if node <= start:
            continue
        if values[i] < -noise:
            if value <= noise:
                left = _risen(left, node, values, rule)
                if value_at(left, values, rule) <= 0.0:
                    return float(left)
            return float(zero_between(left, node, values, rule))
        if slope < 0.0 < slopes[i]:
            # Where the slope, taken as linear, vanishes.
            bottom = left + (node - left) * slope / (slope - slopes[i])
            if value_at(bottom, values, rule) < -noise:
                if value <= noise:
                    left = _risen(left, bottom, values, rule)
                    if value_at(left, values, rule) <= 0.0:
                        return float(left)
                return float(zero_between(left, bottom, values, rule))
        left, value, slope = node, values[i], slopes[i]
    return NEVER
