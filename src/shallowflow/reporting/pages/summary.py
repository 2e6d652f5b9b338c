"""What there is, what was reproduced, how a run went, as plain numbers and texts: the contents of JSON."""

from __future__ import annotations

import inspect
import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.arrays import shown
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Experiment, Reproduction
from shallowflow.experiments.figure import Figure
from shallowflow.studies.code import version

LARGEST_SERIES = 10_000
"""Longer series are named with their length, without their numbers."""
PACKAGES = ("shallowflow", "numpy", "scipy", "numba", "matplotlib")


def summary(reproductions: Sequence[Reproduction], *, series: bool = False) -> dict[str, Any]:
    """Return versions, counts and every claim; with `series` the numbers of the figures too."""
    held, total = count_claims(reproductions)
    return {
        "versions": versions(),
        "claims": {"total": total, "hold": held},
        "reproductions": [_reproduction(reproduction, series) for reproduction in reproductions],
    }


def catalogue(
    experiments: Iterable[Experiment], demo: Sequence[str], generators: Mapping[str, Callable[..., Dataset]]
) -> dict[str, list[dict[str, Any]]]:
    """Return what there is: experiments, and data generators with the call that `simulate` takes."""
    return {
        "experiments": [
            {"name": e.name, "paper": e.paper, "title": e.title, "source": e.source, "demo": e.name in demo}
            for e in experiments
        ],
        "generators": [
            {"name": name, "call": _call(name, make), "description": (make.__doc__ or "").split("\n")[0]}
            for name, make in generators.items()
        ],
    }


def _call(name: str, make: Callable[..., Dataset]) -> str:
    """Return "name:REQUIRED,optional=default,[optional=]"; the seed is an option of its own."""
    parameters = [p for p in inspect.signature(make).parameters.values() if p.name != "seed"]
    words = [_parameter(p) for p in parameters]
    return f"{name}:{','.join(words)}" if words else name


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return f"{parameter.name}={parameter.name.upper()}"
    if parameter.default is None:
        return f"[{parameter.name}={parameter.name.upper()}]"
    return f"{parameter.name}={parameter.default}"


def run_summary(trajectory: Trajectory, dataset: Dataset, seconds: float) -> dict[str, Any]:
    """Return how one run went: outcome, losses, number of events, final time, statistics."""
    outcome = trajectory.outcome
    return {
        "data": {"name": dataset.name, "size": dataset.size, "dimension": dataset.dimension},
        "network": {"type": type(trajectory.path.template).__name__, "width": trajectory.path.template.width},
        "outcome": {
            "status": outcome.status,
            "ok": outcome.ok,
            "message": outcome.message,
            "advice": outcome.advice,
        },
        "initial_loss": plain(trajectory.losses[0]),
        "final_loss": plain(trajectory.losses[-1]),
        "events": trajectory.statistics.get("events", len(trajectory.events)),
        "time": plain(trajectory.times[-1]),
        "seconds": round(seconds, 3),
        "statistics": plain(trajectory.statistics),
    }


def count_claims(reproductions: Sequence[Reproduction]) -> tuple[int, int]:
    """Return how many claims hold, of how many."""
    claims = [claim for reproduction in reproductions for claim in reproduction.claims]
    return sum(claim.holds for claim in claims), len(claims)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that computed the numbers."""
    return {"python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def plain(value: Any) -> Any:
    """Return `value` as what JSON can hold: NaN and infinities become null, the unknown its short text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return shown(value)


def _reproduction(reproduction: Reproduction, series: bool) -> dict[str, Any]:
    experiment = reproduction.experiment
    return {
        "name": experiment.name,
        "paper": experiment.paper,
        "title": experiment.title,
        "source": experiment.source,
        "scale": reproduction.scale,
        "parameters": plain(reproduction.parameters),
        "seconds": round(reproduction.seconds, 3),
        "error": reproduction.error,
        "versions": dict(reproduction.versions),
        "claims": [
            {
                "statement": claim.statement,
                "published": claim.published,
                "measured": claim.measured,
                "holds": bool(claim.holds),
                "reason": claim.reason,
            }
            for claim in reproduction.claims
        ],
        "figures": [_figure(figure, series) for figure in reproduction.figures],
    }


def _figure(figure: Figure, series: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"name": figure.name, "title": figure.title, "caption": figure.caption}
    if series:
        described["panels"] = [
            {
                "title": panel.title,
                "x": panel.x_label,
                "y": panel.y_label,
                "series": [
                    {"label": one.label, "points": len(one.x)}
                    | ({"x": plain(one.x), "y": plain(one.y)} if len(one.x) <= LARGEST_SERIES else {})
                    for one in panel.series
                ],
            }
            for panel in figure.panels
        ]
    return described
