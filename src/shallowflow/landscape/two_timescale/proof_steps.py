"""The lemmas of [two_timescale] App. A as numbers: what each bounds for given positions, and its bound.

A network gives positions u (m,) and η, a target f* with its constants n, Δv, Δf, M (Def. 1). a_0* and a_η*
are the best weights (m + 1,), the offset first, without and with smoothing. So one sees how loose each step
of the proofs is, and along a run where.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.landscape.two_timescale.population import (
    best_outer,
    check_steps,
    feature_gram,
    feature_moments,
    population_gradient,
    separation,
    step_loss,
    well_separated,
)
from shallowflow.landscape.two_timescale.step_classes import (
    StepClass,
    checked_delta,
    fewest_per_piece,
    jump_distances,
    step_class,
)
from shallowflow.models.networks import StepNetwork
from shallowflow.models.steps import CubicStep

ROUNDING = 2.0**-46
"""Lemma 4 is an equality: what rounding may leave of its sides, in units of M²(m+1)/η."""
DIFFERENCE = 1e-3
"""Of difference quotients, in units of η."""


@dataclass(frozen=True)
class ProofStep:
    """One inequality of the proofs: its lemma, what it bounds, and the bound."""

    name: str
    observed: float
    bound: float

    @property
    def share(self) -> float:
        """How much of the bound is used: 1 if it is attained."""
        return self.observed / self.bound if self.bound > 0 else float(self.observed > 0)


def proof_steps(network: StepNetwork, target: PiecewiseConstant) -> tuple[ProofStep, ...]:
    """Return Lemmas 1 to 9 for a network with η > 0, those whose conditions its positions satisfy.

    Lemmas 6 and 8 are about any weights: they are read at the network's own.

    Examples
    --------
    >>> net = StepNetwork([0.1, 0.2, 0.4, 0.6, 0.8, 0.9], [0.0] * 6, 0.0, 1e-3)
    >>> for step in proof_steps(net, PiecewiseConstant([0.5], [0.0, 1.0]))[5:7]:
    ...     print(f"{step.name}: {step.observed:.3g} of {step.bound:.3g}")
    Lemma 5, |f(·; a_0*)|: 1 of 1
    Lemma 6, |a_0*|: 0.5 of 2
    """
    check_steps(network, target)
    known = step_class(target)
    steps = [*_moments(network, target, known), *_any_weights(network, target, known)]
    if network.sharpness > 0 and well_separated(network):
        sharp, smooth = _sharp(network, target), best_outer(network, target)
        steps += _curvature(network, target, known, smooth)
        steps.append(_smoothing(network, known, sharp, smooth))
        if fewest_per_piece(network.positions, target) >= 2:
            steps += _at_sharp_weights(network, target, known, sharp)
        if (
            jump_distances(network, target).max() < network.sharpness
            and 3 * network.sharpness <= known.length
        ):
            bound = 6.0 * known.bound**2 * network.sharpness * known.pieces
            steps.append(
                ProofStep("Lemma 9, ∫(f − f*)² when covered", 2.0 * step_loss(smooth, target), bound)
            )
    return tuple(sorted(steps, key=lambda step: step.name))


def weights(network: StepNetwork) -> Floats:
    """Return a = (offset, outer), (m + 1,)."""
    return np.concatenate([[float(network.offset)], network.outer])


def _sharp(network: StepNetwork, target: PiecewiseConstant) -> StepNetwork:
    """Return the network, as smooth as it is, with the weights a_0*(u) that are best without smoothing."""
    best = best_outer(StepNetwork(network.positions, network.outer), target)
    return network.moved({"outer": best.outer, "offset": best.offset})


def _moments(network: StepNetwork, target: PiecewiseConstant, known: StepClass) -> list[ProofStep]:
    """Return Lemma 1: ‖b_η − b_0‖ ≤ Mη√(m+1) and ‖b_η‖ ≤ M√(m+1)."""
    root = np.sqrt(network.width + 1)
    smooth = feature_moments(network, target)
    sharp = feature_moments(StepNetwork(network.positions, network.outer), target)
    moved = float(np.linalg.norm(smooth - sharp))
    return [
        ProofStep("Lemma 1, ‖b_η − b_0‖", moved, known.bound * network.sharpness * root),
        ProofStep("Lemma 1, ‖b_η‖", float(np.linalg.norm(smooth)), known.bound * root),
    ]


def _any_weights(network: StepNetwork, target: PiecewiseConstant, known: StepClass) -> list[ProofStep]:
    """Return Lemma 8: ‖∇_u L‖ ≤ √(m+1)‖a‖² + M‖a‖ and ‖∇_a L‖ ≤ √(m+1)(√(m+1)‖a‖ + M)."""
    if network.sharpness == 0:
        return []
    root, size = np.sqrt(network.width + 1), float(np.linalg.norm(weights(network)))
    gradient = population_gradient(network, target)
    outer = np.append(gradient["outer"], gradient["offset"])
    inner = float(np.linalg.norm(gradient["positions"]))
    return [
        ProofStep("Lemma 8, ‖∇_u L‖", inner, root * size**2 + known.bound * size),
        ProofStep("Lemma 8, ‖∇_a L‖", float(np.linalg.norm(outer)), root * (root * size + known.bound)),
    ]


def _curvature(
    network: StepNetwork, target: PiecewiseConstant, known: StepClass, smooth: StepNetwork
) -> list[ProofStep]:
    """Return Lemma 2, |H_η − H_0| ≤ η/2, and Lemma 3, ‖∂a*/∂u‖ ≤ (8/Δ)(2(m+1)‖a*‖ + M)."""
    u, m, gap = network.positions, network.width, separation(network)
    moved = np.abs(feature_gram(network) - feature_gram(StepNetwork(u, network.outer))).max()
    bound = 8.0 / gap * (2.0 * (m + 1) * float(np.linalg.norm(weights(smooth))) + known.bound)
    slope = float(np.linalg.norm(best_outer_slope(network, target), 2))
    return [
        ProofStep("Lemma 2, |H_η − H_0|", float(moved), 0.5 * network.sharpness),
        ProofStep("Lemma 3, ‖∂a*/∂u‖", slope, bound),
    ]


def best_outer_slope(network: StepNetwork, target: PiecewiseConstant) -> Floats:
    """Return ∂a*/∂u = H⁻¹(∂b/∂u − (∂H/∂u) a*), (m + 1, m), for u ∈ 𝒰, Lemma 3.

    ∂H_ij/∂u_k = −1 where u_k = max(u_i, u_j), else 0; ∂b_k/∂u_k = −∫f*(x) σ'_η(x − u_k) dx.
    """
    order = np.argsort(network.positions)
    u = network.positions[order]
    a = weights(best_outer(network, target))
    a_sorted = np.concatenate([[a[0]], a[1:][order]])
    sums = np.cumsum(a_sorted)
    around = np.array([_mean_around(float(place), network.sharpness, target) for place in u])
    slope = np.zeros((network.width + 1, network.width))
    for k in range(network.width):
        slope[: k + 1, k] = a_sorted[k + 1]
        slope[k + 1, k] = sums[k + 1] - around[k]
    rows = np.concatenate([[0], order + 1])
    gram = feature_gram(network)[np.ix_(rows, rows)]
    solved = np.linalg.solve(gram, slope)
    result = np.empty_like(solved)
    result[np.ix_(rows, order)] = solved
    return result


def _mean_around(u: float, sharpness: float, target: PiecewiseConstant) -> float:
    """Return ∫f*(x) σ'_η(x − u) dx, the mean of the target with the weight σ'_η around u."""
    edges = np.concatenate([[0.0], target.breakpoints, [1.0]])
    passed = CubicStep(sharpness)(edges - u)
    return float(np.sum(target.values * np.diff(passed)))


def _smoothing(network: StepNetwork, known: StepClass, sharp: StepNetwork, smooth: StepNetwork) -> ProofStep:
    """Return Lemma 7: ‖a_η* − a_0*‖ ≤ 16M√(m+1)η/Δ(u)."""
    bound = 16.0 * known.bound * np.sqrt(network.width + 1) * network.sharpness / separation(network)
    moved = float(np.linalg.norm(weights(smooth) - weights(sharp)))
    return ProofStep("Lemma 7, ‖a_η* − a_0*‖", moved, float(bound))


def _at_sharp_weights(
    network: StepNetwork, target: PiecewiseConstant, known: StepClass, sharp: StepNetwork
) -> list[ProofStep]:
    """Return Lemmas 4, 5 and 6, about a_0*: two neurons are on every piece."""
    root, M = np.sqrt(network.width + 1), known.bound
    slope = population_gradient(sharp, target)["positions"]
    off = float(np.linalg.norm(weights(network) - weights(sharp)))
    moved = float(np.abs(population_gradient(network, target)["positions"] - slope).max())
    places = np.unique(np.concatenate([np.linspace(0.0, 1.0, 2001), network.positions]))
    steps = [
        ProofStep("Lemma 5, |f(·; a_0*)|", float(np.abs(sharp(places)).max()), M),
        ProofStep("Lemma 6, |a_0*|", float(np.abs(weights(sharp)).max()), 2.0 * M),
        ProofStep("Lemma 6, |∂_u L(a) − ∂_u L(a_0*)|", moved, 2 * M * (root + 1) * off + root * off**2),
    ]
    if jump_distances(network, target).min() >= 0.5 * network.sharpness:
        wrong = float(np.abs(slope - sharp_slopes(network, target)).max())
        rounding = ROUNDING * M**2 * (network.width + 1) / network.sharpness
        steps.append(ProofStep("Lemma 4, |∂_u L(a_0*) − its formula|", wrong, rounding))
    return steps


def sharp_slopes(network: StepNetwork, target: PiecewiseConstant) -> Floats:
    """Return ∂L/∂u at a_0*(u), (m,), Lemma 4: −½s²(R/(L+R))² left of a jump s, ½s²(L/(L+R))² right, else 0.

    L, R: the distances of the jump to its neighbours; two neurons are on every piece.
    """
    slopes = np.zeros(network.width)
    order = np.argsort(network.positions)
    u = network.positions[order]
    for v, s in zip(target.breakpoints, target.jumps, strict=True):
        right = int(np.searchsorted(u, v))
        L, R = v - u[right - 1], u[right] - v
        slopes[order[right - 1]] = -0.5 * (s * R / (L + R)) ** 2
        slopes[order[right]] = 0.5 * (s * L / (L + R)) ** 2
    return slopes


def limit_slope(network: StepNetwork, target: PiecewiseConstant) -> float:
    """Return ‖∂G/∂u‖, G(u) = ∇_u L(a*(u), u), by central differences: bounded on 𝒰 by Prop. 2."""
    step = DIFFERENCE * network.sharpness

    def field(k: int, side: float) -> Floats:
        moved = network.positions.copy()
        moved[k] += side * step
        best = best_outer(network.moved({"positions": moved}), target)
        return population_gradient(best, target)["positions"]

    columns = [(field(k, 1.0) - field(k, -1.0)) / (2 * step) for k in range(network.width)]
    return float(np.linalg.norm(np.array(columns), 2))


def fast_time(width: int, known: StepClass, delta: float) -> float:
    """Return T_0 = (16/D) log(2¹⁶M²(m+1)³/(δ(Δf)²)), D = δ/(6(m+1)²): the end of the fast phase, App. B.6."""
    share, size = checked_delta(delta), width + 1
    distance = share / (6.0 * size**2)
    return float(16.0 / distance * np.log(2.0**16 * known.bound**2 * size**3 / (share * known.jump**2)))
