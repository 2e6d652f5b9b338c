"""One step of the stiff integrator for the flow inside a stage, in O(width).

**Method.** Rodas5P (Steinebach 2023, "Construction of Rosenbrock–Wanner method Rodas5P and numerical
benchmarks within the Julia Differential Equations package") is a Rosenbrock–Wanner method with 8 stages,
order 5 and embedded order 4, L-stable and stiffly accurate, with an interpolant of order 4. In the
transformed variables U of Hairer & Wanner (1996, IV.7), for an autonomous system θ' = F(θ) with Jacobian J at
θ_0 and a step of length h,

    (1/(hγ) I − J) U_i = F(θ_0 + Σ_{j<i} a_ij U_j) + Σ_{j<i} (C_ij/h) U_j,      i = 1, …, 8,
    θ_1 = θ_0 + Σ_{j<8} a_8j U_j + U_8,      error estimate U_8,
    θ(s) = (1 − s) θ_0 + s (θ_1 + (1 − s) (k_1 + s (k_2 + s k_3))),      k = H U,      0 ≤ s ≤ 1.

``GAMMA`` is γ, ``STAGE_WEIGHTS`` (8, 8) is a, ``COUPLING`` (8, 8) is C, ``DENSE_WEIGHTS`` (3, 8) is H.

**Linear systems** (κ I − J) u = r with the exact Jacobian J of the stage's flow are solved by a 2 × 2 Riccati
recursion: no Newton iteration, no matrix. With the rates R = diag(rate_inner, rate_outer) of every neuron,
J = −R·Hess L, so the system is (κ R⁻¹ + Hess L) u = R⁻¹ r: symmetric, whatever the two rates. In a stage

    uᵀ (Hess L) u = Σ_l z_lᵀ diag(S_l, u_l) z_l − 2 Σ_l G_l δb_l δc_l,

where z_l = (δA_l, δv_l) is the change of slope of block l and of its value at the block's centre μ_l:

    z_l = T_l z_{l−1} + B_l (δb_l, δc_l),
    T_l = [[1, 0], [μ_l − μ_{l−1}, 1]],     B_l = [[0, 1], [−c_l, μ_l − b_l]].

That is a linear-quadratic control problem with two states and two controls per neuron; dynamic programming
from the right solves it. With Δ = [[κ/rate_inner, −G], [−G, κ/rate_outer]] and Q_l the cost-to-go of z_l,

    Q_l = diag(S_l, u_l) + T_{l+1}ᵀ P_{l+1} T_{l+1},     K = Δ + Bᵀ Q B,     P_l = Q − Q B K⁻¹ Bᵀ Q.

This form of P subtracts nearly equal matrices when κ is small, that is in long time steps. For 2 × 2
matrices the subtraction can be done on paper: with E = B adj(Δ) Bᵀ,

    det K = det Δ + tr(E Q) + det(B)² det Q,
    P = (det Δ · Q + det Q · adj E) / det K,        det P = det Δ · det Q / det K,
    F = K⁻¹ Bᵀ Q = (adj(Δ) Bᵀ Q + det B · det Q · adj B) / det K,
    Φ = I − B F = (det Δ · I + adj(Q) adj(E)) / det K,

which adds like signs while Δ is positive definite; det Q is carried along. A held knot leaves the one
control δc: the same formulas hold with B = (1, μ − b)ᵀ, the scalar Δ = κ/rate_outer and 0 in place of det B.

All K are positive definite if and only if κ R⁻¹ + Hess L is: the factorization also shows when a time step
is so long that it would step over an unstable direction of the flow.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.kernels.knots.stage import (
    CENTRE,
    COUNT,
    HELD,
    KNOT,
    OUTER,
    SPREAD,
    FloatArray,
    Stage,
    velocity,
)
from shallowflow.kernels.shared.compilation import INTERNAL

STAGES = 8
GAMMA = 0.21193756319429014


def _numbers(rows: str) -> FloatArray:
    return np.array([float(number) for number in rows.split()])


def _lower(rows: str) -> FloatArray:
    """Return the (8, 8) matrix with these numbers below its diagonal, row by row."""
    matrix = np.zeros((8, 8))
    matrix[np.tril_indices(8, -1)] = _numbers(rows)
    return matrix


# Stiff accuracy: the last two stages start from the end points of the embedded methods.
STAGE_WEIGHTS = _lower("""
    3.0
    2.849394379747939 0.45842242204463923
    -6.954028509809101 2.489845061869568 -10.358996098473584
    2.8029986275628964 0.5072464736228206 -0.3988312541770524 -0.04721187230404641
    -7.502846399306121 2.561846144803919 -11.627539656261098 -0.18268767659942256 0.030198172008377946
    -7.502846399306121 2.561846144803919 -11.627539656261098 -0.18268767659942256 0.030198172008377946 1.0
    -7.502846399306121 2.561846144803919 -11.627539656261098 -0.18268767659942256 0.030198172008377946 1.0
        1.0
