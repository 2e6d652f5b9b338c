"""Descent of a `ReLUNetwork`, neuron by neuron and sample by sample: in register tiles, or along the lanes.

With z_ji = ⟨w_j, x_i⟩, h_i = s Σ_j a_j σ(z_ji), r_i = −∂L/∂h_i (y_i − h_i for the square loss),
S_ji = r_i σ'(z_ji) and G = S X, a step is

    w_j += ρ_w a_j G_j,   a_j += ρ_a Σ_i r_i σ(z_ji) = ρ_a ⟨w_j, G_j⟩,

s and ρ as in `kernels.shared.vectors`; the last equality is σ(z) = σ'(z) z. [weak_interaction] (16).

**Tiles**, for many samples: one pass over the inputs per step. Z = W Xᵀ and G = S X are the only work that
grows with m·n·d. A sample's residual needs its own z_ji alone, so both products are made for one block of
samples while it is in the cache, tile by tile: ROWS × COLUMNS sums stay in registers. Samples lie along the
lanes: a panel of inputs is (d, SAMPLES), a tile of values (ROWS, SAMPLES) for ROWS neurons. The inputs, which
never change, are packed once in panels, weights and gradient in groups of neurons. Coordinates behind which a
panel is zero are skipped: half of them for triangular inputs.

**Lanes**, for few samples, which would be padded to a whole panel: one sample at a time, the neurons along
the vector lanes. W lies transposed, (d, m), and every inner loop is over the neurons. Mini-batches are the
same steps on gathered samples.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL
from shallowflow.kernels.shared.vectors import (
    BYTES,
    INNER_RATE,
    OUTER_RATE,
    REGISTERS,
    SCALE,
    SLOPE,
    ZERO,
    Lanes,
    Problem,
    aligned,
    settle,
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
    typing_context: Any, weights: Any, inputs: Any, shares: Any, slope: Any, outputs: Any, values: Any
) -> Any:
    """Return signature and code generator of `project`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype)
        w, x, share, _, h, z = lanes.views(signature, arguments)
        tile, places = _Tile(lanes, builder), lanes.places(COLUMNS)
        with cgutils.for_range(builder, lanes.length(w)) as loop:
            factors, panel = lanes.at(w.data, loop.index, ROWS), lanes.at(x.data, loop.index, places.stop)
            columns = [lanes.load(panel, place) for place in places]
            tile.add(lambda row: lanes.spread(builder.load(lanes.at(factors, row))), columns)
        leak, totals = lanes.spread(arguments[3]), [lanes.load(h.data, place) for place in places]
        for row in range(ROWS):
            factor = lanes.spread(builder.load(lanes.at(share.data, row)))
            for column, value in enumerate(tile.sums(row)):
                lanes.store(value, z.data, row * places.stop + places[column])
                totals[column] = lanes.multiply_add(factor, lanes.gated(value, value, leak), totals[column])
        for place, value in zip(places, totals, strict=True):
            lanes.store(value, h.data, place)
        return context.get_dummy_value()

    return types.void(weights, inputs, shares, slope, outputs, values), generate


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


