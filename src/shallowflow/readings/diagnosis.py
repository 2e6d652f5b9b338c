"""`diagnose`: why a network stands where it stands, when that ends, and what would help.

One state of a network on its data is enough: the census of its neurons, the floors beneath its loss, the
parts that its loss is made of, the forecast of the frozen kernel as far as it can be trusted, the exit clock
of its dormant neurons, its sharpness. The parts choose the cure (`escape` does it). The sentences are in
`readings.sentences`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from shallowflow.arrays import positive, public
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.frozen import Exit
from shallowflow.landscape.early_alignment.next_exit import next_exit
from shallowflow.landscape.geometry.activity import Resting
from shallowflow.landscape.geometry.census import Census, Kinked, census_of, neurons_of
from shallowflow.landscape.geometry.floors import (
    Anatomy,
    anatomy,
    cone_floor,
    feature_floor,
    pattern_floor,
)
from shallowflow.lazy import function
from shallowflow.models.loss import LogisticLoss, Loss, SquareLoss
from shallowflow.models.networks import ReLUNetwork
from shallowflow.readings.forecast import TRUSTED, Forecast, forecast, sharpness

SCHEMA = "shallowflow/diagnosis/1"
FITTED = 1e-10
"""A loss below this share of that of f = 0 is a fit."""
AT_THE_FLOOR = 1.01
"""A loss below this multiple of a floor is at it."""
EXIT = 0.05
"""The exit clock is asked for a fall by this share."""
CURES = ("none", "restart", "outer", "turn", "wait", "recycle", "grow")


@dataclass(frozen=True)
class FloorLevels:
    """Levels below which the loss cannot get: None where there is no such floor.

    feature: the awake neurons, only the outer layer moving; awake: the awake neurons in their pattern; every:
    all neurons in their pattern; cone: the same with the signs of a (in the plane). interpolates: the pattern
    of all neurons can fit everything: there is no floor.
    """

    feature: float
    awake: float
    every: float
    cone: float | None
    interpolates: bool
    awake_interpolates: bool


@dataclass(frozen=True)
class Diagnosis:
    """What one state of a network says; `text()` in sentences, `figure()` as data, `to_json()` with a schema.

    baseline: the loss of f = 0; cure: one of "none", "restart", "outer", "turn", "wait", "recycle", "grow";
    expects: the loss that the cure can reach at once at best (None: not known). Floors, anatomy and forecast
    are those of the square loss, None for the logistic one; the exit is None where nothing is dormant, or for
    a `KnotNetwork`.
    """

    loss: float
    baseline: float
    loss_name: str
    census: Census
    floors: FloorLevels | None
    anatomy: Anatomy | None
    forecast: Forecast | None
    exit: Exit | None
    sharpness: float
    step: float | None
    cure: str
    expects: float | None

    @property
    def fitted(self) -> bool:
        """Whether the loss is next to nothing beside that of f = 0."""
        return self.loss <= FITTED * self.baseline

    def text(self) -> str:
        """Return the diagnosis in sentences, one per line."""
        from shallowflow.readings.sentences import sentences

        return "\n".join(sentences(self))

    def __str__(self) -> str:
        return self.text()

    def figure(self) -> Any:
        """Return an `experiments.Figure`: the parts of the loss, and the neurons by the size of what they
        add."""
        return function("shallowflow.reporting.figures.readings:diagnosis_figure")(self)

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Return the figure drawn by matplotlib, or write it to a .png or .svg file."""
        return function("shallowflow.reporting.figures.readings:plot_reading")(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and words by name; a time that never comes, and what is unknown, is None."""
        found, ahead = self.census, self.forecast
        counts = {word: int(getattr(found, word).sum()) for word in ("dead", "resting", "dormant", "awake")}
        return {
            "schema": SCHEMA,
            "loss": self.loss,
            "baseline": self.baseline,
            "loss_name": self.loss_name,
            "census": {"width": found.width, **counts, "effective_width": found.effective_width},
            "floors": None if self.floors is None else asdict(self.floors),
            "anatomy": None if self.anatomy is None else self.anatomy.shares,
            "forecast": None
            if ahead is None
            else {f"time_of_{share:.0%}": _finite(ahead.time_of(share)) for share in (0.01, 0.05, TRUSTED)},
            "exit": None if self.exit is None else {**asdict(self.exit), "time": _finite(self.exit.time)},
            "sharpness": self.sharpness,
            "step": self.step,
            "step_times_sharpness": None if self.step is None else self.step * self.sharpness,
            "cure": self.cure,
            "expects": self.expects,
            "text": self.text(),
        }

    def to_json(self) -> str:
        """Return `to_dict()` as JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2, allow_nan=False)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


