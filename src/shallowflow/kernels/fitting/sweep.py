"""Knots between their neighbours: each to its best continuous place (sweeps), all at once (polish).

Not in [plateau]; ours.

**The best place of one knot** b between two others, a < c, over all continuous positions, in one pass over
the data. It splits the data between its neighbours into a left and a right part, each under a line of its
own. What the chain (`chain`) says about f(a), the message (ρ v − τ)², is one more point of the left part: at
a, of height τ/ρ and weight ρ²; likewise at c. So each part is a block in the sense of `chain`, grown
from its outer end point by point. Its line costs Q + W (height − ȳ)² + S_xx (slope − s)², s = S_xy / S_xx,
and if both lines are to meet at b, the least total is

    Q_l + Q_r + δ(b)² / V(b),     δ(b) = ȳ_l + s_l (b − x̄_l) − ȳ_r − s_r (b − x̄_r),
                                   V(b) = 1/W_l + (b − x̄_l)² / S_l + 1/W_r + (b − x̄_r)² / S_r.

While b passes no datum only δ and V change. δ is linear, V quadratic, so δ²/V has one minimum, δ = 0, and
one maximum: the best place in a gap between two data is where the lines cross, if they do so there, and
otherwise an end of the gap, a datum. A part whose slope is open (S = 0) meets the other anywhere.
Q_l + Q_r is a lower bound for the gap, which rules out most of them.

Infinite weights are exact constraints: W = ∞ ties the left line to (a, 0), and W = S = ∞ is the zero line
left of the first knot. Blocks only grow here, so nothing is subtracted.

**A sweep.** Going right, knot k sees the forward message of knot k − 1, renewed just now, and the
backward message of knot k + 1, still valid since nothing right of k has moved: `best_place` gives the
exact minimiser of the loss over b_{k−1} < b_k < b_{k+1}, all other knots fixed and all coefficients free.
Going left is the mirror image. A sweep goes right and then left; each way looks at every datum about twice,
so it costs O(m + n) (unless a crowd of knots all travels across the same data at once).

A knot moves only if the cost restated from the data (not the grown statistics that found the place) falls by
more than 10⁻¹² of the loss, and a sweep counts only if the loss computed afresh is smaller.

**Polish**: Newton steps for all knots at once, by variable projection along the chain, O(n) beside one pass
of the data. Not in [plateau]; ours. The projected loss L(b) = min over the coefficients of
Σ w_i (f(x_i) − y_i)² has, by variable projection (Golub & Pereyra 1973; Kaufman 1975), the gradient

    ∂L/∂b_j = −2 c_j Σ_{x_i > b_j} w_i r_i,     c_j the slope jump at b_j, r = f − y,

and its second-order model is again a chain. To first order a knot that moves by δ_j lets the two lines beside
it miss each other at b_j by the jump J_j = −c_j δ_j; so the lines become independent, each block costs
W (height − ȳ)² + S_xx (slope − S_xy/S_xx)² (`chain`), and the jumps cost Σ κ_j J_j²:

    κ_j = λ (W_l + W_r) + e_j / c_j²,     e_j = c_j r(b_j) p(b_j).

λ is Levenberg's and Marquardt's damping. With e = 0 the step would be Gauss and Newton's, which is blind to
the data that a moving knot crosses; e_j, with the density p of the data, is their part of the second
derivative. It cancels the rest where many knots shift together, a slow affair for coordinate sweeps: on dense
smooth data a few steps lead from equidistant knots to the optimum. r(b_j) p(b_j) is estimated from regression
lines over the data next to b_j; at its end such a line, d long, is off by y'' d² / 12, which is put right
with y'' ≈ 2 c_j / (h_l + h_r), for the cancellation leaves little over.

**A Newton step.** A message on the value at a knot is P (v − μ)². Over a block from `far` to `near`, with
u = far − x̄, r = near − x̄, h = near − far and R the block's own regression line,

    P' = D / (S + W r² + P h²),   μ' = R(near) + P (μ − R(far)) (S + W u r) / D,   D = W S + P (S + W u²),

and over a soft joint 1/P' = 1/P + 1/κ. Where forward and backward message meet,
J = (μ_b − μ_f) P_f P_b / (κ P_f + κ P_b + P_f P_b). A negative κ_j that would make the model indefinite is
replaced by |κ_j|. Conditioning is of no concern here: only the knots are taken from the model, and a step is
kept only if the exact loss (`chain`) falls. Knots keep their order, crossing data as they like.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.fitting.anls import LEAST_GAIN
from shallowflow.kernels.fitting.chain import (
    RHO,
    SLOPE,
    TAU,
    Block,
    Chain,
    Data,
    Fitted,
    backward_message,
    block_of,
    cost_around,
    empty_block,
    first_block,
    fitted,
    forward_message,
    line_value,
    load_block,
    new_chain,
    place_knot,
    renew_messages,
    store_block,
    store_message,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, Signed

HOPEFUL = 8.0
"""Sweeps with a goal go on while they lack at most this many times what the last one gained."""
WINDOW = 0.125
"""Part of a block, next to the knot, from which r(b_j) p(b_j) is estimated."""
DEFINITE = 0.05
"""Least part of W S that must be left of the pivot W S + P (S + W u²) when P < 0."""
NEAREST = 0.2
"""In one step a distance between neighbouring knots shrinks at most to this part."""
LEAST_DAMPING, LARGEST_DAMPING = 1e-6, 1e4
Place = tuple[float, int, float]
"""A position, the number of data ≤ it, and the cost of what lies between the neighbours with a knot there."""


@njit(cache=True, **INTERNAL)
def grown(block: Block, x: float, y: float, w: float) -> Block:
    """`block` with one more point of weight w at (x, y); W or S_xx may be infinite."""
    weight, mean_x, mean_y, sxx, sxy, rest = block
    if weight == 0.0:
        return Block(w, x, y, 0.0, 0.0, 0.0)
    dx, dy = x - mean_x, y - mean_y
    inverse = 1.0 / w + 1.0 / weight
    if sxx > 0.0:
        error = dy - sxy / sxx * dx
        rest += error * error / (inverse + dx * dx / sxx)
    elif dx == 0.0:
        rest += dy * dy / inverse
    share = w / (weight + w)
    return Block(
        weight + w,
        mean_x + share * dx,
        mean_y + share * dy,
        sxx + dx * dx / inverse,
        sxy + dx * dy / inverse,
        rest,
    )


@njit(cache=True, **INTERNAL)
def message_point(place: float, rho: float, tau: float) -> Block:
    """The message (ρ v − τ)² on f(place) as a block of one point; ρ = ∞ says f(place) = 0."""
    if rho == inf:
        return Block(inf, place, 0.0, 0.0, 0.0, 0.0)
    if rho * rho == 0.0:
        return empty_block()
    return Block(rho * rho, place, tau / rho, 0.0, 0.0, 0.0)


@njit(cache=True, **INTERNAL)
def left_part(k: int, chain: Chain, data: Data) -> Block:
    """What is known left of the data that follow knot k − 1: its message, a free line, or the zero line."""
    if k > 0:
        return message_point(chain.knots[k - 1], chain.forward[k - 1, RHO], chain.forward[k - 1, TAU])
    if data.free_left:
        return empty_block()
    return Block(inf, 0.0, 0.0, inf, 0.0, 0.0)


@njit(cache=True, **INTERNAL)
def right_part(k: int, chain: Chain) -> Block:
    """What is known right of the data before knot k: its message, or nothing behind the last knot."""
    if k < chain.knots.size:
        return message_point(chain.knots[k], chain.backward[k, RHO], chain.backward[k, TAU])
    return empty_block()


@njit(cache=True, **INTERNAL)
def gap_place(left: Block, right: Block, lo: float, hi: float) -> tuple[float, float]:
    """The best place in [lo, hi) and its cost beyond Q_l + Q_r; `hi` itself is the next gap's `lo`."""
    _, left_x, left_y, left_s, left_sxy, _ = left
    _, right_x, right_y, right_s, right_sxy, _ = right
    if left_s == 0.0 or right_s == 0.0:
        middle = 0.5 * (lo + hi)
        return middle, 0.0 if lo < middle < hi else inf
    left_slope, right_slope = left_sxy / left_s, right_sxy / right_s
    at_lo = left_y - right_y + left_slope * (lo - left_x) - right_slope * (lo - right_x)
    at_hi = left_y - right_y + left_slope * (hi - left_x) - right_slope * (hi - right_x)
    if at_lo * at_hi < 0.0:
        return lo + (hi - lo) * (at_lo / (at_lo - at_hi)), 0.0
    spread = 1.0 / left[0] + 1.0 / right[0]
    spread += (lo - left_x) * (lo - left_x) / left_s + (lo - right_x) * (lo - right_x) / right_s
    return lo, at_lo * at_lo / spread


