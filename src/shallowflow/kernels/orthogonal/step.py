"""One neuron under a frozen residual on orthonormal data, in closed form: the leap over a plateau.

In data coordinates f_k = ⟨w, x_k⟩ a neuron obeys f_k' = a b_k where f_k > 0 (else f_k is frozen for ever) and
a' = Σ_{f_k>0} f_k b_k, b_k = s·rate·r_k with s = sign a, [incremental] (4). With the residual r frozen, ρ =
ln|a|, g = f/|a|, Λ = |b| over the active points, β = ⟨b, g⟩/Λ and x = Λt,

    |a|/|a_0| = cosh x + β sinh x,      f_k/|a_0| = g_k + (b_k/Λ)(sinh x + β (cosh x − 1)).

A coordinate with b_k < 0 reaches 0 when e^x = (u + √(u² + 1 − β²))/(1 + β), u = β + Λ g_k/|b_k|; it is
switched off there (g_k = 0) and the formulas start afresh. ρ rises by Δ > 0 when
x = Δ + ln(1 + √(1 − (1 − β²) e^{−2Δ})) − ln(1 + β). |a| ≥ ‖w‖ keeps β ≥ −1; at β = −1 the neuron shrinks
along its own direction. Active means g_k > 0 throughout.

One explicit Runge–Kutta step for the neurons that feel a moving residual: see ``log_flow``.

State Y (L, n + 1) of the L live neurons: column 0 is ρ_j = ln|a_j|, the others g_jk = ⟨w_j, x_k⟩/|a_j|. With
s_j = sign a_j, `on` the active coordinates, r_k = y_k − Σ_j s_j e^{2ρ_j} g_jk on moving points and r_k given
on fixed ones, [incremental] (6) reads

    ρ_j' = s_j rate Σ_{k on} g_jk r_k ,      g_jk' = s_j rate r_k − g_jk ρ_j'  (k on).

The method is DOP853 (Hairer, Nørsett & Wanner 1993, II.10), with the coefficients and the error estimate of
``scipy.integrate.DOP853``. Inside a step the set `on` is kept, so that the right-hand side is smooth.

Which points move and which neurons feel them, on orthonormal data: see ``log_flow``.

Neurons meet only in the residuals r_k = y_k − Σ_j s_j e^{2ρ_j} g_jk, and most residuals stand still most of
the time. Every point is one of

- untouched: all neurons active on it are small, e^{2ρ_j} < tiny·min|y|, so that r_k = y_k;
- settled: |r_k| ≤ tiny·max|y|, and no neuron that still grows can disturb it: r_k = 0. A growing neuron j
  cannot if it is small, or if its share stays negligible at its largest possible norm A, |f_jk| A ≤
  tiny·max|y| (f_jk is constant while r_k = 0);
- moving: all others.

A neuron with a moving point is *live*.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.integrate import DOP853

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

OPPOSED = 1e-15
"""1 + β below this: the neuron shrinks along its own direction."""


@njit(cache=True)
def drive(g: FloatArray, sign: float, residual: FloatArray, rate: float) -> tuple[float, float]:
    """Return (Λ, β) of one neuron with active coordinates g > 0."""
    square, product = 0.0, 0.0
    for k in range(len(g)):
        if g[k] > 0.0:
            b = sign * rate * residual[k]
            square += b * b
            product += b * g[k]
    length = np.sqrt(square)
    if length == 0.0:
        return 0.0, 0.0
    return length, max(product / length, -1.0)


@njit(cache=True)
def next_death(
    g: FloatArray, sign: float, residual: FloatArray, rate: float, length: float, beta: float
) -> tuple[float, int]:
    """Return the time until the first active coordinate reaches 0, and which; (∞, −1) if none does."""
    best, which = np.inf, -1
    if length == 0.0 or 1.0 + beta < OPPOSED:
        return best, which
    for k in range(len(g)):
        b = sign * rate * residual[k]
        if g[k] > 0.0 and b < 0.0:
            u = beta - length * g[k] / b
            time = np.log((u + np.sqrt(u * u + 1.0 - beta * beta)) / (1.0 + beta)) / length
            if time < best:
                best, which = time, k
    return max(best, 0.0), which


@njit(cache=True)
def rise_time(length: float, beta: float, rise: float) -> float:
    """Return the time until ρ has risen by `rise` > 0, no coordinate dying; ∞ if it never does."""
    if length == 0.0 or 1.0 + beta < OPPOSED:
        return np.inf
    root = np.sqrt(max(1.0 - (1.0 - beta * beta) * np.exp(-2.0 * rise), 0.0))
    return float((rise + np.log(1.0 + root) - np.log(1.0 + beta)) / length)


@njit(cache=True)
def move(
    rho: float,
    g: FloatArray,
    sign: float,
    residual: FloatArray,
    rate: float,
    length: float,
    beta: float,
    time: float,
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
            g[k] = max(g[k] * shrink + sign * rate * residual[k] * pushed, 0.0)
    return float(rho + growth)


@njit(cache=True)
def leap(
    rho: float,
    g: FloatArray,
    sign: float,
    residual: FloatArray,
    rate: float,
    time: float,
    target: float,
    deaths: FloatArray,
    death_points: IntArray,
) -> tuple[float, float, int]:
    """Move one neuron by `time`, or until ρ reaches `target` from below; return (ρ, time moved, deaths).

    g is changed in place; times and points of the coordinates that died go into `deaths`, `death_points`.
    """
    moved, died = 0.0, 0
    while True:
        length, beta = drive(g, sign, residual, rate)
        left = time - moved
        if length == 0.0:
            return rho, time, died
        until_death, point = next_death(g, sign, residual, rate, length, beta)
        until_target = rise_time(length, beta, target - rho) if rho < target else np.inf
        step = min(left, until_death, until_target)
        rho = move(rho, g, sign, residual, rate, length, beta, step)
        moved += step
        if step == until_death and until_death <= until_target and point >= 0:
            g[point] = 0.0
            deaths[died], death_points[died] = moved, point
            died += 1
        elif step == until_target:
            return target, moved, died
        if step == left:
            return rho, time, died


BoolArray = NDArray[np.bool_]

STAGES = 12
A = np.ascontiguousarray(DOP853.A)
B = np.ascontiguousarray(DOP853.B)
E3 = np.ascontiguousarray(DOP853.E3)
E5 = np.ascontiguousarray(DOP853.E5)


@njit(cache=True)
def velocity(
    state: FloatArray,
    on: BoolArray,
    signs: FloatArray,
    targets: FloatArray,
    residual: FloatArray,
    fixed: BoolArray,
    rate: float,
    work: FloatArray,
    out: FloatArray,
) -> None:
    """Write Y' into ``out``; ``work`` (n,) is overwritten by the residual."""
    live, n = len(state), len(targets)
    for k in range(n):
        work[k] = residual[k] if fixed[k] else targets[k]
    for j in range(live):
        weight = signs[j] * np.exp(2.0 * state[j, 0])
        if weight != 0.0:
            for k in range(n):
                if on[j, k] and not fixed[k]:
                    work[k] -= weight * state[j, k + 1]
    for j in range(live):
        factor = signs[j] * rate
        growth = 0.0
        for k in range(n):
            if on[j, k]:
                growth += state[j, k + 1] * work[k]
        growth *= factor
        out[j, 0] = growth
        for k in range(n):
            out[j, k + 1] = factor * work[k] - growth * state[j, k + 1] if on[j, k] else 0.0


