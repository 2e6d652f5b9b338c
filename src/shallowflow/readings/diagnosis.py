"""`diagnose`: why a network stands where it stands, when that ends, and what would help.

One state of a network on its data is enough: the census of its neurons, the floors beneath its loss, the
parts that its loss is made of, the forecast of the frozen kernel as far as it can be trusted, the exit clock
of its dormant neurons, its sharpness. The parts choose the cure (`escape` does it). Every number in
a sentence is a field of the diagnosis.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from shallowflow.arrays import positive, public
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.frozen import Exit, next_exit
from shallowflow.landscape.geometry.activity import Census, Kinked, Resting, census_of, neurons_of
from shallowflow.landscape.geometry.floors import (
    Anatomy,
    anatomy,
    cone_floor,
    feature_floor,
    pattern_floor,
)
from shallowflow.landscape.geometry.tangent import TRUSTED, Forecast, forecast, sharpness
from shallowflow.lazy import function
from shallowflow.models.loss import LogisticLoss, Loss, SquareLoss
from shallowflow.models.networks import ReLUNetwork

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

        return "\n".join(sentences(self))

    def __str__(self) -> str:
        return self.text()

    def figure(self) -> Any:
        """Return an `experiments.Figure`: the parts of the loss, and the neurons by the size of what they
        add."""
        return function("shallowflow.reporting.figures.runs:diagnosis_figure")(self)

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Return the figure drawn by matplotlib, or write it to a .png or .svg file."""
        return function("shallowflow.reporting.figures.runs:plot_reading")(self, path)

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


EDGE = 1.9
"""From this step × λ_max on descent is taken to be at the edge of stability."""
SMALL_STEP = 0.2
"""Below this step × λ_max a larger step is advised: with 1 descent is stable."""
NOTHING = 0.005
"""A part of the loss below this share is not mentioned."""


def sentences(found: Diagnosis) -> list[str]:
    """Return the diagnosis line by line."""
    return [
        _loss(found),
        _neurons(found),
        *_floors(found),
        *_anatomy(found),
        *_forecast(found),
        *_exit(found),
        _stability(found),
        _advice(found),
    ]


def _loss(found: Diagnosis) -> str:
    share = found.loss / found.baseline if found.baseline > 0 else 0.0
    return f"Loss {found.loss:.4g} ({_percent(share)} of the {found.baseline:.4g} of a network that says 0)."


def _neurons(found: Diagnosis) -> str:
    counted = found.census
    awake, width, effective = int(counted.awake.sum()), counted.width, counted.effective_width
    text = f"{awake} of {_many(width, 'neuron')} {_are(awake)} awake"
    if awake and effective < awake:
        text += f" and act{'s' if awake == 1 else ''} as {effective} on these data"
    rest = [
        f"{number} {_are(number)} {word}"
        for number, word in (
            (int(counted.dead.sum()), "dead"),
            (int(counted.dormant.sum()), "dormant"),
        )
        if number
    ]
    resting = int(counted.resting.sum())
    if resting:
        rest.append(f"{resting} rest{'s' if resting == 1 else ''} on data points")
    return "; ".join([text, *rest]) + "."


def _floors(found: Diagnosis) -> list[str]:
    levels = found.floors
    if levels is None:
        return ["Floors are those of the square loss: with the logistic loss a fit has no lowest point."]
    if levels.interpolates:
        if levels.awake_interpolates or not found.census.dormant.any():
            return ["No floor: the pattern can interpolate."]
        return [
            f"The awake neurons alone cannot get below {levels.awake:.4g} in their pattern; "
            "with the dormant ones there is no floor: the pattern can interpolate."
        ]
    lines = [f"Until a neuron crosses a data point no training can get below {levels.every:.4g}."]
    if found.census.dormant.any() and levels.awake > levels.every * 1.001:
        lines[0] = (
            "Until a neuron crosses a data point the awake neurons alone cannot get below "
            f"{levels.awake:.4g}, and all together not below {levels.every:.4g}."
        )
    if levels.cone is not None and levels.cone > levels.every * 1.001 and levels.cone <= found.loss:
        lines.append(f"If no outer weight changes its sign, not below {levels.cone:.4g}.")
    return lines


def _anatomy(found: Diagnosis) -> list[str]:
    if found.anatomy is None or found.fitted:
        return []
    words = {
        "outer": "is an outer layer that is not solved",
        "turning": "needs the awake neurons to turn",
        "dormant": "needs dormant neurons to grow",
        "pattern": "needs a neuron to cross a data point",
    }
    shares = sorted(found.anatomy.shares.items(), key=lambda item: -item[1])
    named = [f"{_percent(share)} {words[name]}" for name, share in shares if share >= NOTHING]
    return [f"Of the loss {', '.join(named)}."] if named else []


