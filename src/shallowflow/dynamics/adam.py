"""Adam: the adaptive descent of Kingma & Ba (2015), a baseline of [plateau] §5.2."""

from __future__ import annotations

from typing import Any

import numpy as np

from shallowflow.arrays import count, one_of, positive, shown, unit_interval
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.driver import Engine, Progress, drive, judge_training, plan
from shallowflow.dynamics.engines.stepping import SteppingEngine, moved_if_finite
from shallowflow.dynamics.outcome import Event
from shallowflow.dynamics.problem import check_problem, checked_loss
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.blocks import sort_data
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, Network, Parameters

ENGINES = ("auto", "dense", "sweep")


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
    moments = Moments(betas, damping)
    one_of(engine, "engine", ENGINES)
    chosen = plan(network, record, steps, 1.0)
    runner: Engine
    if engine != "dense" and isinstance(network, KnotNetwork) and isinstance(loss, SquareLoss):
        runner = SweepAdam(network, dataset, loss, step, moments)
    elif engine == "sweep":
        kinds = f"{type(network).__name__} and {type(loss).__name__}"
        raise InvalidInputError(f"engine: 'sweep' needs a KnotNetwork and a SquareLoss, got {kinds}")
    else:
        runner = DenseAdam(network, dataset, loss, step, moments)
    return drive(runner, dataset, loss, chosen, judge_training, progress)


class Moments:
    """The running means m and v of the gradient and of its square, with their decays."""

    def __init__(self, betas: tuple[float, float] = (0.9, 0.999), damping: float = 1e-8) -> None:
        if not isinstance(betas, tuple) or len(betas) != 2:
            raise InvalidInputError(f"betas: must be a pair (β₁, β₂), got {shown(betas)}")
        self.betas = unit_interval(betas[0], "betas[0]"), unit_interval(betas[1], "betas[1]")
        self.damping = positive(damping, "damping")
        self.count = 0
        self._means: Parameters = {}
        self._squares: Parameters = {}

    def direction(self, gradient: Parameters) -> Parameters:
        """Take in a gradient; return m̂/(√v̂ + damping), to be multiplied by −step."""
        beta1, beta2 = self.betas
        self.count += 1
        directions = {}
        for name, g in gradient.items():
            mean = beta1 * self._means.get(name, 0.0) + (1.0 - beta1) * g
            square = beta2 * self._squares.get(name, 0.0) + (1.0 - beta2) * g * g
            self._means[name], self._squares[name] = mean, square
            unbiased = square / (1.0 - beta2**self.count)
            directions[name] = mean / (1.0 - beta1**self.count) / (np.sqrt(unbiased) + self.damping)
        return directions


class DenseAdam(SteppingEngine):
    """Adam in NumPy, for every network; O(m·n·d) per step."""

    name = "dense"

    def __init__(self, network: Network, dataset: Dataset, loss: Loss, step: float, moments: Moments) -> None:
        super().__init__(network)
        self._dataset, self._loss = dataset, loss
        self._step, self._moments = step, moments

    def _next(self, network: Network) -> Network | None:
        inputs, targets = self._dataset.inputs, self._dataset.targets
        gradient = network.pullback(inputs, self._loss.slopes(network.predict(inputs), targets))
        directions = self._moments.direction(gradient)
        moved = {name: values - self._step * directions[name] for name, values in network.parameters.items()}
        return moved_if_finite(network, moved)


class SweepAdam:
    """Adam for a `KnotNetwork` with the square loss, compiled; O(m + n) per step."""

    name = "sweep"

    def __init__(
        self, network: KnotNetwork, dataset: Dataset, loss: SquareLoss, step: float, moments: Moments
    ) -> None:
        self._template = network
        self._theta = np.array([network.knots, network.outer])
        self._moments = np.zeros((2, *self._theta.shape))
        self._made = 0
        self._data = sort_data(dataset)[1:]
        self._line: Any = None
        self._scale = loss.weight(dataset.size)
        self._rates = (step, *moments.betas, moments.damping)

    def advance(self, steps: int) -> int:
        """Make up to `steps` steps; stop at the first that leaves a parameter non-finite."""
        from shallowflow.kernels.knots import sweeps

        if self._line is None:
            self._line = sweeps.line_of(self._theta, *self._data)
        done = sweeps.adam_steps(
            self._theta, self._moments, self._made, steps, self._line, self._scale, self._rates
        )
        self._made += done
        return done

    def network(self) -> Network:
        """Return the current network."""
        return self._template.moved({"knots": self._theta[0].copy(), "outer": self._theta[1].copy()})

    def events(self, step: float) -> tuple[Event, ...]:
        """Adam does not watch for crossings."""
        return ()

    def statistics(self) -> dict[str, float | int | str]:
        """Adam counts nothing."""
        return {}