@njit(cache=True)
def step(
    state: FloatArray,
    on: BoolArray,
    signs: FloatArray,
    targets: FloatArray,
    residual: FloatArray,
    fixed: BoolArray,
    rate: float,
    h: float,
    work: FloatArray,
    stages: FloatArray,
    new: FloatArray,
) -> None:
    """Make one step of length h, given ``stages[0]`` = Y'; end into ``new``, its Y' into ``stages[12]``."""
    rows, columns = state.shape
    for i in range(1, STAGES + 1):
        weights = A[i] if i < STAGES else B
        for j in range(rows):
            for k in range(columns):
                new[j, k] = state[j, k]
        for p in range(i):
            weight = h * weights[p]
            if weight != 0.0:
                for j in range(rows):
                    for k in range(columns):
                        new[j, k] += weight * stages[p, j, k]
        velocity(new, on, signs, targets, residual, fixed, rate, work, stages[i])


@njit(cache=True)
def error_norm(stages: FloatArray, h: float, tolerance: float) -> float:
    """Return the error estimate of a step over the tolerance, absolute in ρ and g; root mean per neuron."""
    rows, columns = stages.shape[1:]
    fifth, third = 0.0, 0.0
    for j in range(rows):
        for k in range(columns):
            e5, e3 = 0.0, 0.0
            for p in range(STAGES + 1):
                e5 += E5[p] * stages[p, j, k]
                e3 += E3[p] * stages[p, j, k]
            fifth += e5 * e5
            third += e3 * e3
    if fifth == 0.0 and third == 0.0:
        return 0.0
    return float(abs(h) * fifth / np.sqrt((fifth + 0.01 * third) * rows) / tolerance)


