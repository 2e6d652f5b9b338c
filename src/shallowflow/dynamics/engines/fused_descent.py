"""Descent of a `ReLUNetwork` with the square loss for wide sweeps: one compiled pass over the data per step.

Works in double or in single precision. See `kernels.dense.fused`.
"""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.sweep_descent import SweepDescent
from shallowflow.models.networks import ReLUNetwork


class FusedDescent(SweepDescent):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon; two products of m·n·d per step."""

    name = "fused"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels.dense import fused as fused_descent
        from shallowflow.kernels.dense.fused import PANEL, ROWS

        self._kernel = fused_descent.advance
        network, constants = self._network, self._constants
        samples = PANEL // constants.itemsize
        self._inner = fused_descent.packed(network.inner, ROWS, constants)
        self._outer = self._blocks(network.outer, ROWS)
        inputs = fused_descent.packed(dataset.inputs, samples, constants)
        self._problem = inputs, self._blocks(dataset.targets, samples), constants

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
