"""The choice of engines: one table for all verbs. A new engine is a kernel, an engine and a row here.

A row says what an engine needs (in words, and as a predicate), where it is, and what a run costs: seconds of
processor time from counts of operations. "auto" takes the cheapest of those that fit and are exact for the
problem. The constants of dense, fused, lanes, cones, patterns, of SGD and of flows in the plane were
measured, most by `benchmarks/regret.py`, those of first compilations of descents and flows by
`benchmarks/compilation.py`; the others are estimates.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha1
from importlib import import_module
from math import ceil, comb, expm1, inf, log2
from operator import mul
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple

import numpy as np

from shallowflow.arrays import one_of
from shallowflow.data.dataset import PiecewiseConstant
from shallowflow.dynamics.clock.problem import SampledTask, Task
from shallowflow.dynamics.clock.protocol import Engine
from shallowflow.dynamics.engines.sweeps import SpannedDescent
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.orthonormal import BALANCED, ORTHONORMAL, orthogonal, orthonormality
from shallowflow.models.loss import LogisticLoss, NormLoss, SquareLoss
from shallowflow.models.networks import (
    AdditiveStepNetwork,
    KnotNetwork,
    LogScaledNetwork,
    ReLUNetwork,
    StepNetwork,
)

NUMBA_SECONDS, CACHED_SECONDS, COMPILED_SHARE = 0.6, 0.005, 0.1
"""Before the first compiled step of a process, if Numba is not loaded; for each further kernel on disk. A
kernel is compiled once per machine: this part of the time counts against one run."""
IN_SPAN = ("lanes", "fused", "cones", "patterns")
"""Engines that may run in the span of the inputs."""
TINY_START = 1e-8
"""Below this size a frozen coordinate can be revived by the rounding of the others."""
EXACT = "decoupled", "scaled", "leaps"  # the engines in whose coordinates it cannot
LANES = 8 if "X86_V4" in str(np.show_config(mode="dicts")) else 4
"""Doubles in a vector register."""
KERNELS = Path(__file__).absolute().parents[1] / "kernels"

Fits = Callable[[Any], bool]
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Choice:
    """An engine of a verb: what it needs, whether it fits a task, what a run costs, where it is.

    kernel: the module of its compiled arithmetic ("": NumPy), "module:function" where engines share one, and
    the seconds of its first compilation; single: whether it can work in single precision.
    """

    verb: str
    name: str
    load: str
    needs: str
    fits: Fits
    cost: Callable[[Any], float]
    kernel: str = ""
    seconds: float = 0.0
    single: bool = False

    def engine(self) -> Callable[..., Engine[Any]]:
        """Return the class of the engine, or the function that makes one."""
        module, name = self.load.split(":")
        made: Callable[..., Engine[Any]] = getattr(import_module(f"shallowflow.dynamics.{module}"), name)
        return made

    def total(self, task: Any) -> float:
        """Return the expected seconds of a run, with the first use of a kernel."""
        return self.cost(task) + self._start()

    def _start(self) -> float:
        module, several, _ = self.kernel.partition(":")
        # A module that is loaded was used; which of several kernels in it, it does not say.
        if not self.kernel or (not several and f"shallowflow.kernels.{module}" in sys.modules):
            return 0.0
        if not compiled_before(self.kernel):
            return COMPILED_SHARE * self.seconds + NUMBA_SECONDS
        return CACHED_SECONDS if "numba" in sys.modules else NUMBA_SECONDS


def compiled_before(kernel: str) -> bool:
    """Whether Numba has kept machine code of a kernel: beside its source, or in NUMBA_CACHE_DIR."""
    module, _, function = kernel.partition(":")
    source = KERNELS.joinpath(*module.split("."))
    folder, kept = source.parent, source.parent / "__pycache__"
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        kept = Path(chosen, f"{folder.name}_{sha1(str(folder).encode()).hexdigest()}")
    return next(kept.glob(f"{source.name}.{function}*.nbi"), None) is not None


# --- Gradient descent. Nanoseconds per step, after [benchmarks/regret.py].


def _of(networks: type | UnionType, losses: type | UnionType = object) -> Fits:
    """Return whether a task has such a network, and such a loss."""
    return lambda task: isinstance(task.network, networks) and isinstance(task.loss, losses)


relu = _of(ReLUNetwork, SquareLoss | LogisticLoss)
"""Whether the task has a ReLU network, and a loss that compiled engines know."""
_knots, _log_scaled = _of(KnotNetwork, SquareLoss), _of(LogScaledNetwork, SquareLoss)
_of_steps, _scaled = _of(StepNetwork | AdditiveStepNetwork), _of(ReLUNetwork | LogScaledNetwork)
_steps = _of(StepNetwork | AdditiveStepNetwork, SquareLoss | NormLoss)


def _plane(task: Task) -> bool:
    return relu(task) and _sizes(task).d == 2


def _orthogonal(task: Task) -> bool:
    return relu(task) and orthogonal(task.dataset.inputs)


def _orthonormal(task: Task) -> bool:
    return _log_scaled(task) and orthonormality(task.dataset.inputs) <= ORTHONORMAL


class Sizes(NamedTuple):
    """Samples, dimension, neurons; 1 for the logistic loss; whether the inputs are a triangle (`in_span`)."""

    n: int
    d: int
    m: int
    logistic: int
    triangle: bool


def _sizes(task: Task) -> Sizes:
    size, dimension = task.dataset.inputs.shape
    dimension = min(size, dimension) if task.in_span else dimension
    logistic = int(isinstance(task.loss, LogisticLoss))
    return Sizes(size, dimension, task.network.width, logistic, task.in_span)


def _patterns(size: int, dimension: int, width: int) -> float:
    """Return how many sign patterns to expect: C(1 − e^{−m/C}), C the number of cones in general position."""
    cones = 0
    for k in range(min(dimension, size)):
        cones += 2 * comb(size - 1, k)
        if cones > 1000 * width:
            return float(width)
    return -cones * expm1(-width / cones)


def _fused_terms(s: Sizes) -> Numbers:
    """Samples, dimension and neurons are padded to full tiles; the zeros of a triangle are skipped."""
    panel, d, m = 3 * LANES, 3 * ceil(s.d / 3), LANES * ceil(s.m / LANES)
    n = panel * ceil(s.n / panel)
    seen = sum(min(end, d) for end in range(panel, n + 1, panel)) if s.triangle else d * n // panel
    return 1, panel * seen * m, n * m, m * d, n, n * s.logistic


def _lanes_terms(s: Sizes) -> Numbers:
    """Full vectors of neurons, and the rest one by one; beyond the second cache weights are loaded again."""
    n, d, m, logistic, _ = s
    v = m // LANES + m % LANES
    return 1, n * d * v, n * v, n * d, n, d * v, n * logistic, n * d * v * (16 * m * d > 2**18)


def _pattern_terms(s: Sizes) -> Numbers:
    p = _patterns(s.n, s.d, s.m)
    return 1, p, p * s.n * s.d, p * s.d * s.d, s.m, s.m * s.d, s.n * s.logistic


def _cone_terms(s: Sizes) -> Numbers:
    return 1, s.n, min(2 * s.n, s.m), log2(s.m + 1), s.m, s.n * s.logistic


def _dense_terms(s: Sizes) -> Numbers:
    return 1, s.n * s.m, s.n * s.m * s.d, s.m * s.d, s.n * s.logistic


def _decoupled_terms(s: Sizes) -> Numbers:
    return 1, s.n * s.m, s.n * s.logistic


def _line_terms(s: Sizes) -> Numbers:
    return 1, s.m, s.d * (s.n + s.m)


TERMS: dict[str, tuple[Callable[[Sizes], Numbers], Numbers, Numbers]] = {
    "dense": (_dense_terms, (19_900, 4.4, 0.16, 2.6, 11), (5, 0, 0)),
    "fused": (_fused_terms, (58, 0.072, 0.23, 0.65, 0, 13.9), (39, 0.006, 0)),
    "lanes": (_lanes_terms, (8, 0.98, 2.4, 3.5, 6.8, 2.3, 26, 0.94), (5, 0, 0)),
    "cones": (_cone_terms, (20, 12.4, 20.9, 6.8, 0, 6.9), (340, 0.21, 0)),
    "patterns": (_pattern_terms, (300, 100, 0.83, 0.03, 0, 0.014, 46), (270, 0.7, 0.007)),
    "decoupled": (_decoupled_terms, (200, 0.6, 5), (40, 0.1, 0.002)),
    "scaled": (_decoupled_terms, (100, 2.0, 0), (20, 0.1, 0.002)),
    "blocks": (_line_terms, (20, 3.0, 0), (20, 0.1, 0)),
    "windows": (_line_terms, (100, 0, 15.0), (50, 0.1, 0)),
}
"""Of each engine what a step does, nanoseconds of each, and microseconds of the set-up: (1, m, n m d)."""


def _cost(name: str) -> Callable[[Task], float]:
    """Return the expected seconds of a run, without the first use of a kernel."""
    terms, step, setup = TERMS[name]

    def cost(task: Task) -> float:
        sizes = _sizes(task)
        n, d, m = sizes[:3]
        each = sum(map(mul, step, terms(sizes)))
        span = 1e-9 * task.dataset.dimension * n * (4 * n + m) if task.in_span else 0.0
        return float(span + 1e-6 * sum(map(mul, setup, (1, m, n * m * d))) + 1e-9 * task.steps * each)

    return cost


# --- Gradient flow.


MATTERS, NEURONS_BY_CONES = 40.0, 30_000
"""What a neuron adds to the predictions, in tolerances, from which on all its events are felt; more neurons
of the plane than this are left to "cones", whose paths take little memory."""


def _felt(task: Task) -> float:
    """Return which share of the neurons is felt: events of those that add less than the tolerance are not."""
    network, reach = task.network, float(np.sqrt(np.mean(task.dataset.inputs**2)))
    assert isinstance(network, ReLUNetwork)
    sizes = network.scale * np.linalg.norm(network.inner, axis=1) * np.abs(network.outer)
    return float(np.mean(np.minimum(reach * sizes / (MATTERS * task.tolerance), 1.0)))


def _wall_flow_cost(task: Task) -> float:
    """Tens of sweeps over all neurons, hundreds where they are felt: that was measured in the plane, where
    there is a choice.
    """
    n, d, m = _sizes(task)[:3]
    felt = _felt(task) if d == 2 else 1.0
    return float(2e-3 + (1.2e-5 + 2.8e-5 * felt) * m * n**0.5 * min(n, d))


def _cone_flow_cost(task: Task) -> float:
    """Some ten steps whatever the width, and about one for every event that is felt."""
    n, _, m = _sizes(task)[:3]
    felt = _felt(task) * m if m <= NEURONS_BY_CONES else 0.0
    return float(2e-3 + 3e-6 * m + (1.7e-3 + 1.1e-4 * n) * (10 + 0.35 * n**0.5 * felt))


def _knot_flow_cost(task: Task) -> float:
    return 1e-3 + 1e-6 * task.network.width * (100 + task.dataset.size)


LEAPS_BELOW = 1e-6
"""Largest outer weight of a `ReLUNetwork` up to which its flow on orthogonal inputs leaps unasked."""


def _can_leap(task: Task) -> bool:
    """Whether a flow can go by leaps: see `needs` of its row."""
    network = task.network
    if not isinstance(task.loss, SquareLoss) or (task.epsilon, task.stop) != (1.0, 0.0):
        return False
    if not isinstance(network, ReLUNetwork):
        return isinstance(network, LogScaledNetwork)
    sizes, norms = np.abs(network.outer), np.linalg.norm(network.inner, axis=1)
    dominated = bool(np.all(sizes > 0) and np.all(norms <= (1 + BALANCED) * sizes))
    return dominated and network.slope == 0 and orthogonal(task.dataset.inputs)


def _leaps_cost(task: Task) -> float:
    """Return the seconds of a flow by leaps; ∞ where it is not taken unasked.

    It is taken for tiny starts, and for those with coordinates ⟨w_j, x_k⟩ = 0: on orthogonal inputs these
    never move ([incremental] Assumption 2), which the coordinates of the data alone keep to the last bit.
    """
    network = task.network
    large = isinstance(network, ReLUNetwork) and np.abs(network.outer).max() > LEAPS_BELOW
    if large and np.all(network.preactivations(task.dataset.inputs) != 0.0):
        return inf
    return _knot_flow_cost(task)


# --- Stochastic descent.


def _one_step_at_a_time(task: SampledTask) -> bool:
    plain = task.loss is None or task.loss == SquareLoss()
    return isinstance(task.network, StepNetwork) and isinstance(task.target, PiecewiseConstant) and plain


def _in_cells(task: SampledTask) -> bool:
    """Whether a plateau and a piece of the target fit into one code of the table of cells."""
    if not _one_step_at_a_time(task) or task.sampling.batch > 1:
        return False
    from shallowflow.kernels.steps.cells import MOST_NEURONS, MOST_PIECES

    assert isinstance(task.target, PiecewiseConstant)
    return task.network.width < MOST_NEURONS and len(task.target.values) < MOST_PIECES


def _sgd_cost(first: float, each: float, wide: float = 0.0, overlap: float = 0.0) -> Callable[[Any], float]:
    """Nanoseconds per sample: a constant, per neuron, inside windows (a share m η), where they overlap."""

    def cost(task: SampledTask) -> float:
        m, eta = task.network.width, getattr(task.network, "sharpness", 0.0)
        samples = task.steps * task.sampling.batch
        return float(1e-9 * samples * (first + each * m + wide * m * eta + overlap * eta**2))

    return cost


_RELU, _SQUARE, _PLANE = "a ReLUNetwork", "the square loss", "a ReLUNetwork on inputs of dimension 2"
_LOSSES = "the square or logistic loss"
_D, _F, _S, _A = "gradient_descent", "gradient_flow", "stochastic_descent", "adam"
_B = "stochastic_descent on data"
_COMPILED_SGD = "a StepNetwork, a piecewise constant target and the square loss"

ENGINES = (
    Choice(_D, "dense", "engines.sweeps:DenseDescent", "nothing", lambda _: True, _cost("dense")),
    Choice(_D, "lanes", "engines.sweeps:LanesDescent", f"{_RELU} and {_LOSSES}", relu, _cost("lanes"),
           "dense:advance_lanes", 1.5, single=True),
    Choice(_D, "fused", "engines.sweeps:FusedDescent", f"{_RELU} and {_LOSSES}", relu, _cost("fused"),
           "dense:advance_tiles", 2.5, single=True),
    Choice(_D, "decoupled", "engines.sweeps:DecoupledDescent", f"{_RELU}, {_LOSSES} and orthogonal inputs",
           _orthogonal, _cost("decoupled"), "orthogonal.descent", 1.5, single=True),
    Choice(_D, "cones", "engines.cones:ConeDescent", f"{_PLANE} and {_LOSSES}", _plane, _cost("cones"),
           "cones.descent", 12.0),
    Choice(_D, "patterns", "engines.cones:PatternDescent", f"{_RELU} and {_LOSSES}", relu, _cost("patterns"),
           "cones.patterns", 7.0),
    Choice(_D, "blocks", "engines.knots:KnotDescent", f"a KnotNetwork and {_SQUARE}", _knots, _cost("blocks"),
           "knots.descent", 3.0),
    Choice(_D, "windows", "engines.steps:WindowDescent", "a network of steps and the square or norm loss",
           _steps, _cost("windows"), "steps.windows:advance_windows", 2.0),
    Choice(_D, "scaled", "engines.logs:LogDescent", f"a LogScaledNetwork, {_SQUARE} and orthonormal inputs",
           _orthonormal, _cost("scaled"), "orthogonal.descent", 1.5),
    Choice(_F, "dense", "engines.dense_flow:DenseFlow", "a KnotNetwork (a ReLUNetwork: engine 'walls')",
           _of(KnotNetwork), lambda task: inf if _knots(task) else 1.0),
    Choice(_F, "walls", "engines.wall_flow:WallFlow", _RELU, _of(ReLUNetwork), _wall_flow_cost,
           "walls.step", 18.0),
    Choice(_F, "cones", "engines.cone_flow:ConeFlow", f"{_PLANE} and {_LOSSES}", _plane, _cone_flow_cost,
           "cones.flow_step", 11.0),
    Choice(_F, "stages", "engines.knots:KnotFlow", f"a KnotNetwork and {_SQUARE}", _knots, _knot_flow_cost,
           "knots.flow", 8.0),
    Choice(_F, "smooth", "engines.smooth_flow:sample_flow", "a network of steps", _of_steps, lambda _: 1.0),
    Choice(_F, "leaps", "engines.logs:LogFlow",
           f"{_SQUARE}, orthogonal inputs, |a_j| ≥ ‖w_j‖, slope 0, epsilon 1, stop 0",
           lambda task: _scaled(task) and _can_leap(task), _leaps_cost, "orthogonal.flow", 8.0),
    Choice(_S, "dense", "engines.sweeps:SampledDescent", "box_slope=False",
           lambda task: not task.sampling.box,
           lambda task: 1e-9 * task.steps * (50_000 + 20.0 * task.sampling.batch * task.network.width)),
    Choice(_S, "plain", "engines.steps:PlainSteps", _COMPILED_SGD, _one_step_at_a_time,
           _sgd_cost(45.0, 2.15), "steps.sgd", 3.0),
    Choice(_S, "plateaus", "engines.steps:PlateauSteps", f"{_COMPILED_SGD}, batch 1", _in_cells,
           _sgd_cost(30.0, 0.25, 60.0, 6000.0), "steps.cells:advance_plateaus", 5.0),
    Choice(_S, "hats", "engines.steps:HatSteps", f"{_COMPILED_SGD}, batch 1", _in_cells,
           _sgd_cost(50.0, 0.03, 60.0, 6000.0), "steps.cells:advance_hats", 9.0),
    Choice(_B, "dense", "engines.sweeps:BatchDescent", "nothing", lambda _: True, _cost("dense")),
    Choice(_B, "lanes", "engines.sweeps:LanesBatches", f"{_RELU} and {_LOSSES}", relu, _cost("lanes"),
           "dense:advance_batches", 2.5),
    Choice(_A, "dense", "baselines:DenseAdam", "nothing", lambda _: True, _cost("dense")),
    Choice(_A, "sweep", "baselines:SweepAdam", f"a KnotNetwork and {_SQUARE}", _knots, _cost("blocks"),
           "knots.sweeps", 4.0),
)  # fmt: skip
"""One row per engine."""
RETIRED = {
    (_D, "sliding"): "gradient_flow(engine='cones'), which follows the limit of small steps exactly",
    (_D, "bucketed"): "'patterns', which begins by buckets and groups later",
    (_D, "gram"): "'auto', which takes at most d samples in their span, or 'fused'",
}
"""Engines that are gone → what to write instead."""


def names_of(verb: str) -> tuple[str, ...]:
    """Return what `engine=` takes."""
    return ("auto", *(row.name for row in ENGINES if row.verb == verb))


def chosen_engine(verb: str, name: str, task: Any, precision: str = "double") -> partial[Engine[Any]]:
    """Return what makes the engine of that name, or the cheapest exact one; refuse one that does not fit."""
    rows = {row.name: row for row in ENGINES if row.verb == verb}
    if isinstance(name, str) and (verb, name) in RETIRED and name not in rows:
        raise InvalidInputError(f"engine: {name!r} is gone; take {RETIRED[verb, name]}")
    one_of(name, "engine", ("auto", *rows))
    able = {key: row for key, row in rows.items() if row.single or precision == "double"}
    if name == "auto":
        return _cheapest(list(able.values()), task)
    if not rows[name].fits(task):
        raise InvalidInputError(f"engine: '{name}' needs {rows[name].needs}, {_got(task)}")
    if name not in able:
        raise InvalidInputError(
            f"precision: 'single' needs one of the engines {', '.join(able)}, got '{name}'"
        )
    _warn_of_revival(rows[name], task)
    return partial(rows[name].engine(), task)


def _cheapest(rows: list[Choice], task: Any) -> partial[Engine[Any]]:
    """Return what makes the engine with the least expected time, maybe in the span of few inputs."""
    fitting = _exact([row for row in rows if row.fits(task)], task)
    if not fitting:
        raise InvalidInputError(f"engine: none of {', '.join(row.name for row in rows)} fits, {_got(task)}")
    best = min(fitting, key=lambda row: row.total(task))
    few = best.verb == _D and task.dataset.size <= task.dataset.dimension
    if few and relu(task) and best.name != "decoupled":
        spanned = replace(task, in_span=True)
        inside = [row for row in rows if row.name in IN_SPAN and row.fits(spanned)]
        other = min(inside, key=lambda row: row.total(spanned))
        if other.total(spanned) < best.total(task):
            made: Callable[..., Engine[Any]] = SpannedDescent
            return partial(made, task, other.engine())
    return partial(best.engine(), task)


def _exact(rows: list[Choice], task: Any) -> list[Choice]:
    """Return those in whose coordinates what is frozen stays frozen, if there are such; else all.

    On orthogonal inputs a coordinate ⟨w_j, x_k⟩ ≤ 0 never moves ([incremental] Assumption 2). In the
    coordinates of the data that is so to the last bit; in w, rounding of the others would revive it.
    """
    return [row for row in rows if row.name in EXACT and row.cost(task) < inf] or rows


def _warn_of_revival(row: Choice, task: Any) -> None:
    """Warn of an engine in whose coordinates rounding may revive what is frozen."""
    asked = row.verb == _D or (row.verb == _F and _can_leap(task))
    if not asked or row.name in EXACT or not (relu(task) or _log_scaled(task)):
        return
    network, keeps = task.network, "leaps" if row.verb == _F else "decoupled" if relu(task) else "scaled"
    size = np.abs(network.inner).max() if relu(task) else np.exp(max(network.log_norms.max(), -700.0))
    if network.slope == 0 and 0 < size < TINY_START and orthogonal(task.dataset.inputs):
        words = f"engine {row.name!r}: the inputs are orthogonal and the start is tiny; rounding may revive "
        words += f"coordinates that never move. engine={keeps!r} keeps them."
        warnings.warn(words, RuntimeWarning, stacklevel=4)


def _got(task: Any) -> str:
    """Say what a task is, for an error message."""
    loss = "the default loss" if task.loss is None else f"a {type(task.loss).__name__}"
    got = f"got a {type(task.network).__name__} and {loss}"
    if isinstance(task, SampledTask):
        return f"{got}, batch {task.sampling.batch}, box_slope={task.sampling.box}"
    return f"{got} on inputs of dimension {task.dataset.dimension}"


def expected_seconds(task: Task) -> float:
    """Return the seconds of descent by the cheapest engine that fits, without compilation: right within a
    factor or so. (The costs of flows do not know the final time: they serve to compare engines.)
    """
    rows = [row for row in ENGINES if row.verb == _D and row.fits(task)]
    costs = [row.cost(task) for row in rows]
    if relu(task) and task.dataset.size <= task.dataset.dimension:
        spanned = replace(task, in_span=True)
        costs += [row.cost(spanned) for row in rows if row.name in IN_SPAN]
    return min(costs, default=0.0)
