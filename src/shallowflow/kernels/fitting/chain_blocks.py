"""Centred statistics of one block of consecutive data points, and their change by one point.

A block is what the chain elimination (`chain`) needs to know of the data between two knots. For data
x_i, y_i with weights w_i and a line of value v at x̄ and slope s,

    Σ w_i (v + s (x_i − x̄) − y_i)²  =  W (v − ȳ)²  +  S_xx (s − S_xy / S_xx)²  +  Q,

with W = Σ w_i, the weighted means x̄ and ȳ, the centred sums S_xx, S_xy, and Q the residual sum of squares of
the block's own regression line. A block is the tuple (W, x̄, ȳ, S_xx, S_xy, Q).

Every sum is taken over centred data in a second (Q: third) pass. Differences of prefix sums, and Q as
S_yy − S_xy² / S_xx, cancel: on a million points they lose every digit of the loss. What is known without
computing (S_xx of one point, Q of two) is set, so that "no information" is an exact zero.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints

Block = tuple[float, float, float, float, float, float]
Data = tuple[Floats, Floats, Floats]

DIRECT_BELOW = 9
"""Blocks of fewer points are restated from the data: exact, and as cheap as an update."""
LARGEST_LEVERAGE = 0.9
"""A point that holds more of its block than this is not subtracted; the block is restated."""


@njit(cache=True)
def empty_block() -> Block:
    """The block without data."""
    return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0


@njit(cache=True)
def block_of(data: Data, start: int, stop: int) -> Block:
    """Statistics (W, x̄, ȳ, S_xx, S_xy, Q) of the points start ≤ i < stop of `data` = (x, y, w), each (m,)."""
    x, y, w = data
    if stop <= start:
        return empty_block()
    origin_x, origin_y = x[start], y[start]
    if stop == start + 1:
        return w[start], origin_x, origin_y, 0.0, 0.0, 0.0
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
    return weight, mean_x, mean_y, sxx, sxy, rest


@njit(cache=True)
def zero_block(data: Data, stop: int) -> Block:
    """The points i < stop under the model's zero line: no unknown, the constant Q = Σ w_i y_i²."""
    _, y, w = data
    rest = 0.0
    for i in range(stop):
        rest += w[i] * y[i] * y[i]
    return 0.0, 0.0, 0.0, 0.0, 0.0, rest


@njit(cache=True)
def block_with(data: Data, block: Block, start: int, stop: int, point: int) -> Block:
    """The block start ≤ i < stop, given `block` without its end `point`.

    The line's residual sum grows by e² / (1/w + 1/W + (x − x̄)² / S_xx), e the new point's distance from the
    old line.
    """
    if stop - start < DIRECT_BELOW:
        return block_of(data, start, stop)
    x, y, w = data
    weight, mean_x, mean_y, sxx, sxy, rest = block
    dx, dy = x[point] - mean_x, y[point] - mean_y
    total = weight + w[point]
    shared = w[point] * weight / total
    error = dy - sxy / sxx * dx
    rest += error * error / (1.0 / shared + dx * dx / sxx)
    gain = w[point] / total
    return (
        total,
        mean_x + gain * dx,
        mean_y + gain * dy,
        sxx + shared * dx * dx,
        sxy + shared * dx * dy,
        rest,
    )


@njit(cache=True)
def block_without(data: Data, block: Block, start: int, stop: int, point: int) -> Block:
    """The block start ≤ i < stop, given `block` with its former end `point`.

    With the leverage h = w/W + w (x − x̄)² / S_xx the residual sum falls by w e² / (1 − h).
    """
    if stop - start < DIRECT_BELOW:
        return block_of(data, start, stop)
    x, y, w = data
    weight, mean_x, mean_y, sxx, sxy, rest = block
    dx, dy = x[point] - mean_x, y[point] - mean_y
    leverage = w[point] / weight + w[point] * dx * dx / sxx
    if leverage > LARGEST_LEVERAGE:
        return block_of(data, start, stop)
    total = weight - w[point]
    shared = w[point] * weight / total
    error = dy - sxy / sxx * dx
    loss = w[point] / total
    return (
        total,
        mean_x - loss * dx,
        mean_y - loss * dy,
        sxx - shared * dx * dx,
        sxy - shared * dx * dy,
        max(0.0, rest - w[point] * error * error / (1.0 - leverage)),
    )


@njit(cache=True)
def store_block(blocks: Floats, index: int, block: Block) -> None:
    """Write `block` into row `index` of `blocks` (·, 6)."""
    for column in range(6):
        blocks[index, column] = block[column]


@njit(cache=True)
def load_block(blocks: Floats, index: int) -> Block:
    """Read row `index` of `blocks` (·, 6)."""
    return (
        blocks[index, 0],
        blocks[index, 1],
        blocks[index, 2],
        blocks[index, 3],
        blocks[index, 4],
        blocks[index, 5],
    )


@njit(cache=True)
def all_blocks(data: Data, starts: Ints, free_left: int) -> Floats:
    """Statistics of every block: row 0 left of the first knot, row j + 1 between knots j and j + 1.

    Symbols: `data` = (x, y, w), each (m,); `starts` (n,), the number of data ≤ knot j; `free_left` 1 for a
    free line left of the first knot, 0 for the zero line. Returns (n + 1, 6).
    """
    n, m = starts.size, data[0].size
    blocks = np.empty((n + 1, 6))
    first = starts[0] if n > 0 else m
    store_block(blocks, 0, block_of(data, 0, first) if free_left else zero_block(data, first))
    for j in range(n):
        stop = starts[j + 1] if j + 1 < n else m
        store_block(blocks, j + 1, block_of(data, starts[j], stop))
    return blocks
