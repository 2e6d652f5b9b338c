"""Two-timescale training of a `StepNetwork` until nothing moves: linearly implicit steps in the slow time τ.

The flow is (4) of [two_timescale], du/dτ = −∇_u L, da/dτ = −(1/ε)∇_a L. A step of length δ moves

    u_j ← u_j − δ g_j/(1 + δ h_j),   g = ∇_u L,   h_j = (9/5) a_j²/η,

with h_j the curvature of a neuron that has arrived at its jump (∫σ'² = 9/5), so that settled neurons do not
limit δ; then a ← (I + (δ/ε)H)⁻¹(a + (δ/ε)b), or a*(u) for ε = 0. The loss falls along the flow: a step after
which it is higher is made again with half of δ. No neuron moves by more than a quarter of its window at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.landscape.population import (
    best_outer,
    feature_gram,
    feature_moments,
    population_gradient,
    step_loss,
)
from shallowflow.models.networks import StepNetwork

MOVE, FIRST, GROWTH = 0.25, 1e-3, 1.5
ARRIVED = 9.0 / 5.0
TINY = 1e-12
"""Steps in τ below this are given up: the network is at rest up to rounding."""


@dataclass(frozen=True)
class Training:
    """The network at the end, how many steps led to it, and whether it had come to rest."""

    network: StepNetwork
    steps: int
    converged: bool


def train(
    network: StepNetwork, target: PiecewiseConstant, *, epsilon: float, until: float, stop: float, most: int
) -> Training:
    """Train until ‖∇_u L‖ ≤ stop (epsilon > 0: also ‖∇_a L‖), the slow time `until`, or `most` steps."""
    now = best_outer(network, target) if epsilon == 0 else network
    loss, time, length = step_loss(now, target), 0.0, FIRST
    for steps in range(most):
        gradient = population_gradient(now, target)
        force = gradient["positions"]
        rest = 0.0 if epsilon == 0 else float(np.hypot(np.linalg.norm(gradient["outer"]), gradient["offset"]))
        if max(float(np.linalg.norm(force)), rest) <= stop:
            return Training(now, steps, True)
        if time >= until:
            return Training(now, steps, False)
        length = min(length, until - time, _longest(now, force))
        moved, after = _attempt(now, target, force, length, epsilon)
        while after > loss * (1 + 1e-14) and length > TINY:
            length *= 0.5
            moved, after = _attempt(now, target, force, length, epsilon)
        if length <= TINY:
            return Training(now, steps, True)
        now, loss, time, length = moved, after, time + length, length * GROWTH
    return Training(now, most, False)


def _longest(now: StepNetwork, force: Floats) -> float:
    """Return the length of a step by which the fastest neuron moves a quarter of its window."""
    move, curvature = MOVE * now.sharpness, ARRIVED * now.outer**2 / now.sharpness
    spare = np.abs(force) - move * curvature
    return float(np.min(move / spare[spare > 0], initial=np.inf))


def _attempt(
    now: StepNetwork, target: PiecewiseConstant, force: Floats, length: float, epsilon: float
) -> tuple[StepNetwork, float]:
    """Return the network after a step and its loss."""
    damping = 1.0 + length * ARRIVED * now.outer**2 / now.sharpness
    positions: Floats = now.positions - length * force / damping
    moved: StepNetwork = now.moved({"positions": positions})
    if epsilon == 0:
        moved = best_outer(moved, target)
    else:
        fast = length / epsilon
        a = np.append(now.offset, now.outer)
        system = np.eye(len(a)) + fast * feature_gram(moved)
        right = a + fast * feature_moments(moved, target)
        solved: Floats = np.linalg.solve(system, right).astype(np.float64)
        moved = moved.moved({"outer": solved[1:], "offset": np.asarray(solved[0], dtype=np.float64)})
    return moved, step_loss(moved, target)