@njit(cache=True)
def small_log_norm(targets: FloatArray, tiny: float) -> float:
    """Return the ρ below which a neuron is small: e^{2ρ} = tiny·(smallest non-zero |y_k|)."""
    smallest = np.inf
    for y in targets:
        if y != 0.0:
            smallest = min(smallest, abs(y))
    return 0.5 * np.log(tiny * smallest) if smallest < np.inf else 0.0


@njit(cache=True)
def classify(
    rho: FloatArray,
    g: FloatArray,
    signs: FloatArray,
    targets: FloatArray,
    tiny: float,
    residual: FloatArray,
    fixed: BoolArray,
    live: BoolArray,
) -> int:
    """Decide which points move (return their number) and which neurons are live; fill ``residual``."""
    m, n = g.shape
    small = small_log_norm(targets, tiny)
    weights = signs * np.exp(2.0 * rho)
    bound = tiny * np.max(np.abs(targets))
    settled = np.zeros(n, np.bool_)
    for k in range(n):
        touched = False
        for j in range(m):
            touched = touched or (g[j, k] > 0.0 and rho[j] >= small)
        value = _residual_at(k, g, weights, targets) if touched else targets[k]
        settled[k] = touched and abs(value) <= bound
        fixed[k] = settled[k] or not touched
        residual[k] = 0.0 if settled[k] else value
    changed = True
    while changed:
        changed = False
        for j in range(m):
            if rho[j] >= small and _grows(g[j], settled, residual):
                changed = (
                    _unsettle(j, rho[j], g, weights, targets, bound, settled, residual, fixed) or changed
                )
    for j in range(m):
        live[j] = False
        for k in range(n):
            live[j] = live[j] or (g[j, k] > 0.0 and not fixed[k])
    return int(n - np.sum(fixed))


@njit(cache=True)
def _residual_at(k: int, g: FloatArray, weights: FloatArray, targets: FloatArray) -> float:
    value = float(targets[k])
    for j in range(len(weights)):
        if g[j, k] > 0.0:
            value -= weights[j] * g[j, k]
    return value


@njit(cache=True)
def _grows(row: FloatArray, settled: BoolArray, residual: FloatArray) -> bool:
    """Whether a neuron is active on a point that is not fitted."""
    grows = False
    for k in range(len(row)):
        grows = grows or (row[k] > 0.0 and not settled[k] and residual[k] != 0.0)
    return grows


@njit(cache=True)
def _unsettle(
    j: int,
    log_norm: float,
    g: FloatArray,
    weights: FloatArray,
    targets: FloatArray,
    bound: float,
    settled: BoolArray,
    residual: FloatArray,
    fixed: BoolArray,
) -> bool:
    """Let the settled points move that a growing neuron j may disturb; return whether there are any."""
    share = np.exp(log_norm) * 2.0 * np.sqrt(np.sqrt(np.sum(targets * targets)))
    found = False
    for k in range(len(targets)):
        if settled[k] and g[j, k] * share > bound:
            settled[k], fixed[k], found = False, False, True
            residual[k] = _residual_at(k, g, weights, targets)
    return found
