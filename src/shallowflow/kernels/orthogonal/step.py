"""The steps of the flow on orthogonal data (see `flow`): live neurons by a method of order 8, and leaps.

Inputs x_k = ν_k e_k with e orthonormal. State Y (L, n + 1) of the L live neurons: column 0 is ρ_j = ln|a_j|,
the others g_jk = ⟨w_j, e_k⟩/|a_j|. With s_j = sign a_j, `on` the active coordinates, and r_k the residual
times ν_k, which is ν_k y_k − ν_k² Σ_j s_j e^{2ρ_j} g_jk on moving points and given on fixed ones,
[incremental] (6) reads

    ρ_j' = s_j rate Σ_{k on} g_jk r_k ,      g_jk' = s_j rate r_k − g_jk ρ_j'  (k on).

The method is DOP853 (Hairer, Nørsett & Wanner 1993, II.10), with the coefficients and the error estimate of
`scipy.integrate.DOP853`. Inside a step the set `on` is kept, so that the right-hand side is smooth; a step is
as long as its error and the first coordinate to reach zero allow. It is stable for h·λ ≤ 4 with
λ ≤ 2·rate·max ν²·Σ_live e^{2ρ_j}, the bound on the curvature of the live part.

The leap over a plateau: one neuron under a frozen residual r, in closed form. In data coordinates
f_k = ⟨w, e_k⟩ it obeys f_k' = a b_k where f_k > 0 (else f_k is frozen for ever) and a' = Σ_{f_k>0} f_k b_k,
b_k = s·rate·r_k with s = sign a, [incremental] (4). With Λ = |b| over the active points, β = ⟨b, g⟩/Λ and
x = Λt,

    |a|/|a_0| = cosh x + β sinh x,      f_k/|a_0| = g_k + (b_k/Λ)(sinh x + β (cosh x − 1)).

A coordinate with b_k < 0 reaches 0 when e^x = (u + √(u² + 1 − β²))/(1 + β), u = β + Λ g_k/|b_k|; it is
switched off there (g_k = 0) and the formulas start afresh. ρ rises by Δ > 0 when
x = Δ + ln(1 + √(1 − (1 − β²) e^{−2Δ})) − ln(1 + β). |a| ≥ ‖w‖ keeps β ≥ −1; at β = −1 the neuron shrinks
along its own direction. Active means g_k > 0 throughout; `factor` is s·rate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.integrate import DOP853

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

OPPOSED = 1e-15
"""1 + β below this: the neuron shrinks along its own direction."""


class Deaths(NamedTuple):
    """Times and points, (n,), of the coordinates of one neuron that reached 0."""

    times: Floats
    points: Ints


@njit(cache=True, **LEAN)
def leap(
    rho: float, g: Floats, residual: Floats, factor: float, time: float, target: float, deaths: Deaths
) -> tuple[float, float, int]:
    """Move one neuron by `time`, or until ρ reaches `target` from below; return (ρ, time moved, deaths).

    g is changed in place; the coordinates that died are written into `deaths`.
    """
    moved, died = 0.0, 0
    while True:
        length, beta = _drive(g, residual, factor)
        if length == 0.0:
            return rho, time, died
        left, until_death, point, until_target = time - moved, np.inf, -1, np.inf
        if 1.0 + beta >= OPPOSED:
            until_death, point = _next_death(g, residual, factor, length, beta)
            if rho < target:
                until_target = _rise_time(length, beta, target - rho)
        step = min(left, until_death, until_target)
        rho = _move(rho, g, residual, factor, length, beta, step)
        moved += step
        if step == until_death and until_death <= until_target and point >= 0:
            g[point] = 0.0
            deaths.times[died], deaths.points[died] = moved, point
            died += 1
        elif step == until_target:
            return target, moved, died
        if step == left:
            return rho, time, died


@njit(cache=True, **INTERNAL)
def _drive(g: Floats, residual: Floats, factor: float) -> tuple[float, float]:
    """Return (Λ, β)."""
    square, product = 0.0, 0.0
    for k in range(len(g)):
        if g[k] > 0.0:
            b = factor * residual[k]
            square += b * b
            product += b * g[k]
    length = np.sqrt(square)
    return length, max(product / length, -1.0) if length > 0.0 else 0.0


@njit(cache=True, **INTERNAL)
def _next_death(g: Floats, residual: Floats, factor: float, length: float, beta: float) -> tuple[float, int]:
    """Return the time until the first active coordinate reaches 0, and which; (∞, −1) if none does."""
    best, which = np.inf, -1
    for k in range(len(g)):
        b = factor * residual[k]
        if g[k] > 0.0 and b < 0.0:
            u = beta - length * g[k] / b
            time = np.log((u + np.sqrt(u * u + 1.0 - beta * beta)) / (1.0 + beta)) / length
            if time < best:
                best, which = time, k
    return max(best, 0.0), which


@njit(cache=True, **INTERNAL)
def _rise_time(length: float, beta: float, rise: float) -> float:
    """Return the time until ρ has risen by `rise` > 0, no coordinate dying."""
    root = np.sqrt(max(1.0 - (1.0 - beta * beta) * np.exp(-2.0 * rise), 0.0))
    return float((rise + np.log(1.0 + root) - np.log(1.0 + beta)) / length)


@njit(cache=True, **INTERNAL)
def _move(
    rho: float, g: Floats, residual: Floats, factor: float, length: float, beta: float, time: float
) -> float:
    """Move the active coordinates g by `time`, in place, no coordinate dying; return the new ρ."""
    x = length * time
    if x == 0.0:
        return rho
    if 1.0 + beta < OPPOSED:
        return rho - x
    up, down = 0.5 * (1.0 + beta), 0.5 * (1.0 - beta) * np.exp(-2.0 * x)
    growth = x + np.log(up + down)
    pushed = (up - down - beta * np.exp(-x)) / (up + down) / length
    shrink = np.exp(-growth)
    for k in range(len(g)):
        if g[k] > 0.0:
            g[k] = max(g[k] * shrink + factor * residual[k] * pushed, 0.0)
    return float(rho + growth)


STAGES = 12
A, B = np.ascontiguousarray(DOP853.A), np.ascontiguousarray(DOP853.B)
E3, E5 = np.ascontiguousarray(DOP853.E3), np.ascontiguousarray(DOP853.E5)
STABLE = 4.0
LOCATIONS = 60


class Problem(NamedTuple):
    """Signs s_j (m,), targets ν_k y_k (n,), squares ν_k² (n,), rate; what is negligible: see `problem_of`."""

    signs: Floats
    targets: Floats
    squares: Floats
    rate: float
    small: float
    settled: float
    reach: float


class Space(NamedTuple):
    """What is worked with.

    Per point (n,): r_k at the start of a step, and inside it; fixed and settled points; g and deaths of one
    neuron. Per neuron (m,): live, s_j e^{2ρ_j}. Of the live neurons, in the first rows: which they are and
    their signs (m,), on (m, n); the state at the start and the end of a step, and around the end while it is
    located, (m, n + 1); stages (STAGES + 1, m, n + 1).
    """

    residual: Floats
    inside: Floats
    fixed: Bools
    settled: Bools
    row: Floats
    deaths: Deaths
    live: Bools
    weights: Floats
    neurons: Ints
    signs: Floats
    on: Bools
    state: Floats
    new: Floats
    low: Floats
    high: Floats
    stages: Floats


def problem_of(
    signs: Floats, targets: Floats, rate: float, tiny: float, norms: Floats | None = None
) -> Problem:
    """Return the problem for targets y and the norms ν of the inputs (ones if None).

    tiny: what counts as nothing beside 1. small: the ρ below which a neuron is small, e^{2ρ} max ν² =
    tiny·(smallest non-zero |ν_k y_k|); settled: the residual of a settled point, tiny·max|ν_k y_k|; reach:
    2√(‖y‖/min ν) bounds the norm to which a neuron can grow.
    """
    norms = np.ones(len(targets)) if norms is None else norms
    drives, squares = norms * targets, norms * norms
    sizes = np.abs(drives)
    smallest = np.min(sizes[sizes > 0], initial=np.inf)
    small = 0.5 * float(np.log(tiny * smallest / np.max(squares))) if smallest < np.inf else 0.0
    shortest = np.min(norms[norms > 0], initial=np.inf)
    reach = 2.0 * float(np.sqrt(np.linalg.norm(targets) / shortest))
    return Problem(signs, drives, squares, rate, small, tiny * float(np.max(sizes)), reach)


def new_space(width: int, size: int) -> Space:
    """Return space for m neurons and n points."""
    residual, inside, row, times = np.empty((4, size))
    state, new, low, high = np.empty((4, width, size + 1))
    return Space(
        residual=residual,
        inside=inside,
        fixed=np.empty(size, np.bool_),
        settled=np.empty(size, np.bool_),
        row=row,
        deaths=Deaths(times, np.empty(size, np.int64)),
        live=np.empty(width, np.bool_),
        weights=np.empty(width),
        neurons=np.empty(width, np.int64),
        signs=np.empty(width),
        on=np.empty((width, size), np.bool_),
        state=state,
        new=new,
        low=low,
        high=high,
        stages=np.empty((STAGES + 1, width, size + 1)),
    )


@njit(cache=True, **LEAN)
def adaptive_step(
    live: int, problem: Problem, space: Space, h: float, longest: float, tolerance: float
) -> tuple[float, float, int]:
    """Make one accepted step, at most `longest`; return (its length, the next h, rejections).

    The end of the step is in `space.new`. A length of 0 means that no step was found, −1 that the state is
    not finite.
    """
    state, stages = space.state, space.stages
    velocity(state, live, problem, space, stages[0])
    curvature, fastest, total = 0.0, 0.0, 0.0
    longest_square = 0.0
    for k in range(len(problem.squares)):
        longest_square = max(longest_square, problem.squares[k])
    for j in range(live):
        curvature += 2.0 * problem.rate * longest_square * np.exp(2.0 * state[j, 0])
        for k in range(state.shape[1]):
            fastest = max(fastest, abs(stages[0, j, k]))
            total += state[j, k]
    cap = STABLE / curvature if curvature > 0.0 else np.inf
    if h <= 0.0:
        h = 0.1 / max(fastest, curvature)
    rejected = 0
    while True:
        tried = min(h, cap, longest)
        step(live, problem, space, tried)
        error = error_norm(stages, live, tried, tolerance)
        if not np.isfinite(error):
            error = 1e10
        if error <= 1.0:
            break
        rejected += 1
        h = tried * max(0.2, 0.9 * error**-0.125)
        if h <= 1e-15 * longest:
            return (0.0 if np.isfinite(total) else -1.0), h, rejected
    grown = tried * (5.0 if error == 0.0 else min(5.0, max(0.2, 0.9 * error**-0.125)))
    # A step cut short by an end or an event says nothing against the longer one that was planned.
    h = max(grown, h) if tried < h else grown
    if _lowest(live, space) < -tolerance:
        tried = _shorten(live, problem, space, tried, tolerance)
    return tried, h, rejected


@njit(cache=True, **LEAN)
def velocity(state: Floats, live: int, problem: Problem, space: Space, out: Floats) -> None:
    """Write Y' into `out`, and the residual at Y into `space.inside`."""
    on, fixed, residual, n = space.on, space.fixed, space.inside, len(problem.targets)
    for k in range(n):
        residual[k] = space.residual[k] if fixed[k] else problem.targets[k]
    for j in range(live):
        weight = space.signs[j] * np.exp(2.0 * state[j, 0])
        if weight != 0.0:
            for k in range(n):
                if on[j, k] and not fixed[k]:
                    residual[k] -= weight * problem.squares[k] * state[j, k + 1]
    for j in range(live):
        factor = space.signs[j] * problem.rate
        growth = 0.0
        for k in range(n):
            if on[j, k]:
                growth += state[j, k + 1] * residual[k]
        growth *= factor
        out[j, 0] = growth
        for k in range(n):
            out[j, k + 1] = factor * residual[k] - growth * state[j, k + 1] if on[j, k] else 0.0


