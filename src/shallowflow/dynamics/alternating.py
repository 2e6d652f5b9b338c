"""Least squares for the outer weights; and gradients for the inner ones in turn: LS/GD and LS/Adam.

The best outer weights for a given inner layer (4.1) are the baseline LSQ of [plateau], and what Active Neuron
Least Squares ends with.

The hybrid method of Cyr et al. (2020), a baseline of [plateau] §5.2: an iteration moves the inner
parameters by one step of gradient descent or Adam, and then solves for the outer weights (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from shallowflow.arrays import Floats, Ints, count, one_of, positive, public
from shallowflow.data.dataset import Dataset, sort_data
from shallowflow.dynamics.adam import Moments, Rates
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import (
    Record,
    Task,
    check_problem,
    checked_record,
    checked_square_loss,
    default_record,
)
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.dynamics.engines.stepping import Stepping
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import (
    OUTER_LAYER,
    AdditiveStepNetwork,
    KnotNetwork,
    Network,
    Parameters,
    ReLUNetwork,
    StepNetwork,
)


@public
def least_squares_outer(network: Network, dataset: Dataset) -> Network:
    """Return the network with the outer weights (and offset) of least squares, of minimum norm: c = A⁺y.

    A_kj is the output of neuron j at input k. [plateau] (4.1). For a `KnotNetwork` by elimination along the
    knots, O(m + n), with the exact rank; for others by singular values, with rank decided at rounding.

    Examples
    --------
    >>> best = least_squares_outer(KnotNetwork([0.0, 1.0], [0.0, 0.0]), Dataset([[1.0], [2.0]], [3.0, 5.0]))
    >>> best.outer
    array([ 3., -1.])
    """
    check_problem(network, dataset)
    best = _least_squares(network, dataset)
    if not np.all(np.isfinite(flatten(best))):
        raise InvalidInputError("dataset: the outer weights of least squares overflow; rescale the data")
    return best


def _least_squares(network: Network, dataset: Dataset) -> Network:
    """Return the network of least squares, whatever numbers it has."""
    if isinstance(network, KnotNetwork):
        points = distinct_points(dataset)
        return network.moved({"outer": minimum_norm_outer(network.knots, points)})
    return network.moved(dense_outer(network, dataset.inputs, dataset.targets))


@dataclass(frozen=True, eq=False, repr=False)
class DistinctPoints:
    """Univariate data, equal inputs merged: Σ_i (f(x_i) − y_i)² = scatter + Σ_k weights_k (f(x_k) − y_k)².

    x: (k,) strictly increasing; y: (k,) mean targets; weights: (k,) how many samples; scatter: the sum of
    squared deviations from the means; first: (k,) the first sample of each.
    """

    x: Floats
    y: Floats
    weights: Floats
    scatter: float
    first: Ints


def distinct_points(dataset: Dataset) -> DistinctPoints:
    """Return the data of a one-dimensional data set, sorted and merged."""
    x, first, group, counts = np.unique(
        dataset.inputs[:, 0], return_index=True, return_inverse=True, return_counts=True
    )
    weights = counts.astype(np.float64)
    base = dataset.targets[first]
    means = base + np.bincount(group, dataset.targets - base[group]) / weights
    scatter = float(np.sum((dataset.targets - means[group]) ** 2))
    return DistinctPoints(x, means, weights, scatter, first)


def minimum_norm_outer(knots: Floats, points: DistinctPoints) -> Floats:
    """Return c = A⁺y (n,) for knots (n,) in any order."""
    from shallowflow.kernels.fitting.min_norm import minimum_norm

    order = np.argsort(knots, kind="stable")
    coefficients, _, _ = minimum_norm(knots[order], points.x, points.y, points.weights, 0)
    outer = np.empty_like(coefficients)
    outer[order] = coefficients
    return outer


def dense_outer(network: Network, inputs: Floats, targets: Floats) -> Parameters:
    """Return the minimum-norm outer layer of any network, by singular values."""
    if isinstance(network, AdditiveStepNetwork):
        steps = network.activation(inputs[:, None, :] - network.positions).reshape(len(inputs), -1)
        solution = _minimum_norm(np.column_stack([steps, np.ones(len(inputs))]), targets)
        return {"outer": solution[:-1].reshape(network.outer.shape), "offset": np.array(solution[-1])}
    z = network.preactivations(inputs).T
    if isinstance(network, ReLUNetwork):
        return {"outer": _minimum_norm(network.scale * network.activation(z), targets)}
    if isinstance(network, KnotNetwork):
        return {"outer": _minimum_norm(np.maximum(z, 0.0), targets)}
    assert isinstance(network, StepNetwork)  # log-scaled networks are refused at the border
    solution = _minimum_norm(np.column_stack([network.activation(z), np.ones(len(z))]), targets)
    return {"outer": solution[:-1], "offset": np.array(solution[-1])}


def _minimum_norm(features: Floats, targets: Floats) -> Floats:
    """Return A⁺y; not a number where the features overflow, which ends the run."""
    if not np.isfinite(features).all():
        return np.full(features.shape[1], np.nan)
    return np.asarray(np.linalg.lstsq(features, targets)[0], dtype=np.float64)


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
        super().__init__(_least_squares(task.network, task.dataset), task.measure, 1.0)
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
