"""Descent of a `ReLUNetwork` with the square loss for wide sweeps: one compiled pass over the data per step.

Works in double or in single precision. See `kernels.fused_descent`.
"""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.precision import PRECISIONS, blocks_of, constants_of
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import ReLUNetwork


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
        from shallowflow.kernels.dense_tiles import PANEL, ROWS

        self._kernel, self._network, self._precision = fused_descent.advance, network, precision
        constants = constants_of(network, dataset, loss, step, epsilon, PRECISIONS[precision])
        samples = PANEL // constants.itemsize
        self._inner = fused_descent.packed(network.inner, ROWS, constants)
        self._outer = blocks_of(network.outer, ROWS, constants)
        inputs = fused_descent.packed(dataset.inputs, samples, constants)
        self._problem = inputs, blocks_of(dataset.targets, samples, constants), constants

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop when a parameter has become non-finite."""
        done = int(self._kernel(self._inner, self._outer, *self._problem, steps))
        return done if np.isfinite(self._inner).all() else min(done, steps - 1)

    def network(self) -> ReLUNetwork:
        """Return the current network."""
        width, dimension = self._network.inner.shape
        rows = self._inner.transpose(0, 2, 1).reshape(-1, self._inner.shape[1])
        inner, outer = rows[:width, :dimension], self._outer.reshape(-1)[:width]
        return self._network.moved({"inner": inner.astype(np.float64), "outer": outer.astype(np.float64)})

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are not watched."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Return the precision."""
        return {"precision": self._precision}