@njit(cache=True, **INTERNAL)
def best_place(
    data: Data, first: int, stop: int, a: float, c: float, left: Block, right: Block, suffixes: Floats
) -> Place:
    """The best place between a and c for one knot, given the data first ≤ i < stop between them.

    Symbols: `left`, `right` what is known at the outer ends; `suffixes` scratch of at least stop − first + 1
    rows (·, 6). The place is a only if that is no knot but a limit (and the zero line ends there). Places
    where one side would know nothing are left out: a knot there is of no use. Without any place left the
    cost is ∞.
    """
    x, y, w = data.x, data.y, data.w
    store_block(suffixes, stop - first, right)
    for i in range(stop - 1, first - 1, -1):
        right = grown(right, x[i], y[i], w[i])
        store_block(suffixes, i - first, right)
    place, start, cost = a, -1, inf
    for i in range(first, stop + 1):
        if i > first:
            left = grown(left, x[i - 1], y[i - 1], w[i - 1])
        if left.rest >= cost:
            break
        row = i - first
        bound = left.rest + suffixes[row, 5]
        if bound >= cost or left.weight == 0.0 or suffixes[row, 0] == 0.0:
            continue
        lo, hi = x[i - 1] if i > first else a, x[i] if i < stop else c
        candidate, extra = gap_place(left, load_block(suffixes, row), lo, hi)
        if bound + extra < cost and lo <= candidate < hi:
            place, start, cost = candidate, i, bound + extra
    return place, start, cost


