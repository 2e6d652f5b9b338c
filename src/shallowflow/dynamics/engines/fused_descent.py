"""Descent of a `ReLUNetwork` with the square loss for wide sweeps: matrix products and one fused pass.

`FusedDescent` steps the weights, `GramDescent` the preactivations through X Xᵀ (cheaper for n < 2d).
Both work in double or in single precision. See `kernels.fused_descent`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.precision import PRECISIONS, constants_of
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import ReLUNetwork

LANES = 8
"""The width is padded with dead neurons to a multiple of this: matrix products are faster then."""


class FusedDescent:
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon; two products of m·n·d per step."""

    name = "fused"

    def __init__(
        self,
        network: ReLUNetwork,
        dataset: Dataset,
        loss: SquareLoss,
        step: float,
        epsilon: float,
        precision: str = "double",
    ) -> None:
        from shallowflow.kernels import fused_descent

        self._kernels = fused_descent
        self._network = network
        kind = PRECISIONS[precision]
        padded = -(-network.width // LANES) * LANES
        self._inner = np.zeros((padded, network.dimension), kind)
        self._outer = np.zeros(padded, kind)
        self._inner[: network.width], self._outer[: network.width] = network.inner, network.outer
        self._inputs = np.ascontiguousarray(dataset.inputs, kind)
        self._transposed = np.ascontiguousarray(self._inputs.T)
        self._targets = dataset.targets.astype(kind)
        self._constants = constants_of(network, dataset, loss, step, epsilon, kind)
        # A second buffer: the pass from z to S is twice as fast if it does not write where it reads.
        self._values, self._pulls = (np.empty((padded, dataset.size), kind) for _ in range(2))
        self._gradient = np.empty_like(self._inner)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop when a parameter has become non-finite."""
        inner, outer, values, constants = self._inner, self._outer, self._values, self._constants
        with np.errstate(over="ignore", invalid="ignore"):
            for done in range(steps):
                np.dot(inner, self._transposed, out=values)
                self._kernels.gate(values, outer, self._targets, constants, self._pulls)
                np.dot(self._pulls, self._inputs, out=self._gradient)
                if not self._kernels.move(inner, outer, self._gradient, constants):
                    return done
        return steps if np.isfinite(inner).all() else steps - 1

    def network(self) -> ReLUNetwork:
        """Return the current network."""
        width = self._network.width
        return self._network.moved(
            {
                "inner": self._inner[:width].astype(np.float64),
                "outer": self._outer[:width].astype(np.float64),
            }
        )

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are not watched."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Return the precision."""
        return {"precision": _word(self._inner)}


class GramDescent:
    """The same steps in the preactivations; one product of m·n·n per step, for n < 2d."""

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
        from shallowflow.kernels import fused_descent

        self._gate = fused_descent.gate
        self._rates = fused_descent.INNER_RATE, fused_descent.OUTER_RATE
        self._network, self._inputs = network, dataset.inputs
        self._kind = PRECISIONS[precision]
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
        return {"precision": _word(self._outer)}


def _word(array: NDArray[Any]) -> str:
    return "single" if array.dtype == np.float32 else "double"
