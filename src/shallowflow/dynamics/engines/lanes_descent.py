"""Descent of a `ReLUNetwork` on few samples, compiled, neurons side by side. See `kernels.dense.lanes`."""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.sweep_descent import SweepDescent
from shallowflow.models.networks import ReLUNetwork


class LanesDescent(SweepDescent):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon; two products of m·n·d per step."""

    name = "lanes"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels.dense import lanes
        from shallowflow.kernels.shared.losses import Problem

        self._kernel, kind = lanes, self._constants.dtype
        self._inner = np.array(self._network.inner.T, kind, order="C")
        self._outer = self._network.outer.astype(kind)
        inputs, targets = np.array(dataset.inputs, kind), np.array(dataset.targets, kind)
        self._problem = Problem(inputs, targets, self._constants, self._loss)

    def network(self) -> ReLUNetwork:
        """Return the current network."""
        inner, outer = self._inner.T.astype(np.float64), self._outer.astype(np.float64)
        return self._network.moved({"inner": inner, "outer": outer})
