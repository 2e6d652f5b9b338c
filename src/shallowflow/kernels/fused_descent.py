"""Descent of a `ReLUNetwork` with the square loss on many samples: one pass over the inputs per step.

With z_ji = ⟨w_j, x_i⟩, S_ji = r_i σ'(z_ji), r = y − h and G = S X, a step is

    h_i = s Σ_j a_j σ(z_ji),   w_j += ρ_w a_j G_j,   a_j += ρ_a Σ_i r_i σ(z_ji) = ρ_a ⟨w_j, G_j⟩,

s the output factor, ρ = step·s·(1/n or 1); the last equality is σ(z) = σ'(z) z. Z = W Xᵀ and G = S X are the
only work that grows with m·n·d. A sample's residual needs its own z_ji alone, so both products are made for
one block of samples while it is in the cache. The inputs, which never change, are packed once in panels of
samples, weights and gradient in groups of neurons, as `dense_tiles` reads them. [weak_interaction] (16).

All arrays have one type, float64 or float32; constants come in an array of that type, because an integer
or double constant would promote the arithmetic.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.dense_tiles import COLUMNS, PANEL, ROWS, correlate, gate, project
from shallowflow.kernels.vectors import aligned

PANELS, CACHE = 16, 1 << 20
"""Panels per block: the pulls of a group of neurons stay in the first cache, the inputs in the second, within
CACHE bytes."""
ZERO, SLOPE, ONE, SCALE, INNER_RATE, OUTER_RATE = range(6)
"""Places in `constants`."""


def packed(rows: Floats, length: int, like: Floats) -> Floats:
    """Return rows (k, d) as (blocks, d', length), transposed block by block, zeros around, typed as `like`.

    d' is the next multiple of COLUMNS.
    """
    size, dimension = rows.shape
    blocks, padded = -(-size // length), -(-dimension // COLUMNS) * COLUMNS
    space = aligned(blocks * padded * length, like).reshape(blocks, padded, length)
    whole = np.zeros((blocks * length, dimension))
    whole[:size] = rows
    space[:, :dimension] = whole.reshape(blocks, length, dimension).transpose(0, 2, 1)
    return space


@njit(cache=True)
def advance(
    inner: Floats, outer: Floats, inputs: Floats, targets: Floats, constants: Floats, steps: int
) -> int:
    """Make up to `steps` steps of the packed weights in place; return how many stayed finite.

    inner (groups, d, ROWS) and inputs (panels, d, SAMPLES) by `packed`, outer (groups, ROWS), targets
    (panels, SAMPLES), zeros where a block is not full; SAMPLES = PANEL bytes.
    """
    groups, dimension, _ = inner.shape
    panels = max(4, min(PANELS, CACHE // (dimension * PANEL)))
    shape = groups, panels, ROWS, inputs.shape[2]
    pulls = aligned(groups * panels * ROWS * inputs.shape[2], inner).reshape(shape)
    gradient = aligned(inner.size, inner).reshape(inner.shape)
    for done in range(steps):
        gradient[:] = constants[ZERO]
        for start in range(0, len(inputs), panels):
            block = inputs[start : start + panels]
            _pull(inner, outer, block, targets[start : start + panels], constants, pulls)
            for group in range(groups):
                held = pulls[group, : len(block)]
                for k in range(0, dimension, COLUMNS):
                    correlate(held, block[:, k : k + COLUMNS], gradient[group, k : k + COLUMNS])
        if not _move(inner, outer, gradient, constants):
            return done
    return steps


@njit(cache=True)
def _pull(
    inner: Floats, outer: Floats, inputs: Floats, targets: Floats, constants: Floats, pulls: Floats
) -> None:
    """Write S of a block of panels into `pulls` (groups, panels, ROWS, SAMPLES)."""
    slope, shares = constants[SLOPE], constants[SCALE] * outer
    residual = aligned(inputs.shape[2], inner)
    for panel in range(len(inputs)):
        residual[:] = targets[panel]
        for group in range(len(inner)):
            project(inner[group], inputs[panel], shares[group], slope, residual, pulls[group, panel])
        for group in range(len(inner)):
            gate(pulls[group, panel], residual, slope)


@njit(cache=True)
def _move(inner: Floats, outer: Floats, gradient: Floats, constants: Floats) -> bool:
    """Step the weights in place by G; return whether the outer weights stayed finite."""
    total = constants[ZERO]
    products = np.empty_like(outer[0])
    for group in range(len(inner)):
        products[:] = constants[ZERO]
        rates = constants[INNER_RATE] * outer[group]
        for k in range(inner.shape[1]):
            for row in range(ROWS):
                products[row] += inner[group, k, row] * gradient[group, k, row]
                inner[group, k, row] += rates[row] * gradient[group, k, row]
        for row in range(ROWS):
            outer[group, row] += constants[OUTER_RATE] * products[row]
            total += outer[group, row]
    return bool(np.isfinite(total))
