"""Adam: the adaptive descent of Kingma & Ba (2015), a baseline of [plateau] §5.2."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from shallowflow.arrays import count, positive, shown, unit_interval
from shallowflow.data.dataset import Dataset, sort_data
from shallowflow.dynamics.choice import chosen_engine
from shallowflow.dynamics.clock.loop import Progress, run
from shallowflow.dynamics.clock.problem import (
    Record,
    Task,
    check_problem,
    checked_loss,
    checked_record,
    default_record,
)
from shallowflow.dynamics.clock.protocol import Ticking, flatten
from shallowflow.dynamics.clock.trajectory import Setting, Trajectory
from shallowflow.dynamics.engines.stepping import Stepping
from shallowflow.errors import InvalidInputError
from shallowflow.models.loss import Loss
from shallowflow.models.networks import KnotNetwork, Network, Parameters


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
    >>> from shallowflow.dynamics.adam import adam
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
