"""Centred statistics of one block of consecutive data points, and their change by one point.

A block is what the chain elimination (`chain`) needs to know of the data between two knots. For data
x_i, y_i with weights w_i and a line of value v at x̄ and slope s,

    Σ w_i (v + s (x_i − x̄) − y_i)²  =  W (v − ȳ)²  +  S_xx (s − S_xy / S_xx)²  +  Q,

with W = Σ w_i, the weighted means x̄ and ȳ, the centred sums S_xx, S_xy, and Q the residual sum of squares of
the block's own regression line.

Every sum is taken over centred data in a second (Q: third) pass. Differences of prefix sums, and Q as
S_yy − S_xy² / S_xx, cancel: on a million points they lose every digit of the loss. What is known without
computing (S_xx of one point, Q of two) is set, so that "no information" is an exact zero.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, Signed


class Data(NamedTuple):
    """x strictly increasing, y, w > 0, each (m,); left of the first knot f is a free line if `free_left`."""

    x: Floats
    y: Floats
    w: Floats
    free_left: int


class Block(NamedTuple):
    """(W, x̄, ȳ, S_xx, S_xy, Q)."""

    weight: float
    x: float
    y: float
    sxx: float
    sxy: float
    rest: float


DIRECT_BELOW = 9
"""Blocks of fewer points are restated from the data: exact, and as cheap as an update."""
LARGEST_LEVERAGE = 0.9
"""A point that holds more of its block than this is not subtracted; the block is restated."""


@njit(cache=True, **INTERNAL)
def empty_block() -> Block:
    """The block without data."""
    return Block(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@njit(cache=True, **INTERNAL)
def block_of(data: Data, start: int, stop: int) -> Block:
    """Statistics of the points start ≤ i < stop."""
    x, y, w = data.x, data.y, data.w
    if stop <= start:
        return empty_block()
    origin_x, origin_y = x[start], y[start]
    if stop == start + 1:
        return Block(w[start], origin_x, origin_y, 0.0, 0.0, 0.0)
    weight = sum_x = sum_y = 0.0
    for i in range(start, stop):
        weight += w[i]
        sum_x += w[i] * (x[i] - origin_x)
        sum_y += w[i] * (y[i] - origin_y)
    mean_x, mean_y = origin_x + sum_x / weight, origin_y + sum_y / weight
    sxx = sxy = 0.0
    for i in range(start, stop):
        weighted = w[i] * (x[i] - mean_x)
        sxx += weighted * (x[i] - mean_x)
        sxy += weighted * (y[i] - mean_y)
    rest = 0.0
    if stop > start + 2:
        slope = sxy / sxx
        for i in range(start, stop):
            residual = y[i] - mean_y - slope * (x[i] - mean_x)
            rest += w[i] * residual * residual
    return Block(weight, mean_x, mean_y, sxx, sxy, rest)


@njit(cache=True, **INTERNAL)
def zero_block(data: Data, stop: int) -> Block:
    """The points i < stop under the model's zero line: no unknown, the constant Q = Σ w_i y_i²."""
    y, w, rest = data.y, data.w, 0.0
    for i in range(stop):
        rest += w[i] * y[i] * y[i]
    return Block(0.0, 0.0, 0.0, 0.0, 0.0, rest)


@njit(cache=True, **INTERNAL)
def block_with(data: Data, block: Block, start: int, stop: int, point: int) -> Block:
    """The block start ≤ i < stop, given `block` without its end `point`.

    The line's residual sum grows by e² / (1/w + 1/W + (x − x̄)² / S_xx), e the new point's distance from the
    old line.
    """
    if stop - start < DIRECT_BELOW:
        return block_of(data, start, stop)
    x, y, w = data.x, data.y, data.w
    weight, mean_x, mean_y, sxx, sxy, rest = block
    dx, dy = x[point] - mean_x, y[point] - mean_y
    total = weight + w[point]
    shared = w[point] * weight / total
    error = dy - sxy / sxx * dx
    rest += error * error / (1.0 / shared + dx * dx / sxx)
    gain = w[point] / total
    return Block(
        total,
        mean_x + gain * dx,
        mean_y + gain * dy,
        sxx + shared * dx * dx,
        sxy + shared * dx * dy,
        rest,
    )


@njit(cache=True, **INTERNAL)
def block_without(data: Data, block: Block, start: int, stop: int, point: int) -> Block:
    """The block start ≤ i < stop, given `block` with its former end `point`.

    With the leverage h = w/W + w (x − x̄)² / S_xx the residual sum falls by w e² / (1 − h).
    """
    if stop - start < DIRECT_BELOW:
        return block_of(data, start, stop)
    x, y, w = data.x, data.y, data.w
    weight, mean_x, mean_y, sxx, sxy, rest = block
    dx, dy = x[point] - mean_x, y[point] - mean_y
    leverage = w[point] / weight + w[point] * dx * dx / sxx
    if leverage > LARGEST_LEVERAGE:
        return block_of(data, start, stop)
    total = weight - w[point]
    shared = w[point] * weight / total
    error = dy - sxy / sxx * dx
    loss = w[point] / total
    return Block(
        total,
        mean_x - loss * dx,
        mean_y - loss * dy,
        sxx - shared * dx * dx,
        sxy - shared * dx * dy,
        max(0.0, rest - w[point] * error * error / (1.0 - leverage)),
    )


@njit(cache=True, **INTERNAL)
def store_block(blocks: Floats, index: int, block: Block) -> None:
    """Write `block` into row `index` of `blocks` (·, 6)."""
    for column in range(6):
        blocks[index, column] = block[column]


@njit(cache=True, **INTERNAL)
def load_block(blocks: Floats, index: int) -> Block:
    """Read row `index` of `blocks` (·, 6)."""
    row = blocks[index]
    return Block(row[0], row[1], row[2], row[3], row[4], row[5])


@njit(cache=True, **INTERNAL)
def first_block(data: Data, stop: int) -> Block:
    """The block left of the first knot, i < stop: under a free line or the zero line."""
    return block_of(data, Signed(0), stop) if data.free_left else zero_block(data, stop)


@njit(cache=True, **INTERNAL)
def fill_blocks(data: Data, starts: Ints, blocks: Floats) -> None:
    """Write every block into `blocks` (n + 1, 6): row 0 left of the first knot, row j + 1 right of knot j.

    `starts` (n,): the number of data ≤ knot j.
    """
    n, m = starts.size, data.x.size
    store_block(blocks, Signed(0), first_block(data, starts[0] if n > 0 else m))
    for j in range(n):
        stop = starts[j + 1] if j + 1 < n else m
        store_block(blocks, j + 1, block_of(data, starts[j], stop))
