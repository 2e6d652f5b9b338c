"""The engines of gradient descent: what each one needs, and which has the cheapest steps on a problem.

All but "sliding" make the steps of plain descent up to rounding. A new engine is one row in `CHOICES` and, if
it is to be taken unasked, one line in `cheapest`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from shallowflow.arrays import one_of
from shallowflow.dynamics.clock.protocol import Engine
from shallowflow.dynamics.engines.cones import BucketedDescent, ConeDescent, PatternDescent
from shallowflow.dynamics.engines.knots import KnotDescent
from shallowflow.dynamics.engines.logs import LogDescent
from shallowflow.dynamics.engines.sliding_descent import SlidingDescent
from shallowflow.dynamics.engines.stepping import DenseDescent
from shallowflow.dynamics.engines.steps import WindowDescent
from shallowflow.dynamics.engines.sweeps import (
    PRECISIONS,
    DecoupledDescent,
    FusedDescent,
    GramDescent,
)
from shallowflow.dynamics.problem import Task
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.orthonormal import ORTHONORMAL, orthogonal, orthonormality
from shallowflow.models.loss import LogisticLoss, NormLoss, SquareLoss
from shallowflow.models.networks import (
    AdditiveStepNetwork,
    KnotNetwork,
    LogScaledNetwork,
    ReLUNetwork,
    StepNetwork,
)

BLOCKS_FROM, SWEEPS_FROM, CONES_FROM = 2_000_000, 50_000_000, 2_000_000_000
"""Work (steps × neurons × samples; for the wide ones × dimension) from which the compiled engines of knots,
of wide sweeps and of cones are worth loading, or compiling once."""
GROUPS_UP_TO, BUCKETS_UP_TO = 4.0, 0.5
"""Groups pay up to so many patterns × samples × dimension per neuron, buckets up to so many patterns per
neuron. Measured at the start of random problems (d = 3 to 10, n = 8 to 40, widths 200 to 10⁶): a step costs
about 8 ns per pattern, sample and dimension in groups; 5 ns, and 12 ns per neuron, in buckets; 3 ns per
neuron, sample and dimension in plain NumPy. The number of patterns falls during a run."""
GRAM_UP_TO = 1
"""The Gram update pays up to so many samples per dimension. Measured at m = 39, d = 1000: it takes 0.42 of a
fused step at d/2 samples, 0.9 at d, 1.2 to 1.4 at 3d/2."""


@dataclass(frozen=True)
class Choice:
    """An engine, the problems it fits, the same in words, and whether it can work in single precision."""

    engine: Callable[[Task], Engine[Any]]
    needs: str
    fits: Callable[[Task], bool]
    single: bool = False


def work_of(task: Task) -> int:
    """Return steps × neurons × samples."""
    return task.steps * task.network.width * task.dataset.size


def _knots(task: Task) -> bool:
    return isinstance(task.network, KnotNetwork) and isinstance(task.loss, SquareLoss)


def _relu(task: Task) -> bool:
    return isinstance(task.network, ReLUNetwork) and isinstance(task.loss, SquareLoss | LogisticLoss)


def _plane(task: Task) -> bool:
    return _relu(task) and task.dataset.dimension == 2


def _relu_squares(task: Task) -> bool:
    return _relu(task) and isinstance(task.loss, SquareLoss)


def _orthogonal(task: Task) -> bool:
    return _relu_squares(task) and orthogonal(task.dataset.inputs)


def _log_scaled(task: Task) -> bool:
    return isinstance(task.network, LogScaledNetwork) and isinstance(task.loss, SquareLoss)


def _steps(task: Task) -> bool:
    steps = isinstance(task.network, StepNetwork | AdditiveStepNetwork)
    return steps and isinstance(task.loss, SquareLoss | NormLoss)


_RELU, _SQUARE = "a ReLUNetwork", "the square loss"
CHOICES: dict[str, Choice] = {
    "dense": Choice(DenseDescent, "nothing", lambda task: True),
    "blocks": Choice(KnotDescent, f"a KnotNetwork and {_SQUARE}", _knots),
    "cones": Choice(ConeDescent, f"{_RELU} on inputs of dimension 2", _plane),
    "sliding": Choice(SlidingDescent, f"{_RELU} on inputs of dimension 2", _plane),
    "patterns": Choice(PatternDescent, _RELU, _relu),
    "bucketed": Choice(BucketedDescent, _RELU, _relu),
    "fused": Choice(FusedDescent, f"{_RELU} and {_SQUARE}", _relu_squares, single=True),
    "gram": Choice(GramDescent, f"{_RELU} and {_SQUARE}", _relu_squares, single=True),
    "decoupled": Choice(
        DecoupledDescent, f"{_RELU}, {_SQUARE} and orthogonal inputs", _orthogonal, single=True
    ),
    "windows": Choice(WindowDescent, "a network of steps and the square or norm loss", _steps),
    "scaled": Choice(LogDescent, f"a LogScaledNetwork and {_SQUARE}", _log_scaled),
}
ENGINES = ("auto", *CHOICES)
SWEEPS = tuple(name for name, choice in CHOICES.items() if choice.single)
"""The engines for wide sweeps."""


def chosen_engine(name: str, task: Task) -> Callable[[], Engine[Any]]:
    """Return what makes the engine of that name, or the cheapest; refuse one that does not fit."""
    one_of(name, "engine", ENGINES)
    single = one_of(task.precision, "precision", tuple(PRECISIONS)) == "single"
    asked = name != "auto"
    name = name if asked else cheapest_single(task) if single else cheapest(task)
    choice = CHOICES[name]
    # What "auto" takes fits, and the check can be expensive; but single precision is not for every network.
    if (asked or single) and not choice.fits(task):
        raise InvalidInputError(
            f"engine: '{name}' needs {choice.needs}, got a {type(task.network).__name__} and a "
            f"{type(task.loss).__name__} on inputs of dimension {task.dataset.dimension}"
        )
    if single and not choice.single:
        raise InvalidInputError(
            f"precision: 'single' needs one of the engines {', '.join(SWEEPS)}, got '{name}'"
        )
    return partial(choice.engine, task)


def cheapest(task: Task) -> str:
    """Return the name of the exact engine with the cheapest steps at the start, compilation considered."""
    if _knots(task) and work_of(task) >= BLOCKS_FROM:
        return "blocks"
    if _steps(task) and work_of(task) >= BLOCKS_FROM:
        return "windows"
    if _log_scaled(task) and orthonormality(task.dataset.inputs) <= ORTHONORMAL:
        # Whatever the work: in the coordinates of the data a frozen coordinate keeps its sign however small
        # it is beside the others; in w rounding would revive it.
        return "scaled"
    if _plane(task):
        return "cones" if work_of(task) >= CONES_FROM else "dense"
    if _relu(task) and work_of(task) >= CONES_FROM:
        grouped = _cheaper_by_pattern(task)
        if grouped:
            return grouped
    if _relu_squares(task) and work_of(task) * task.dataset.dimension >= SWEEPS_FROM:
        return cheapest_single(task)
    return "dense"


def cheapest_single(task: Task) -> str:
    """Return the name of the cheapest engine for wide sweeps, the only ones with single precision."""
    if _orthogonal(task):
        return "decoupled"
    return "gram" if task.dataset.size <= GRAM_UP_TO * task.dataset.dimension else "fused"


def _cheaper_by_pattern(task: Task) -> str | None:
    """Return "patterns" or "bucketed" if neurons share their sign patterns often enough."""
    network, dataset = task.network, task.dataset
    assert isinstance(network, ReLUNetwork)
    active = np.packbits(network.inner @ dataset.inputs.T > 0, axis=1)
    patterns = len(np.unique(active, axis=0))
    if patterns * dataset.size * dataset.dimension <= GROUPS_UP_TO * network.width:
        return "patterns"
    return "bucketed" if patterns <= BUCKETS_UP_TO * network.width else None
