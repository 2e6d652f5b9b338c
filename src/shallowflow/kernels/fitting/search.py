"""The search for good knots beyond [plateau]: relocation, sweeps, polish in rounds, the loss always falling.

A round does the first of these that helps:

1. dead knots go where they gain most, and many cheap knots to better places at once, then one sweep
   (`sweep`);
2. sweeps and Newton steps (`polish`), then many such exchanges at once, judged after settling;
3. one exchange at a time, out of `width`² candidates;
4. otherwise the knots settle as far as they will, and the search has converged.

The exchanges repair how many knots each stretch of the data has, which no move between neighbours can; sweeps
and polish put them right within their stretch. A round depends on nothing but the knots: a search goes on
from the knots it returned, bit for bit as if it had not stopped.

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

**Step.** A message on the value at a knot is P (v − μ)². Over a block from `far` to `near`, with
u = far − x̄, r = near − x̄, h = near − far and R the block's own regression line,

    P' = D / (S + W r² + P h²),   μ' = R(near) + P (μ − R(far)) (S + W u r) / D,   D = W S + P (S + W u²),

and over a soft joint 1/P' = 1/P + 1/κ. Where forward and backward message meet,
J = (μ_b − μ_f) P_f P_b / (κ P_f + κ P_b + P_f P_b). A negative κ_j that would make the model indefinite is
replaced by |κ_j|. Conditioning is of no concern here: only the knots are taken from the model, and a step is
kept only if the exact loss (`chain`) falls. Knots keep their order, crossing data as they like.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.fitting.anls import CONVERGED, PAUSED
from shallowflow.kernels.fitting.chain import (
    SLOPE,
    Block,
    Chain,
    Data,
    Fitted,
    block_of,
    fitted,
    line_value,
    load_block,
)
from shallowflow.kernels.fitting.sweep import negligible_loss, swap_many, swap_one, sweep, use_dead_knots
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

WINDOW = 0.125
"""Part of a block, next to the knot, from which r(b_j) p(b_j) is estimated."""
DEFINITE = 0.05
"""Least part of W S that must be left of the pivot W S + P (S + W u²) when P < 0."""
NEAREST = 0.2
"""In one step a distance between neighbouring knots shrinks at most to this part."""
LEAST_DAMPING, LARGEST_DAMPING = 1e-6, 1e4

FINAL_STEPS, FINAL_TOLERANCE = 50, 1e-6


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


def one_round(knots: Floats, data: Data, width: int) -> tuple[Floats, list[float], bool]:
    """One round: the knots (n,), the losses along it, and whether there is more to find."""
    knots, losses = use_dead_knots(knots, data)
    many = max(1, knots.size // 10)
    knots, found = swap_many(knots, data, many, settled=False)
    losses += found
    if len(found) > 1:
        knots, swept = sweep(knots, *data, 1, 0.0)
        return knots, [*losses, *swept], True
    knots, swept = sweep(knots, *data, 2, 1e-2)
    knots, polished, _ = polish(knots, *data, 20, 1e-3)
    losses += [*swept, *polished]
    if many > 3:
        knots, found = swap_many(knots, data, many // 2, settled=True)
    if len(found) == 1:
        knots, found = swap_one(knots, data, width)
    losses += found
    if len(found) > 1:
        return knots, losses, True
    knots, swept = sweep(knots, *data, FINAL_STEPS, FINAL_TOLERANCE)
    knots, polished, _ = polish(knots, *data, FINAL_STEPS, FINAL_TOLERANCE)
    return knots, [*losses, *swept, *polished], False


def improve(
    knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int, rounds: int, width: int = 10
) -> tuple[Floats, Floats, int]:
    """Search for the knots of least Σ w_i (f(x_i) − y_i)², f(x) = Σ_j c_j relu(x − b_j) [+ a free line].

    Symbols: `knots` (n,) sorted, the start (dead ones, ≥ x_m, are put to use: n times x_m is a greedy start);
    x strictly increasing, y, w > 0, each (m,); `free_left` as in `chain.fit`; at most `rounds` rounds; the
    search ends when none of `width`² exchanges of a knot helps. Returns the sorted knots (n,), the strictly
    decreasing losses, the first that of the start, and the status (0 paused at `rounds`, 1 converged).
    """
    data = Data(x, y, w, free_left)
    losses = [fitted(knots, data).loss]
    least = negligible_loss(data)
    for _ in range(rounds):
        if losses[-1] <= least:
            return knots, np.array(losses), CONVERGED
        knots, found, more = one_round(knots, data, width)
        losses += [after for before, after in pairwise(found) if after < before]
        if not more:
            return knots, np.array(losses), CONVERGED
    return knots, np.array(losses), PAUSED
