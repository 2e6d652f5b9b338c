"""Least squares for the outer weights, gradients for the inner ones, in turn: LS/GD and LS/Adam.

The hybrid method of Cyr et al. (2020), a baseline of [plateau] §5.2: an iteration moves the inner
parameters by one step of gradient descent or Adam, and then solves for the outer weights (4.1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shallowflow.arrays import count, one_of, positive
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.adam import Moments
from shallowflow.dynamics.driver import Progress, drive, judge_training, plan
from shallowflow.dynamics.engines.stepping import SteppingEngine, moved_if_finite
from shallowflow.dynamics.outer_weights import (
    dense_outer,
    distinct_points,
    least_squares_outer,
    minimum_norm_outer,
)
from shallowflow.dynamics.problem import check_problem, checked_square_loss
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.landscape.geometry.blocks import sort_data
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import OUTER_LAYER, KnotNetwork, Network, Parameters

INNER = ("gd", "adam")


def alternating_least_squares(
    network: Network,
    dataset: Dataset,
    *,
    steps: int,
    inner: str = "gd",
    step: float = 1e-3,
    loss: SquareLoss | None = None,
    record: Record | None = None,
    progress: Progress | None = None,
) -> Trajectory:
    """Run LS/GD (inner="gd") or LS/Adam (inner="adam"); time is the number of iterations.

    An iteration: one step on the inner parameters at the present outer weights, then the outer weights of
    least squares and minimum norm. The path starts with the given inner layer and its own least-squares
    outer weights (LSQ), so every recorded network solves (4.1); the given outer weights play no part.

    Examples
    --------
    >>> import shallowflow as sf
    >>> tr = alternating_least_squares(sf.initialize.he_knots(10), sf.data.GENERATORS["curve"](), steps=500)
    >>> bool(tr.losses[-1] < tr.losses[0])
    True
    """
    check_problem(network, dataset)
    loss = checked_square_loss(loss, SquareLoss())
    step, steps = positive(step, "step"), count(steps, "steps")
    moments = Moments() if one_of(inner, "inner", INNER) == "adam" else None
    chosen = plan(network, record, steps, 1.0)
    engine = Alternating(network, dataset, loss, step, moments)
    return drive(engine, dataset, loss, chosen, judge_training, progress)


class Alternating(SteppingEngine):
    """One inner step, one least-squares solve, again and again; O(m + n) each for a `KnotNetwork`."""

    def __init__(
        self, network: Network, dataset: Dataset, loss: SquareLoss, step: float, moments: Moments | None
    ) -> None:
        super().__init__(least_squares_outer(network, dataset))
        self.name = "gd" if moments is None else "adam"
        self._step, self._moments = step, moments
        self._gradient, self._outer = _parts(network, dataset, loss)

    def _next(self, network: Network) -> Network | None:
        direction = self._gradient(network)
        if self._moments is not None:
            direction = self._moments.direction(direction)
        inner = {name: network.parameters[name] - self._step * d for name, d in direction.items()}
        moved = moved_if_finite(network, inner)
        return None if moved is None else moved_if_finite(moved, self._outer(moved))


Part = Callable[[Network], Parameters]


def _parts(network: Network, dataset: Dataset, loss: SquareLoss) -> tuple[Part, Part]:
    """Return (network → gradient in the inner parameters, network → best outer layer)."""
    if isinstance(network, KnotNetwork):
        return _knot_parts(dataset, loss)

    def gradient(network: Network) -> Parameters:
        covector = loss.slopes(network.predict(dataset.inputs), dataset.targets)
        whole = network.pullback(dataset.inputs, covector)
        return {name: values for name, values in whole.items() if name not in OUTER_LAYER}

    return gradient, lambda network: dense_outer(network, dataset.inputs, dataset.targets)


def _knot_parts(dataset: Dataset, loss: SquareLoss) -> tuple[Part, Part]:
    """Return the same for a `KnotNetwork`, compiled."""
    from shallowflow.kernels.knots.sweeps import loss_gradient

    _, x, y = sort_data(dataset)
    scale, points = loss.weight(dataset.size), distinct_points(dataset)

    def gradient(network: Network) -> Parameters:
        theta = np.array([network.parameters["knots"], network.parameters["outer"]])
        return {"knots": loss_gradient(theta, x, y, scale)[0]}

    return gradient, lambda network: {"outer": minimum_norm_outer(network.parameters["knots"], points)}
