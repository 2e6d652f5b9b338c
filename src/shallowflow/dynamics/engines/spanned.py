"""Few samples in many dimensions: descent of a `ReLUNetwork` in the span of its inputs.

With Xᵀ = QR, Q (d, n), a step changes W by multiples of the inputs only, and sees W by WQ only: the steps are
those of u = WQ on the inputs Rᵀ, of dimension n, by any engine, and W = W(0) + (u − u(0))Qᵀ. Exact up to
rounding; a neuron exactly on a data point's hyperplane may count as on either side of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.clock.protocol import Engine, Piece, Statistics, Ticking
from shallowflow.models.networks import ReLUNetwork


class SpannedDescent(Ticking):
    """Another engine, in the coordinates of the span."""

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
