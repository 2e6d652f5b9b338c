"""One neuron after the other under frozen forces, in closed form from wall to wall, at any scale.

Samples pull with constant strengths g_k. A neuron (w, a) then moves by

    w' = a D,   a' = ⟨w, D⟩,   D = Σ_k η_k g_k x_k,

η_k = 1 where it is active, γ where it is not, and of least ‖D‖ in [γ, 1] where it rests. Between two walls
(data hyperplanes) D is constant. With u = D/‖D‖, p = ⟨u, w⟩ and q = p² − a², which does not change,

    w(τ) = w + (p(τ) − p) u,   p(τ) + a(τ) = (p + a) e^{‖D‖τ},   p(τ) − a(τ) = (p − a) e^{−‖D‖τ}.

p moves one way as long as a keeps its sign, so the next wall is the one that needs the least change of p; at
p + sΔ, s = sign a, the outer weight is s√(a² + Δ(2sp + Δ)), and the time follows from either exponential. The
system is linear in (w, a): each neuron carries a log-scale, and its size never leaves the range of floating
point numbers.

At a wall k: if a g_k ≥ 0 the neuron crosses. Else it may be held there: of all walls that hold it, those
whose gate is inside (γ, 1) keep it, the others let it go to their side. Gates are constant between walls:
nothing else to watch.

**Gates** of the walls that hold a neuron: min ‖known + Σ_c η_c part_c‖ over η ∈ [γ, 1]^c, compiled.

The twin of `landscape.minimal_gates`: gates that break the optimality conditions are
exchanged between the bounds and the inside, all at once; if that does not settle, one after the other.
"""

from __future__ import annotations

from math import exp, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, MAKING, MAKING_WITHIN, ONCE

EXCHANGES = 30
SWEEPS = 500
SAME = 1e-9
"""A part is taken for dependent on the ones before if less than this share of it is new."""


@njit(cache=True, **MAKING)
def bounded_gates(known: Floats, parts: Floats, slope: float) -> Floats:
    """Return the gates (c,) for known (d,) and parts (c, d)."""
    count = len(parts)
    gates, inside = np.empty(count), np.ones(count, np.bool_)
    for c in range(count):
        gates[c] = slope
    for _ in range(EXCHANGES):
        _solve(known, parts, inside, gates)
        settled = True
        for c in range(count):
            if inside[c] and not slope <= gates[c] <= 1.0:
                gates[c] = 1.0 if gates[c] > 1.0 else slope
                inside[c] = settled = False
        if settled and not _exchange_back(known, parts, slope, inside, gates):
            return gates
    return _one_by_one(known, parts, slope, gates)


@njit(cache=True, **MAKING_WITHIN)
def _residual(known: Floats, parts: Floats, gates: Floats) -> Floats:
    total = known.copy()
    for c in range(len(parts)):
        for i in range(len(known)):
            total[i] += gates[c] * parts[c, i]
    return total


@njit(cache=True, **ONCE)
def _exchange_back(known: Floats, parts: Floats, slope: float, inside: Bools, gates: Floats) -> bool:
    """Free the gates at a bound that would shorten the sum inside; return whether there are any."""
    total = _residual(known, parts, gates)
    changed = False
    size = np.abs(parts).sum()
    for c in range(len(parts)):
        if inside[c]:
            continue
        rate, square = 0.0, 0.0
        for i in range(len(known)):
            rate += total[i] * parts[c, i]
            square += parts[c, i] ** 2
        outward = rate if gates[c] > slope else -rate
        if outward > 1e-13 * np.sqrt(square) * size:
            inside[c] = changed = True
    return changed


@njit(cache=True, **ONCE)
def _solve(known: Floats, parts: Floats, inside: Bools, gates: Floats) -> None:
    """Write the unbounded gates of the parts inside, by Gram–Schmidt done twice; dependent parts keep
    theirs."""
    count, dimension = parts.shape
    basis, corner = np.zeros((count, dimension)), np.zeros((count, count))
    order, rank = np.zeros(count, np.int64), 0
    goal = np.zeros(count)
    for c in range(count):
        if not inside[c]:
            continue
        size = 0.0
        for i in range(dimension):
            basis[rank, i] = parts[c, i]
            size += parts[c, i] ** 2
        for _ in range(2):
            for b in range(rank):
                overlap = 0.0
                for i in range(dimension):
                    overlap += basis[b, i] * basis[rank, i]
                corner[b, rank] += overlap
                for i in range(dimension):
                    basis[rank, i] -= overlap * basis[b, i]
        rest = 0.0
        for i in range(dimension):
            rest += basis[rank, i] ** 2
        if rest <= SAME * SAME * size or rank >= dimension:
            for b in range(rank + 1):
                corner[b, rank] = 0.0
            continue
        corner[rank, rank] = np.sqrt(rest)
        for i in range(dimension):
            basis[rank, i] /= corner[rank, rank]
        order[rank] = c
        rank += 1
    for b in range(rank):
        gates[order[b]] = 0.0
    total = _residual(known, parts, gates)
    for b in range(rank):
        for i in range(dimension):
            goal[b] -= basis[b, i] * total[i]
    for b in range(rank - 1, -1, -1):
        value = goal[b]
        for e in range(b + 1, rank):
            value -= corner[b, e] * gates[order[e]]
        gates[order[b]] = value / corner[b, b]


