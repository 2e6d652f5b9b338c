"""The gates of the walls that hold a neuron: min ‖known + Σ_c η_c part_c‖ over η ∈ [γ, 1]^c, compiled.

The twin of `landscape.geometry.subgradient.minimal_gates`: gates that break the optimality conditions are
exchanged between the bounds and the inside, all at once; if that does not settle, one after the other.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Bools, Floats
from shallowflow.kernels.shared.compilation import MAKING, MAKING_WITHIN, ONCE

EXCHANGES = 30
SWEEPS = 500
SAME = 1e-9
"""A part is taken for dependent on the ones before if less than this share of it is new."""


@njit(cache=True, **MAKING)
def bounded_gates(known: Floats, parts: Floats, slope: float) -> Floats:
    """Return the gates (c,) for known (d,) and parts (c, d)."""
    count = len(parts)
    gates, inside = np.empty(count), np.ones(count, np.bool_)
    for c in range(count):
        gates[c] = slope
    for _ in range(EXCHANGES):
        _solve(known, parts, inside, gates)
        settled = True
        for c in range(count):
            if inside[c] and not slope <= gates[c] <= 1.0:
                gates[c] = 1.0 if gates[c] > 1.0 else slope
                inside[c] = settled = False
        if settled and not _exchange_back(known, parts, slope, inside, gates):
            return gates
    return _one_by_one(known, parts, slope, gates)


@njit(cache=True, **MAKING_WITHIN)
def _residual(known: Floats, parts: Floats, gates: Floats) -> Floats:
    total = known.copy()
    for c in range(len(parts)):
        for i in range(len(known)):
            total[i] += gates[c] * parts[c, i]
    return total


@njit(cache=True, **ONCE)
def _exchange_back(known: Floats, parts: Floats, slope: float, inside: Bools, gates: Floats) -> bool:
    """Free the gates at a bound that would shorten the sum inside; return whether there are any."""
    total = _residual(known, parts, gates)
    changed = False
    size = np.abs(parts).sum()
    for c in range(len(parts)):
        if inside[c]:
            continue
        rate, square = 0.0, 0.0
        for i in range(len(known)):
            rate += total[i] * parts[c, i]
            square += parts[c, i] ** 2
        outward = rate if gates[c] > slope else -rate
        if outward > 1e-13 * np.sqrt(square) * size:
            inside[c] = changed = True
    return changed


@njit(cache=True, **ONCE)
def _solve(known: Floats, parts: Floats, inside: Bools, gates: Floats) -> None:
    """Write the unbounded gates of the parts inside, by Gram–Schmidt done twice; dependent parts keep
    theirs."""
    count, dimension = parts.shape
    basis, corner = np.zeros((count, dimension)), np.zeros((count, count))
    order, rank = np.zeros(count, np.int64), 0
    goal = np.zeros(count)
    for c in range(count):
        if not inside[c]:
            continue
        size = 0.0
        for i in range(dimension):
            basis[rank, i] = parts[c, i]
            size += parts[c, i] ** 2
        for _ in range(2):
            for b in range(rank):
                overlap = 0.0
                for i in range(dimension):
                    overlap += basis[b, i] * basis[rank, i]
                corner[b, rank] += overlap
                for i in range(dimension):
                    basis[rank, i] -= overlap * basis[b, i]
        rest = 0.0
        for i in range(dimension):
            rest += basis[rank, i] ** 2
        if rest <= SAME * SAME * size or rank >= dimension:
            for b in range(rank + 1):
                corner[b, rank] = 0.0
            continue
        corner[rank, rank] = np.sqrt(rest)
        for i in range(dimension):
            basis[rank, i] /= corner[rank, rank]
        order[rank] = c
        rank += 1
    for b in range(rank):
        gates[order[b]] = 0.0
    total = _residual(known, parts, gates)
    for b in range(rank):
        for i in range(dimension):
            goal[b] -= basis[b, i] * total[i]
    for b in range(rank - 1, -1, -1):
        value = goal[b]
        for e in range(b + 1, rank):
            value -= corner[b, e] * gates[order[e]]
        gates[order[b]] = value / corner[b, b]


@njit(cache=True, **ONCE)
def _one_by_one(known: Floats, parts: Floats, slope: float, gates: Floats) -> Floats:
    """Return the gates by minimising over each in turn."""
    total = _residual(known, parts, gates)
    for _ in range(SWEEPS):
        for c in range(len(parts)):
            rate, square = 0.0, 0.0
            for i in range(len(known)):
                rate += total[i] * parts[c, i]
                square += parts[c, i] ** 2
            if square > 0.0:
                gate = min(max(gates[c] - rate / square, slope), 1.0)
                for i in range(len(known)):
                    total[i] += (gate - gates[c]) * parts[c, i]
                gates[c] = gate
    return gates