@public
def diagnose(
    network: Kinked,
    dataset: Dataset,
    *,
    loss: Loss | None = None,
    step: float | None = None,
    speed: float = 1.0,
    resting: Resting | None = None,
    effort: int = 30_000,
) -> Diagnosis:
    """Return what is going on in one state of training: who is awake, what is left, when it ends, what would
    help.

    loss: ½·mean of squares by default; for the logistic loss there are no floors and no forecast. step: of
    the descent that goes on, for its stability and for times in steps; speed: the factor of a flow's
    gradient. resting: pairs that a flow held, `trajectory.resting(t)`. effort: steps that the exit clock may
    run the awake neurons on.

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.data.GENERATORS["three_points"]()
    >>> run = sf.gradient_flow(sf.initialize.balanced(200, 2, init_scale=1e-3, seed=0), data, until=200.0)
    >>> print(sf.diagnose(run.final, data).text().splitlines()[0])
    Loss 0.08752 (28 % of the 0.31 of a network that says 0).
    """
    neurons = neurons_of(network, dataset, resting)
    given = SquareLoss() if loss is None else loss
    if not isinstance(given, SquareLoss | LogisticLoss):
        raise InvalidInputError(f"loss: must be SquareLoss() or LogisticLoss(), got {given}")
    given.check(dataset.targets)
    found = census_of(neurons, network, dataset, given)
    value = given.value(network.predict(dataset.inputs), dataset.targets)
    baseline = given.value(np.zeros(dataset.size), dataset.targets)
    stride, factor = None if step is None else positive(step, "step"), positive(speed, "speed")
    levels = parts = ahead = None
    if isinstance(given, SquareLoss):
        weight, targets = given.weight(dataset.size), dataset.targets
        every = pattern_floor(neurons, targets, weight)
        awake = pattern_floor(neurons, targets, weight, found.awake)
        cone = cone_floor(neurons, targets, weight) if neurons.inputs.shape[1] == 2 else None
        feature = feature_floor(neurons, targets, weight, found.awake)
        levels = FloorLevels(
            feature.level, awake.level, every.level, cone, every.interpolates, awake.interpolates
        )
        parts = anatomy(value, feature, awake, every)
        ahead = forecast(network, neurons, dataset, given, stride, speed=factor)
    leaves = None
    if isinstance(network, ReLUNetwork) and found.dormant.any() and value > FITTED * baseline:
        leaves = next_exit(network, dataset, fall=EXIT, loss=given, resting=resting, most=effort)
        leaves = replace(leaves, time=leaves.time / factor, rate=leaves.rate * factor)
    cure, expects = _cure(found, value, baseline, levels, parts, leaves)
    name = "logistic" if isinstance(given, LogisticLoss) else f"square, ½ {given.reduction}"
    steep = sharpness(network, neurons, dataset, given)
    return Diagnosis(value, baseline, name, found, levels, parts, ahead, leaves, steep, stride, cure, expects)


def _cure(
    found: Census,
    value: float,
    baseline: float,
    levels: FloorLevels | None,
    parts: Anatomy | None,
    leaves: Exit | None,
) -> tuple[str, float | None]:
    """Return which escape would help, and the loss that it can reach at once at best.

    The largest part of the loss names it; at the floor of the pattern only new neurons help.
    """
    if value <= FITTED * baseline:
        return "none", None
    if found.dead.all():
        return "restart", None
    if levels is None or parts is None:
        return ("wait", None) if leaves is not None and leaves.reached else ("none", None)
    if not levels.interpolates and value <= AT_THE_FLOOR * levels.every:
        return "grow", None
    ways = {"outer": parts.outer, "turn": parts.turning, "wait": parts.dormant}
    best = max(ways, key=lambda name: ways[name])
    if best == "wait":
        return ("wait" if leaves is not None and leaves.reached else "recycle"), levels.every
    return best, levels.feature if best == "outer" else levels.awake
