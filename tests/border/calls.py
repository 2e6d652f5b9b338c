"""Every public callable with arguments that are right: where the walk along the border starts from.

The callables come from the public lists themselves, with their parameters: a new name is walked at once.
What a parameter takes is said by its name, its annotation and the subject of the call (`SUBJECTS`).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

import shallowflow as sf
from shallowflow.certificates import Question
from tests.contract.described import MODULES, TABLES

PLANE = sf.Dataset([[-0.7, 1.0], [0.2, 1.0], [0.9, 1.0]], [1.0, -0.4, 0.8])
LINE = sf.Dataset(np.linspace(-1.0, 1.0, 7)[:, None], np.array([0.0, 0.5, -0.3, 0.2, 0.9, -1.0, 0.4]))
UNIT = sf.data.GENERATORS["orthonormal"](4, 4, seed=3)
BOX = sf.Dataset([[0.1, 0.9], [0.5, 0.4], [0.8, 0.3]], [1.0, 0.0, 2.0])
STEPS = sf.PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 2.0])
RELU = sf.ReLUNetwork([[0.5, 0.1], [-0.3, 0.4], [0.2, -0.6]], [0.4, -0.5, 0.3])
KNOTS = sf.KnotNetwork([-0.8, -0.1, 0.45], [0.5, -0.7, 0.2])
SOFT = sf.StepNetwork([0.2, 0.5, 0.75], [0.5, -0.5, 1.0], 0.2, 0.1)
CUBOIDS = sf.initialize.uniform_cuboids(2, 2, sharpness=0.1, seed=1)
TINY = sf.initialize.log_scaled(5, 4, log_scale=-20.0, seed=2)
SMALL = sf.initialize.balanced(5, 4, init_scale=1e-3, seed=2)


@cache
def runs() -> dict[str, Any]:
    """Return a finished run of each subject."""
    return {
        "plane": sf.gradient_flow(RELU, PLANE, until=2.0),
        "line": sf.gradient_flow(KNOTS, LINE, until=2.0),
        "unit": sf.gradient_flow(TINY, UNIT, until=30.0),
        "small": sf.gradient_flow(SMALL, UNIT, until=2.0),
        "steps": sf.population_flow(SOFT, STEPS, until=2.0, epsilon=0.1),
    }


def walked_task(a: int, seed: int) -> dict[str, float]:
    """A task of a study."""
    return {"a": float(a)}


SUBJECTS: dict[str, tuple[Any, Any]] = {
    "plane": (RELU, PLANE),
    "line": (KNOTS, LINE),
    "unit": (TINY, UNIT),
    "small": (SMALL, UNIT),
    "steps": (SOFT, STEPS),
    "box": (CUBOIDS, BOX),
}
"""What a call is about: a network and what it is trained on."""

ABOUT: dict[str, str] = {
    "shallowflow.saddle_to_saddle": "unit",
    "shallowflow.predict_jumps": "small",
    "shallowflow.jumps": "unit",
    "shallowflow.stages": "line",
    "shallowflow.hitting_times": "steps",
    "shallowflow.population_flow": "steps",
    "shallowflow.two_timescale_limit": "steps",
    "shallowflow.landscape.mask_matrix": "unit",
    "shallowflow.landscape.min_norm_interpolator": "unit",
    "shallowflow.landscape.squared_norm": "small",
    "shallowflow.landscape.fully_trained": "line",
    "shallowflow.landscape.interaction": "small",
    "shallowflow.landscape.population_loss": "steps",
}
"""Callables whose annotations leave their subject open."""

VALUES: dict[str, Any] = {
    **{"until": 1.0, "steps": 5, "step": 0.01, "speed": 1.0, "epsilon": 0.2, "tolerance": 1e-6, "stop": 0.0},
    **{"seed": 1, "name": "walked", "scale": 1.0, "slope": 0.0, "sharpness": 0.1, "offset": 0.0, "width": 4},
    **{"dimension": 3, "size": 4, "rank": 2, "noise": 0.1, "batch": 1, "record": None, "loss": None},
    **{"inputs": [[0.5, 0.1], [0.2, -0.3]], "targets": [0.4, -0.5], "inner": [[0.5, 0.1], [0.2, -0.3]]},
    **{"outer": [0.4, -0.5], "knots": [-0.5, 0.5], "positions": [0.2, 0.6], "log_scales": [-3.0, -4.0]},
    **{"breakpoints": [0.3, 0.6], "values": [1.0, -1.0, 2.0], "components": [STEPS, STEPS]},
    **{"reduction": "mean", "log_scale": -30.0, "labels": "gaussian", "correlation": 0.01, "draws": 50},
    **{"times": [0.5, 1.0], "losses": [1.0, 0.5], "norm": 1.0, "start": 0.1, "end": 0.5, "cuts": [-0.5, 0.4]},
    **{"interval": [-1.0, 1.0], "bias": [0.1, 0.2], "positive_labels": 2, "negative_labels": 2},
    **{"positives": 2, "negatives": 2, "direction": [0.3, 0.4], "known": [0.1, 0.2], "parts": [[0.3, 0.1]]},
    **{
        "preactivations": [[0.3, -0.2]],
        "signs": [1.0],
        "mask": [[True, False]],
        "theorem": "plateau/lemma-3.4",
    },
    **{
        "points": 5,
        "k": 2,
        "theta": 0.1,
        "x": [0.1, 0.5],
        "z": [0.1, -0.2],
        "t": 0.5,
        "fall": 0.01,
        "jumps": 1,
    },
    **{"predictions": [0.1, 0.2], "covector": [0.1, 0.2], "parameters": {}, "networks": True, "time": 0.5},
    **{
        "acceleration": 10.0,
        "slopes": [0.1, 0.2, 0.3],
        "centres": [0.1, 0.4, 0.8],
        "heights": [1.0, 0.5, 0.2],
    },
    **{"low": 0.0, "high": 1.0, "moments": [0.5], "numbers": 3, "first": 0.1, "excess": 1.0},
}
"""Right values by the name of the parameter."""

SPECIAL: dict[str, dict[str, Any]] = {
    "shallowflow.KnotNetwork": {"knots": [-0.5, 0.5]},
    "shallowflow.LogScaledNetwork": {"inner": [[0.6, 0.8], [1.0, 0.0]]},
    "shallowflow.AdditiveStepNetwork": {
        "positions": [[0.2, 0.6], [0.1, 0.3]],
        "outer": [[0.4, 0.1], [0.2, 0.3]],
    },
    "shallowflow.landscape.to_knots": {"inner": [0.5, -0.3], "outer": [0.4, 0.2]},
    "shallowflow.alternating_least_squares": {"inner": "gd"},
    "shallowflow.Record": {"times": None, "interval": 3},
    "shallowflow.landscape.frozen_losses": {"times": [0.1, 0.5]},
    "shallowflow.initialize.grouped": {"inputs": UNIT.inputs, "targets": [1.0, 2.0, 0.5, 1.5], "width": 2},
    "shallowflow.initialize.uniform_positions": {"outer": None},
    "shallowflow.landscape.norm_constant": {"targets": [1.0, -2.0]},
    "shallowflow.landscape.pl_bounds": {"known": None},
    "shallowflow.landscape.exit_condition": {"after": sf.KnotNetwork([-0.8, 0.1, 0.45], [0.5, -0.7, 0.2])},
    "shallowflow.landscape.minimal_gates": {"known": np.array([0.1, 0.2]), "parts": np.eye(2)},
    "shallowflow.Additive": {"components": [STEPS, sf.PiecewiseAffine([0.0, 0.5, 1.0], [0.0, 1.0, 0.5])]},
    "shallowflow.PiecewiseAffine": {"breakpoints": [0.0, 0.6, 1.0], "values": [1.0, -1.0, 2.0]},
    **{f"data.CURVES[{name}]": {"x": np.array([0.1, 0.5])} for name in sf.data.CURVES},
    "data.GENERATORS[curve]": {"name": "sin_pi"},
    "data.GENERATORS[sphere]": {"labels": "bounded"},
    "data.GENERATORS[orthogonal]": {"labels": "bounded", "dimension": 6},
    "data.GENERATORS[orthonormal]": {"dimension": 6},
    "data.GENERATORS[correlated]": {"dimension": 6},
    "shallowflow.estimators.Pieces": {"knots": [0.3, 0.6]},
    "shallowflow.landscape.orthonormality": {"inputs": UNIT.inputs},
    "shallowflow.landscape.activity": {"inputs": PLANE.inputs},
    "shallowflow.Event": {"kind": "on"},
    "shallowflow.Outcome": {"status": "completed", "message": "done"},
    "shallowflow.certify": {"network": KNOTS, "dataset": LINE},
    "shallowflow.certificates.Answers": {"certificates": {}},
    "shallowflow.experiments.Animation": {"frames": (), "labels": ()},
    "shallowflow.experiments.Series": {"y": [0.1, 0.4]},
    "shallowflow.landscape.average_pl": {"times": [0.0, 1.0]},
    "shallowflow.landscape.mask_of": {
        **{"preactivations": np.array([[0.3], [-0.2]]), "signs": np.array([1.0])},
        "targets": np.array([0.4, -0.5]),
    },
    "shallowflow.landscape.mask_report": {"mask": np.array([[True, False], [False, True]])},
    "shallowflow.studies.Store": {"directory": "store"},
    "shallowflow.studies.Study": {"task": walked_task, "grid": {"a": [1, 2]}},
}
"""Right values of single callables."""
NOT_WALKED = {
    "shallowflow.reproduce": "runs an experiment: minutes",
    "shallowflow.studies.Cluster": "starts worker processes: tests/studies/test_cluster.py",
    "shallowflow.studies.Executor": "a protocol",
    "shallowflow.studies.run": "runs what it is given: tests/studies",
    "shallowflow.studies.run_all": "runs what it is given: tests/studies",
}
"""Public callables that are left out, and why."""
ERRORS = (sf.ShallowflowError, sf.InvalidInputError, sf.FileFormatError, sf.StoreError)


@dataclasses.dataclass(frozen=True)
class Call:
    """A callable and arguments with which it works."""

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    optional: tuple[str, ...]
    """Parameters that are not given, because their defaults are right: a walk may give them."""


def public() -> dict[str, Callable[..., Any]]:
    """Return every public callable: functions, constructors that check, entries of the public tables."""
    found: dict[str, Any] = {}
    for module, where in MODULES.items():
        for name in where.__all__:
            value = getattr(where, name)
            if callable(value) and getattr(value, "__module__", "").startswith("shallowflow"):
                found.setdefault(f"{module}.{name}", value)
    for table in ("certificates.CERTIFICATES", "certificates.VERDICTS", "data.CURVES", "data.GENERATORS"):
        found |= {f"{table}[{key}]": value for key, value in TABLES[table].items() if callable(value)}
    seen: set[int] = set()
    once = {}
    for name, value in found.items():
        if id(value) not in seen and not (inspect.isclass(value) and issubclass(value, Exception)):
            seen.add(id(value))
            once[name] = value
    return once


def subject_of(name: str, parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return what a callable is about, by its network's annotation."""
    if name in ABOUT:
        return ABOUT[name]
    if "[incremental/" in name:
        return "small"
    if "[weak_interaction/" in name:
        return "small"
    for key in ("network", "trajectory", "target", "dataset"):
        if key in parameters:
            text = str(parameters[key].annotation)
            if "ReLU" in text or "Small" in text or "Kinked" in text:
                return "plane"
            if "Knot" in text:
                return "line"
            if "Step" in text or key == "target":
                return "steps"
    return "plane"


