"""Continuous piecewise linear least squares by elimination along the chain of knots, O(m + n).

Model: f(x) = Σ_j c_j relu(x − b_j) with knots b_0 ≤ … ≤ b_{n−1} [plateau, (2.2)], so f = 0 left of b_0
(`free_left` = 0), or the same plus a free line (`free_left` = 1). Loss: the weighted sum of squared residuals
Σ w_i (f(x_i) − y_i)², twice [plateau, (2.1)]. A datum belongs to the block (b_l, b_{l+1}] that holds it
[plateau, (3.2)]; knots ≥ x_m are dead and take no part.

**Messages.** Everything left of a knot b says about the value v = f(b) is (ρ v − τ)² + const. Passing a block
with statistics (W, x̄, ȳ, S_xx, S_xy, Q) (below) from the knot `far` to the knot `near`, with
v = f(near), unknown slope s, h = near − far and d = near − x̄, is the elimination of s from the rows

    [  −ρ h      ρ  |  τ           ]      the message on f(far) = v − s h
    [ −√W d     √W  |  √W ȳ        ]      the block's mean
    [  √S_xx     0  |  S_xy/√S_xx  ]      the block's slope

by two Givens rotations; what is left over adds Q + (residual)² to the constant. The product
−ρh·√W + √W d·ρ = √W ρ (far − x̄) is formed as on the right: exactly zero if the block's only point is at
`far`, and without cancellation if it is near. The same function passes blocks leftwards (h, d < 0). Empty
blocks of positive length carry nothing (ρ = 0); ρ = ∞ says v = 0 (the zero line's end).

Nothing is subtracted from a loss, and no normal equations are formed: the hat-function rows are well
conditioned where the ReLU basis has condition numbers of 10⁶ to 10⁸.

**Blocks.** A block is what the elimination needs to know of the data between two knots. For data
x_i, y_i with weights w_i and a line of value v at x̄ and slope s,

    Σ w_i (v + s (x_i − x̄) − y_i)²  =  W (v − ȳ)²  +  S_xx (s − S_xy / S_xx)²  +  Q,

with W = Σ w_i, the weighted means x̄ and ȳ, the centred sums S_xx, S_xy, and Q the residual sum of squares of
the block's own regression line.

Every sum is taken over centred data in a second (Q: third) pass. Differences of prefix sums, and Q as
S_yy − S_xy² / S_xx, cancel: on a million points they lose every digit of the loss. What is known without
computing (S_xx of one point, Q of two) is set, so that "no information" is an exact zero.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, Signed


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


Message = tuple[float, float, float]
RHO, TAU, COST = 0, 1, 2
"""Columns of a message: (ρ v − τ)², and what the last block passed added to the constant."""
CENTRE, HEIGHT, SLOPE = 0, 1, 2
"""Columns of a line: height + slope · (x − centre)."""


class Chain(NamedTuple):
    """The live knots (n,), the number of data ≤ each of them (n,), blocks (n + 1, 6), messages (n, 3)."""

    knots: Floats
    starts: Ints
    blocks: Floats
    forward: Floats
    backward: Floats


class Triangle(NamedTuple):
    """A least-squares problem in two unknowns, [r11 r12 | t1], [0 r22 | t2]."""

    r11: float
    r12: float
    t1: float
    r22: float
    t2: float


def new_chain(knots: Floats, data: Data) -> tuple[float, Chain]:
    """Return the minimal loss and the chain of the live ones (left of the last datum) of the sorted knots."""
    live = knots[: knots.searchsorted(data.x[-1])].copy()
    n = live.size
    starts = data.x.searchsorted(live, side="right")
    chain = Chain(live, starts, np.empty((n + 1, 6)), np.zeros((n, 3)), np.zeros((n, 3)))
    return float(_fill_chain(chain, data)), chain


@njit(cache=True, **INTERNAL)
def merge_rows(e1: float, t1: float, e2: float, t2: float) -> Message:
    """The rows [e1 | t1], [e2 | t2] on one unknown as one row ρ ≥ 0, τ and their residual sum of squares."""
    if e2 == 0.0:
        if e1 == 0.0:
            return 0.0, 0.0, t1 * t1 + t2 * t2
        return abs(e1), t1 if e1 > 0.0 else -t1, t2 * t2
    if e1 == 0.0:
        return abs(e2), t2 if e2 > 0.0 else -t2, t1 * t1
    rho = sqrt(e1 * e1 + e2 * e2)
    residual = (e1 * t2 - e2 * t1) / rho
    return rho, (e1 * t1 + e2 * t2) / rho, residual * residual


@njit(cache=True, **INTERNAL)
def pass_block(near: float, far: float, rho: float, tau: float, block: Block) -> Message:
    """Carry the message (ρ, τ) on f(far) through `block` to f(near): new ρ, new τ, and the cost added."""
    weight, mean_x, mean_y, sxx, sxy, rest = block
    if weight == 0.0:
        return (rho, tau, 0.0) if near == far else (0.0, 0.0, 0.0)
    h, d = near - far, near - mean_x
    root = sqrt(weight)
    spread = sqrt(sxx)
    e2 = t2 = 0.0
    if rho == inf:
        e1, t1 = root * (mean_x - far) / h, root * mean_y
        if sxx > 0.0:
            e2, t2 = spread / h, sxy / spread
    else:
        pull, mass = rho * h, root * d
        pivot = sqrt(pull * pull + mass * mass)
        if pivot == 0.0:
            return root, root * mean_y, rest
        e1 = root * rho * (far - mean_x) / pivot
        t1 = (mass * tau - pull * root * mean_y) / pivot
        if sxx > 0.0:
            last = sqrt(pivot * pivot + sxx)
            e2 = spread * (pull * rho + mass * root) / pivot / last
            t2 = (pivot * (sxy / spread) + spread * (pull * tau + mass * root * mean_y) / pivot) / last
    rho, tau, residual = merge_rows(e1, t1, e2, t2)
    return rho, tau, rest + residual


@njit(cache=True, **INTERNAL)
def meeting_cost(rho_left: float, tau_left: float, rho_right: float, tau_right: float) -> float:
    """min over v of (ρ_l v − τ_l)² + (ρ_r v − τ_r)²; ρ_l = ∞ stands for v = 0."""
    if rho_left == inf:
        return tau_right * tau_right
    if rho_left == 0.0 or rho_right == 0.0:
        return 0.0
    cross = rho_left * tau_right - rho_right * tau_left
    return cross * cross / (rho_left * rho_left + rho_right * rho_right)


@njit(cache=True, **INTERNAL)
def forward_message(k: int, chain: Chain, data: Data) -> Message:
    """What the data left of knot k say about f(b_k), from the message of knot k − 1."""
    knots, forward, block = chain.knots, chain.forward, load_block(chain.blocks, k)
    if k == 0:
        if data.free_left:
            return pass_block(knots[0], knots[0], 0.0, 0.0, block)
        return inf, 0.0, block.rest
    return pass_block(knots[k], knots[k - 1], forward[k - 1, RHO], forward[k - 1, TAU], block)


@njit(cache=True, **INTERNAL)
def backward_message(k: int, chain: Chain, data: Data) -> Message:
    """What the data right of knot k say about f(b_k), from the message of knot k + 1."""
    knots, backward, block = chain.knots, chain.backward, load_block(chain.blocks, k + 1)
    if k + 1 == knots.size:
        return pass_block(knots[k], data.x[-1], 0.0, 0.0, block)
    return pass_block(knots[k], knots[k + 1], backward[k + 1, RHO], backward[k + 1, TAU], block)


@njit(cache=True, **INTERNAL)
def store_message(messages: Floats, k: int, message: Message) -> bool:
    """Write `message` into row k of `messages` (n, 3); whether that changed any bit of (ρ, τ)."""
    changed = messages[k, RHO] != message[0] or messages[k, TAU] != message[1]
    messages[k, RHO], messages[k, TAU], messages[k, COST] = message
    return bool(changed)


@njit(cache=True, **INTERNAL)
def closing_cost(chain: Chain) -> float:
    """What is to be added to the forward costs of all knots: the last block, and where the sweeps meet."""
    forward, backward, k = chain.forward, chain.backward, chain.knots.size - 1
    if k < 0:
        return float(chain.blocks[0, 5])
    meeting = meeting_cost(forward[k, RHO], forward[k, TAU], backward[k, RHO], backward[k, TAU])
    return float(backward[k, COST] + meeting)


@njit(cache=True, **INTERNAL)
def renew_messages(chain: Chain, data: Data) -> float:
    """Both sweeps of messages over a chain whose blocks are right; returns the minimal loss."""
    n = chain.knots.size
    for k in range(n):
        store_message(chain.forward, k, forward_message(k, chain, data))
    for k in range(n - 1, -1, -1):
        store_message(chain.backward, k, backward_message(k, chain, data))
    loss = closing_cost(chain)
    for k in range(n):
        loss += chain.forward[k, COST]
    return loss


@njit(cache=True, **LEAN)
def _fill_chain(chain: Chain, data: Data) -> float:
    """Make blocks and messages from knots and starts; returns the minimal loss."""
    fill_blocks(data, chain.starts, chain.blocks)
    return renew_messages(chain, data)


@njit(cache=True, **INTERNAL)
def add_row(triangle: Triangle, a: float, b: float, t: float) -> Triangle:
    """Rotate the row [a b | t] into the triangle."""
    r11, r12, t1, r22, t2 = triangle
    if a != 0.0:
        r = sqrt(r11 * r11 + a * a)
        c, s = r11 / r, a / r
        r11, r12, b, t1, t = r, c * r12 + s * b, c * b - s * r12, c * t1 + s * t, c * t - s * t1
    if b != 0.0:
        r = sqrt(r22 * r22 + b * b)
        c, s = r22 / r, b / r
        r22, t2 = r, c * t2 + s * t
    return Triangle(r11, r12, t1, r22, t2)


@njit(cache=True, **INTERNAL)
def pinned_line(block: Block, left: float, right: float, rho: float, tau: float) -> tuple[float, float]:
    """Height at x̄ and slope of the line through (left, 0), given its block and the message from the right."""
    weight, mean_x, mean_y, sxx, sxy, _ = block
    arm, reach = mean_x - left, rho * (right - left)
    slope = (weight * arm * mean_y + sxy + reach * tau) / (weight * arm * arm + sxx + reach * reach)
    return arm * slope, slope


@njit(cache=True, **INTERNAL)
def block_line(
    block: Block, left: float, right: float, before: Message, after: Message
) -> tuple[float, float, bool]:
    """Height at x̄ and slope of the optimal line of a block, and whether the data determine that slope.

    A problem in two unknowns: the deviations from the block's own regression line, with one row each from the
    messages `before` (on the value at `left`) and `after` (at `right`).
    """
    weight, mean_x, mean_y, sxx, sxy, _ = block
    rho_left, tau_left, _ = before
    rho_right, tau_right, _ = after
    if rho_left == inf:
        height, slope = pinned_line(block, left, right, rho_right, tau_right)
        return height, slope, True
    own = sxy / sxx if sxx > 0.0 else 0.0
    arm_left, arm_right = left - mean_x, right - mean_x
    triangle = Triangle(sqrt(weight), 0.0, 0.0, sqrt(sxx), 0.0)
    miss = tau_left - rho_left * (mean_y + own * arm_left)
    triangle = add_row(triangle, rho_left, rho_left * arm_left, miss)
    miss = tau_right - rho_right * (mean_y + own * arm_right)
    r11, r12, t1, r22, t2 = add_row(triangle, rho_right, rho_right * arm_right, miss)
    if r22 == 0.0:
        return mean_y + t1 / r11, 0.0, False
    tilt = t2 / r22
    return mean_y + (t1 - r12 * tilt) / r11, own + tilt, True


@njit(cache=True, **INTERNAL)
def line_value(lines: Floats, row: int, place: float) -> float:
    """Value of line `row` of `lines` (n + 1, 3) at `place`."""
    return float(lines[row, HEIGHT] + lines[row, SLOPE] * (place - lines[row, CENTRE]))


@njit(cache=True, **INTERNAL)
def block_lines(chain: Chain, data: Data, lines: Floats) -> None:
    """Write the optimal line of every block that holds data into `lines` (n + 1, 3), zeros before.

    A slope that the data leave open is chosen so that f is continuous; at the first such block of a run it
    is 0.
    """
    knots, _, blocks, forward, backward = chain
    n, end = knots.size, data.x[-1]
    tied, value = False, 0.0
    for k in range(n + 1):
        left, right = knots[k - 1] if k > 0 else end, knots[k] if k < n else end
        block = load_block(blocks, k)
        if block.weight == 0.0:
            tied = tied and left == right
            continue
        before = (forward[k - 1, RHO], forward[k - 1, TAU], 0.0) if k > 0 else (0.0, 0.0, 0.0)
        after = (backward[k, RHO], backward[k, TAU], 0.0) if k < n else (0.0, 0.0, 0.0)
        height, slope, known = block_line(block, left, right, before, after)
        if not known and tied:
            slope = (height - value) / (block.x - left)
        lines[k, CENTRE], lines[k, HEIGHT], lines[k, SLOPE] = block.x, height, slope
        tied, value = True, height + slope * (right - block.x)


@njit(cache=True, **INTERNAL)
def bridge_gaps(chain: Chain, data: Data, lines: Floats) -> None:
    """Join the lines across blocks without data by one straight line each, in place (`lines` (n + 1, 3))."""
    knots, blocks = chain.knots, chain.blocks
    n = knots.size
    k = 0
    if data.free_left == 0:
        lines[0, CENTRE] = knots[0] if n > 0 else 0.0
        k = 1
    while k <= n:
        if blocks[k, 0] > 0.0:
            k += 1
            continue
        stop = k
        while blocks[stop, 0] == 0.0:
            stop += 1
        left, right = knots[k - 1] if k > 0 else knots[stop - 1], knots[stop - 1]
        rise_to = lines[stop, HEIGHT] + lines[stop, SLOPE] * (right - lines[stop, CENTRE])
        rise_from, slope = rise_to, lines[stop, SLOPE]
        if left < right:
            rise_from = lines[k - 1, HEIGHT] + lines[k - 1, SLOPE] * (left - lines[k - 1, CENTRE])
            slope = (rise_to - rise_from) / (right - left)
        for gap in range(k, stop):
            lines[gap, CENTRE], lines[gap, HEIGHT], lines[gap, SLOPE] = left, rise_from, slope
        k = stop


@njit(cache=True, **LEAN)
def _fill_lines(chain: Chain, data: Data, lines: Floats) -> None:
    block_lines(chain, data, lines)
    bridge_gaps(chain, data, lines)


class Fitted(NamedTuple):
    """The minimal loss, the chain of the live knots (n,), and the line (n + 1, 3) of each of its blocks."""

    loss: float
    chain: Chain
    lines: Floats


def fitted(knots: Floats, data: Data) -> Fitted:
    """Return the least-squares fit with the live ones among the sorted `knots`; see `fit`."""
    loss, chain = new_chain(knots, data)
    lines = np.zeros((chain.knots.size + 1, 3))
    _fill_lines(chain, data, lines)
    return Fitted(loss, chain, lines)


def lines_of_all(lines: Floats, n: int) -> Floats:
    """The lines of the live knots' blocks, the last one repeated right of each dead knot: (n + 1, 3)."""
    dead = n + 1 - len(lines)
    return np.concatenate([lines, np.repeat(lines[-1:], dead, axis=0)]) if dead else lines


