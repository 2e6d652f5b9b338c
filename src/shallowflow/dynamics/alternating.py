"""Least squares for the outer weights, gradients for the inner ones, in turn: LS/GD and LS/Adam.

The hybrid method of Cyr et al. (2020), a baseline of [plateau] §5.2: an iteration moves the inner
parameters by one step of gradient descent or Adam, and then solves for the outer weights (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from shallowflow.arrays import count, one_of, positive
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.adam import Moments, Rates
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.paths import flatten
from shallowflow.dynamics.clock.problem import (
    Record,
    Task,
    check_problem,
    checked_record,
    checked_square_loss,
    default_record,
)
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.dynamics.engines.stepping import Stepping
from shallowflow.dynamics.outer_weights import (
    dense_outer,
    distinct_points,
    least_squares_outer,
    minimum_norm_outer,
)
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
    task = Task(network, dataset, loss, step=step, steps=steps)
    make = partial(Alternating, task, one_of(inner, "inner", INNER))
    record = checked_record(record, default_record(flatten(network).size))
    setting = Setting("alternating_least_squares", None, dataset, loss, step=step)
    return run(make, record, float(steps), setting=setting, progress=progress)


class Alternating(Stepping[Network]):
    """One inner step, one least-squares solve, in turn; O(m + n) each for a `KnotNetwork`."""

    def __init__(self, task: Task, inner: str) -> None:
        super().__init__(least_squares_outer(task.network, task.dataset), task.measure, 1.0)
        self.name, self._size = inner, task.step
        self._moments = Moments(Rates()) if inner == "adam" else None
        self._gradient, self._outer = _parts(task)

    def _step(self) -> None:
        direction = self._gradient(self._now)
        if self._moments is not None:
            direction = self._moments.direction(direction)
        for name, values in direction.items():
            self._theta[name] -= self._size * values
        if all(np.isfinite(self._theta[name]).all() for name in direction):
            for name, values in self._outer(self._now).items():
                self._theta[name][...] = values


Part = Callable[[Network], Parameters]


def _parts(task: Task) -> tuple[Part, Part]:
    """Return (network → gradient in the inner parameters, network → best outer layer)."""
    dataset, loss = task.dataset, task.loss
    if isinstance(task.network, KnotNetwork):
        return _knot_parts(dataset, task.weight)

    def gradient(network: Network) -> Parameters:
        covector = loss.slopes(network.predict(dataset.inputs), dataset.targets)
        whole = network.pullback(dataset.inputs, covector)
        return {name: values for name, values in whole.items() if name not in OUTER_LAYER}

    return gradient, lambda network: dense_outer(network, dataset.inputs, dataset.targets)


def _knot_parts(dataset: Dataset, weight: float) -> tuple[Part, Part]:
    """Return the same for a `KnotNetwork`, compiled."""
    from shallowflow.kernels.knots.sweeps import loss_gradient

    _, x, y = sort_data(dataset)
    points = distinct_points(dataset)

    def gradient(network: Network) -> Parameters:
        theta = np.array([network.parameters["knots"], network.parameters["outer"]])
        return {"knots": loss_gradient(theta, x, y, weight)[0]}

    return gradient, lambda network: {"outer": minimum_norm_outer(network.parameters["knots"], points)}
