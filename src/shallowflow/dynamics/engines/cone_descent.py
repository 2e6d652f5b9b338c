"""Descent of a `ReLUNetwork` on inputs of the plane whose cost per step does not grow with the width.

The same iterates as plain descent up to rounding, with crossings in the same steps: see
`kernels.cones.descent`.
"""

from __future__ import annotations

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.outcome import Event
from shallowflow.models.loss import LogisticLoss, SquareLoss
from shallowflow.models.networks import ReLUNetwork


class ConeDescent:
    """θ ← θ − step·∇L(θ), the inner layer with step·epsilon, by one linear map per activation cone (d = 2).

    The ratio epsilon is absorbed: inputs √epsilon·x, inner weights w/√epsilon. So for epsilon ≠ 1 a neuron on
    a data point's hyperplane may count as on either side of it, by rounding.
    """

    name = "cones"

    def __init__(
        self,
        network: ReLUNetwork,
        dataset: Dataset,
        loss: SquareLoss | LogisticLoss,
        step: float,
        epsilon: float,
    ) -> None:
        from shallowflow.kernels.cones import descent as cone_descent
        from shallowflow.kernels.cones import geometry as cone_forces
        from shallowflow.kernels.cones import geometry as cone_geometry

        self._kernel = cone_descent
        self._network = network
        self._root = float(np.sqrt(epsilon))
        if isinstance(loss, LogisticLoss):
            kind, weight = cone_forces.LOGISTIC, 1.0 / dataset.size
        else:
            kind, weight = cone_forces.SQUARE, loss.weight(dataset.size)
        self._weight = weight
        self._constant = cone_forces.error_at_origin(dataset.inputs, dataset.targets, kind)
        walls, samples = cone_geometry.arrange(self._root * dataset.inputs, np.array(dataset.targets))
        function = kind, float(network.scale), float(step * network.scale * weight)
        self._problem = walls, samples, float(network.slope), function
        self._state = cone_descent.begin(network.inner / self._root, network.outer, *self._problem)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop at the first that would leave a parameter non-finite."""
        return int(self._kernel.advance(self._state, *self._problem, steps))

    def loss(self) -> float:
        """Return the loss of the present network, without building it."""
        return float(self._weight * (self._kernel.loss_now(self._state, *self._problem[1:]) + self._constant))

    def network(self) -> ReLUNetwork:
        """Return the current network, its neurons in the caller's order."""
        now = self._kernel.neurons_now(self._state)
        return self._network.moved({"inner": self._root * now[:, :2], "outer": now[:, 2].copy()})

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are counted, not listed."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Return how many crossings there were, and what finding them took.

        checks: how often a neuron was looked at; hot neurons: stepped one by one, at present and at most.
        """
        from shallowflow.kernels.cones import groups as kernel

        counters = self._state.counters
        return {
            "crossings": int(counters[kernel.CROSSINGS]),
            "checks": int(counters[kernel.CHECKS]),
            "hot neurons": int(counters[kernel.STEPPED]),
            "most hot neurons": int(counters[kernel.MOST_STEPPED]),
            "occupied cones": int(counters[kernel.OCCUPIED]),
        }