@njit(cache=True, **LEAN)
def step(live: int, problem: Problem, space: Space, h: float) -> None:
    """Make one step of length h, given stages[0] = Y'; write its end into `new`, Y' there into stages[12]."""
    new, stages = space.new, space.stages
    for i in range(1, STAGES + 1):
        _copy(live, space.state, new)
        for p in range(i):
            weight = h * (A[i, p] if i < STAGES else B[p])
            if weight != 0.0:
                for j in range(live):
                    for k in range(new.shape[1]):
                        new[j, k] += weight * stages[p, j, k]
        velocity(new, live, problem, space, stages[i])


@njit(cache=True, **LEAN)
def error_norm(stages: Floats, live: int, h: float, tolerance: float) -> float:
    """Return the error estimate of a step over the tolerance, absolute in ρ and g; root mean per neuron."""
    fifth, third = 0.0, 0.0
    for j in range(live):
        for k in range(stages.shape[2]):
            e5, e3 = 0.0, 0.0
            for p in range(STAGES + 1):
                e5 += E5[p] * stages[p, j, k]
                e3 += E3[p] * stages[p, j, k]
            fifth += e5 * e5
            third += e3 * e3
    if fifth == 0.0 and third == 0.0:
        return 0.0
    return float(abs(h) * fifth / np.sqrt((fifth + 0.01 * third) * live) / tolerance)