""")
COUPLING = _lower("""
    -14.155112264123755
    -17.97296035885952 -2.859693295451294
    147.12150275711716 -1.41221402718213 71.68940251302358
    165.43517024871676 -0.4592823456491126 42.90938336958603 -5.961986721573306
    24.854864614690072 -3.0009227002832186 47.4931110020768 5.5814197821558125 -0.6610691825249471
    30.91273214028599 -3.1208243349937974 77.79954646070892 34.28646028294783 -19.097331116725623
        -28.087943162872662
    37.80277123390563 -3.2571969029072276 112.26918849496327 66.9347231244047 -40.06618937091002
        -54.66780262877968 -9.48861652309627
""")
DENSE_WEIGHTS = _numbers("""
    25.948786856663858 -2.5579724845846235 10.433815404888879 -2.3679251022685204 0.524948541321073
        1.1241088310450404 0.4272876194431874 -0.17202221070155493
    -9.91568850695171 -0.9689944594115154 3.0438037242978453 -24.495224566215796 20.176138334709044
        15.98066361424651 -6.789040303419874 -6.710236069923372
    11.419903575922262 2.8879645146136994 72.92137995996029 80.12511834622643 -52.072871366152654
        -59.78993625266729 -0.15582684282751913 4.883087185713722
""").reshape(3, 8)


class Start(NamedTuple):
    """Where a step starts: the state, its velocity (2, n) and the forces G (n,)."""

    state: FloatArray
    rate: FloatArray
    force: FloatArray


class Trial(NamedTuple):
    """A step that is tried: its end (2, n), the U_i (8, 2, n), k_1 … k_3 (3, 2, n), and working memory.

    ``factors`` (n, 11): of the linear systems; ``scratch`` (4, 2, n); ``stack`` (64, 7).
    """

    end: FloatArray
    stages: FloatArray
    dense: FloatArray
    factors: FloatArray
    scratch: FloatArray
    stack: FloatArray


def new_trial(width: int) -> Trial:
    """Return working memory for steps of ``width`` neurons."""
    return Trial(
        np.empty((2, width)),
        np.zeros((STAGES, 2, width)),
        np.zeros((3, 2, width)),
        np.zeros((width, 11)),
        np.zeros((4, 2, width)),
        np.empty((64, 7)),
    )


@njit(cache=True, **INTERNAL)
def factorize(
    state: FloatArray, stage: Stage, force: FloatArray, diagonal: tuple[float, float], factors: FloatArray
) -> bool:
    """Backward Riccati sweep: is the matrix positive definite? Otherwise ``factors`` is unfinished.

    ``force`` (n,) is G at ``state``; ``diagonal`` = (κ/rate_inner, κ/rate_outer). Row l of ``factors`` (n,
    11) receives F (0–3, by rows), Φ (4–7) and K⁻¹ (8–10: bb, bc, cc). Subscripts: a slope, v value, b knot,
    c outer.
    """
    layout, blocks, live = stage.layout, stage.blocks, stage.live
    p_aa, p_av, p_vv, p_det = 0.0, 0.0, 0.0, 0.0
    next_centre = blocks[CENTRE, live - 1] if live > 0 else 0.0
    for j in range(live - 1, -1, -1):
        shift = next_centre - blocks[CENTRE, j]
        next_centre = blocks[CENTRE, j]
        s, u = blocks[SPREAD, j], blocks[COUNT, j]
        t_aa = p_aa + shift * (2.0 * p_av + shift * p_vv)
        q_av = p_av + shift * p_vv
        q_det = s * u + p_det + s * p_vv + u * t_aa
        q_aa, q_vv = s + t_aa, u + p_vv
        c, e = state[OUTER, j], next_centre - state[KNOT, j]
        row = factors[j]
        if layout[HELD, j] < 0:
            d_b, d_c, g = diagonal[0], diagonal[1], force[j]
            d_det = d_b * d_c - g * g
            e_aa, e_av = d_b, e * d_b - c * g
            cross = e * g - c * d_c
            e_vv = e * e_av - c * cross
            k_det = d_det + e_aa * q_aa + 2.0 * e_av * q_av + e_vv * q_vv + c * c * q_det
            k_bb = d_b + c * c * q_vv
            if not (k_det > 0.0 and k_bb > 0.0):
                return False
            scale = 1.0 / k_det
            row[0] = (g * q_aa + cross * q_av + c * q_det * e) * scale
            row[1] = (g * q_av + cross * q_vv - c * q_det) * scale
            row[2] = (d_b * q_aa + e_av * q_av + c * q_det * c) * scale
            row[3] = (d_b * q_av + e_av * q_vv) * scale
            row[8] = (d_c + q_aa + e * (2.0 * q_av + e * q_vv)) * scale
            row[9] = (g + c * (q_av + e * q_vv)) * scale
            row[10] = k_bb * scale
        else:
            d_det = diagonal[1]
            e_aa, e_av, e_vv = 1.0, e, e * e
            k_det = d_det + q_aa + e * (2.0 * q_av + e * q_vv)
            if not k_det > 0.0:
                return False
            scale = 1.0 / k_det
            row[0], row[1], row[8], row[9] = 0.0, 0.0, 0.0, 0.0
            row[2] = (q_aa + e * q_av) * scale
            row[3] = (q_av + e * q_vv) * scale
            row[10] = scale
        row[4] = (d_det + q_vv * e_vv + q_av * e_av) * scale
        row[5] = -(q_vv * e_av + q_av * e_aa) * scale
        row[6] = -(q_av * e_vv + q_aa * e_av) * scale
        row[7] = (d_det + q_av * e_av + q_aa * e_aa) * scale
        p_aa = (d_det * q_aa + q_det * e_vv) * scale
        p_av = (d_det * q_av - q_det * e_av) * scale
        p_vv = (d_det * q_vv + q_det * e_aa) * scale
        p_det = d_det * q_det * scale
    return True


@njit(cache=True, **INTERNAL)
def solve(state: FloatArray, stage: Stage, factors: FloatArray, right: FloatArray) -> None:
    """Overwrite the right-hand side r in ``right`` (2, n) by u with (κ I − J) u = r; r = 0 for held knots."""
    blocks, live = stage.blocks, stage.live
    slowness_b, slowness_c = 1.0 / stage.rates[0], 1.0 / stage.rates[1]
    p_a, p_v = 0.0, 0.0
    next_centre = blocks[CENTRE, live - 1] if live > 0 else 0.0
    for j in range(live - 1, -1, -1):
        centre = blocks[CENTRE, j]
        q_a = p_a + (next_centre - centre) * p_v
        next_centre = centre
        row = factors[j]
        r_b, r_c = right[KNOT, j] * slowness_b, right[OUTER, j] * slowness_c
        s_b = r_b + state[OUTER, j] * p_v
        s_c = r_c - q_a - (centre - state[KNOT, j]) * p_v
        right[KNOT, j] = row[8] * s_b + row[9] * s_c
        right[OUTER, j] = row[9] * s_b + row[10] * s_c
        p_a, p_v = (
            row[4] * q_a + row[6] * p_v + row[0] * r_b + row[2] * r_c,
            row[5] * q_a + row[7] * p_v + row[1] * r_b + row[3] * r_c,
        )
    z_a, z_v = 0.0, 0.0
    previous = next_centre
    for j in range(live):
        centre = blocks[CENTRE, j]
        z_v += (centre - previous) * z_a
        previous = centre
        row = factors[j]
        w_b, w_c = right[KNOT, j], right[OUTER, j]
        right[KNOT, j] = w_b - row[0] * z_a - row[1] * z_v
        right[OUTER, j] = w_c - row[2] * z_a - row[3] * z_v
        z_a, z_v = (
            row[4] * z_a + row[5] * z_v + w_c,
            row[6] * z_a + row[7] * z_v - state[OUTER, j] * w_b + (centre - state[KNOT, j]) * w_c,
        )


@njit(cache=True, **INTERNAL)
def _combine(
    base: FloatArray,
    weights: FloatArray,
    factor: float,
    stages: FloatArray,
    count: int,
    live: int,
    out: FloatArray,
) -> None:
    """out = base + factor · Σ_{i < count} weights_i U_i; ``out`` may be ``base``."""
    for row in range(2):
        for j in range(live):
            out[row, j] = base[row, j]
        for i in range(count):
            weight = factor * weights[i]
            for j in range(live):
                out[row, j] += weight * stages[i, row, j]


@njit(cache=True, **INTERNAL)
def attempt_step(start: Start, stage: Stage, h: float, trial: Trial) -> bool:
    """Try one step of length h: its end and the U_i into ``trial``.

    Returns False, without a result, if 1/(hγ) I − J is not positive definite in the metric of the rates,
    that is if h is more than 1/γ times the time scale of an unstable direction: an L-stable method would
    silently damp that direction.
    """
    state, live, kappa = start.state, stage.live, 1.0 / (h * GAMMA)
    new, stages, factors = trial.end, trial.stages, trial.factors
    diagonal = (kappa / stage.rates[0], kappa / stage.rates[1])
    if not factorize(state, stage, start.force, diagonal, factors):
        return False
    for row in range(2):
        for j in range(live):
            stages[0, row, j] = start.rate[row, j]
    solve(state, stage, factors, stages[0])
    for i in range(1, STAGES):
        _combine(state, STAGE_WEIGHTS[i], 1.0, stages, i, live, new)
        velocity(new, stage, trial.scratch[0], stages[i])
        _combine(stages[i], COUPLING[i], 1.0 / h, stages, i, live, stages[i])
        solve(state, stage, factors, stages[i])
    for row in range(2):
        for j in range(live):
            new[row, j] += stages[STAGES - 1, row, j]
    return True


@njit(cache=True, **INTERNAL)
def error_norm(state: FloatArray, trial: Trial, live: int, tolerances: tuple[float, float]) -> float:
    """Root mean square of U_8 / (atol + rtol max(|θ_0|, |θ_1|)), live neurons; tolerances = (rtol, atol)."""
    total = 0.0
    for row in range(2):
        for j in range(live):
            scale = tolerances[1] + tolerances[0] * max(abs(state[row, j]), abs(trial.end[row, j]))
            total += (trial.stages[STAGES - 1, row, j] / scale) ** 2
    return float(np.sqrt(total / max(2 * live, 1)))


@njit(cache=True, **INTERNAL)
def set_interpolant(trial: Trial, live: int) -> None:
    """Write the coefficients k_1, k_2, k_3 of the step's interpolant."""
    for i in range(3):
        for row in range(2):
            for j in range(live):
                trial.dense[i, row, j] = 0.0
        _combine(
            trial.dense[i], DENSE_WEIGHTS[i], 1.0, trial.stages, trial.stages.shape[0], live, trial.dense[i]
        )


