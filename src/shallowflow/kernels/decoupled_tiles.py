"""The two passes of `decoupled_descent` over a block of samples, with the samples' numbers in registers.

Samples lie along the lanes: a block of values is (m, SAMPLES), COLUMNS registers for each neuron.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from shallowflow.kernels.vectors import BYTES, Lanes

COLUMNS = 4
BLOCK = COLUMNS * BYTES
"""Bytes of one row of a block."""


def _settle(typing_context: Any, values: Any, shares: Any, slope: Any, residual: Any) -> Any:
    """Return signature and code generator of `settle`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype)
        z, share, _, r = lanes.views(signature, arguments)
        leak, places = lanes.spread(arguments[2]), lanes.places(COLUMNS)
        rest = [lanes.variable(lanes.load(r.data, place)) for place in places]
        with cgutils.for_range(builder, lanes.length(z)) as loop:
            row = lanes.at(z.data, loop.index, places.stop)
            factor = lanes.spread(builder.fneg(builder.load(lanes.at(share.data, loop.index))))
            for place, total in zip(places, rest, strict=True):
                value = lanes.load(row, place)
                active = lanes.gated(value, value, leak)
                builder.store(lanes.multiply_add(factor, active, builder.load(total)), total)
        for place, total in zip(places, rest, strict=True):
            lanes.store(builder.load(total), r.data, place)
        return context.get_dummy_value()

    return types.void(values, shares, slope, residual), generate


def _push(
    typing_context: Any, values: Any, rates: Any, slope: Any, residual: Any, squares: Any, sums: Any
) -> Any:
    """Return signature and code generator of `push`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype)
        z, rate, _, r, square, total = lanes.views(signature, arguments)
        leak, places = lanes.spread(arguments[2]), lanes.places(COLUMNS)
        rest = [lanes.load(r.data, place) for place in places]
        force = [
            builder.fmul(lanes.load(square.data, place), one) for place, one in zip(places, rest, strict=True)
        ]
        with cgutils.for_range(builder, lanes.length(z)) as loop:
            row = lanes.at(z.data, loop.index, places.stop)
            gathered = lanes.at(total.data, loop.index, lanes.count)
            factor = lanes.spread(builder.load(lanes.at(rate.data, loop.index)))
            held = lanes.load(gathered)
            for column, place in enumerate(places):
                value = lanes.load(row, place)
                held = lanes.multiply_add(rest[column], lanes.gated(value, value, leak), held)
                pull = lanes.gated(value, force[column], leak)
                lanes.store(lanes.multiply_add(factor, pull, value), row, place)
            lanes.store(held, gathered)
        return context.get_dummy_value()

    return types.void(values, rates, slope, residual, squares, sums), generate


settle: Any = intrinsic(_settle)
"""settle(values (m, SAMPLES), shares (m,), slope, residual (SAMPLES,)): take Σ_j share_j σ(z_j) from the
residual."""
push: Any = intrinsic(_push)
"""push(values (m, SAMPLES), rates (m,), slope, residual, squares (SAMPLES,), sums (m, lanes)): add r σ(z_j),
gathered lane by lane, to the sums; then move z_j by rate_j r σ'(z_j) ‖x‖²."""