@njit(cache=True, **INTERNAL)
def _shorten(live: int, problem: Problem, space: Space, h: float, slack: float) -> float:
    """Shorten a step that took coordinates below −slack: the first of them ends in [−slack, slack]."""
    new, low, high, on = space.new, space.low, space.high, space.on
    low_h, high_h = 0.0, h
    _copy(live, space.state, low)
    _copy(live, new, high)
    for trial in range(LOCATIONS):
        chosen = high_h
        for j in range(live):
            for k in range(on.shape[1]):
                if on[j, k] and high[j, k + 1] < -slack:
                    share = low[j, k + 1] / (low[j, k + 1] - high[j, k + 1])
                    chosen = min(chosen, low_h + share * (high_h - low_h))
        if trial % 3 == 2:
            chosen = 0.5 * (low_h + high_h)
        step(live, problem, space, chosen)
        if _lowest(live, space) < -slack:
            high_h = chosen
            _copy(live, new, high)
            continue
        near = False
        for j in range(live):
            for k in range(on.shape[1]):
                if on[j, k] and high[j, k + 1] < -slack and new[j, k + 1] <= slack:
                    near = True
                    new[j, k + 1] = 0.0
        if near:
            return chosen
        low_h = chosen
        _copy(live, new, low)
    step(live, problem, space, high_h)
    return high_h


@njit(cache=True, **INTERNAL)
def _lowest(live: int, space: Space) -> float:
    """Return the smallest active coordinate at the end of the step."""
    low = np.inf
    for j in range(live):
        for k in range(space.on.shape[1]):
            if space.on[j, k]:
                low = min(low, space.new[j, k + 1])
    return low


@njit(cache=True, **INTERNAL)
def _copy(live: int, source: Floats, copy: Floats) -> None:
    for j in range(live):
        for k in range(source.shape[1]):
            copy[j, k] = source[j, k]
