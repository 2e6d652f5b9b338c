"""`Replayed`: the path of a flow on orthonormal data, read between its states by making the step again.

Kept are states of `kernels.orthogonal.flow`: ρ_j = ln|a_j| and g_jk = ⟨w_j, x_k⟩/|a_j| on active points.
What a step does depends on the state at its start alone, so that a shorter step of the same kind gives any
moment inside, at the accuracy of the integrator (exactly on a plateau). A state takes m·(n + 1) numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from shallowflow.arrays import Floats, positive
from shallowflow.dynamics.clock.paths import Column, Path, within
from shallowflow.errors import FileFormatError
from shallowflow.models.networks import LogScaledNetwork


@dataclass(frozen=True, eq=False, repr=False)
class Replayed(Path[LogScaledNetwork]):
    """States at the ends of steps: values (s + 1, m, n + 1), ρ first; the problem's data, rate and tiny."""

    kind: ClassVar[str] = "replayed"
    alone: ClassVar[bool] = True
    compact: ClassVar[bool] = True
    values: Annotated[Floats, Column(("s+1", "m", "n+1"), "knots")]
    inputs: Annotated[Floats, Column(("n", "d"), "fixed")]
    targets: Annotated[Floats, Column(("n",), "fixed")]
    rate: float
    tiny: float

    def __call__(self, time: float) -> LogScaledNetwork:
        """Return the network at a time in [times[0], times[-1]]."""
        time = within(time, self.times)
        if time == 0:
            return self.template
        return self.network(self.state(time))

    def state(self, time: float) -> Floats:
        """Return (ρ, g) at a time in [times[0], times[-1]], (m, n + 1)."""
        from shallowflow.kernels.orthogonal.flow import replay
        from shallowflow.kernels.orthogonal.step import problem_of

        time = within(time, self.times)
        last = int(np.searchsorted(self.times, time, side="right")) - 1
        state = self.values[last].copy()
        if time > self.times[last]:
            rho, g = state[:, 0].copy(), state[:, 1:].copy()
            signs = np.sign(self.template.outer)
            problem = problem_of(signs, self.targets.copy(), self.rate, self.tiny)
            replay(rho, g, problem, time - self.times[last])
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

    def predictions(self) -> Floats:
        """Return h(x_k) at `times`, (s + 1, n)."""
        weights = np.sign(self.template.outer) * np.exp(2.0 * self.values[:, :, 0])
        return np.asarray(np.einsum("tj,tjk->tk", weights, self.values[:, :, 1:]))

    def check(self) -> None:
        """Refuse other networks, and constants that are not positive."""
        if not isinstance(self.template, LogScaledNetwork):
            raise FileFormatError(
                f"a replayed path is that of a LogScaledNetwork, not of a {type(self.template).__name__}"
            )
        positive(self.rate, "rate")
        positive(self.tiny, "tiny")
