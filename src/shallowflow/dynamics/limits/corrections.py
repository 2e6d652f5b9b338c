"""First-order correction of the jump times: t_i = τ_i ln(1/α) + C_i + (what vanishes with α).

Ours, from [incremental] (6).
Away from the jumps ln‖w_j‖ is a straight line of slope γ_j, whose offset changes in two ways only.

- At the start the neuron turns to its active points. With β = ⟨b, w̄(0)⟩/|b| and no coordinate of the wrong
  sign the offset is ln((1 + β)/2); coordinates of the wrong sign die one after the other, in closed form
  (`kernels.orthogonal.leap`).
- At a jump of neuron i, of limit u = ‖w_i‖² → N = √(Σ_A y²), u follows the logistic u = N/(1 + e^{−2γ_i(t −
  t_i)}), so that ln‖w_i‖ ≈ ½ ln N + γ_i (t − t_i) before it: the jump happens when the straight line reaches
  ½ ln N. Meanwhile the residual on A falls like 1/(1 + e^{2γ_i(t − t_i)}), and a neuron with drive B₁ on A
  and B₂ on other unfitted points turns from (B₁, B₂) to (0, B₂): two angles and a log-norm, integrated once
  per jump for all neurons together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints

TURN = 20.0
"""Half-width of a jump in units of 1/γ: e^{−2·20} is beyond rounding."""
ALIGNED = 200.0
"""Time, in units of 1/γ, after which a neuron has turned to its points to rounding."""


def start_offsets(directions: Floats, signs: Floats, targets: Floats, mask: Bools) -> Floats:
    """Return lim ln‖w_j(t)‖/‖w_j(0)‖ − γ_j t on the first plateau, (m,); 0 for neurons that never grow.

    directions (m, n): the positive parts of ⟨w̄_j, x_k⟩; mask (n, m).
    """
    from shallowflow.kernels.orthogonal.leap import Deaths, leap

    size = len(targets)
    rates = np.sqrt(targets**2 @ mask) / size
    offsets, deaths = np.zeros(len(signs)), Deaths(np.empty(size), np.empty(size, np.int64))
    for j in np.flatnonzero(rates > 0):
        time = ALIGNED / rates[j]
        g, factor = directions[j].copy(), signs[j] / size
        grown, _, _ = leap(0.0, g, targets.copy(), factor, time, -np.inf, deaths)
        offsets[j] = grown - ALIGNED
    return offsets


def jump_corrections(
    neurons: Ints, fitted: Sequence[Ints], rates: Floats, offsets: Floats, mask: Bools, targets: Floats
) -> Floats:
    """Return C_i for every jump, (J,); `offsets` (m,) are ln‖w̃_j‖ + `start_offsets`, groups as one neuron."""
    corrections, last, offsets = np.empty(len(neurons)), 0.0, offsets.copy()
    for i, (neuron, points) in enumerate(zip(neurons, fitted, strict=True)):
        half_log_norm = 0.5 * np.log(np.linalg.norm(targets[points]))
        passed = float((half_log_norm - offsets[neuron]) / rates[i][neuron])
        last += passed
        corrections[i] = last
        offsets += rates[i] * passed
        turning = (rates[i + 1] > 0) & (rates[i + 1] < rates[i])
        on_fitted = np.sqrt(targets[points] ** 2 @ mask[np.ix_(points, np.flatnonzero(turning))]) / len(
            targets
        )
        offsets[turning] += turn_offsets(
            on_fitted / rates[i][neuron], rates[i + 1][turning] / rates[i][neuron]
        )
    return corrections


def turn_offsets(fading: Floats, lasting: Floats) -> Floats:
    """Return how far a jump shifts ln‖w‖ off its two straight lines, for drives in units of the jump's γ.

    With p = (p₁, p₂) the direction and φ(s) = 1/(1 + e^{2s}):
    ρ' = φ·fading·p₁ + lasting·p₂, p₁' = φ·fading − p₁ρ', p₂' = lasting − p₂ρ'.
    """
    from scipy.integrate import solve_ivp

    if not len(fading):
        return np.zeros(0)
    before = np.hypot(fading, lasting)

    def velocity(s: float, state: Floats) -> Floats:
        _, first, second = state.reshape(3, -1)
        faded = fading / (1.0 + np.exp(2.0 * s))
        growth = faded * first + lasting * second
        return np.concatenate([growth, faded - first * growth, lasting - second * growth])

    start = np.concatenate([np.zeros_like(fading), fading / before, lasting / before])
    end = solve_ivp(velocity, (-TURN, TURN), start, method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    grown, _, second = end.reshape(3, -1)
    turned: Floats = grown - TURN * (before + lasting) + np.log((1.0 + second) / 2.0)
    return turned