@njit(cache=True, **INTERNAL)
def left_limit(k: int, knots: Floats, x: Floats) -> float:
    """The knot before knot k; the first one may go as far left of the data as these are long."""
    if k > 0:
        return float(knots[k - 1])
    span = x[-1] - x[0]
    return float(x[0] - (span if span > 0.0 else 1.0))


@njit(cache=True, **INTERNAL)
def data_between(before: int, after: int, starts: Ints, m: int) -> tuple[int, int]:
    """The data first ≤ i < stop between the knots `before` and `after` (−1 and n: the ends)."""
    first = starts[before] if before >= 0 else Signed(0)
    stop = starts[after] if after < starts.size else m
    return first, stop


def new_suffixes(m: int) -> Floats:
    """Scratch for `best_place` on up to m data, (m + 1, 6)."""
    return np.empty((m + 1, 6))


@njit(cache=True, **INTERNAL)
def cost_beside(k: int, place: float, left: Block, right: Block, chain: Chain, data: Data) -> float:
    """Cost of the blocks `left` and `right` of knot k, were it at `place`, and of the meeting there."""
    cost = cost_around(k, place, left, right, chain, data)
    return float(cost + left.rest if k == 0 and data.free_left == 0 else cost)


@njit(cache=True, **INTERNAL)
def settle_knot(k: int, data: Data, chain: Chain, least: float, suffixes: Floats) -> None:
    """Move knot k to its best place between its neighbours if that gains more than `least`."""
    knots, blocks, x = chain.knots, chain.blocks, data.x
    first, stop = data_between(k - 1, k + 1, chain.starts, x.size)
    a = min(left_limit(k, knots, x), knots[k])
    c = knots[k + 1] if k + 1 < knots.size else x[-1]
    left, right = left_part(k, chain, data), right_part(k + 1, chain)
    place, start, cost = best_place(data, first, stop, a, c, left, right, suffixes)
    now = cost_beside(k, knots[k], load_block(blocks, k), load_block(blocks, k + 1), chain, data)
    if not cost < now - least:
        return
    left = block_of(data, first, start) if k > 0 else first_block(data, start)
    right = block_of(data, start, stop)
    if cost_beside(k, place, left, right, chain, data) < now - least:
        place_knot(k, place, start, data, chain)


