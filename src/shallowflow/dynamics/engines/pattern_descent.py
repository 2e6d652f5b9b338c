"""Descent of a `ReLUNetwork` in any dimension with one force for all neurons of a sign pattern.

The same iterates as plain descent up to rounding, with crossings in the same steps: see
`kernels.cones.patterns`.
"""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import LogisticLoss, SquareLoss
from shallowflow.models.networks import ReLUNetwork


class PatternDescent:
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon, by one linear map per sign pattern.

    The ratio epsilon is absorbed as in `ConeDescent`.
    """

    name = "patterns"

    def __init__(
        self,
        network: ReLUNetwork,
        dataset: Dataset,
        loss: SquareLoss | LogisticLoss,
        step: float,
        epsilon: float,
    ) -> None:
        from shallowflow.kernels.cones import geometry as cone_forces
        from shallowflow.kernels.cones import pattern_table
        from shallowflow.kernels.cones import patterns as pattern_descent

        self._kernel = pattern_descent
        self._network = network
        self._root = float(np.sqrt(epsilon))
        if isinstance(loss, LogisticLoss):
            kind, weight = cone_forces.LOGISTIC, 1.0 / dataset.size
        else:
            kind, weight = cone_forces.SQUARE, loss.weight(dataset.size)
        self._weight = weight
        self._constant = cone_forces.error_at_origin(dataset.inputs, dataset.targets, kind)
        points = pattern_table.points_off_origin(
            self._root * dataset.inputs, np.array(dataset.targets), float(network.slope)
        )
        self._problem = points, (kind, float(network.scale), float(step * network.scale * weight))
        self._state = pattern_descent.begin(network.inner / self._root, network.outer, points)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop at the first that would leave a parameter non-finite."""
        return int(self._kernel.advance(self._state, *self._problem, steps))

    def loss(self) -> float:
        """Return the loss of the present network, without building it."""
        return float(self._weight * (self._kernel.loss_now(self._state, *self._problem) + self._constant))

    def network(self) -> ReLUNetwork:
        """Return the current network, its neurons in the caller's order."""
        now = self._kernel.neurons_now(self._state)
        return self._network.moved({"inner": self._root * now[:, :-1], "outer": now[:, -1].copy()})

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are counted, not listed."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Return how many crossings there were, what finding them took, and how many patterns there are."""
        from shallowflow.kernels.cones import pattern_steppers as kernel

        counters = self._state.counters
        return {
            "crossings": int(counters[kernel.CROSSINGS]),
            "checks": int(counters[kernel.CHECKS]),
            "hot neurons": int(counters[kernel.STEPPED]),
            "most hot neurons": int(counters[kernel.MOST_STEPPED]),
            "patterns": int(self._state.table.size[0]),
        }
