"""The matrix products of `fused_descent`, tile by tile: ROWS × COLUMNS sums that stay in registers.

Samples lie along the lanes: a panel of inputs is (d, SAMPLES), a tile of values (ROWS, SAMPLES) for ROWS
neurons.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from shallowflow.kernels.vectors import BYTES, REGISTERS, Lanes

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