@njit(cache=True, **LEAN)
def _settle_windows(chain: Chain, data: Data, windows: Ints, loss: float, suffixes: Floats) -> float:
    """One sweep, rightwards and leftwards over each window, renewing messages; returns the loss after it."""
    new = loss
    for row in range(windows.shape[0]):
        lo, hi = windows[row, 0], min(windows[row, 1], chain.knots.size - 1)
        for i in range(2 * (hi - lo + 1)):
            rightwards = lo + i <= hi
            k = lo + i if rightwards else 2 * hi + 1 - lo - i
            settle_knot(k, data, chain, LEAST_GAIN * loss, suffixes)
            if rightwards:
                store_message(chain.forward, k, forward_message(k, chain, data))
            else:
                store_message(chain.backward, k, backward_message(k, chain, data))
        new = renew_messages(chain, data)
    return new


def settle(
    knots: Floats, data: Data, windows: Ints, max_sweeps: int, tolerance: float, goal: float
) -> tuple[Floats, Floats]:
    """Sweeps over windows of knots, all others fixed, until one gains at most `tolerance` of the loss.

    Symbols: `knots` (n,) sorted; `windows` (r, 2), first and last index of knots that may move, window after
    window in every sweep; `goal`, a loss: sweeps stop early when it is out of reach (∞: never). Returns the
    knots (n,), sorted, and the strictly decreasing losses before and after each sweep, each
    Σ w_i (f(x_i) − y_i)².
    """
    loss, chain = new_chain(knots, data)
    final, losses, suffixes = knots.copy(), [loss], new_suffixes(data.x.size)
    while len(losses) <= max_sweeps:
        new = float(_settle_windows(chain, data, windows, loss, suffixes))
        if not new < loss:
            break
        gain, loss = loss - new, new
        final[: chain.knots.size] = chain.knots
        losses.append(loss)
        if gain <= tolerance * (loss + gain) or loss - goal > HOPEFUL * gain:
            break
    return final, np.array(losses)


def sweep(
    knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int, max_sweeps: int, tolerance: float
) -> tuple[Floats, Floats]:
    """Exact coordinate descent over all live knots, right and left again; results as those of `settle`.

    A sweep costs O(m + n). Dead knots (≥ x_m) stay. To go on, call it again with the knots it returned.
    """
    windows = np.array([[0, np.searchsorted(knots, x[-1]) - 1]])
    return settle(knots, Data(x, y, w, free_left), windows, max_sweeps, tolerance, inf)


@njit(cache=True, **INTERNAL)
def height_at(block: Block, place: float) -> float:
    """The block's own regression line at `place`."""
    return float(block.y + (block.sxy / block.sxx * (place - block.x) if block.sxx > 0.0 else 0.0))


def crossing_rates(fit: Fitted, data: Data) -> Floats:
    """r(b_j) p(b_j): how fast the sum of w r right of each knot changes as the knot moves, (n,).

    From the part of either block next to the knot; 0 if one of them has no data.
    """
    rates = np.zeros(fit.chain.knots.size)
    _fill_rates(fit.chain, fit.lines, data, rates)
    return rates


