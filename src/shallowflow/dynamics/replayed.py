"""`Replayed`: the path of a flow on orthonormal data, read between its knots by making the step again.

The knots are states of `kernels.orthogonal.flow`: ρ_j = ln|a_j| and g_jk = ⟨w_j, x_k⟩/|a_j| on active points.
What a step does depends on the state at its start alone, so that a shorter step of the same kind gives any
moment inside, at the accuracy of the integrator (exactly on a plateau). A knot takes m·(n + 1) numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays
from shallowflow.dynamics.nodes import within
from shallowflow.dynamics.path import flatten
from shallowflow.models.networks import LogScaledNetwork


@dataclass(frozen=True, eq=False, repr=False)
class Replayed(FrozenArrays):
    """Knots of a flow: times (K,), values (K, m, n + 1) with ρ first; the problem's data, rate and tiny."""

    kind: ClassVar[str] = "replayed"
    template: LogScaledNetwork
    times: Floats
    values: Floats
    inputs: Floats
    targets: Floats
    rate: float
    tiny: float

    def __call__(self, time: float) -> LogScaledNetwork:
        """Return the network at a time in [times[0], times[-1]]."""
        time = within(time, self.times)
        if time == self.times[0]:
            return self.template
        return self.network(self.state(time))

    def state(self, time: float) -> Floats:
        """Return (ρ, g) at a time in [times[0], times[-1]], (m, n + 1)."""
        from shallowflow.kernels.orthogonal.flow import replay
        from shallowflow.kernels.orthogonal.step import problem_of

        time = within(time, self.times)
        knot = int(np.searchsorted(self.times, time, side="right")) - 1
        state = self.values[knot].copy()
        if time > self.times[knot]:
            rho, g = state[:, 0].copy(), state[:, 1:].copy()
            signs = np.sign(self.template.outer)
            problem = problem_of(signs, self.targets.copy(), self.rate, self.tiny)
            replay(rho, g, problem, time - self.times[knot])
            state[:, 0], state[:, 1:] = rho, g
        return np.asarray(state)

    def network(self, state: Floats) -> LogScaledNetwork:
        """Return the network of a state; what never moves (inactive, or orthogonal to the data) is added."""
        size = np.abs(self.template.outer)
        start = self.template.inner / size[:, None]
        rest = start - np.maximum(start @ self.inputs.T, 0.0) @ self.inputs
        rho = state[:, 0]
        shrunk = np.exp(np.minimum(self.template.log_scales + np.log(size) - rho, 700.0))
        return self.template.moved(
            {
                "inner": state[:, 1:] @ self.inputs + shrunk[:, None] * rest,
                "outer": np.sign(self.template.outer),
                "log_scales": rho,
            }
        )

    def recorded(self) -> Floats:
        """Return θ at the knots, (K, P)."""
        return np.array([flatten(self(float(time))) for time in self.times])

    def predictions(self) -> Floats:
        """Return h(x_k) at the knots, (K, n)."""
        weights = np.sign(self.template.outer) * np.exp(2.0 * self.values[:, :, 0])
        return np.asarray(np.einsum("tj,tjk->tk", weights, self.values[:, :, 1:]))
