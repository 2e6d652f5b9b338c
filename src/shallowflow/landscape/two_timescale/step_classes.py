"""Classes of piecewise constant targets, how good positions are, a start that fails, lemmas as numbers.

Defs. 1 and 2: `step_class`, `goodness`. App. D.1: all neurons start on the last of three pieces
(`fate_of_last_piece`). Pieces of lengths ℓ₁, ℓ₂, ℓ₃ and values f₁, f₂, f₃; jumps s₁ = f₂ − f₁ at v₁ and
s₂ = f₃ − f₂ at v₂. All positions lie right of v₂, u the leftmost. With η = 0 plateaus are means of f*: c_0
over (0, u), all others are f₃. So no other neuron moves, and

    du/dτ = −½[(f*(u) − c_0)² − (f*(u) − c_1)²] = −½(f₃ − c_0)².

Let M = f₂ − s₁ℓ₁/(ℓ₁ + ℓ₂) be the mean of the first two pieces.

* M = f₃: then c_0 = f₃ and nothing ever moves. That is a coincidence of levels and lengths: with the
  paper's 1, −1, 0 it takes equal lengths ℓ₁ = ℓ₂.
* Otherwise u reaches v₂. Just left of it f*(u) = f₂, c_0 = M, c_1 = f₃, and u goes on if and only if

      |f₂ − M| > |f₂ − f₃|,   that is   |s₁| ℓ₁/(ℓ₁ + ℓ₂) > |s₂|.

  If not, du/dτ ≥ 0 left of v₂ and < 0 right of it: u stays at v₂, and v₁ is never found. (1, −1, 0 with
  ℓ₁ < ℓ₂: c_0 = M ∈ (−1, 0), so du/dτ = ½[1 − (1 + M)²] > 0 left of v₂.)
* If it goes on: on the second piece |f₂ − c_0| = |s₁| ℓ₁/u grows and |f₂ − c_1| ≤ |s₂| falls, so u reaches
  v₁ and is held there, as c_0 = f₁ ≠ c_1. The next neuron sees c_1 ≠ f₃ = c_2, moves left to v₂ and is
  held there, as then c_1 = f₂. Two neurons recover the target.

**Two neurons at one jump**, in the two-timescale limit with η = 0: the exact solution of (7),
[two_timescale].

With the jump's size s and the distances L (left neuron) and R (right neuron) to it,

    L' = −½ s² R²/(L+R)²,   R' = −½ s² L²/(L+R)²,   so that R³ − L³ = K is constant.

If L_0 < R_0, then dτ = −(2/s²)(L+R)²/R² dL with R = (L³+K)^{1/3} integrates to

    τ(L) = (2/s²)[F(L_0) − F(L)],   F(x) = x + (x³+K)^{1/3} + x² K^{−1/3} ₂F₁(1/3, 2/3; 5/3; −x³/K);

the left neuron hits the jump at τ(0) and the right one stops at K^{1/3}. K = 0: both hit at 8 L_0/s². In
any case the hitting time is at most 8 min(L_0, R_0)/s². With one neuron fixed at distance B (the edge of
[0, 1]) and the other at distance D, (B+D)³ falls at the constant rate (3/2) s² B².

**The lemmas** of [two_timescale] App. A as numbers: what each bounds for given positions, and its bound. A
network gives positions u (m,) and η, a target f* with its constants n, Δv, Δf, M (Def. 1). a_0* and a_η*
are the best weights (m + 1,), the offset first, without and with smoothing. So one sees how loose each step
of the proofs is, and along a run where.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, non_negative, positive, public, shown
from shallowflow.data.dataset import PiecewiseConstant
from shallowflow.errors import InvalidInputError
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
from shallowflow.models.networks import CubicStep, StepNetwork


@dataclass(frozen=True)
class StepClass:
    """The smallest class ℱ of Def. 1 that holds a target: n pieces, at least Δv long, jumps ≥ Δf, |f*| ≤ M.

    Examples
    --------
    >>> step_class(PiecewiseConstant([0.2, 0.5], [1.0, 4.0, 1.0]))
    StepClass(pieces=3, length=0.2, jump=3.0, bound=4.0)
    """

    pieces: int
    length: float
    jump: float
    bound: float

    def neurons(self, delta: float) -> float:
        """Return the width that (2) asks for: 6/Δv (4 + log n + log 1/δ)."""
        share = checked_delta(delta)
        return float(6.0 / self.length * (4.0 + np.log(self.pieces) + np.log(1.0 / share)))

    @property
    def slow_time(self) -> float:
        """The slow time 6/(Δf)² after which the theorems promise recovery."""
        return 6.0 / self.jump**2


def checked_delta(delta: object) -> float:
    """Return a probability of failure δ in (0, 1]."""
    share = positive(delta, "delta")
    if share > 1:
        raise InvalidInputError(f"delta: must be at most 1, got {share:g}")
    return share


def checked_target(target: object) -> PiecewiseConstant:
    """Return the argument if it is a `PiecewiseConstant` with all its jumps inside (0, 1)."""
    if not isinstance(target, PiecewiseConstant):
        raise InvalidInputError(f"target: must be a PiecewiseConstant, got {shown(target)}")
    if np.any((target.breakpoints <= 0) | (target.breakpoints >= 1)):
        raise InvalidInputError(
            f"target: must have its jumps inside (0, 1), got breakpoints {shown(target.breakpoints)}"
        )
    return target


@public
def step_class(target: PiecewiseConstant) -> StepClass:
    """Return the constants n, Δv, Δf, M of Def. 1 (M ≥ 1) for a target with jumps inside (0, 1)."""
    if not checked_target(target).breakpoints.size:
        raise InvalidInputError("target: must have jumps, all inside (0, 1), got none")
    if np.any(target.jumps == 0):
        raise InvalidInputError(f"target: jumps must not be 0, got {shown(target.jumps)}")
    edges = np.concatenate([[0.0], target.breakpoints, [1.0]])
    return StepClass(
        len(target.values),
        float(np.diff(edges).min()),
        float(np.abs(target.jumps).min()),
        max(1.0, float(np.abs(target.values).max())),
    )


@dataclass(frozen=True)
class Goodness:
    """What Def. 2 asks of positions: (a) `fewest` ≥ 6 on every piece, (b) Δ(u) ≥ D, (c) `asymmetry` ≥ D.

    asymmetry: the least |u_i^R + u_i^L − 2v_i| over the jumps (0 where a side has no neuron).
    """

    fewest: int
    separation: float
    asymmetry: float

    def good(self, distance: float) -> bool:
        """Return whether the positions are D-good."""
        return self.fewest >= 6 and self.separation >= distance and self.asymmetry >= distance


@public
def goodness(network: StepNetwork, target: PiecewiseConstant) -> Goodness:
    """Return the three margins of Def. 2 for the positions of a network."""
    check_steps(network, target)
    checked_target(target)
    fewest = fewest_per_piece(network.positions, target)
    lopsided = [_asymmetry(network.positions, float(v)) for v in target.breakpoints]
    return Goodness(fewest, separation(network), min(lopsided, default=np.inf))


def beside_jumps(positions: Floats, target: PiecewiseConstant) -> Bools:
    """Return which neurons (m,) are the nearest to a jump of the target from the left or from the right."""
    order = np.argsort(positions)
    right = np.searchsorted(positions[order], target.breakpoints)
    beside = np.zeros(len(positions), dtype=np.bool_)
    beside[order[np.clip(np.concatenate([right - 1, right]), 0, len(positions) - 1)]] = True
    return beside


def fewest_per_piece(positions: Floats, target: PiecewiseConstant) -> int:
    """Return the least number of positions on a piece of the target."""
    edges = np.concatenate([[0.0], target.breakpoints, [1.0]])
    return int(np.histogram(positions, edges)[0].min())


def _asymmetry(positions: Floats, v: float) -> float:
    left, right = positions[positions <= v], positions[positions > v]
    if not left.size or not right.size:
        return 0.0
    return abs(float(right.min() + left.max() - 2.0 * v))


@public
def jump_distances(network: StepNetwork, target: PiecewiseConstant) -> Floats:
    """Return the distance of every jump of the target to the nearest neuron, (n − 1,)."""
    check_steps(network, target)
    gaps: Floats = np.abs(target.breakpoints[:, None] - network.positions).min(axis=1)
    return gaps


@public
def covered_error(target: PiecewiseConstant, sharpness: float) -> float:
    """Return (η/28)Σs², what is left of ∫(f − f*)² when every jump s has its own neuron right on it.

    A neuron of weight s at a jump of size s leaves s²η∫(σ − 1_{z>0})² = s²η/28.
    """
    width = non_negative(sharpness, "sharpness")
    if not isinstance(target, PiecewiseConstant):
        raise InvalidInputError(f"target: must be a PiecewiseConstant, got {shown(target)}")
    return float(width / 28.0 * np.sum(target.jumps**2))


ROUNDING = 1e-14
STUCK, SECOND_ONLY, RECOVERS = "stuck", "second jump only", "recovers"


@public
def fate_of_last_piece(target: PiecewiseConstant) -> str:
    """Return what becomes of two or more neurons that all start on the last of three pieces, η = 0.

    "stuck", "second jump only" or "recovers": "stuck" if f₃ is the mean of the first two pieces, else
    "recovers" if and only if |s₁| ℓ₁/(ℓ₁ + ℓ₂) > |s₂|. [two_timescale] App. D.1 names the first case, for
    levels 1, −1, 0 and without its condition ℓ₁ = ℓ₂; the proof stands at the head of this module.

    Examples
    --------
    >>> for first in (0.3, 0.35, 0.25):
    ...     print(fate_of_last_piece(PiecewiseConstant([first, 0.6], [1.0, -1.0, 0.0])))
    stuck
    recovers
    second jump only
    """
    if checked_target(target).breakpoints.size != 2:
        raise InvalidInputError(f"target: must have three pieces, got {len(target.values)}")
    (first, both), (s1, s2) = target.breakpoints, target.jumps
    # M − f₂ and f₃ − f₂.
    mean, last = -s1 * first / both, s2
    rounding = ROUNDING * (abs(s1) + abs(s2))
    if abs(mean - last) <= rounding:
        return STUCK
    return RECOVERS if abs(mean) > abs(last) + rounding else SECOND_ONLY


NEWTON = 60


def _antiderivative(x: float, constant: float) -> float:
    """Return F(x)."""
    from scipy.special import hyp2f1

    root = np.cbrt(constant)
    tail = x * x / root * float(hyp2f1(1.0 / 3.0, 2.0 / 3.0, 5.0 / 3.0, -(x**3) / constant))
    return float(x + np.cbrt(x**3 + constant) + tail)


@dataclass(frozen=True)
class JumpPair:
    """The neurons left and right of a jump: distances at τ = 0 and the squared size s² of the jump."""

    left: float
    right: float
    squared: float

    @property
    def _constant(self) -> float:
        """|K|, without cancellation."""
        near, far = sorted((self.left, self.right))
        return (far - near) * (far * far + far * near + near * near)

    @property
    def hitting_time(self) -> float:
        """The time at which the nearer neuron reaches the jump; ∞ without a jump."""
        near, constant = min(self.left, self.right), self._constant
        if near == 0 or self.squared == 0:
            return 0.0 if near == 0 else np.inf
        if constant <= 1e-300:
            return 8.0 * near / self.squared
        return 2.0 / self.squared * (_antiderivative(near, constant) - _antiderivative(0.0, constant))

    def at(self, time: float) -> tuple[float, float]:
        """Return the distances (L, R) at a time τ ≥ 0, constant after the hit."""
        near, constant = min(self.left, self.right), self._constant
        if time >= self.hitting_time:
            near = 0.0
        elif constant <= 1e-300:
            near -= self.squared * time / 8.0
        else:
            near = _invert(near, constant, 0.5 * self.squared * time)
        far = float(np.cbrt(near**3 + constant))
        return (near, far) if self.left <= self.right else (far, near)


def _invert(start: float, constant: float, spent: float) -> float:
    """Return x in [0, start] with F(start) − F(x) = spent, by Newton's method kept inside a bracket."""
    goal = _antiderivative(start, constant) - spent
    low, high, x = 0.0, start, max(start - spent / 4.0, 0.5 * start)
    for _ in range(NEWTON):
        error = _antiderivative(x, constant) - goal
        if error > 0:
            high = x
        else:
            low = x
        far = float(np.cbrt(x**3 + constant))
        moved = x - error * (far / (x + far)) ** 2
        if not low < moved < high:
            moved = 0.5 * (low + high)
        if abs(moved - x) <= 4e-16 * start:
            return moved
        x = moved
    return x


