"""Descent of a `ReLUNetwork` with the square loss for wide sweeps, in double or single precision.

"fused": one compiled pass over the data per step (`kernels.dense.fused`); "gram": in the preactivations,
through X Xᵀ, for few samples (`kernels.dense.gram`); "decoupled": on orthogonal inputs, without matrix
products (`kernels.orthogonal.descent`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.protocol import Ticking
from shallowflow.dynamics.problem import Task
from shallowflow.models.networks import ReLUNetwork

PRECISIONS: dict[str, type[np.floating[Any]]] = {"double": np.float64, "single": np.float32}


class SweepDescent(Ticking):
    """θ ← θ − step·∇L(θ) of a `ReLUNetwork` with the square loss, the inner layer with step·epsilon."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.step)
        network = task.network
        assert isinstance(network, ReLUNetwork)
        self._network, self._inputs, self._precision = network, task.dataset.inputs, task.precision
        self._measure, self._loss, self._targets = task.measure, task.loss, task.dataset.targets
        rate = task.step * network.scale * task.weight
        # In the order of the names in `kernels.shared.vectors`.
        constants = [0.0, network.slope, 1.0, network.scale, rate * task.epsilon, rate]
        self._constants: NDArray[Any] = np.array(constants, PRECISIONS[task.precision])
        self._lay_out(task.dataset)

    @abstractmethod
    def _lay_out(self, dataset: Dataset) -> None:
        """Lay the data and the start out as the kernel wants them."""

    def _blocks(self, values: Floats, length: int) -> NDArray[Any]:
        """Return values (…, k) as (…, blocks, length) in the precision of the run, zeros behind them."""
        blocks = -(-values.shape[-1] // length)
        padded = np.zeros((*values.shape[:-1], blocks * length), self._constants.dtype)
        padded[..., : values.shape[-1]] = values
        return padded.reshape(*values.shape[:-1], blocks, length)

    def statistics(self) -> dict[str, float | int | str]:
        """Return the precision."""
        return {"precision": self._precision}


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

    def _steps(self, count: int) -> int:
        done = int(self._kernel(self._inner, self._outer, *self._problem, count))
        return done if np.isfinite(self._inner).all() else min(done, count - 1)

    def _weights(self) -> tuple[Floats, Floats]:
        """Return inner (m, d) and outer (m,) weights."""
        width, dimension = self._network.inner.shape
        rows = self._inner.transpose(0, 2, 1).reshape(-1, self._inner.shape[1])
        inner, outer = rows[:width, :dimension], self._outer.reshape(-1)[:width]
        return inner.astype(np.float64), outer.astype(np.float64)

    def loss(self) -> float:
        """Return the present loss."""
        inner, outer = self._weights()
        z = self._inputs @ inner.T
        np.maximum(z, self._network.slope * z, out=z)
        return self._loss.value(self._network.scale * (z @ outer), self._targets)

    def network(self) -> ReLUNetwork:
        """Return the present network."""
        inner, outer = self._weights()
        return self._network.moved({"inner": inner, "outer": outer})


class GramDescent(SweepDescent):
    """The same steps in the preactivations; one product of m·n·n per step, best for n ≤ d."""

    name = "gram"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels.dense.gram import gate
        from shallowflow.kernels.shared.vectors import INNER_RATE, OUTER_RATE

        self._gate, self._kind = gate, self._constants.dtype
        self._rates = self._constants[INNER_RATE], self._constants[OUTER_RATE]
        self._gram = np.ascontiguousarray(dataset.inputs @ dataset.inputs.T, self._kind)
        self._labels = dataset.targets.astype(self._kind)
        self._outer = self._network.outer.astype(self._kind)

    def _steps(self, count: int) -> int:
        # The preactivations start from the weights each time, so that their rounding does not pile up.
        values = np.ascontiguousarray(self._network.preactivations(self._inputs), self._kind)
        coefficients, pulls, change = np.zeros_like(values), np.empty_like(values), np.empty_like(values)
        outer, (inner_rate, outer_rate) = self._outer, self._rates
        for done in range(count):
            self._gate(values, outer, self._labels, self._constants, pulls)
            gradient = np.einsum("ji,ji->j", pulls, values)
            pulls *= (inner_rate * outer)[:, None]
            coefficients += pulls
            outer += outer_rate * gradient
            np.dot(pulls, self._gram, out=change)
            values += change
            if not np.isfinite(outer).all():
                return done
        if not np.isfinite(coefficients).all():
            return count - 1
        inner: Floats = self._network.inner + coefficients.astype(np.float64) @ self._inputs
        self._network = self._network.moved({"inner": inner, "outer": self._outer.astype(np.float64)})
        return count

    def loss(self) -> float:
        """Return the present loss."""
        return self._measure(self._network)

    def network(self) -> ReLUNetwork:
        """Return the present network."""
        return self._network


class DecoupledDescent(SweepDescent):
    """θ ← θ − step·∇L(θ) on orthogonal inputs, the inner layer with step·epsilon; O(m·n) per step.

    The state is z_ji = ⟨w_j, x_i⟩; w_j = w_j(0) + Σ_i (z_ji − z_ji(0)) x_i/‖x_i‖² is made when asked for.
    """

    name = "decoupled"

    def _lay_out(self, dataset: Dataset) -> None:
        from shallowflow.kernels.orthogonal.descent import BLOCK, advance
        from shallowflow.kernels.shared.vectors import aligned

        self._kernel = advance
        network, constants = self._network, self._constants
        samples = BLOCK // constants.itemsize
        squares = np.einsum("id,id->i", dataset.inputs, dataset.inputs)
        self._problem = (
            self._blocks(squares, samples),
            self._blocks(dataset.targets, samples),
            constants,
        )
        values = self._blocks(network.preactivations(dataset.inputs), samples)
        self._values = aligned(values.size, values).reshape(-1, network.width, samples)
        self._values[:] = values.transpose(1, 0, 2)
        self._outer = network.outer.astype(constants.dtype)
        self._start = self._values.copy()

    def _steps(self, count: int) -> int:
        done = int(self._kernel(self._values, self._outer, *self._problem, count))
        return done if np.isfinite(self._values).all() else min(done, count - 1)

    def loss(self) -> float:
        """Return the present loss, without building the network."""
        values = self._values.astype(np.float64, copy=False)
        active = np.maximum(values, self._network.slope * values)
        outputs: Floats = self._network.scale * (self._outer.astype(np.float64) @ active)
        return self._loss.value(outputs.reshape(-1)[: len(self._inputs)], self._targets)

    def network(self) -> ReLUNetwork:
        """Return the present network; this costs a product of m·n·d."""
        rows = (self._values - self._start).transpose(1, 0, 2).reshape(self._network.width, -1)
        squares = self._problem[0].reshape(-1)[: len(self._inputs)].astype(np.float64)
        moved = rows[:, : len(self._inputs)].astype(np.float64) / np.where(squares > 0, squares, 1.0)
        inner = self._network.inner + moved @ self._inputs
        return self._network.moved({"inner": inner, "outer": self._outer.astype(np.float64)})
