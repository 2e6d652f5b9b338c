"""Descent of a `ReLUNetwork`: one compiled pass over many samples per step. See `kernels.dense.fused`."""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.sweep_descent import SweepDescent
from shallowflow.models.networks import ReLUNetwork


class FusedDescent(SweepDescent):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon; two products of m·n·d per step."""

    name = "fused"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels.dense import fused
        from shallowflow.kernels.shared.losses import Problem

        self._kernel, constants = fused, self._constants
        samples = fused.PANEL // constants.itemsize
        self._inner = fused.packed(self._network.inner, fused.ROWS, constants)
        self._outer = self._blocks(self._network.outer, fused.ROWS)
        inputs = fused.packed(dataset.inputs, samples, constants)
        self._problem = Problem(inputs, self._blocks(dataset.targets, samples), constants, self._loss)

    def network(self) -> ReLUNetwork:
        """Return the current network."""
        width, dimension = self._network.inner.shape
        rows = self._inner.transpose(0, 2, 1).reshape(-1, self._inner.shape[1])
        inner, outer = rows[:width, :dimension], self._outer.reshape(-1)[:width]
        return self._network.moved({"inner": inner.astype(np.float64), "outer": outer.astype(np.float64)})
