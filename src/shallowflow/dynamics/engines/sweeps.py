"""Descent of a `ReLUNetwork`, neuron by neuron and sample by sample, compiled; in double or single precision.

"fused": one pass over the data per step, in register tiles (`kernels.dense.fused`); "lanes": neurons side by
side, for few samples (`kernels.dense.lanes`); "decoupled": on orthogonal inputs, without products
(`kernels.orthogonal.descent`). `SpannedDescent`: any engine, in the span of at most d inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Engine, Piece, Statistics, Ticking
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import ReLUNetwork

if TYPE_CHECKING:
    from shallowflow.kernels.shared.losses import Problem

PRECISIONS: dict[str, type[np.floating[Any]]] = {"double": np.float64, "single": np.float32}


class SweepDescent(Ticking):
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon; two products of m·n·d per step.

    The state, `_inner` and `_outer`, and the problem are laid out as `_kernel` reads them.
    """

    _kernel: ModuleType
    _inner: NDArray[Any]
    _outer: NDArray[Any]
    _problem: Problem

    def __init__(self, task: Task) -> None:
        from shallowflow.kernels.shared.losses import LOGISTIC, SQUARE

        super().__init__(task.step)
        network = task.network
        assert isinstance(network, ReLUNetwork)
        self._network, self._inputs, self._precision = network, task.dataset.inputs, task.precision
        self._loss, self._weight = SQUARE if isinstance(task.loss, SquareLoss) else LOGISTIC, task.weight
        rate = task.step * network.scale * task.weight
        # In the order of the names in `kernels.shared.losses`.
        constants = [0.0, network.slope, 1.0, network.scale, rate * task.epsilon, rate]
        self._constants: NDArray[Any] = np.array(constants, PRECISIONS[task.precision])
        self._lay_out(task.dataset)

    @abstractmethod
    def _lay_out(self, dataset: Dataset) -> None:
        """Lay the data and the start out as the kernel reads them."""

    def _blocks(self, values: Floats, length: int) -> NDArray[Any]:
        """Return values (…, k) as (…, blocks, length) in the precision of the run, zeros behind them."""
        blocks = -(-values.shape[-1] // length)
        padded = np.zeros((*values.shape[:-1], blocks * length), self._constants.dtype)
        padded[..., : values.shape[-1]] = values
        return padded.reshape(*values.shape[:-1], blocks, length)

    def _steps(self, count: int) -> int:
        done = int(self._kernel.advance(self._inner, self._outer, self._problem, count, np.empty(0)))
        return done if np.isfinite(self._inner).all() else min(done, count - 1)

    def loss(self) -> float:
        """Return the present loss, without building the network."""
        return self._weight * float(self._kernel.loss_now(self._inner, self._outer, self._problem))

    @abstractmethod
    def network(self) -> ReLUNetwork:
        """Return the present network."""

    def _moved(self, inner: NDArray[Any], outer: NDArray[Any]) -> ReLUNetwork:
        return self._network.moved({"inner": inner.astype(np.float64), "outer": outer.astype(np.float64)})

    def statistics(self) -> Statistics:
        """Return the precision."""
        return {"precision": self._precision}


class FusedDescent(SweepDescent):
    """One compiled pass over many samples per step."""

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
        """Return the present network."""
        width, dimension = self._network.inner.shape
        rows = self._inner.transpose(0, 2, 1).reshape(-1, self._inner.shape[1])
        return self._moved(rows[:width, :dimension], self._outer.reshape(-1)[:width])


class LanesDescent(SweepDescent):
    """Few samples, one after the other, the neurons side by side in vector registers."""

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
        """Return the present network."""
        return self._moved(self._inner.T, self._outer.copy())


class DecoupledDescent(SweepDescent):
    """Orthogonal inputs, on which the preactivations move one by one; O(m·n) per step.

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
        """Return the present network; this costs a product of m·n·d."""
        size = len(self._inputs)
        rows = (self._inner - self._start).transpose(1, 0, 2).reshape(self._network.width, -1)
        squares = self._problem.inputs.reshape(-1)[:size].astype(np.float64)
        moved = rows[:, :size].astype(np.float64) / np.where(squares > 0, squares, 1.0)
        return self._moved(self._network.inner + moved @ self._inputs, self._outer)


class SpannedDescent(Ticking):
    """At most d samples: another engine, in the coordinates of their span.

    With Xᵀ = QR, Q (d, n), a step changes W by multiples of the inputs only, and sees W by WQ only: the steps
    are those of u = WQ on the inputs Rᵀ, of dimension n, by any engine, and W = W(0) + (u − u(0))Qᵀ. Exact up
    to rounding; a neuron exactly on a data point's hyperplane may count as on either side of it. Rᵀ is a
    triangle, half of which "fused" skips.
    """

    def __init__(self, task: Task, engine: Callable[[Task], Engine[Any]]) -> None:
        super().__init__(task.step)
        network = task.network
        assert isinstance(network, ReLUNetwork)
        self._network = network
        self._basis, triangle = np.linalg.qr(task.dataset.inputs.T)
        self._start = network.inner @ self._basis
        inside = ReLUNetwork(self._start, network.outer, network.slope, network.scale)
        dataset = Dataset(np.ascontiguousarray(triangle.T), task.dataset.targets)
        self._engine: Engine[Any] = engine(replace(task, network=inside, dataset=dataset, in_span=False))
        self.name: str = self._engine.name

    def advance(self, until: float, rows: bool) -> Piece:
        """Make the steps up to `until`."""
        piece = self._engine.advance(until, rows)
        self.made = round(float(piece.times[-1]) / self.tick)
        return piece

    def loss(self) -> float:
        """Return the present loss."""
        return self._engine.loss()

    def network(self) -> ReLUNetwork:
        """Return the present network; this costs a product of m·n·d."""
        now: ReLUNetwork = self._engine.network()
        inner = self._network.inner + (now.inner - self._start) @ self._basis.T
        return self._network.moved({"inner": inner, "outer": now.outer})

    def statistics(self) -> Statistics:
        """Return what the engine counted, and the dimension of the span."""
        return {**self._engine.statistics(), "span": self._start.shape[1]}