def _push(
    typing_context: Any, weights: Any, gradient: Any, outer: Any, inner_rate: Any, outer_rate: Any
) -> Any:
    """Return signature and code generator of `push`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(context, builder, signature.args[0].dtype, ROWS)
        w, g, a, _, _ = lanes.views(signature, arguments)
        start, products = lanes.load(a.data), lanes.variable(lanes.zeros())
        rates = builder.fmul(lanes.spread(arguments[3]), start)
        with cgutils.for_range(builder, lanes.length(w)) as loop:
            weight_at, force_at = (lanes.at(view.data, loop.index, ROWS) for view in (w, g))
            weight, force = lanes.load(weight_at), lanes.load(force_at)
            builder.store(lanes.multiply_add(weight, force, builder.load(products)), products)
            lanes.store(lanes.multiply_add(rates, force, weight), weight_at)
            lanes.store(lanes.zeros(), force_at)
        share = lanes.spread(arguments[4])
        lanes.store(lanes.multiply_add(share, builder.load(products), start), a.data)
        return context.get_dummy_value()

    return types.void(weights, gradient, outer, inner_rate, outer_rate), generate


def _row(lanes: Lanes, rows: Any, part: int, row: int) -> Any:
    return lanes.load(rows, row * COLUMNS * lanes.count + part)


project: Any = intrinsic(_project)
"""project(weights (d, ROWS), inputs (d, SAMPLES), shares (ROWS,), slope, outputs (SAMPLES,), values): write
Z = weightsᵀ inputs into `values` (ROWS, SAMPLES), and add Σ_row share·σ(Z) to the outputs."""
gate: Any = intrinsic(_gate)
"""gate(values (ROWS, SAMPLES), residual (SAMPLES,), slope): replace Z by S = r σ'(Z)."""
correlate: Any = intrinsic(_correlate)
"""correlate(pulls (p, ROWS, SAMPLES), inputs (p, COLUMNS, SAMPLES), gradient (COLUMNS, ROWS)): add
Σ_panels inputs pullsᵀ to the gradient. Only the first axis of `inputs` may have gaps."""
push: Any = intrinsic(_push)
"""push(weights (d, ROWS), gradient (d, ROWS), outer (ROWS,), inner rate, outer rate): make a step of the
weights w += inner rate·outer·G and of outer += outer rate·⟨w, G⟩, both with the old ones, and clear G."""


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
def advance_tiles(inner: Floats, outer: Floats, problem: Problem, steps: int, losses: Floats) -> int:
    """Make up to `steps` steps of the packed weights in place; return how many stayed finite.

    inner (groups, d, ROWS) and the problem's inputs (panels, d, SAMPLES) by `packed`, outer (groups, ROWS),
    targets (panels, SAMPLES), zeros where a block is not full; SAMPLES = PANEL bytes.
    losses: (steps,) for the loss before every step, or empty.
    """
    inputs, dimension = problem.inputs, inner.shape[1]
    length = min(len(inputs), max(4, min(PANELS, CACHE // (dimension * PANEL))))
    outputs, pulls = _tiles(inner, problem, length)
    gradient = aligned(inner.size, inner).reshape(inner.shape)
    ends = np.empty(len(inputs), np.int64)
    for panel in range(len(inputs)):
        ends[panel] = _end(inputs[panel])
    for done in range(steps):
        total = 0.0
        for start in range(0, len(inputs), length):
            stop = min(start + length, len(inputs))
            for panel in range(start, stop):
                here = pulls[:, panel - start]
                total += _pull(inner, outer, problem, panel, ends[panel], outputs, here)
            for group in range(len(inner)):
                first = start
                for k in range(0, dimension, COLUMNS):
                    while first < stop and ends[first] <= k:
                        first += 1
                    held = pulls[group, first - start : stop - start]
                    correlate(held, inputs[first:stop, k : k + COLUMNS], gradient[group, k : k + COLUMNS])
        if len(losses) > 0:
            losses[done] = total
        if not _move(inner, outer, gradient, problem.constants):
            return done
    return steps


@njit(cache=True)
def tiles_loss(inner: Floats, outer: Floats, problem: Problem) -> float:
    """Return the loss of weights and a problem laid out as for `advance_tiles`."""
    outputs, pulls = _tiles(inner, problem, 1)
    total = 0.0
    for panel in range(len(problem.inputs)):
        total += _pull(inner, outer, problem, panel, inner.shape[1], outputs, pulls[:, 0])
    return total


@njit(cache=True)
def _tiles(inner: Floats, problem: Problem, panels: int) -> tuple[Floats, Floats]:
    """Return space for the outputs of a panel, and for S of some panels: (groups, panels, ROWS, SAMPLES)."""
    groups, samples = len(inner), problem.inputs.shape[2]
    pulls = aligned(groups * panels * ROWS * samples, inner)
    return aligned(samples, inner), pulls.reshape(groups, panels, ROWS, samples)


@njit(cache=True, **INTERNAL)
def _end(panel: Floats) -> int:
    """Return the coordinate, a multiple of COLUMNS, from which on a panel is zero."""
    for k in range(len(panel) - 1, -1, -1):
        for i in range(panel.shape[1]):
            if panel[k, i] != 0:
                return (k // COLUMNS + 1) * COLUMNS
    return 0


@njit(cache=True, **INTERNAL)
def _pull(
    inner: Floats, outer: Floats, problem: Problem, panel: int, end: int, outputs: Floats, pulls: Floats
) -> float:
    """Write S of a panel into `pulls` (groups, ROWS, SAMPLES); return its loss. It is zero from `end` on."""
    constants = problem.constants
    for i in range(len(outputs)):
        outputs[i] = constants[ZERO]
    for group in range(len(inner)):
        weights, inputs = inner[group, :end], problem.inputs[panel, :end]
        project(weights, inputs, outer[group], constants[SLOPE], outputs, pulls[group])
    loss: float = settle(outputs, problem.targets[panel], constants[SCALE], problem.loss)
    for group in range(len(inner)):
        gate(pulls[group], outputs, constants[SLOPE])
    return loss


@njit(cache=True, **INTERNAL)
def _move(inner: Floats, outer: Floats, gradient: Floats, constants: Floats) -> bool:
    """Step the weights in place by G and clear it; return whether the outer weights stayed finite."""
    total = constants[ZERO]
    for group in range(len(inner)):
        push(inner[group], gradient[group], outer[group], constants[INNER_RATE], constants[OUTER_RATE])
        for row in range(ROWS):
            total += outer[group, row]
    return bool(np.isfinite(total))


# Sums may be taken in any order; infinities and NaN stay what they are.
@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def advance_lanes(inner: Floats, outer: Floats, problem: Problem, steps: int, losses: Floats) -> int:
    """Make up to `steps` steps of W (d, m) and a (m,) in place; return how many stayed finite.

    The problem has inputs (n, d) and targets (n,). losses: (steps,) for the loss before every step, or empty.
    """
    inputs, targets, constants, loss = problem
    zero, slope = constants[ZERO], constants[SLOPE]
    dimension, width = inner.shape
    values, gradient, output = np.empty_like(outer), np.zeros_like(inner), np.empty_like(targets[:1])
    for done in range(steps):
        total, moved = 0.0, zero
        for i in range(len(targets)):
            for j in range(width):
                values[j] = inputs[i, 0] * inner[0, j]
            for k in range(1, dimension):
                for j in range(width):
                    values[j] += inputs[i, k] * inner[k, j]
            seen = zero
            for j in range(width):
                seen += outer[j] * (values[j] if values[j] > 0 else slope * values[j])
            output[0] = seen
            total += settle(output, targets[i : i + 1], constants[SCALE], loss)
            pull, leak = output[0], slope * output[0]
            for j in range(width):
                values[j] = pull if values[j] > 0 else leak
            for k in range(dimension):
                for j in range(width):
                    gradient[k, j] += inputs[i, k] * values[j]
        if len(losses) > 0:
            losses[done] = total
        for j in range(width):
            values[j] = zero
        for k in range(dimension):
            for j in range(width):
                values[j] += inner[k, j] * gradient[k, j]
                inner[k, j] += constants[INNER_RATE] * outer[j] * gradient[k, j]
                gradient[k, j] = zero
        for j in range(width):
            outer[j] += constants[OUTER_RATE] * values[j]
            moved += outer[j]
        if not np.isfinite(moved):
            return done
    return steps


def lanes_loss(inner: Floats, outer: Floats, problem: Problem) -> float:
    """Return the loss of weights laid out as for `advance_lanes`."""
    values = problem.inputs @ inner
    outputs = np.maximum(values, problem.constants[SLOPE] * values) @ outer
    return float(settle(outputs, problem.targets, problem.constants[SCALE], problem.loss))


@njit(cache=True, error_model="numpy")
def advance_batches(
    inner: Floats, outer: Floats, problem: Problem, order: Ints, noise: Floats, factors: Floats
) -> int:
    """Make a step of W (d, m) and a (m,), in place, on every row of order (k, b); return how many are finite.

    noise (k, b), or (k, 0): what is added to the targets; factors (k,): of the rates of each step.
    """
    inputs, targets, constants, loss = problem
    steps, batch = order.shape
    chosen, wanted, rates = np.empty((batch, inputs.shape[1])), np.empty(batch), constants.copy()
    for step in range(steps):
        for i in range(batch):
            sample = order[step, i]
            wanted[i] = targets[sample] + (noise[step, i] if noise.shape[1] > 0 else 0.0)
            for k in range(inputs.shape[1]):
                chosen[i, k] = inputs[sample, k]
        for place in (INNER_RATE, OUTER_RATE):
            rates[place] = factors[step] * constants[place]
        if advance_lanes(inner, outer, Problem(chosen, wanted, rates, loss), 1, np.empty(0)) < 1:
            return step
    return steps
