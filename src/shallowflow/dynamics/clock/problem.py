"""What a run is asked to do, checked at the border: its task, and the `Record` that says what to keep."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, FrozenArrays, Ints, count, increasing, positive, shown
from shallowflow.data.dataset import Dataset, Target, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import population_loss
from shallowflow.models.loss import LogisticLoss, Loss, NormLoss, SquareLoss
from shallowflow.models.networks import (
    NETWORKS,
    AdditiveStepNetwork,
    LogScaledNetwork,
    Network,
    StepNetwork,
)

DEFAULT_POINTS = 200
DEFAULT_BYTES = 2**30
MOST_POINTS = 10**7
"""Of a geometric record: its moments are made before the run begins."""


@dataclass(frozen=True, eq=False, repr=False)
class Record(FrozenArrays):
    """When to record, and what: losses always, networks unless `networks=False`.

    Use one of `Record.every(k)`, `Record.geometric(points)`, `Record.at(times)`. The first and the last
    network are always kept. Networks may take `max_bytes` at most; asking for more is an error before the
    run begins. At most `max_events` events are listed (all are counted in the statistics).

    Examples
    --------
    >>> Record.every(100).indices(steps=250, step=0.1)
    array([  0, 100, 200, 250])
    """

    interval: int | None = None
    points: int | None = None
    times: Floats | None = None
    networks: bool = True
    max_bytes: int = DEFAULT_BYTES
    max_events: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("interval", "points", "times") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidInputError(f"record: takes one of interval, points, times; got {', '.join(given)}")
        if self.interval is not None:
            count(self.interval, "interval")
        if self.points is not None:
            count(self.points, "points", at_least=2, at_most=MOST_POINTS)
        if self.times is not None:
            chosen = increasing(self.times, "times")
            if chosen[0] < 0:
                raise InvalidInputError(f"times: must be >= 0, got {chosen[0]:g}")
            self.__dict__["times"] = chosen
        count(self.max_bytes, "max_bytes", at_least=0)
        count(self.max_events, "max_events", at_least=0)

    @classmethod
    def every(
        cls, k: int, *, networks: bool = True, max_bytes: int = DEFAULT_BYTES, max_events: int = 10_000
    ) -> Record:
        """Record every k-th step. (A flow keeps all its polynomials and notes every k-th loss.)"""
        return cls(count(k, "every"), None, None, networks, max_bytes, max_events)

    @classmethod
    def geometric(
        cls,
        points: int = DEFAULT_POINTS,
        *,
        networks: bool = True,
        max_bytes: int = DEFAULT_BYTES,
        max_events: int = 10_000,
    ) -> Record:
        """Record at about `points` steps or times that grow geometrically."""
        return cls(None, count(points, "points", 2), None, networks, max_bytes, max_events)

    @classmethod
    def at(
        cls,
        times: ArrayLike,
        *,
        networks: bool = True,
        max_bytes: int = DEFAULT_BYTES,
        max_events: int = 10_000,
    ) -> Record:
        """Record at these times (a descent takes the nearest step)."""
        return cls(None, None, increasing(times, "times"), networks, max_bytes, max_events)

    def indices(self, steps: int, step: float) -> Ints:
        """Return the recorded step numbers of a descent, from 0 to `steps`."""
        if self.interval is not None:
            chosen = np.arange(0, steps + 1, self.interval)
        elif self.times is not None:
            chosen = np.rint(self._within(steps * step) / step).astype(np.int64)
        else:
            chosen = np.rint(np.geomspace(1, steps, self.points or DEFAULT_POINTS)).astype(np.int64)
        ordered = np.concatenate([[0], chosen, [steps]])
        # Not np.unique, which takes seconds for millions of integers, sorted or not.
        return ordered[np.diff(ordered, prepend=-1) > 0]

    def moments(self, until: float, first: float) -> Floats | None:
        """Return the recorded times of a flow, or None for "at its own steps"."""
        if self.interval is not None:
            return None
        if self.times is not None:
            return np.unique(np.concatenate([[0.0], self._within(until), [until]]))
        start = min(positive(first, "first"), until)
        grown = np.geomspace(start, until, self.points or DEFAULT_POINTS)
        return np.unique(np.concatenate([[0.0], np.minimum(grown, until)]))

    def _within(self, until: float) -> Floats:
        assert self.times is not None
        if self.times[-1] > until * (1 + 1e-12):
            raise InvalidInputError(f"times: must be <= the final time {until:g}, got {self.times[-1]:g}")
        return np.minimum(self.times, until)

    def check_memory(self, networks: int, numbers: int) -> None:
        """Refuse to keep more than `max_bytes` of networks with that many numbers each."""
        needed = 8 * networks * numbers
        if self.networks and needed > self.max_bytes:
            raise InvalidInputError(
                f"record: keeping {networks} networks of {numbers} numbers needs {needed / 1e9:.3g} GB, "
                f"the limit is {self.max_bytes / 1e9:.3g} GB; record fewer, pass networks=False, "
                "or raise max_bytes"
            )


def default_record(numbers: int) -> Record:
    """Return the default of a descent: 200 geometric points; only losses if the networks would not fit."""
    affordable = DEFAULT_BYTES // (8 * max(numbers, 1))
    if affordable >= DEFAULT_POINTS + 2:
        return Record.geometric(DEFAULT_POINTS)
    return Record.geometric(DEFAULT_POINTS, networks=False)


FASTEST = 1e16
"""How many times as fast as the other a layer of ReLUs may be: beyond, rounding in one hides the other."""


@dataclass(frozen=True)
class Task:
    """A network to be trained on data: by `steps` steps of descent, or by a flow to a tolerance.

    epsilon: the inner layer moves epsilon times as fast; in_span: few inputs are taken in the coordinates of
    their span; speed: the factor of the flow's gradient; stop: the norm of the gradient at which a flow ends.
    """

    network: Network
    dataset: Dataset
    loss: Loss
    step: float = 1.0
    epsilon: float = 1.0
    steps: int = 0
    precision: str = "double"
    in_span: bool = False
    speed: float = 1.0
    tolerance: float = 1e-8
    stop: float = 0.0

    def measure(self, network: Network) -> float:
        """Return the loss of a network on the data."""
        return self.loss.value(network.predict(self.dataset.inputs), self.dataset.targets)

    @property
    def even_tolerance(self) -> float:
        """The tolerance in the coordinates √ε·x, w/√ε, where both layers of a flow are equally fast.

        Errors are relative to whole neurons there, and in w or a max(√ε, 1/√ε) times as large.
        """
        if not FASTEST >= self.epsilon >= 1.0 / FASTEST:
            raise InvalidInputError(
                f"epsilon: must be between {1.0 / FASTEST:g} and {FASTEST:g} for the flow of a ReLUNetwork, "
                f"got {self.epsilon:g}; epsilon=0 is the limit of small ones"
            )
        root = float(np.sqrt(self.epsilon))
        return self.tolerance * min(root, 1.0 / root)

    @property
    def weight(self) -> float:
        """The factor of Σ_k ½r_k² or of Σ_k ln(1 + e^{−y_k h_k}) in the loss."""
        if isinstance(self.loss, SquareLoss):
            return self.loss.weight(self.dataset.size)
        return 1.0 / self.dataset.size


@dataclass(frozen=True)
class BatchTask(Task):
    """A network to be trained on batches of a data set; factors (steps,): of the step, None: ones.

    batch: samples per step, drawn with or without replacement; noise: half the width of that of the labels.
    """

    batch: int = 1
    replacement: bool = False
    noise: float = 0.0
    factors: Floats | None = None
    seed: np.random.SeedSequence = field(default_factory=np.random.SeedSequence)


@dataclass(frozen=True)
class Sampling:
    """Steps and noise of stochastic descent: h, εh, half the width of the uniform noise, samples per step,
    the seed; box: σ' is replaced by the indicator of its window.
    """

    step: float
    slow: float
    noise: float
    batch: int
    seed: np.random.SeedSequence
    box: bool = False


@dataclass(frozen=True)
class SampledTask:
    """A network to be trained by `steps` steps on samples of a target; loss None: ½·mean of squares."""

    network: Network
    target: Target
    loss: Loss | None
    sampling: Sampling
    steps: int

    def measure(self, network: Network) -> float:
        """Return ½∫(f − f*)² of a network."""
        return population_loss(network, self.target)


def check_problem(network: Network, dataset: Dataset, *, log_scaled: bool = False) -> None:
    """Refuse what is not a network and a data set that fit each other, and log-scaled networks by default."""
    if not isinstance(network, NETWORKS):
        raise InvalidInputError(f"network: must be one of shallowflow's networks, got {shown(network)}")
    checked_dataset(dataset)
    if network.dimension != dataset.dimension:
        raise InvalidInputError(
            f"dataset: inputs must have the network's dimension {network.dimension}, got {dataset.dimension}"
        )
    if isinstance(network, LogScaledNetwork) and not log_scaled:
        raise InvalidInputError(
            "network: a LogScaledNetwork is for gradient_flow, gradient_descent and saddle_to_saddle; "
            "here pass network.to_relu()"
        )
    if isinstance(network, StepNetwork | AdditiveStepNetwork) and network.sharpness == 0:
        raise InvalidInputError("network: sharpness must be > 0 to be trained by gradients, got 0")


def checked_loss(loss: Loss | None, dataset: Dataset) -> Loss:
    """Return the loss (½·mean of squares if None), checked to have a meaning for the targets."""
    if loss is None:
        return SquareLoss()
    if not isinstance(loss, SquareLoss | LogisticLoss | NormLoss):
        raise InvalidInputError(
            f"loss: must be SquareLoss(), LogisticLoss() or NormLoss(), got {shown(loss)}"
        )
    loss.check(dataset.targets)
    return loss


def checked_square_loss(loss: Loss | None, default: SquareLoss) -> SquareLoss:
    """Return the loss, or the default if None, checked to be a square loss."""
    if loss is None:
        return default
    if not isinstance(loss, SquareLoss):
        raise InvalidInputError(f"loss: must be a SquareLoss, got {shown(loss)}")
    return loss


def checked_record(record: Record | None, default: Record) -> Record:
    """Return the record, or the default if None."""
    if record is None:
        return default
    if not isinstance(record, Record):
        raise InvalidInputError(f"record: must be a Record such as Record.every(10), got {shown(record)}")
    return record