@njit(cache=True, **INTERNAL)
def cost_around(k: int, target: float, left: Block, right: Block, chain: Chain, data: Data) -> float:
    """Cost of two blocks beside knot k, were it at `target`, and of the meeting of the messages there."""
    knots, forward, backward = chain.knots, chain.forward, chain.backward
    if k > 0:
        before = pass_block(target, knots[k - 1], forward[k - 1, RHO], forward[k - 1, TAU], left)
    elif forward[0, RHO] == inf:
        before = (inf, 0.0, 0.0)
    else:
        before = pass_block(target, target, 0.0, 0.0, left)
    if k + 1 < knots.size:
        after = pass_block(target, knots[k + 1], backward[k + 1, RHO], backward[k + 1, TAU], right)
    else:
        after = pass_block(target, data.x[-1], 0.0, 0.0, right)
    return before[2] + after[2] + meeting_cost(before[0], before[1], after[0], after[1])


@njit(cache=True, **INTERNAL)
def place_knot(k: int, target: float, start: int, data: Data, chain: Chain) -> None:
    """Put knot k at `target`, right of `start` data, and restate the two blocks beside it."""
    starts, blocks = chain.starts, chain.blocks
    chain.knots[k], starts[k] = target, start
    stop = starts[k + 1] if k + 1 < starts.size else data.x.size
    store_block(blocks, k, block_of(data, starts[k - 1], start) if k > 0 else first_block(data, start))
    store_block(blocks, k + 1, block_of(data, start, stop))


def fit(knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int) -> tuple[float, Floats]:
    """Least squares of the continuous piecewise linear model with given knots, O(m + n).

    Minimises Σ_i w_i (f(x_i) − y_i)², f(x) = Σ_j c_j relu(x − b_j) [+ a free line], [plateau, (4.1)].
    Symbols: `knots` (n,) sorted; x strictly increasing, y, w > 0, each (m,); `free_left` 0 (f = 0 left of the
    first knot) or 1 (a free line there). Returns the minimal weighted sum of squared residuals and the lines
    (n + 1, 3): f(x) = height + slope·(x − centre) with row j + 1 on (b_j, b_{j+1}] and row 0 left of b_0.
    Where the data leave f open (gaps between knots without data) it is one minimiser; `anls.minimum_norm` has
    the minimum-norm one.
    """
    loss, _, lines = fitted(knots, Data(x, y, w, free_left))
    return loss, lines_of_all(lines, knots.size)
