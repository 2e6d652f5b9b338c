"""A reference for tests: the flow (3.1) of ½Σ with gates written out, by SciPy, stage after stage.

It knows nothing of blocks: the gates are an (n, m) matrix, the rates are singular values of the (m, 2n)
Jacobian, V is spanned by the 2n vectors ξ of [plateau] Appendix A. A knot that meets a data point passes it
if the velocity on the other side agrees; otherwise (a slide) the run ends there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.integrate import simpson, solve_ivp

from shallowflow.arrays import Bools, Floats
from shallowflow.data.dataset import Dataset
from shallowflow.models.networks import KnotNetwork

POINTS = 5


@dataclass(frozen=True)
class Piece:
    """One stage: the solution's own step times, θ = (b, c) at any time of it, and its gates."""

    dataset: Dataset
    steps: Floats
    theta: Callable[[float], Floats]
    gates: Bools

    @property
    def ends(self) -> tuple[float, float]:
        return float(self.steps[0]), float(self.steps[-1])

    def network(self, time: float) -> KnotNetwork:
        knots, outer = np.split(self.theta(time), 2)
        return KnotNetwork(knots, outer)

    @property
    def middle(self) -> KnotNetwork:
        return self.network(0.5 * sum(self.ends))

    def jacobian(self, theta: Floats) -> Floats:
        return jacobian(theta, self.gates, self.dataset)

    @cached_property
    def span(self) -> Floats:
        """The vectors ξ_k^b, ξ_k^c, (m, 2n)."""
        return jacobian(
            np.concatenate([self.theta(self.ends[0])[: len(self.gates)], np.ones(len(self.gates))]),
            self.gates,
            self.dataset,
        )

    def loss(self, time: float) -> float:
        residual = self.residual(time)
        return 0.5 * float(residual @ residual)

    def residual(self, time: float) -> Floats:
        theta = self.theta(time)
        return self.jacobian(theta)[:, len(self.gates) :] @ theta[len(self.gates) :] - self.dataset.targets

    def level(self) -> float:
        """Q₀ by least squares on the span of the ξ."""
        residual = self.residual(self.ends[0])
        coefficients = np.linalg.lstsq(self.span, residual, rcond=1e-12)[0]
        return 0.5 * float(np.sum((residual - self.span @ coefficients) ** 2))

    @cached_property
    def rank(self) -> int:
        return int(np.linalg.matrix_rank(self.span, tol=1e-10))

    def rates(self, time: float) -> tuple[float, float]:
        singular = np.linalg.svd(self.jacobian(self.theta(time)), compute_uv=False)
        return float(singular[self.rank - 1]) ** 2 if self.rank else 0.0, float(singular[0]) ** 2

    @cached_property
    def decays(self) -> tuple[Floats, Floats]:
        """∫r_min, ∫r_max from the start to each step time, by Simpson's rule inside each step."""
        totals = np.zeros((2, len(self.steps)))
        for i, (start, end) in enumerate(zip(self.steps[:-1], self.steps[1:], strict=True)):
            times = np.linspace(start, end, POINTS)
            rates = np.array([self.rates(float(time)) for time in times])
            totals[:, i + 1] = totals[:, i] + simpson(rates, x=times, axis=0)
        return totals[0], totals[1]

    def violation(self, level: float, *, factor: float = 2.0) -> float:
        """The worst violation of Thm 3.1 with exponents factor·∫r and a claimed Q₀, relative to the loss."""
        least, most = self.decays
        excess = np.array([self.loss(float(time)) for time in self.steps]) - level
        above = excess - excess[0] * np.exp(-factor * least)
        below = excess[0] * np.exp(-factor * most) - excess
        return float(max(above.max(), below.max())) / self.loss(self.ends[0])


def jacobian(theta: Floats, gates: Bools, dataset: Dataset) -> Floats:
    """∂f(x_k)/∂(b, c), (m, 2n)."""
    knots, outer = np.split(theta, 2)
    return np.hstack([-(gates.T * outer), gates.T * (dataset.inputs - knots)])


def _meeting(distances: Callable[[Floats], Floats], i: int) -> Callable[[float, Floats], float]:
    def meeting(_: float, state: Floats) -> float:
        return float(min(distances(state)[i], 1.0))

    meeting.terminal, meeting.direction = True, -1.0  # type: ignore[attr-defined]
    return meeting


def flow_pieces(network: KnotNetwork, dataset: Dataset, until: float, most: int = 20) -> list[Piece]:
    """Follow the flow from a network with no knot on a data point, for at most so many stages."""
    x, n = dataset.inputs[:, 0], network.width
    theta, start = np.concatenate([network.knots, network.outer]), 0.0
    gates = x > network.knots[:, None]
    pieces: list[Piece] = []
    while start < until and len(pieces) < most:
        held = gates.copy()

        def velocity(_: float, state: Floats, held: Bools = held) -> Floats:
            matrix = jacobian(state, held, dataset)
            return -matrix.T @ (matrix[:, n:] @ state[n:] - dataset.targets)

        def distances(state: Floats, held: Bools = held) -> Floats:
            right = np.where(held, x, np.inf).min(axis=1) - state[:n]
            left = state[:n] - np.where(held, -np.inf, x).max(axis=1)
            dead = ~held.any(axis=1)
            return np.concatenate([np.where(dead, np.inf, right), np.where(dead, np.inf, left)])

        run = solve_ivp(
            velocity,
            (start, until),
            theta,
            "DOP853",
            events=[_meeting(distances, i) for i in range(2 * n)],
            dense_output=True,
            rtol=1e-11,
            atol=1e-13,
        )
        assert run.success, run.message
        if run.t[-1] == start:  # by rounding the knot has not passed its point: the reference ends here
            break
        pieces.append(Piece(dataset, run.t, run.sol, held))
        start, theta = float(run.t[-1]), run.y[:, -1]
        if run.status == 1:
            side, neuron = divmod(int(np.argmin(distances(theta))), n)
            point = int(np.argmin(np.abs(x - theta[neuron])))
            gates[neuron, x == x[point]] = side == 1
            speed = velocity(start, theta, gates)[neuron]
            if speed * (1 - 2 * side) <= 0 or not gates[neuron].any():
                break
    return pieces