@njit(cache=True, **ONCE)
def _one_by_one(known: Floats, parts: Floats, slope: float, gates: Floats) -> Floats:
    """Return the gates by minimising over each in turn."""
    total = _residual(known, parts, gates)
    for _ in range(SWEEPS):
        for c in range(len(parts)):
            rate, square = 0.0, 0.0
            for i in range(len(known)):
                rate += total[i] * parts[c, i]
                square += parts[c, i] ** 2
            if square > 0.0:
                gate = min(max(gates[c] - rate / square, slope), 1.0)
                for i in range(len(known)):
                    total[i] += (gate - gates[c]) * parts[c, i]
                gates[c] = gate
    return gates


Signs = NDArray[np.int8]

LONGEST = 300.0
"""‖D‖τ of one piece: e to this power is a number."""
STILL = 1e-14
"""‖D‖ below this share of Σ|g_k|‖x_k‖ is rounding."""
INSIDE = 1e-12
"""A gate this close to γ or 1 is there."""
ALIGNED = 0.99
"""A neuron has arrived when the cosine of its angle to where it turns is this."""
ROUNDING = 1e-13
"""Squares that cancel to less than this share are zero."""
FADING = 1e-9
"""A neuron opposed to its pull, and balanced, within this shrinks for ever without turning."""
RUNS, STANDS, TURNS_FOR_EVER, GIVEN_UP, FADES = 0, 1, 2, 3, 4
"""How a neuron ended: in the middle of a piece; without a force; with no wall ahead; after too many walls;
shrinking to nothing."""


class Forces(NamedTuple):
    """Samples (n, d) that pull with constant strengths (n,), and γ; total: Σ|g_k|‖x_k‖."""

    inputs: Floats
    strengths: Floats
    slope: float
    total: float


class Neurons(NamedTuple):
    """Directions (m, d) and outer weights (m,) up to e^log_scale (m,); signs (m, n): 0 where a neuron is
    held."""

    inner: Floats
    outer: Floats
    log_scales: Floats
    signs: Signs


class Fates(NamedTuple):
    """For each neuron: last D (m, d), number of walls met, time of the last wall, time of arrival, how it
    ended."""

    pulls: Floats
    walls: Ints
    last: Floats
    arrivals: Floats
    ends: Ints


@njit(cache=True, **MAKING)
def follow(neurons: Neurons, forces: Forces, duration: float, most: int, fates: Fates) -> None:
    """Move every neuron for `duration` (inf: to its end) in place, past at most so many walls each."""
    size, dimension = forces.inputs.shape
    z, rates, pull = np.empty(size), np.empty(size), np.empty(dimension)
    for j in range(len(neurons.outer)):
        _begin(neurons, forces, j, z)
        left, state = duration, RUNS
        for _ in range(most):
            length = _pull(neurons, forces, j, pull)
            if length == 0.0:
                state = STANDS
                break
            left, state = _piece(neurons, forces, j, (z, rates, pull), (length, left, duration), fates)
            if state != RUNS or left <= 0.0:
                break
        else:
            state = GIVEN_UP
        fates.ends[j] = state
        for i in range(dimension):
            fates.pulls[j, i] = pull[i]


@njit(cache=True, **ONCE)
def _begin(neurons: Neurons, forces: Forces, j: int, z: Floats) -> None:
    """Take the scale of a neuron out of it, and compute ⟨w, x_k⟩; what is held or past its wall is at 0."""
    size, dimension = forces.inputs.shape
    _rescale(neurons, j)
    for k in range(size):
        value = 0.0
        for i in range(dimension):
            value += neurons.inner[j, i] * forces.inputs[k, i]
        z[k] = value if neurons.signs[j, k] * value > 0.0 else 0.0


@njit(cache=True, **INTERNAL)
def _rescale(neurons: Neurons, j: int) -> None:
    """Give a neuron the size 1, and its log-scale what it had."""
    largest = abs(neurons.outer[j])
    for i in range(neurons.inner.shape[1]):
        largest = max(largest, abs(neurons.inner[j, i]))
    if largest > 0.0:
        neurons.outer[j] /= largest
        for i in range(neurons.inner.shape[1]):
            neurons.inner[j, i] /= largest
        neurons.log_scales[j] += log(largest)


