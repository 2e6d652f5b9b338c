"""The baselines of [plateau] §5.2: Adam, least squares for the outer weights, and both in turn.

**Adam** is the adaptive descent of Kingma & Ba (2015).

**Least squares.** The best outer weights for a given inner layer (4.1) are the baseline LSQ, and what Active
Neuron Least Squares ends with.

**In turn**, LS/GD and LS/Adam: the hybrid method of Cyr et al. (2020). An iteration moves the inner
parameters by one step of gradient descent or Adam, and then solves for the outer weights (4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from shallowflow.arrays import Floats, Ints, count, one_of, positive, public, shown, unit_interval
from shallowflow.data.dataset import Dataset, sort_data
from shallowflow.dynamics.choice import chosen_engine
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import (
    Record,
    Task,
    check_problem,
    checked_loss,
    checked_record,
    checked_square_loss,
    default_record,
)
from shallowflow.dynamics.clock.protocol import Ticking, flatten
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.dynamics.engines.sweeps import Stepping
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import (
    OUTER_LAYER,
    AdditiveStepNetwork,
    KnotNetwork,
    Network,
    Parameters,
    ReLUNetwork,
    StepNetwork,
)


def adam(
    network: Network,
    dataset: Dataset,
    *,
    steps: int,
    step: float = 1e-3,
    loss: Loss | None = None,
    betas: tuple[float, float] = (0.9, 0.999),
    damping: float = 1e-8,
    record: Record | None = None,
    engine: str = "auto",
    progress: Progress | None = None,
) -> Trajectory:
    """Run `steps` steps of full-batch Adam; time is the number of steps.

    θ ← θ − step · m̂/(√v̂ + damping), where m̂, v̂ are the bias-corrected running means of the gradient and
    of its square with decay `betas`. Engines: "sweep" (`KnotNetwork` with the square loss, O(m + n) per
    step) and "dense" (every network and loss); the iterates agree up to rounding.

    Examples
    --------
    >>> import shallowflow as sf
    >>> from shallowflow.dynamics.baselines import adam
    >>> tr = adam(sf.initialize.he_knots(10), sf.data.GENERATORS["curve"](), steps=2000)
    >>> bool(tr.losses[-1] < tr.losses[0]), float(tr.times[-1])
    (True, 2000.0)
    """
    check_problem(network, dataset)
    loss = checked_loss(loss, dataset)
    step, steps = positive(step, "step"), count(steps, "steps")
    rates = Rates(betas, damping)
    task = Task(network, dataset, loss, step=step, steps=steps)
    make = partial(chosen_engine("adam", engine, task), rates)
    record = checked_record(record, default_record(flatten(network).size))
    setting = Setting("adam", None, dataset, loss, step=step)
    return run(make, record, float(steps), setting=setting, progress=progress)


class Rates:
    """How Adam averages: the decays β₁, β₂, and what is added to √v̂."""

    def __init__(self, betas: tuple[float, float] = (0.9, 0.999), damping: float = 1e-8) -> None:
        if not isinstance(betas, tuple) or len(betas) != 2:
            raise InvalidInputError(f"betas: must be a pair (β₁, β₂), got {shown(betas)}")
        self.betas = unit_interval(betas[0], "betas[0]"), unit_interval(betas[1], "betas[1]")
        self.damping = positive(damping, "damping")


class Moments:
    """The running means m and v of the gradient and of its square."""

    def __init__(self, rates: Rates) -> None:
        self._rates, self._count = rates, 0
        self._means: Parameters = {}
        self._squares: Parameters = {}

    def direction(self, gradient: Parameters) -> Parameters:
        """Take in a gradient; return m̂/(√v̂ + damping), to be multiplied by −step."""
        beta1, beta2 = self._rates.betas
        self._count += 1
        directions = {}
        for name, g in gradient.items():
            mean = beta1 * self._means.get(name, 0.0) + (1.0 - beta1) * g
            square = beta2 * self._squares.get(name, 0.0) + (1.0 - beta2) * g * g
            self._means[name], self._squares[name] = mean, square
            unbiased = square / (1.0 - beta2**self._count)
            directions[name] = mean / (1.0 - beta1**self._count) / (np.sqrt(unbiased) + self._rates.damping)
        return directions


class DenseAdam(Stepping[Network]):
    """Adam in NumPy, for every network; O(m·n·d) per step."""

    name = "dense"

    def __init__(self, task: Task, rates: Rates) -> None:
        super().__init__(task.network, task.measure, 1.0)
        self._dataset, self._loss, self._size = task.dataset, task.loss, task.step
        self._moments = Moments(rates)

    def _step(self) -> None:
        inputs, targets = self._dataset.inputs, self._dataset.targets
        gradient = self._now.pullback(inputs, self._loss.slopes(self._now.predict(inputs), targets))
        for name, direction in self._moments.direction(gradient).items():
            self._theta[name] -= self._size * direction


class SweepAdam(Ticking):
    """Adam for a `KnotNetwork` with the square loss, compiled; O(m + n) per step."""

    name = "sweep"

    def __init__(self, task: Task, rates: Rates) -> None:
        super().__init__(1.0)
        network = task.network
        assert isinstance(network, KnotNetwork)
        self._template = network
        self._theta = np.array([network.knots, network.outer])
        self._moments = np.zeros((2, *self._theta.shape))
        self._data = sort_data(task.dataset)[1:]
        self._line: Any = None
        self._scale, self._rates = task.weight, (task.step, *rates.betas, rates.damping)

    def _steps(self, count: int) -> int:
        from shallowflow.kernels.knots import sweeps

        if self._line is None:
            self._line = sweeps.line_of(self._theta, *self._data)
        state = self._theta, self._moments
        return int(sweeps.adam_steps(*state, self.made, count, self._line, self._scale, self._rates))

    def loss(self) -> float:
        """Return the present loss."""
        from shallowflow.kernels.knots import sweeps

        return sweeps.loss(self._theta, *self._data, self._scale)

    def network(self) -> KnotNetwork:
        """Return the present network."""
        return self._template.moved({"knots": self._theta[0].copy(), "outer": self._theta[1].copy()})


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
    from shallowflow.kernels.fitting.anls import minimum_norm

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
