"""The matrix products of `fused_descent`, tile by tile: ROWS × COLUMNS sums that stay in registers.

Samples lie along the lanes: a panel of inputs is (d, SAMPLES), a tile of values (ROWS, SAMPLES) for ROWS
neurons.

Descent of a `ReLUNetwork` with the square loss on many samples: one pass over the inputs per step.

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

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.vectors import (
    BYTES,
    INNER_RATE,
    OUTER_RATE,
    REGISTERS,
    SCALE,
    SLOPE,
    ZERO,
    Lanes,
    aligned,
)

ROWS, COLUMNS = REGISTERS // 4, 3
"""Three quarters of the registers hold sums: each number that is loaded is used three times or more."""
PANEL = COLUMNS * BYTES
"""Bytes of one row of a panel."""


class _Tile:
    """ROWS × COLUMNS registers of sums."""

    def __init__(self, lanes: Lanes, builder: Any) -> None:
        self._lanes, self._builder = lanes, builder
        self._sums = [[lanes.variable(lanes.zeros()) for _ in range(COLUMNS)] for _ in range(ROWS)]

    def add(self, left: Callable[[int], Any], right: list[Any]) -> None:
        """Add left(row)·right[column] everywhere."""
        for row, sums in enumerate(self._sums):
            factor = left(row)
            for column, place in enumerate(sums):
                total = self._lanes.multiply_add(factor, right[column], self._builder.load(place))
                self._builder.store(total, place)

    def sums(self, row: int) -> list[Any]:
        """Return the registers of a row."""
        return [self._builder.load(place) for place in self._sums[row]]


def _project(
    typing_context: Any, weights: Any, inputs: Any, shares: Any, slope: Any, residual: Any, values: Any
) -> Any:
    """Return signature and code generator of `project`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype)
        w, x, share, _, r, z = lanes.views(signature, arguments)
        tile, places = _Tile(lanes, builder), lanes.places(COLUMNS)
        with cgutils.for_range(builder, lanes.length(w)) as loop:
            factors, panel = lanes.at(w.data, loop.index, ROWS), lanes.at(x.data, loop.index, places.stop)
            columns = [lanes.load(panel, place) for place in places]
            tile.add(lambda row: lanes.spread(builder.load(lanes.at(factors, row))), columns)
        leak, rest = lanes.spread(arguments[3]), [lanes.load(r.data, place) for place in places]
        for row in range(ROWS):
            factor = lanes.spread(builder.fneg(builder.load(lanes.at(share.data, row))))
            for column, value in enumerate(tile.sums(row)):
                lanes.store(value, z.data, row * places.stop + places[column])
                rest[column] = lanes.multiply_add(factor, lanes.gated(value, value, leak), rest[column])
        for place, value in zip(places, rest, strict=True):
            lanes.store(value, r.data, place)
        return context.get_dummy_value()

    return types.void(weights, inputs, shares, slope, residual, values), generate


def _gate(typing_context: Any, values: Any, residual: Any, slope: Any) -> Any:
    """Return signature and code generator of `gate`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype)
        z, r, _ = lanes.views(signature, arguments)
        leak, places = lanes.spread(arguments[2]), lanes.places(COLUMNS)
        rest = [lanes.load(r.data, place) for place in places]
        for row in range(ROWS):
            for place, value in zip(places, rest, strict=True):
                here = row * places.stop + place
                lanes.store(lanes.gated(lanes.load(z.data, here), value, leak), z.data, here)
        return context.get_dummy_value()

    return types.void(values, residual, slope), generate


def _correlate(typing_context: Any, pulls: Any, inputs: Any, gradient: Any) -> Any:
    """Return signature and code generator of `correlate`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype)
        s, x, g = lanes.views(signature, arguments)
        tile, places = _Tile(lanes, builder), lanes.places(COLUMNS)
        stride = builder.extract_value(x.strides, 0)
        with cgutils.for_range(builder, lanes.length(s)) as loop:
            rows = lanes.at(s.data, loop.index, ROWS * places.stop)
            panel = cgutils.pointer_add(builder, x.data, builder.mul(loop.index, stride))  # type: ignore[no-untyped-call]
            for part in places:
                columns = [lanes.load(panel, column * places.stop + part) for column in range(COLUMNS)]
                tile.add(partial(_row, lanes, rows, part), columns)
        sums = [tile.sums(row) for row in range(ROWS)]
        for column in range(COLUMNS):
            for first in range(0, ROWS, lanes.count):
                total = lanes.totals([row[column] for row in sums[first : first + lanes.count]])
                place = lanes.at(g.data, column * ROWS + first)
                lanes.store(builder.fadd(total, lanes.load(place, kind=total.type)), place)
        return context.get_dummy_value()

    return types.void(pulls, inputs, gradient), generate


def _row(lanes: Lanes, rows: Any, part: int, row: int) -> Any:
    return lanes.load(rows, row * COLUMNS * lanes.count + part)


project: Any = intrinsic(_project)
"""project(weights (d, ROWS), inputs (d, SAMPLES), shares (ROWS,), slope, residual (SAMPLES,), values): write
Z = weightsᵀ inputs into `values` (ROWS, SAMPLES), and take Σ_row share·σ(Z) from the residual."""
gate: Any = intrinsic(_gate)
"""gate(values (ROWS, SAMPLES), residual (SAMPLES,), slope): replace Z by S = r σ'(Z)."""
correlate: Any = intrinsic(_correlate)
"""correlate(pulls (p, ROWS, SAMPLES), inputs (p, COLUMNS, SAMPLES), gradient (COLUMNS, ROWS)): add
Σ_panels inputs pullsᵀ to the gradient. Only the first axis of `inputs` may have gaps."""


PANELS, CACHE = 16, 1 << 20
"""Panels per block: the pulls of a group of neurons stay in the first cache, the inputs in the second, within
CACHE bytes."""


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
