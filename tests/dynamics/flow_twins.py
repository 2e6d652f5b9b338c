"""The gradient flow of a plain twin by SciPy: gates are frozen between crossings, and flipped at each.

A stretch ends just before a neuron slides along a kink, stops on it, or passes several at once (see
`engines/test_degenerate_flow.py` for these), before a kink of σ' in a network of steps, and before the norm
loss is a tenth of what it was (at 0 its gradient jumps). Two solutions at a distance e are at most S·e apart
at the end, where S collects exp ∫ λ_max(−sym DH) of the smooth stretches and the norms of the matrices
I + (f₊ − f₋) nᵀ/⟨n, f₋⟩ of crossings.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats
from tests.dynamics.twins import Sample, Twin

EXACT = 1e-12
"""The relative tolerance of the reference."""
MOST_CROSSINGS = 8
INTERPOLANT = 7
"""The degree of SciPy's solution between the ends of a step."""
TOGETHER = 1e-10
"""Kinks as near as this, relative to ‖θ‖, are passed at once; a z slower than this, relatively, rests."""


class Flowed(NamedTuple):
    """The end of a stretch: time, θ, S, the largest ‖θ‖ on the way, steps of SciPy, crossings."""

    time: float
    theta: Floats
    growth: float
    size: float
    steps: int
    crossings: int


class Flow:
    """θ' = −D∇L(θ) with gates of its own."""

    def __init__(self, twin: Twin, sample: Sample, rates: Floats) -> None:
        self.twin, self.sample, self.rates = twin, sample, rates
        self.x, self.shift = twin.seen(sample.inputs)

    def z(self, theta: Floats) -> Floats:
        """Return z (m, n)."""
        found: Floats = (self.twin.parts(theta[None])[0] @ self.x.T + self.shift)[0]
        return found

    def velocity(self, _: float, theta: Floats) -> Floats:
        """Return θ'."""
        return np.asarray(-self.rates * self.twin.gradient(theta[None], self.sample)[0])

    def expansion(self, theta: Floats) -> float:
        """Return λ_max of the symmetric part of −DH."""
        matrix = -self.rates[:, None] * self.twin.linearised(theta, self.sample)[1]
        return float(np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[-1])

    def normal(self, j: int, i: int) -> Floats:
        """Return ∂z_ji/∂θ."""
        p = self.twin.shape[1]
        found = np.zeros(len(self.rates))
        found[j * p : (j + 1) * p] = self.x[i]
        return found

    def kinks(self, theta: Floats) -> Floats:
        """Return what changes sign at a kink (m, n): z, or z(z² − ¼) for the three kinks of a step."""
        z = self.z(theta)
        return z * (z * z - 0.25) if self.twin.steps else z

    def stretch(self, start: float, theta: Floats, until: float, sides: Floats, slack: Floats) -> Any:
        """Integrate until a kink leaves its side (m, n) of ±1, by a slack, or the norm loss is small.

        SciPy looks at the ends of its steps only: where something left its side and was back by then, the
        stretch is made again, with steps short enough to see it.
        """
        longest = np.inf
        while True:
            run = self._solved((start, until), theta, (sides, slack), longest)
            away = [self._away(run.sol, part, sides, slack) for part in pairwise(run.t.tolist())]
            if not any(away):
                return run
            longest = 0.5 * min(filter(None, away))

    def _away(self, sol: Any, step: tuple[float, float], sides: Floats, slack: Floats) -> float:
        """Return for how long a kink is on its wrong side between the ends of a step, 0 if none is.

        SciPy's interpolant has the degree 7, kinks of steps the triple: its minima are found exactly.
        """
        nodes = chebyshev.chebpts2(3 * INTERPOLANT + 1 if self.twin.steps else INTERPOLANT + 1)
        times = step[0] + 0.5 * (step[1] - step[0]) * (nodes + 1.0)
        heights = np.array([(sides * self.kinks(sol(time)) + slack).ravel() for time in times])
        series = chebyshev.chebfit(nodes, heights, len(nodes) - 1)
        near = series[0] <= np.abs(series[1:]).sum(axis=0)
        found = [_below(one) for one, low in zip(series.T[near], heights[-1][near], strict=True) if low >= 0]
        return 0.5 * (step[1] - step[0]) * min(filter(None, found), default=0.0)

    def _solved(
        self, span: tuple[float, float], theta: Floats, where: tuple[Floats, Floats], longest: float
    ) -> Any:
        sides, slack = where

        def leaves(_: float, now: Floats) -> float:
            return float(np.min(sides * self.kinks(now) + slack))

        def vanishes(_: float, now: Floats) -> float:
            return self.residual(now) - 0.1 * first

        first = self.residual(theta)
        for event in (leaves, vanishes):
            event.terminal, event.direction = True, -1.0  # type: ignore[attr-defined]
        return solve_ivp(
            self.velocity, span, theta, method="DOP853", rtol=EXACT,
            atol=EXACT * float(np.linalg.norm(theta)), dense_output=True, max_step=longest,
            events=[leaves, vanishes] if isinstance(self.twin.loss, sf.NormLoss) else leaves,
        )  # fmt: skip

    def residual(self, theta: Floats) -> float:
        """Return ‖h − y‖."""
        return float(np.linalg.norm(self.twin.predictions(theta, self.sample) - self.sample.targets))

    def saltation(self, theta: Floats, sides: Floats) -> float:
        """Flip the gate on whose kink θ is; return the growth of distances there, 0 if it does not cross."""
        at = np.argwhere(np.abs(self.kinks(theta)) <= TOGETHER * np.linalg.norm(theta))
        if self.twin.steps or len(at) != 1:
            return 0.0
        j, i = at[0]
        normal, first = self.normal(j, i), self.velocity(0.0, theta)
        sides[j, i] *= -1.0
        self.twin = replace(self.twin, gates=self.twin.open_gates(sides))
        second = self.velocity(0.0, theta)
        if not sides[j, i] * (normal @ second) > TOGETHER * abs(normal @ first):
            return 0.0
        jump = np.eye(len(theta)) + np.outer(second - first, normal) / (normal @ first)
        return float(np.linalg.norm(jump, 2))


