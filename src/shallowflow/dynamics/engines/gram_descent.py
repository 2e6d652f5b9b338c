"""Descent of a `ReLUNetwork` with the square loss in its preactivations, through X Xᵀ: for few samples.

Works in double or in single precision. See `kernels.dense.gram`.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.sweep_descent import SweepDescent
from shallowflow.models.networks import ReLUNetwork


class GramDescent(SweepDescent):
    """The same steps in the preactivations; one product of m·n·n per step, best for n ≤ d."""

    name = "gram"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels.dense.gram import gate
        from shallowflow.kernels.shared.losses import INNER_RATE, OUTER_RATE

        self._gate, self._kind = gate, self._constants.dtype
        self._rates = self._constants[INNER_RATE], self._constants[OUTER_RATE]
        self._gram = np.ascontiguousarray(dataset.inputs @ dataset.inputs.T, self._kind)
        self._targets = dataset.targets.astype(self._kind)
        self._outer = self._network.outer.astype(self._kind)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop when a parameter has become non-finite."""
        # The preactivations start from the weights each time, so that their rounding does not pile up.
        values = np.ascontiguousarray(self._network.preactivations(self._inputs), self._kind)
        coefficients, pulls, change = np.zeros_like(values), np.empty_like(values), np.empty_like(values)
        outer, (inner_rate, outer_rate) = self._outer, self._rates
        with np.errstate(over="ignore", invalid="ignore"):
            for done in range(steps):
                self._gate(values, outer, self._targets, self._constants, pulls)
                gradient = np.einsum("ji,ji->j", pulls, values)
                pulls *= (inner_rate * outer)[:, None]
                coefficients += pulls
                outer += outer_rate * gradient
                np.dot(pulls, self._gram, out=change)
                values += change
                if not np.isfinite(outer).all():
                    return done
        if not np.isfinite(coefficients).all():
            return steps - 1
        inner: Floats = self._network.inner + coefficients.astype(np.float64) @ self._inputs
        self._network = self._network.moved({"inner": inner, "outer": self._outer.astype(np.float64)})
        return steps

    def loss(self) -> float:
        """Return the present loss."""
        residual = self._targets - self._network.predict(self._inputs)
        return 0.5 * self._weight * float(residual @ residual)

    def network(self) -> ReLUNetwork:
        """Return the current network."""
        return self._network