@njit(cache=True, **LEAN)
def _fill_rates(chain: Chain, lines: Floats, data: Data, rates: Floats) -> None:
    knots, starts, x = chain.knots, chain.starts, data.x
    n, m = knots.size, x.size
    for j in range(n):
        place, start = knots[j], starts[j]
        lo = place - WINDOW * (place - (knots[j - 1] if j > 0 else x[0]))
        hi = place + WINDOW * ((knots[j + 1] if j + 1 < n else x[-1]) - place)
        first = stop = start
        while first > 0 and x[first - 1] >= lo:
            first -= 1
        while stop < m and x[stop] <= hi:
            stop += 1
        if first == start or stop == start:
            continue
        before, after = block_of(data, first, start), block_of(data, start, stop)
        weight = before.weight + after.weight
        seen = before.weight * height_at(before, place) + after.weight * height_at(after, place)
        # Half of y'', since hi − lo is WINDOW (h_l + h_r).
        bend = (lines[j + 1, SLOPE] - lines[j, SLOPE]) * WINDOW / (hi - lo)
        seen += bend * (before.weight * (place - lo) ** 2 + after.weight * (hi - place) ** 2) / 6.0
        rates[j] = (weight * line_value(lines, j, place) - seen) / (hi - lo)


@njit(cache=True, **INTERNAL)
def pass_soft(precision: float, mean: float, near: float, far: float, block: Block) -> tuple[float, float]:
    """Carry the message P (v − μ)² on the value at `far` through `block` to `near`; P may be < 0 or ∞."""
    weight, mean_x, mean_y, sxx, _, _ = block
    if weight == 0.0:
        return (precision, mean) if near == far else (0.0, 0.0)
    u, r, h = far - mean_x, near - mean_x, near - far
    here, miss = height_at(block, near), mean - height_at(block, far)
    lever = sxx + weight * u * u
    if precision == inf:
        return lever / (h * h), here + miss * (sxx + weight * u * r) / lever
    bottom = sxx + weight * r * r + precision * h * h
    if bottom <= 0.0:
        return weight, mean_y
    top = weight * sxx + precision * lever
    if top == 0.0:
        return 0.0, here
    return top / bottom, here + precision * miss * (sxx + weight * u * r) / top


@njit(cache=True, **INTERNAL)
def soften(precision: float, kappa: float) -> float:
    """The message beyond a joint of stiffness κ: 1/P' = 1/P + 1/κ."""
    if kappa == inf or precision == 0.0:
        return precision
    if precision == inf or precision + kappa == 0.0:
        return kappa
    return precision * kappa / (precision + kappa)


@njit(cache=True, **INTERNAL)
def definite_stiffness(kappa: float, precision: float, place: float, block: Block) -> float:
    """κ, or |κ| where κ < 0 leaves no minimum for the message P or for the line of the next block."""
    if kappa >= 0.0:
        return kappa
    beyond = soften(precision, kappa)
    weight, mean_x, _, sxx, _, _ = block
    u = place - mean_x
    pivot = weight * sxx + beyond * (sxx + weight * u * u)
    return kappa if precision + kappa > 0.0 and pivot > DEFINITE * weight * sxx else -kappa


def knot_steps(fit: Fitted, data: Data, rates: Floats, damping: float) -> Floats:
    """The step δ (n,) of all live knots; `rates` (n,) from `crossing_rates`, `damping` = λ."""
    steps = np.zeros(rates.size)
    _fill_steps(fit.chain, fit.lines, data, rates, damping, np.empty((3, rates.size)), steps)
    return steps


@njit(cache=True, **LEAN)
def _fill_steps(
    chain: Chain,
    lines: Floats,
    data: Data,
    rates: Floats,
    damping: float,
    scratch: Floats,
    steps: Floats,
) -> None:
    knots, blocks, free_left = chain.knots, chain.blocks, data.free_left
    n, end = knots.size, data.x[-1]
    stiffness, precisions, means = scratch[0], scratch[1], scratch[2]
    precision, mean = (0.0 if free_left else inf), 0.0
    for j in range(n):
        if j > 0 or free_left:
            far = knots[j - 1] if j > 0 else knots[0]
            precision, mean = pass_soft(precision, mean, knots[j], far, load_block(blocks, j))
        precisions[j], means[j] = precision, mean
        turn = lines[j + 1, SLOPE] - lines[j, SLOPE]
        stiffness[j] = inf
        if turn != 0.0:
            kappa = damping * (blocks[j, 0] + blocks[j + 1, 0]) + rates[j] / turn
            stiffness[j] = definite_stiffness(kappa, precision, knots[j], load_block(blocks, j + 1))
        precision = soften(precision, stiffness[j])
    precision = mean = 0.0
    for j in range(n - 1, -1, -1):
        far = knots[j + 1] if j + 1 < n else end
        precision, mean = pass_soft(precision, mean, knots[j], far, load_block(blocks, j + 1))
        if stiffness[j] < inf and precision != 0.0 and precisions[j] != 0.0:
            # Message, joint and message share the difference of the means like springs in series.
            parts = 1.0 + stiffness[j] * (1.0 / precisions[j] + 1.0 / precision)
            if parts > 0.0:
                steps[j] = -(mean - means[j]) / parts / (lines[j + 1, SLOPE] - lines[j, SLOPE])
        precision = soften(precision, stiffness[j])