def _below(series: Floats) -> float:
    """Return the shortest length on which a Chebyshev series is below 0 between two zeros, or 0."""
    roots = chebyshev.chebroots(series)
    inside = np.sort(roots.real[(np.abs(roots.imag) < 1e-9) & (np.abs(roots.real) < 1.0)])
    rounding = EXACT * np.abs(series).sum()
    found = [b - a for a, b in pairwise(inside) if chebyshev.chebval(0.5 * (a + b), series) < -rounding]
    return float(min(found, default=0.0))


def flowed(twin: Twin, sample: Sample, rates: Floats, until: float) -> Flowed:
    """Follow the flow through crossings, to `until` or to just before something else happens."""
    time, theta, growth, size, steps = 0.0, twin.theta(twin.network), 1.0, 0.0, 0
    flow = Flow(twin, sample, rates)
    sides, slack = np.where(flow.kinks(theta) > 0, 1.0, -1.0), np.zeros(flow.shift.shape)
    if not twin.steps:
        flow.twin = replace(twin, gates=twin.open_gates(sides))
    for crossings in range(MOST_CROSSINGS):
        run = flow.stretch(time, theta, until, sides, slack)
        expansions = [max(flow.expansion(y), 0.0) for y in run.y.T]
        growth *= float(np.exp(np.maximum(expansions[1:], expansions[:-1]) @ np.diff(run.t)))
        size, steps = max(size, float(np.linalg.norm(run.y, axis=0).max())), steps + len(run.t) - 1
        if run.status != 1:
            return Flowed(float(run.t[-1]), run.y[:, -1], growth, size, steps, crossings)
        before, last = run.t[0] + 0.99 * (run.t[-1] - run.t[0]), run
        time, theta = float(run.t[-1]), run.y[:, -1]
        more = flow.saltation(theta, sides) if len(run.t_events[0]) else 0.0
        if more == 0.0:
            break
        growth *= more
        # Just behind its kink a gate may be on the wrong side of it by rounding.
        slack = (
            TOGETHER * np.linalg.norm(theta) * (np.abs(flow.kinks(theta)) <= TOGETHER * np.linalg.norm(theta))
        )
    return Flowed(float(before), last.sol(before), growth, size, steps, crossings)
