"""Descent of a `KnotNetwork` in O(width) per step, whatever the number of samples.

The same iterates as plain descent up to rounding: see `kernels.knots.descent`.
"""

from __future__ import annotations

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.outcome import Event
from shallowflow.landscape.geometry.blocks import sort_data
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork


class KnotDescent:
    """θ ← θ − step·∇L(θ) from block statistics; counts crossings of knots and samples."""

    name = "blocks"

    def __init__(
        self, network: KnotNetwork, dataset: Dataset, loss: SquareLoss, step: float, epsilon: float
    ) -> None:
        from shallowflow.kernels.knots import descent

        self._kernel = descent
        self._network = network
        _, x, y = sort_data(dataset)
        self._samples = descent.prepare(x, y)
        weight = loss.weight(dataset.size)
        self._rates = step * epsilon * weight, step * weight
        self._crossings = 0

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop at the first that leaves a parameter non-finite."""
        start = self._network.knots, self._network.outer
        knots, outer, done, crossings = self._kernel.advance(*start, self._samples, self._rates, steps)
        self._crossings += crossings
        if done == steps:
            self._network = self._network.moved({"knots": knots, "outer": outer})
        return done

    def network(self) -> KnotNetwork:
        """Return the current network."""
        return self._network

    def events(self, step: float) -> tuple[Event, ...]:
        """Crossings are counted, not listed."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Return the number of crossings."""
        return {"crossings": self._crossings}
