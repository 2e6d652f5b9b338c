"""Descent until it is done: the stopping rule of [plateau] Lemma 3.4."""

from __future__ import annotations

from shallowflow.arrays import count, positive
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.landscape.plateau.stationary import Stationarity, stationarity
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork

GROWTH = 1.5
"""Each stretch of steps is this much longer than the one before."""


def descend_to_rest(
    network: KnotNetwork,
    dataset: Dataset,
    *,
    step: float,
    tolerance: float = 1e-8,
    most: int = 100_000_000,
    loss: SquareLoss | None = None,
) -> tuple[KnotNetwork, int, Stationarity]:
    """Descend until the mean square of (3.4) is at most `tolerance`, or `most` steps are made.

    Returned are the network, the number of steps, and the defects of (3.4) there. The rule is looked at after
    stretches of steps that grow by half: at most half as many steps again are made as needed.

    Examples
    --------
    >>> data = Dataset([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> network, steps, found = descend_to_rest(KnotNetwork([-0.5], [2.0]), data, step=0.1)
    >>> found.value <= 1e-8, steps < 10_000
    (True, True)
    """
    tolerance, most = positive(tolerance, "tolerance"), count(most, "most")
    made, stretch, found = 0, 100, stationarity(network, dataset)
    while found.value > tolerance and made < most:
        steps = min(stretch, most - made)
        run = gradient_descent(
            network, dataset, step=step, steps=steps, loss=loss, record=Record.geometric(2, networks=False)
        )
        final = run.final
        assert isinstance(final, KnotNetwork)
        network, made, found = final, made + steps, stationarity(final, dataset)
        if not run.outcome.ok:
            break
        stretch = max(100, int((GROWTH - 1) * made))
    return network, made, found