def in_order(knots: Floats, steps: Floats, lowest: float, end: float) -> Floats:
    """The places nearest to knots + steps (n,) that keep the order and `NEAREST` of every distance.

    Isotonic regression (pool adjacent violators) of the places less the distances to be kept.
    """
    places = np.empty(knots.size)
    _fill_places(knots, steps, (lowest, end), np.empty((3, knots.size)), places)
    return places


@njit(cache=True, **LEAN)
def _fill_places(
    knots: Floats, steps: Floats, ends: tuple[float, float], scratch: Floats, places: Floats
) -> None:
    n, (lowest, end) = knots.size, ends
    offsets, levels, sizes = scratch[0], scratch[1], scratch[2]
    reach = end - min(lowest, knots[0])
    pools = 0
    for j in range(n):
        offsets[j] = offsets[j - 1] + NEAREST * (knots[j] - knots[j - 1]) if j > 0 else 0.0
        level, size = knots[j] + min(max(steps[j], -reach), reach) - offsets[j], 1.0
        while pools > 0 and levels[pools - 1] > level:
            pools -= 1
            total = size + sizes[pools]
            level += (levels[pools] - level) * (sizes[pools] / total)
            size = total
        levels[pools], sizes[pools] = level, size
        pools += 1
    lo = knots[0] - (1.0 - NEAREST) * (knots[0] - min(lowest, knots[0]))
    hi = knots[n - 1] + (1.0 - NEAREST) * (end - knots[n - 1]) - offsets[n - 1]
    j = 0
    for pool in range(pools):
        for _ in range(int(sizes[pool])):
            places[j] = min(max(levels[pool], lo), hi) + offsets[j]
            j += 1


def polish(
    knots: Floats,
    x: Floats,
    y: Floats,
    w: Floats,
    free_left: int,
    max_steps: int,
    tolerance: float,
    damping: float = 1e-2,
) -> tuple[Floats, Floats, float]:
    """Newton steps on all live knots until one gains at most `tolerance` of the loss, or none gains.

    Symbols: `knots` (n,) sorted; x strictly increasing, y, w > 0, each (m,); `free_left` as in `chain.fit`;
    at most `max_steps` steps, kept or not, of O(m + n); `damping` > 0, the first λ. Returns the knots (n,),
    in the same order, the strictly decreasing losses Σ w_i (f(x_i) − y_i)² before and after each step kept,
    and the last λ, with which to go on.
    """
    data, end = Data(x, y, w, free_left), x[-1]
    lowest = x[0] if free_left else x[0] - (end - x[0])
    fit = fitted(knots, data)
    live = fit.chain.knots.size
    losses = [fit.loss]
    rates = crossing_rates(fit, data)
    for _ in range(max_steps if live > 0 else 0):
        if damping > LARGEST_DAMPING:
            break
        places = in_order(fit.chain.knots, knot_steps(fit, data, rates, damping), lowest, end)
        if not places[-1] < end or not (trial := fitted(places, data)).loss < fit.loss:
            damping *= 4.0
            continue
        fit = trial
        losses.append(fit.loss)
        damping = max(0.2 * damping, LEAST_DAMPING)
        if losses[-2] - fit.loss <= tolerance * losses[-2]:
            break
        rates = crossing_rates(fit, data)
    return np.concatenate([fit.chain.knots, knots[live:]]), np.array(losses), damping
