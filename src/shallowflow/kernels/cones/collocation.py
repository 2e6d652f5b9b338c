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
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE

NODES = 12
NEVER = 2.0
"""A share that no step has: there is no zero."""
HALVINGS = 24
ITERATIONS = 80
WIDTH = 2e-16
TINY = 1e-200
"""A share this close to a node is the node: its weight then outdoes all others."""
REORDERED = {"reassoc", "nsz", "contract"}
"""Sums of a few terms, in any order: several at a time."""


class Grid(NamedTuple):
    """nodes (q,); signs (q,): barycentric weights."""

    nodes: Floats
    signs: Floats


class Rule(NamedTuple):
    """The grid; integral (q, q): Q; derivative (q, q): ℓ_j'(s_i); tail (2, q): the last two Chebyshev
    coefficients.
    """

    grid: Grid
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
        Grid(nodes, signs),
        integrals @ coefficients,
        derivatives @ coefficients,
        np.ascontiguousarray(coefficients[-2:]),
    )


def interpolation_matrix(shares: Floats, grid: Grid) -> Floats:
    """Return ℓ_j(s_i), (len(shares), q)."""
    gaps = shares[:, None] - grid.nodes
    exact = np.abs(gaps) < TINY
    weights = grid.signs / np.where(exact, 1.0, gaps)
    weights = np.where(np.any(exact, axis=1, keepdims=True), exact, weights)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@njit(cache=True, fastmath=REORDERED, **LEAN)
def weights_at(share: float, grid: Grid, weights: Floats) -> None:
    """Set weights (q,) to ℓ_j(share)."""
    total = 0.0
    for j in range(grid.nodes.size):
        gap = share - grid.nodes[j]
        weight = grid.signs[j] / (gap if abs(gap) > TINY else TINY)
        weights[j] = weight
        total += weight
    for j in range(grid.nodes.size):
        weights[j] /= total


@njit(cache=True, fastmath=REORDERED, **LEAN)
def values_at(share: float, one: Floats, other: Floats, grid: Grid) -> tuple[float, float]:
    """Return the two polynomials with these values (q,) at `share`."""
    first, second, total = 0.0, 0.0, 0.0
    for j in range(grid.nodes.size):
        gap = share - grid.nodes[j]
        weight = grid.signs[j] / (gap if abs(gap) > TINY else TINY)
        first += weight * one[j]
        second += weight * other[j]
        total += weight
    return first / total, second / total


@njit(cache=True, **LEAN)
def value_at(share: float, values: Floats, grid: Grid) -> float:
    """Return the polynomial with these values (q,) at `share`."""
    return float(values_at(share, values, values, grid)[0])


@njit(**ONCE)
def _zero_between(
    left: float, right: float, ends: tuple[float, float], values: Floats, slopes: Floats, grid: Grid
) -> float:
    """Return where the polynomial changes from ≥ 0 at `left` to < 0 at `right` (Newton, safeguarded)."""
    low, high = ends
    zero, share = WIDTH * (low - high), left + (right - left) * (low / (low - high))
    for _ in range(ITERATIONS):
        if not left < share < right:
            share = 0.5 * (left + right)
            if not left < share < right:
                return left
        value, slope = values_at(share, values, slopes, grid)
        if abs(value) <= zero:
            break
        if value > 0.0:
            left = share
        else:
            right = share
        # Slopes that contradict the bracket lead out of it, and to its middle.
        nearer = share - value / slope if slope != 0.0 else left
        if abs(nearer - share) <= WIDTH * right:
            break
        share = nearer
    found: float = share
    return found


@njit(**ONCE)
def _risen(left: float, right: float, values: Floats, grid: Grid) -> float:
    """Return a share in (left, right) at which the polynomial is positive, `left` if none is found."""
    width = 0.5 * (right - left)
    for _ in range(HALVINGS):
        if value_at(left + width, values, grid) > 0.0:
            return left + width
        width *= 0.5
    return left


@njit(cache=True, **INTERNAL)
def _fall(
    left: float, right: float, ends: tuple[float, float], values: Floats, slopes: Floats, grid: Grid
) -> float:
    """Return where a polynomial falls from ≥ 0 (up to rounding) to below 0; ends: its values there."""
    low = ends[0]
    if low <= 0.0:
        left = _risen(left, right, values, grid)
        low = value_at(left, values, grid)
        if low <= 0.0:
            return left
    return float(_zero_between(left, right, (low, ends[1]), values, slopes, grid))


@njit(cache=True, **LEAN)
def first_zero(start: float, values: Floats, slopes: Floats, noise: float, grid: Grid) -> float:
    """Return where a polynomial that is ≥ 0 at `start` (up to `noise`) first falls below 0, or `NEVER`.

    values, slopes (q,): the polynomial and its derivative at the nodes. Between two nodes with positive
    values a dip below zero is found too, if the slopes say that there is a minimum between them.
    """
    left, value, slope = start, values[0], slopes[0]
    if start > 0.0:
        value, slope = values_at(start, values, slopes, grid)
    for i in range(grid.nodes.size):
        node = grid.nodes[i]
        if node <= start:
            continue
        # Within the noise of zero at `left`, it may yet rise before it falls.
        risen = value if value > noise else 0.0
        if values[i] < -noise:
            return float(_fall(left, node, (risen, values[i]), values, slopes, grid))
        if slope < 0.0 < slopes[i]:
            # Where the slope, taken as linear, vanishes.
            bottom = left + (node - left) * slope / (slope - slopes[i])
            lowest = value_at(bottom, values, grid)
            if lowest < -noise:
                return float(_fall(left, bottom, (risen, lowest), values, slopes, grid))
        left, value, slope = node, values[i], slopes[i]
    return NEVER
