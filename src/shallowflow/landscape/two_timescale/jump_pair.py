"""Two neurons at one jump, in the two-timescale limit with η = 0: the exact solution of (7), [two_timescale].

With the jump's size s and the distances L (left neuron) and R (right neuron) to it,

    L' = −½ s² R²/(L+R)²,   R' = −½ s² L²/(L+R)²,   so that R³ − L³ = K is constant.

If L_0 < R_0, then dτ = −(2/s²)(L+R)²/R² dL with R = (L³+K)^{1/3} integrates to

    τ(L) = (2/s²)[F(L_0) − F(L)],   F(x) = x + (x³+K)^{1/3} + x² K^{−1/3} ₂F₁(1/3, 2/3; 5/3; −x³/K);

the left neuron hits the jump at τ(0) and the right one stops at K^{1/3}. K = 0: both hit at 8 L_0/s². In
any case the hitting time is at most 8 min(L_0, R_0)/s². With one neuron fixed at distance B (the edge of
[0, 1]) and the other at distance D, (B+D)³ falls at the constant rate (3/2) s² B².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.targets import PiecewiseConstant

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