@dataclass(frozen=True)
class EdgePair:
    """A neuron at distance `moving` from a jump whose other side has no neuron: the edge is at `fixed`."""

    fixed: float
    moving: float
    squared: float

    @property
    def hitting_time(self) -> float:
        """The time at which the neuron reaches the jump; ∞ without a jump."""
        if self.squared == 0 or self.fixed == 0:
            return np.inf
        b, d = self.fixed, self.moving
        return 2.0 * d * (3.0 * b * b + 3.0 * b * d + d * d) / (3.0 * self.squared * b * b)

    def at(self, time: float) -> float:
        """Return the neuron's distance at a time τ ≥ 0."""
        if time >= self.hitting_time:
            return 0.0
        whole = self.fixed + self.moving
        return float(np.cbrt(whole**3 - 1.5 * self.squared * self.fixed**2 * time)) - self.fixed


def times_by_neighbours(positions: Floats, target: PiecewiseConstant) -> Floats:
    """Return when each jump (n − 1,) is reached by the neurons next to it, or by one and an edge.

    ∞ for jumps of size 0, outside (0, 1), or without a neuron in [0, 1]. Exact where at least two neurons lie
    on every piece, or there is one jump.
    """
    times = np.full(len(target.breakpoints), np.inf)
    for i in np.flatnonzero((target.breakpoints > 0) & (target.breakpoints < 1) & (target.jumps != 0)):
        v, square = float(target.breakpoints[i]), float(target.jumps[i]) ** 2
        below = positions[(positions <= v) & (positions >= 0)]
        above = positions[(positions > v) & (positions <= 1)]
        if below.size and above.size:
            times[i] = JumpPair(v - float(below.max()), float(above.min()) - v, square).hitting_time
        elif below.size:
            times[i] = EdgePair(1.0 - v, v - float(below.max()), square).hitting_time
        elif above.size:
            times[i] = EdgePair(v, float(above.min()) - v, square).hitting_time
    return times


LEMMA_ROUNDING = 2.0**-46
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
        rounding = LEMMA_ROUNDING * M**2 * (network.width + 1) / network.sharpness
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