@njit(cache=True, **INTERNAL)
def interpolate(state: FloatArray, trial: Trial, live: int, s: float, out: FloatArray) -> None:
    """State at the fraction 0 ≤ s ≤ 1 of the step into ``out`` (2, n)."""
    end, dense = trial.end, trial.dense
    for row in range(2):
        for j in range(live):
            bend = dense[0, row, j] + s * (dense[1, row, j] + s * dense[2, row, j])
            out[row, j] = (1.0 - s) * state[row, j] + s * (end[row, j] + (1.0 - s) * bend)


@njit(cache=True, **INTERNAL)
def tolerance_at(position: float, tolerances: tuple[float, float]) -> float:
    """Error tolerance of a knot at ``position``, with a window of at least a few roundings; (rtol, atol)."""
    return max(tolerances[1] + tolerances[0] * abs(position), 1e-13 * abs(position))


@njit(cache=True, **INTERNAL)
def first_length(state: FloatArray, rate: FloatArray, live: int, tolerances: tuple[float, float]) -> float:
    """Length of the first step: 1/100 of the time in which the state would change by its own size."""
    size, speed = 0.0, 0.0
    for row in range(2):
        for j in range(live):
            scale = tolerances[1] + tolerances[0] * abs(state[row, j])
            size += (state[row, j] / scale) ** 2
            speed += (rate[row, j] / scale) ** 2
    return float(0.01 * np.sqrt(size / speed)) if size > 0.0 and speed > 0.0 else 1e-6
