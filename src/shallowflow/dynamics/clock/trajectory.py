"""`Trajectory`: the one result of every engine, with its `Setting`, what the run was asked to do, and
`Outcome`, how it ended and what to try next.

An engine stops with a code and numbers, a `Stop`; its sentence is found here, one for each code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, FrozenArrays, Ints, increasing, one_of, shown
from shallowflow.data.dataset import Additive, Dataset, PiecewiseAffine, PiecewiseConstant, checked_dataset
from shallowflow.dynamics.clock.paths import Snapshots
from shallowflow.dynamics.clock.problem import checked_loss
from shallowflow.dynamics.clock.protocol import Event, N_co, Path, Statistics, Stop, flatten
from shallowflow.errors import InvalidInputError
from shallowflow.files import as_path
from shallowflow.lazy import function
from shallowflow.models.loss import Loss

if TYPE_CHECKING:
    import xarray


STATUSES = (
    "completed",  # reached the requested time or number of steps
    "converged",  # the stopping rule was met before
    "unstable",  # the step is beyond the stability limit
    "diverged",  # a parameter or the loss became infinite or NaN
    "stalled",  # the integrator cannot advance
    "memory",  # the recording reached its memory limit
)


@dataclass(frozen=True)
class Outcome:
    """How a run ended: a status word, what happened, and what to try (empty when all is well)."""

    status: str
    message: str
    advice: str = ""

    def __post_init__(self) -> None:
        one_of(self.status, "status", STATUSES)

    @property
    def ok(self) -> bool:
        """Whether the run did what was asked."""
        return self.status in ("completed", "converged")

    def __str__(self) -> str:
        return f"{self.status}: {self.message}" + (f" Try: {self.advice}" if self.advice else "")


BLOW_UP = 100.0
"""A loss this many times its start on the way means that a run blew up, wherever it ended."""
SMALLER_STEP, LARGER_TOLERANCE = "a smaller step.", "a larger tolerance."
OTHER_KNOTS = "knots among the data: `landscape.fully_trained` makes some, `ANLSRegressor` finds its own."
OTHER_START = "a larger tolerance, or another initial network."
SENTENCES: dict[str, tuple[str, str, str]] = {
    "steps done": ("completed", "{total} steps, loss {loss:.6g}.", ""),
    "time reached": ("completed", "reached t = {until:g}, loss {loss:.6g}.", ""),
    "moves made": ("completed", "{made} moves made, loss {loss:.6g}.", ""),
    "unfitted": (
        "completed",
        "reached t = {until:g}; {points}",
        "a wider network, or another seed, to fit them.",
    ),
    "loss below, after steps": ("converged", "loss {loss:.6g} is below {bound:g} after {made} steps.", ""),
    "loss below, at time": ("converged", "loss {loss:.6g} is below {bound:g} at t = {time:.6g}.", ""),
    "stationary": ("converged", "the gradient vanished to the given bound at t = {time:.6g}.", ""),
    "small gradient": ("converged", "the gradient fell to {norm:.3g} at t = {time:.6g}.", ""),
    "no move": ("converged", "no move lowers the loss after {made}, loss {loss:.6g}.", ""),
    "no living knot": (
        "stalled",
        "no data point lies right of a knot: all are dead, loss {loss:.6g}.",
        OTHER_KNOTS,
    ),
    "no knot among the data": (
        "stalled",
        "all knots lie left of the data, and no move lowers the loss after {made}, loss {loss:.6g}.",
        OTHER_KNOTS,
    ),
    "rounding": ("converged", "after {made} moves gains are lost in rounding, loss {loss:.6g}.", ""),
    "interpolates": ("converged", "interpolates after {jumps} jumps.{ties}", ""),
    "rose": ("unstable", "the loss rose from {first:.6g} to {loss:.6g}.", SMALLER_STEP),
    "rose on the way": (
        "unstable",
        "on the way the loss rose from {first:.3g} to {highest:.3g}.",
        SMALLER_STEP,
    ),
    "overflow at the start": ("diverged", "the loss overflowed at the start.", "rescale the data."),
    "overflow after steps": (
        "diverged",
        "a parameter or the loss overflowed after step {made} of {total}.",
        SMALLER_STEP,
    ),
    "loss overflow": ("diverged", "the loss overflowed at t = {time:g}.", "rescale the data."),
    "parameter overflow": (
        "diverged",
        "a parameter left the range of floating point numbers at t = {time:.6g}.",
        "inputs and targets of moderate size: scale the data.",
    ),
    "step underflow": ("stalled", "the step size underflowed at t = {time:.6g}.", LARGER_TOLERANCE),
    "no step": ("stalled", "the integrator found no step at t = {time:.6g}.", OTHER_START),
    "no step by groups": (
        "stalled",
        "the integrator found no step at t = {time:.6g}.",
        "another tolerance, engine='dense', or another initial network.",
    ),
    "gates chatter": (
        "stalled",
        "gates change repeatedly at t = {time:.6g}.",
        "a smaller tolerance; the solution may not be unique from here on.",
    ),
    "events repeat": (
        "stalled",
        "events repeat without end at τ = {time:.6g}.",
        "slightly other initial positions.",
    ),
    "misjudged": (
        "stalled",
        "after {made} moves the loss of the chosen candidate was misjudged: "
        "a predicted relative gain of {gain:.2g} was not realised, loss {loss:.6g}.",
        'method="windowed", whose losses are exact.',
    ),
    "never fitted": ("stalled", "{points}{ties}", "a wider network, or another seed."),
    "memory": (
        "memory",
        "the record reached its limit of {gigabytes:.3g} GB at t = {time:.6g}.",
        "record=Record.at(times), Record.geometric(), or a larger max_bytes.",
    ),
}
"""Code → status, message, advice."""


def in_words(stop: Stop) -> Outcome:
    """Return the outcome of a run that ended by `stop`."""
    status, message, advice = SENTENCES[stop.code]
    return Outcome(status, message.format(**stop.numbers), advice)


def end_of_steps(losses: Floats, made: int, total: int) -> Stop:
    """Return how a run of fixed steps ended that nothing but overflow could stop: by where its loss went."""
    first, loss, highest = float(losses[0]), float(losses[-1]), float(np.max(losses))
    if not np.isfinite(first):
        return Stop("overflow at the start")
    if made < total:
        return Stop("overflow after steps", {"made": made, "total": total})
    if loss > first * (1 + 1e-9):
        return Stop("rose", {"first": first, "loss": loss})
    if highest > BLOW_UP * first:
        return Stop("rose on the way", {"first": first, "highest": highest})
    return Stop("steps done", {"total": total, "loss": loss})


Given = TypeVar("Given")


@dataclass(frozen=True)
class Setting:
    """What a run was asked to do; None: unknown (a file of version 1), or without a meaning for this verb.

    data: the data set or the target; step: of a descent; speed: the factor of a flow's gradient; epsilon: how
    much faster the inner layer moves.
    """

    verb: str | None = None
    engine: str | None = None
    data: Dataset | PiecewiseConstant | PiecewiseAffine | Additive | None = None
    loss: Loss | None = None
    step: float | None = None
    speed: float | None = None
    epsilon: float | None = None
    tolerance: float | None = None

    def agreed(self, name: str, given: Given | None, default: Given) -> Given:
        """Return the run's own value; refuse another one; where it is unknown, what was given or the default.

        Examples
        --------
        >>> Setting(speed=24.0).agreed("speed", None, 1.0), Setting().agreed("speed", 2.0, 1.0)
        (24.0, 2.0)
        """
        own: Given | None = getattr(self, name)
        if own is None:
            return default if given is None else given
        if given is not None and given != own:
            raise InvalidInputError(f"{name}: the trajectory was made with {own!r}, got {given!r}")
        return own


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(FrozenArrays, Generic[N_co]):
    """What a run did: losses over time, networks over time, events, outcome, statistics, setting.

    times, losses: (K,) recorded; path: networks as a function of time (`dynamics.clock.paths`); `tr(t)` is
    the network at time t, at a jump the one after it. A descent's time is step × number of steps.
    """

    times: Floats
    losses: Floats
    path: Path[N_co]
    events: tuple[Event, ...]
    outcome: Outcome
    statistics: Statistics = field(default_factory=dict)
    setting: Setting = field(default_factory=Setting)

    def __post_init__(self) -> None:
        parts: tuple[tuple[object, type[object]], ...] = ((self.path, Path), (self.outcome, Outcome))
        for given, kind in parts:
            if not isinstance(given, kind):
                name = kind.__name__.lower()
                raise InvalidInputError(
                    f"{name}: must be that of a run, got {shown(given)}; see from_snapshots"
                )
        super().__post_init__()
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in self.statistics.items()}
        self.__dict__["statistics"] = MappingProxyType(plain)

    def __getstate__(self) -> dict[str, object]:
        # A mapping proxy cannot be pickled: it travels as a dict, and `__post_init__` wraps it again.
        return {**self.__dict__, "statistics": dict(self.statistics)}

    def __repr__(self) -> str:
        return (
            f"Trajectory({len(self.times)} times in [{self.times[0]:g}, {self.times[-1]:g}], "
            f"loss {self.losses[0]:.4g} → {self.losses[-1]:.4g}, {len(self.events)} events, {self.outcome})"
        )

    def __call__(self, t: float) -> N_co:
        """Return the network at time t."""
        return self.path(t)

    def resting(self, t: float) -> tuple[Ints, Ints] | None:
        """Return the neurons and the data points, pair by pair, that rest on each other at time t.

        A neuron that rests on a point (slides along its hyperplane) gets nothing from it; from the network
        alone that cannot be seen. None: the run did not watch.
        """
        return self.path.resting(t)

    @property
    def initial(self) -> N_co:
        """The network at the start."""
        return self.path(float(self.path.times[0]))

    @property
    def final(self) -> N_co:
        """The network at the end."""
        return self.path(float(self.path.times[-1]))

    def plot(self, path: str | FilePath | None = None) -> Any:
        """Return the run as a matplotlib figure, or write it to a .png or .svg file.

        Shown are its loss, and its function (data on a line) or else its neurons.
        """
        draw = function("shallowflow.reporting.figures.runs:plot_run")
        return draw(self, self._dataset, path, loss=self.setting.loss)

    def animate(self, path: str | FilePath | None = None) -> Any:
        """Return the run as a film that a notebook shows, or write it to a .html or .gif file."""
        return function("shallowflow.reporting.figures.runs:animate_run")(self, self._dataset, path)

    @property
    def _dataset(self) -> Dataset | None:
        """The data, if it was trained on data and knows them."""
        return self.setting.data if isinstance(self.setting.data, Dataset) else None

    def to_xarray(self) -> xarray.Dataset:
        """Return losses over `time` and parameters over `recorded` as a labelled data set."""
        import xarray

        variables: dict[str, tuple[tuple[str, ...], Floats]] = {"loss": (("time",), self.losses)}
        values, start = self.path.recorded(), 0
        for name, array in self.path.template.parameters.items():
            block = values[:, start : start + array.size].reshape(len(values), *array.shape)
            axes = ("neuron", "coordinate")[: array.ndim]
            variables[name] = (("recorded", *axes), block)
            start += array.size
        return xarray.Dataset(
            variables,
            coords={"time": self.times, "recorded": self.path.times},
            attrs={"outcome": str(self.outcome), **self.statistics},
        )

    def save(self, path: str | FilePath) -> None:
        """Write the trajectory to a file, atomically: the old file or the new one, never a broken one."""
        from shallowflow.dynamics.clock.codec import save

        save(self, as_path(path))

    @classmethod
    def from_snapshots(
        cls,
        times: ArrayLike,
        networks: Sequence[N_co],
        data: Dataset,
        loss: Loss | None = None,
        *,
        step: float | None = None,
    ) -> Trajectory[N_co]:
        """Return networks recorded elsewhere as a trajectory: at increasing times, all of one shape.

        loss: ½·mean of squares by default; step: of the descent that made them, if its times are step × steps
        (of PyTorch's mean of squares: twice the learning rate).

        Examples
        --------
        >>> import shallowflow as sf
        >>> nets = [sf.ReLUNetwork([[1.0]], [a]) for a in (0.0, 1.0, 2.0)]
        >>> sf.Trajectory.from_snapshots([0, 1, 2], nets, sf.Dataset([[1.0]], [2.0])).losses
        array([2. , 0.5, 0. ])
        """
        moments, kept = increasing(times, "times"), list(networks)
        if len(kept) != len(moments):
            raise InvalidInputError(f"networks: must be one per time ({len(moments)}), got {len(kept)}")
        shapes = [{name: part.shape for name, part in one.parameters.items()} for one in kept]
        if any(
            type(one) is not type(kept[0]) or mine != shapes[0]
            for one, mine in zip(kept, shapes, strict=True)
        ):
            raise InvalidInputError("networks: must be of one kind and shape")
        measure = checked_loss(loss, checked_dataset(data))
        losses = np.array([measure.value(one(data.inputs), data.targets) for one in kept])
        path: Snapshots[N_co] = Snapshots(kept[0], moments, np.array([flatten(one) for one in kept]))
        ended = Outcome("completed", f"{len(kept)} snapshots recorded elsewhere.", "")
        setting = Setting("snapshots", None, data, measure, step=step)
        return Trajectory(moments, losses, path, (), ended, setting=setting)

    @classmethod
    def load(cls, path: str | FilePath) -> Trajectory:
        """Read a trajectory written by `save`; anything else raises `FileFormatError`."""
        from shallowflow.dynamics.clock.codec import load

        return load(as_path(path))


def checked_trajectory(trajectory: object, name: str = "trajectory") -> Trajectory:
    """Return the argument if it is a `Trajectory`."""
    if not isinstance(trajectory, Trajectory):
        raise InvalidInputError(f"{name}: must be a Trajectory, got {shown(trajectory)}")
    return trajectory


def agreed(trajectory: Trajectory | None, name: str, given: Given, default: Given) -> Given:
    """Return the run's own value of a setting; an argument that contradicts it is refused.

    An argument equal to the default counts as not given. Where the run does not say, the argument counts.
    """
    if isinstance(given, np.ndarray | list | tuple):
        raise InvalidInputError(f"{name}: must be a single value, got {shown(given)}")
    if trajectory is None:
        return given
    return trajectory.setting.agreed(name, None if given == default else given, default)
