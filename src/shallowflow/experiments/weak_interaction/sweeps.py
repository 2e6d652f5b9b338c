"""Sweeps over the number of samples: plans of runs, their execution, and which of them converged.

The paper trains in float32, and so do these runs ("precision"). A network has converged when Σr² < 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.experiment import Sweep
from shallowflow.experiments.weak_interaction.fits import Threshold
from shallowflow.experiments.weak_interaction.runs import convergence, epochs
from shallowflow.studies import Study

Run = dict[str, Any]
QUICK = {"precision": "single", "repeats": 8, "seed": 0}
PAPER = {"precision": "single", "repeats": 25, "seed": 0}


def plan(
    sizes: Sequence[int], dimension: int, widths: Sequence[int], parameters: Mapping[str, Any]
) -> list[Run]:
    """Return the parameters of a run for every size, with its width."""
    fixed = {
        "dimension": dimension,
        "setting": "printed",
        "budget": 1.5,
        "precision": parameters["precision"],
    }
    return [{**fixed, "size": size, "width": width} for size, width in zip(sizes, widths, strict=True)]


def execute(
    name: str, plans: Sequence[list[Run]], parameters: Mapping[str, Any], sweep: Sweep
) -> list[tuple[list[Run], list[Mapping[str, float]]]]:
    """Train `repeats` networks at every point of the plans; return the runs of each with their numbers."""
    points = [point for part in plans for point in part]
    repeats = parameters["repeats"]
    study = Study(f"weak_interaction/{name}", convergence, points, repeats, parameters["seed"])
    numbers = [result.metrics for result in sweep(study)]
    ends = repeats * np.cumsum([len(part) for part in plans])
    runs = [[point for point in part for _ in range(repeats)] for part in plans]
    return [(part, numbers[end - len(part) : end]) for part, end in zip(runs, ends, strict=True)]


def successes(
    runs: list[Run], results: Sequence[Mapping[str, float]], budget: float = 1.5
) -> tuple[Floats, Floats]:
    """Return sizes and successes (0 or 1) within the epochs of a budget."""
    sizes = np.array([run["size"] for run in runs], dtype=float)
    within = [
        result["converged"] and result["epoch"] <= epochs(run["size"], run["width"], budget)
        for run, result in zip(runs, results, strict=True)
    ]
    return sizes, np.array(within, dtype=float)


def shares_of(sizes: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the different sizes, and the mean of the values at each."""
    kinds = np.unique(sizes)
    return kinds, np.array([np.mean(values[sizes == kind]) for kind in kinds])


def said(found: Threshold | None, success: Floats) -> str:
    """Return a threshold in words, or on which side of the runs it lies."""
    if found is not None:
        return str(found)
    return "beyond the largest n" if success[0] else "below the smallest n"