def _forecast(found: Diagnosis) -> list[str]:
    if found.forecast is None or found.fitted or _bounces(found):
        return []
    ahead, leaves = found.forecast, found.exit
    if leaves is not None and leaves.time < ahead.time_of(leaves.fall):
        return []
    one, last = ahead.time_of(0.01), ahead.time_of(TRUSTED)
    if not math.isfinite(one):
        return ["Forecast (tangent kernel): as it stands the loss does not fall by 1 %."]
    said = f"Forecast (tangent kernel): 1 % less after {_time(found, one)}"
    if math.isfinite(last):
        return [f"{said}, 20 % less after {_time(found, last)}; beyond that unknown."]
    if ahead.complete:
        return [f"{said}; as it stands it never falls by 20 %."]
    share = 1.0 - ahead(ahead.reach) / found.loss
    if share <= 0.01:  # where the kernel was renewed the loss was no lower after all
        return [f"{said}; beyond that unknown."]
    return [f"{said}, {_percent(share)} less after {_time(found, ahead.reach)}; beyond that unknown."]


def _time(found: Diagnosis, time: float) -> str:
    if found.step is None:
        return f"t = {time:.3g}"
    return f"{max(1, round(time / found.step)):,} steps"


def _exit(found: Diagnosis) -> list[str]:
    leaves = found.exit
    if leaves is None or _bounces(found):
        return []
    how = "forces frozen" if leaves.frozen else "awake neurons running on"
    number = int(found.census.dormant.sum())
    if leaves.reached:
        return [
            f"Exit clock: the loss will have fallen by {_percent(leaves.fall)} after "
            f"{_time(found, leaves.time)} (estimate, {how}); "
            f"the fastest of {_many(number, 'dormant neuron')} grows at rate {leaves.rate:.3g}."
        ]
    if leaves.rate == 0.0:
        return ["Exit clock: no dormant neuron grows."]
    return [
        f"Exit clock: the loss does not fall by {_percent(leaves.fall)} as far as the clock runs "
        f"(lowest {leaves.lowest:.4g}; {how})."
    ]


def _stability(found: Diagnosis) -> str:
    if found.step is None:
        if found.sharpness <= 0:
            return "λ_max = 0: no parameter has a gradient."
        return f"λ_max = {found.sharpness:.4g}: descent is stable for steps below {2 / found.sharpness:.3g}."
    product = found.step * found.sharpness
    if _bounces(found):
        return (
            f"step × λ_max = {product:.3g}: at the edge of stability (2) the loss bounces, "
            "and no forecast holds; take a smaller step."
        )
    if 0.0 < product < SMALL_STEP:
        times = 1.0 / product
        return f"step × λ_max = {product:.3g}: a step {times:.0f} times as large would be stable too."
    return f"step × λ_max = {product:.3g}, below the limit 2."


def _bounces(found: Diagnosis) -> bool:
    """Whether descent with this step does not follow the flow."""
    return found.step is not None and found.step * found.sharpness >= EDGE


def _advice(found: Diagnosis) -> str:
    above = found.loss / found.floors.every - 1 if found.floors and found.floors.every > 0 else 0.0
    near = "at" if above < 1e-4 else f"{_percent(above)} above"
    expects = "" if found.expects is None else f" (down to {found.expects:.4g} at best)"
    return {
        "none": "Nothing to cure: the data are fitted."
        if found.fitted
        else "No escape is known for this loss. Train on: a step of up to "
        f"{1.0 / found.sharpness if found.sharpness > 0 else 1.0:.3g} is stable.",
        "restart": "Every neuron is dead: no training can change that. Start anew.",
        "outer": f"Try: solve the outer layer and rebalance, then recycle neurons{expects}: `escape`.",
        "turn": f"Try: a few Levenberg–Marquardt steps{expects}: `escape`.",
        "wait": "Waiting: dormant neurons grow. Train on until the exit clock, or recycle them: `escape`.",
        "recycle": f"Try: recycle dormant neurons with a refit{expects}: `escape`.",
        "grow": f"The loss is {near} the floor of its pattern: more steps or a better optimiser will "
        "not help until a neuron crosses a data point. Add neurons in directed positions: `escape`.",
    }[found.cure]


def _percent(share: float) -> str:
    number = 100.0 * share
    if number == 0.0:
        return "0 %"
    return f"{number:.0f} %" if number >= 9.5 else f"{number:.2g} %"


def _many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