@njit(cache=True, **ONCE)
def _pull(neurons: Neurons, forces: Forces, j: int, pull: Floats) -> float:
    """Write D of a neuron; walls that do not hold it any more let it go. Return ‖D‖, 0 if it is rounding."""
    size, dimension = forces.inputs.shape
    held = 0
    for i in range(dimension):
        pull[i] = 0.0
    for k in range(size):
        sign = neurons.signs[j, k]
        held += sign == 0
        gate = forces.strengths[k] * (1.0 if sign > 0 else forces.slope if sign < 0 else 0.0)
        if gate != 0.0:
            for i in range(dimension):
                pull[i] += gate * forces.inputs[k, i]
    if held:
        _hold(neurons, forces, j, pull, held)
    length = 0.0
    for i in range(dimension):
        length += pull[i] * pull[i]
    length = sqrt(length)
    return length if length > STILL * forces.total else 0.0


@njit(cache=True, **ONCE)
def _hold(neurons: Neurons, forces: Forces, j: int, pull: Floats, held: int) -> None:
    """Add to D what the walls that hold a neuron give, and release it from those with a gate at its end."""
    dimension = forces.inputs.shape[1]
    parts, points = np.empty((held, dimension)), np.empty(held, np.int64)
    count = 0
    for k in range(len(forces.strengths)):
        if neurons.signs[j, k] == 0:
            points[count] = k
            for i in range(dimension):
                parts[count, i] = forces.strengths[k] * forces.inputs[k, i]
            count += 1
    gates = bounded_gates(pull, parts, forces.slope)
    for c in range(count):
        if gates[c] >= 1.0 - INSIDE:
            neurons.signs[j, points[c]] = 1
        elif gates[c] <= forces.slope + INSIDE:
            neurons.signs[j, points[c]] = -1
        for i in range(dimension):
            pull[i] += gates[c] * parts[c, i]


@njit(cache=True, **ONCE)
def _piece(
    neurons: Neurons,
    forces: Forces,
    j: int,
    scratch: tuple[Floats, Floats, Floats],
    timing: tuple[float, float, float],
    fates: Fates,
) -> tuple[float, int]:
    """Move a neuron to its next wall, or for the time that is left; return what is left then, and how it is.

    scratch: ⟨w, x_k⟩, the room for ⟨u, x_k⟩, D; timing: ‖D‖, the time left, the whole duration.
    """
    z, rates, pull = scratch
    length, left, duration = timing
    p = 0.0
    for i in range(len(pull)):
        p += pull[i] / length * neurons.inner[j, i]
    a = neurons.outer[j]
    side = np.sign(a) if a != 0.0 else np.sign(p)
    if side == 0.0:
        return left, STANDS
    if _fades(neurons, j, p, a):
        if duration == inf:
            fates.arrivals[j] = min(fates.arrivals[j], fates.last[j])
        else:
            neurons.log_scales[j] -= length * left
        return 0.0, FADES
    turn = _turning(p, a, side)
    nearest, wall = _next_wall(neurons, forces, j, side, (z, rates, pull), length)
    wall = wall if nearest < turn else -1
    change = min(nearest, turn)
    if turn <= nearest and turn < inf:
        time = 0.5 * log((p - a) / (p + a)) / length
    else:
        time = _time(p, a, side, change) / length
    elapsed = 0.0 if duration == inf else duration - left
    if duration == inf:
        elapsed = fates.last[j]
        _note_arrival(neurons, j, (p, a, side, change), length, fates)
        if time == inf:
            return 0.0, TURNS_FOR_EVER
    step = min(time, left, LONGEST / length)
    if step < time:
        wall, turn = -1, inf
        growth, decay = exp(length * step), exp(-length * step)
        moved = 0.5 * (p + a) * growth + 0.5 * (p - a) * decay
        neurons.outer[j] = 0.5 * (p + a) * growth - 0.5 * (p - a) * decay
        change = side * (moved - p)
    elif wall >= 0:
        neurons.outer[j] = side * sqrt(max(a * a + change * (2.0 * side * p + change), 0.0))
    else:
        neurons.outer[j] = 0.0
    fates.last[j] = elapsed + step
    _move(neurons, forces, j, (z, rates, pull), side * change / length)
    _meet(neurons, forces, j, wall, z, side, wall < 0 and step == time)
    fates.walls[j] += wall >= 0
    scale = neurons.log_scales[j]
    _rescale(neurons, j)
    factor = exp(scale - neurons.log_scales[j])
    for k in range(len(z)):
        z[k] *= factor
    return left - step, RUNS


