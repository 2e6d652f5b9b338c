"""The gradient flow of a plain twin by SciPy: gates are frozen between crossings, and flipped at each.

A run ends where a neuron would slide along a kink or leave it on two sides: what follows is compared elsewhere
(`engines/test_degenerate_flow.py`). Two solutions at a distance e are at most S·e apart at the end, where S
collects exp ∫ λ_max(−sym DH) of the smooth stretches and the norms of I + (f₊ − f₋) nᵀ/⟨n, f₋⟩ at crossings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from shallowflow.arrays import Floats
from tests.dynamics.twins import Sample, Twin

EXACT = 1e-12
"""The relative tolerance of the reference."""
MOST_CROSSINGS = 8


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
        m, p = self.twin.shape
        found = np.zeros(len(self.rates))
        found[j * p : (j + 1) * p] = self.x[i]
        return found

    def stretch(self, start: float, theta: Floats, until: float, sides: Floats) -> Any:
        """Integrate until a z leaves its side (m, n) of ±1."""

        def leaves(_: float, now: Floats) -> float:
            return float(np.min(sides * self.z(now)))

        leaves.terminal, leaves.direction = True, -1.0  # type: ignore[attr-defined]
        kinks = None if self.twin.steps else leaves
        size = float(np.linalg.norm(theta))
        return solve_ivp(
            self.velocity, (start, until), theta, method="DOP853", rtol=EXACT, atol=EXACT * size,
            events=kinks, dense_output=True,
        )  # fmt: skip


def flowed(twin: Twin, sample: Sample, rates: Floats, until: float) -> Flowed:
    """Follow the flow through crossings, to `until` or to just before a neuron slides."""
    time, theta, growth, size, steps = 0.0, twin.theta(twin.network), 1.0, 0.0, 0
    flow = Flow(twin, sample, rates)
    sides = np.where(flow.z(theta) > 0, 1.0, -1.0)
    for crossings in range(MOST_CROSSINGS):
        if not twin.steps:
            flow.twin = replace(twin, gates=twin.open_gates(sides))
        run = flow.stretch(time, theta, until, sides)
        rates_of_growth = [max(flow.expansion(y), 0.0) for y in run.y.T]
        rise = np.maximum(rates_of_growth[1:], rates_of_growth[:-1]) @ np.diff(run.t)
        growth, size = growth * np.exp(rise), max(size, float(np.linalg.norm(run.y, axis=0).max()))
        steps += len(run.t) - 1
        if run.status != 1:
            return Flowed(float(run.t[-1]), run.y[:, -1], growth, size, steps, crossings)
        before, last = run.t[0] + 0.99 * (run.t[-1] - run.t[0]), run
        time, theta = float(run.t[-1]), run.y[:, -1]
        j, i = np.unravel_index(np.argmin(sides * flow.z(theta)), sides.shape)
        normal, first = flow.normal(int(j), int(i)), flow.velocity(time, theta)
        sides[j, i] *= -1.0
        flow.twin = replace(twin, gates=twin.open_gates(sides))
        second = flow.velocity(time, theta)
        if not sides[j, i] * (normal @ second) > 0:
            break
        jump = np.eye(len(theta)) + np.outer(second - first, normal) / (normal @ first)
        growth *= float(np.linalg.norm(jump, 2))
    return Flowed(float(before), last.sol(before), growth, size, steps, crossings)