def value_of(name: str, parameter: str, subject: str) -> Any:
    """Return a right value of a parameter; `inspect.Parameter.empty` if none is known."""
    network, data = SUBJECTS[subject]
    special = SPECIAL.get(name, {})
    if parameter in special:
        return special[parameter]
    if parameter in ("network", "start"):
        return network if parameter == "network" or "phase_state" in name else VALUES[parameter]
    if parameter in ("dataset", "data", "target"):
        return data
    if parameter in ("trajectory", "trajectories"):
        return runs()[subject]
    if parameter == "question":
        return Question(PLANE, width=5)
    return VALUES.get(parameter, inspect.Parameter.empty)


def calls() -> list[Call]:
    """Return every public callable with arguments that are right."""
    return [call_of(name, function) for name, function in public().items() if name not in NOT_WALKED]


def call_of(name: str, function: Callable[..., Any]) -> Call:
    """Return a callable with right values of the parameters that it asks for."""
    parameters = inspect.signature(function).parameters
    subject = subject_of(name, parameters)
    arguments, optional = {}, []
    for key, one in parameters.items():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        value = value_of(name, key, subject)
        given = key in SPECIAL.get(name, {}) or one.default is one.empty or key in ("trajectory", "limit_")
        if given and value is not one.empty:
            arguments[key] = value
        elif one.default is one.empty:
            arguments[key] = None
        else:
            optional.append(key)
    return Call(name, function, arguments, tuple(optional))