@njit(cache=True, **ONCE)
def _fades(neurons: Neurons, j: int, p: float, a: float) -> bool:
    """Whether w is opposed to a·D, and p + a = 0: rounding alone would let it turn, after a long time."""
    square = 0.0
    for i in range(neurons.inner.shape[1]):
        square += neurons.inner[j, i] ** 2
    return abs(p + a) <= FADING * abs(p - a) and square - p * p <= ROUNDING * p * p


@njit(cache=True, **INTERNAL)
def _turning(p: float, a: float, side: float) -> float:
    """Return how far p moves until a = 0 (inf: never)."""
    if side * p >= 0.0 or abs(p) <= abs(a):
        return inf
    return a * a / (abs(p) + sqrt((abs(p) - abs(a)) * (abs(p) + abs(a))))


@njit(cache=True, **ONCE)
def _next_wall(
    neurons: Neurons,
    forces: Forces,
    j: int,
    side: float,
    scratch: tuple[Floats, Floats, Floats],
    length: float,
) -> tuple[float, int]:
    """Write ⟨u, x_k⟩; return the least change of p at which a wall is met, and which (inf, −1: none)."""
    z, rates, pull = scratch
    nearest, wall = inf, -1
    for k in range(len(z)):
        rate = 0.0
        for i in range(len(pull)):
            rate += pull[i] * forces.inputs[k, i]
        rates[k] = rate / length
        sign = neurons.signs[j, k]
        if sign != 0 and sign * rate * side < 0.0:
            room = abs(z[k] / rates[k])
            if room < nearest:
                nearest, wall = room, k
    return nearest, wall


@njit(cache=True, **INTERNAL)
def _time(p: float, a: float, side: float, change: float) -> float:
    """Return ‖D‖τ until p has moved by `change` in the direction of `side`; inf for an infinite change."""
    if change == inf:
        return inf
    root = sqrt(max(a * a + change * (2.0 * side * p + change), 0.0))
    # a_new − a without cancellation.
    sum_of_roots = root + abs(a)
    gained = side * change * (2.0 * side * p + change) / sum_of_roots if sum_of_roots > 0.0 else 0.0
    if abs(p + a) >= abs(p - a):
        return max(log1p((side * change + gained) / (p + a)), 0.0)
    # Of p − a = c e^{−t}: the ratio of before and after.
    ratio = (side * change - gained) / (p - a)
    return max(-log1p(ratio), 0.0) if ratio > -1.0 else inf


@njit(cache=True, **ONCE)
def _note_arrival(
    neurons: Neurons, j: int, state: tuple[float, float, float, float], length: float, fates: Fates
) -> None:
    """Write when the cosine of the angle between w and side·u passes `ALIGNED` in this piece; reset before
    that."""
    p, a, side, change = state
    square = 0.0
    for i in range(neurons.inner.shape[1]):
        square += neurons.inner[j, i] ** 2
    across = sqrt(max(square - p * p, 0.0))
    needed = across * ALIGNED / sqrt(1.0 - ALIGNED * ALIGNED) - side * p
    if needed <= 0.0:
        if fates.arrivals[j] == inf:
            fates.arrivals[j] = fates.last[j]
    elif needed <= change:
        fates.arrivals[j] = fates.last[j] + _time(p, a, side, needed) / length
    else:
        fates.arrivals[j] = inf


@njit(cache=True, **ONCE)
def _move(
    neurons: Neurons, forces: Forces, j: int, scratch: tuple[Floats, Floats, Floats], along: float
) -> None:
    """Move w by along·D, and ⟨w, x_k⟩ with it."""
    z, rates, pull = scratch
    length = 0.0
    for i in range(len(pull)):
        neurons.inner[j, i] += along * pull[i]
        length += pull[i] * pull[i]
    length = sqrt(length)
    for k in range(len(z)):
        sign = neurons.signs[j, k]
        value = z[k] + along * length * rates[k]
        z[k] = value if sign * value > 0.0 else 0.0


@njit(cache=True, **ONCE)
def _meet(neurons: Neurons, forces: Forces, j: int, wall: int, z: Floats, side: float, turned: bool) -> None:
    """Cross the wall, or hold the neuron there; where a changes sign, let go what would push it away."""
    if wall >= 0:
        z[wall] = 0.0
        # A point without a force holds no neuron.
        crosses = side * forces.strengths[wall] >= 0.0
        neurons.signs[j, wall] = -neurons.signs[j, wall] if crosses else 0
    if turned:
        for k in range(len(z)):
            if neurons.signs[j, k] == 0:
                neurons.signs[j, k] = -1
