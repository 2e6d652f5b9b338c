"""Descent of a `ReLUNetwork` with the square loss in its preactivations, through X Xᵀ: for few samples.

Works in double or in single precision. See `kernels.gram_descent`.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.precision import PRECISIONS, constants_of
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import ReLUNetwork


class GramDescent:
    """The same steps in the preactivations; one product of m·n·n per step, for n ≤ d."""

    name = "gram"

    def __init__(
        self,
        network: ReLUNetwork,
        dataset: Dataset,
        loss: SquareLoss,
        step: float,
        epsilon: float,
        precision: str = "double",
    ) -> None:
        from shallowflow.kernels import gram_descent

        self._gate = gram_descent.gate
        self._rates = gram_descent.INNER_RATE, gram_descent.OUTER_RATE
        self._network, self._inputs = network, dataset.inputs
        self._precision, self._kind = precision, PRECISIONS[precision]
        self._gram = np.ascontiguousarray(dataset.inputs @ dataset.inputs.T, self._kind)
        self._targets = dataset.targets.astype(self._kind)
        self._constants = constants_of(network, dataset, loss, step, epsilon, self._kind)
        self._outer = network.outer.astype(self._kind)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop when a parameter has become non-finite."""
        # The preactivations start from the weights each time, so that their rounding does not pile up.
        values = np.ascontiguousarray(self._network.preactivations(self._inputs), self._kind)
        coefficients, pulls, change = np.zeros_like(values), np.empty_like(values), np.empty_like(values)
        outer, constants = self._outer, self._constants
        inner_rate, outer_rate = (constants[place] for place in self._rates)
        with np.errstate(over="ignore", invalid="ignore"):
            for done in range(steps):
                self._gate(values, outer, self._targets, constants, pulls)
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

    def network(self) -> ReLUNetwork:
        """Return the current network."""
        return self._network

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are not watched."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Return the precision."""
        return {"precision": self._precision}
