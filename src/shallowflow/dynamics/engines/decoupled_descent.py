"""Descent on orthogonal inputs without matrix products: see `kernels.orthogonal.descent`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.engines.sweep_descent import SweepDescent
from shallowflow.models.networks import ReLUNetwork


class DecoupledDescent(SweepDescent):
    """θ ← θ − step·∇L(θ) on orthogonal inputs, the inner layer with step·epsilon; O(m·n) per step.

    The state is z_ji = ⟨w_j, x_i⟩; w_j = w_j(0) + Σ_i (z_ji − z_ji(0)) x_i/‖x_i‖² is made when asked for.
    """

    name = "decoupled"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels.orthogonal import descent
        from shallowflow.kernels.shared.losses import Problem
        from shallowflow.kernels.shared.vectors import aligned

        self._kernel, network, constants = descent, self._network, self._constants
        samples = descent.BLOCK // constants.itemsize
        squares = np.einsum("id,id->i", dataset.inputs, dataset.inputs)
        data = self._blocks(squares, samples), self._blocks(dataset.targets, samples)
        self._problem = Problem(*data, constants, self._loss)
        values = self._blocks(network.preactivations(dataset.inputs), samples)
        self._inner = aligned(values.size, values).reshape(-1, network.width, samples)
        self._inner[:] = values.transpose(1, 0, 2)
        self._outer = network.outer.astype(constants.dtype)
        self._start = self._inner.copy()

    def network(self) -> ReLUNetwork:
        """Return the current network; this costs a product of m·n·d."""
        return self._built(self._inner, self._outer)

    def predictions(self) -> Floats:
        """Return h at the data without making the network."""
        values = self._inner.astype(np.float64, copy=False)
        active = np.maximum(values, self._network.slope * values)
        outputs: Floats = self._network.scale * (self._outer.astype(np.float64) @ active)
        return outputs.reshape(-1)[: len(self._inputs)]

    def snapshot(self) -> Callable[[], ReLUNetwork]:
        """Return a function that makes the network of this moment."""
        return partial(self._built, self._inner.copy(), self._outer.copy())

    def _rows(self, values: Floats) -> Floats:
        """Return values in blocks as (m, n)."""
        rows = values.transpose(1, 0, 2).reshape(self._network.width, -1)
        return rows[:, : len(self._inputs)].astype(np.float64)

    def _built(self, values: Floats, outer: Floats) -> ReLUNetwork:
        squares = self._problem.inputs.reshape(-1)[: len(self._inputs)].astype(np.float64)
        moved = self._rows(values - self._start) / np.where(squares > 0, squares, 1.0)
        inner = self._network.inner + moved @ self._inputs
        return self._network.moved({"inner": inner, "outer": outer.astype(np.float64)})
