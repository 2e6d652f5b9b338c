"""Classes of piecewise constant targets, how good positions are, and a start that fails: [two_timescale].

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, non_negative, positive, shown
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import check_steps, separation
from shallowflow.models.networks import StepNetwork


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


def jump_distances(network: StepNetwork, target: PiecewiseConstant) -> Floats:
    """Return the distance of every jump of the target to the nearest neuron, (n − 1,)."""
    check_steps(network, target)
    gaps: Floats = np.abs(target.breakpoints[:, None] - network.positions).min(axis=1)
    return gaps


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
