"""O(width) solution of (κ I − J) u = r for the Jacobian J of a stage's flow: a 2 × 2 Riccati recursion.

With the rates R = diag(rate_inner, rate_outer) of every neuron, J = −R·Hess L, so the system is
(κ R⁻¹ + Hess L) u = R⁻¹ r: symmetric, whatever the two rates. In a stage of a knot network (``knot_stage``)

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

All K are positive definite if and only if κ R⁻¹ + Hess L is: the factorization also tells when a time step
is so long that it would step over an unstable direction of the flow.
"""

from numba import njit

from shallowflow.kernels.knot_blocks import CENTRE, COUNT, SPREAD, FloatArray, IntArray
from shallowflow.kernels.knot_stage import HELD, KNOT, OUTER


@njit(cache=True, error_model="numpy")
def factorize(
    state: FloatArray,
    layout: IntArray,
    blocks: FloatArray,
    live: int,
    force: FloatArray,
    diagonal: tuple[float, float],
    factors: FloatArray,
) -> bool:
    """Backward Riccati sweep; returns whether the matrix is positive definite, else ``factors`` is
    unfinished.

    ``force`` (n,) is G at ``state``; ``diagonal`` = (κ/rate_inner, κ/rate_outer). Row l of ``factors`` (n,
    11) receives F (0–3, by rows), Φ (4–7) and K⁻¹ (8–10: bb, bc, cc). Subscripts: a slope, v value, b knot,
    c outer.
    """
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


@njit(cache=True, error_model="numpy")
def solve(
    state: FloatArray,
    blocks: FloatArray,
    live: int,
    rates: tuple[float, float],
    factors: FloatArray,
    right: FloatArray,
) -> None:
    """Overwrite the right-hand side r in ``right`` (2, n) by u with (κ I − J) u = r; r = 0 for held knots."""
    slowness_b, slowness_c = 1.0 / rates[0], 1.0 / rates[1]
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
