"""Starts of the one-dimensional experiments: the rule by which one is shown, and many of them trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.errors import ShallowflowError
from shallowflow.experiments.experiment import Claim, Sweep
from shallowflow.experiments.two_timescale.training import (
    AUTHORS,
    PRINTED,
    SETTINGS,
    SGD,
    Setting,
    foreseen,
    start_of,
    task,
)
from shallowflow.landscape.two_timescale.step_classes import fewest_per_piece
from shallowflow.studies import Result, Study

NEEDED = ("width", "sharpness", "noise", "epsilon", "step")
RULE = (
    "two neurons on every piece, and hitting times by which the authors' run reaches every jump and the "
    "printed one all but the two small ones"
)

MOST_STARTS = 2000
"""About one start in ten follows the rule at the paper's parameters."""


def case(parameters: Mapping[str, Any], setting: Setting, start: int, **changes: Any) -> dict[str, Any]:
    """Return the parameters of one training by SGD in a setting, with changes."""
    fixed = {name: parameters[name] for name in NEEDED}
    steps = parameters["steps"][setting.name]
    return {**fixed, "setting": setting.name, "method": SGD, "start": start, "steps": steps, **changes}


def telling(parameters: Mapping[str, Any], start: int) -> bool:
    """Return whether a start follows `RULE`: what is foreseen decides, no training."""
    if not two_per_piece(parameters, start):
        return False
    small = np.abs(PRINTED.target.jumps) == np.abs(PRINTED.target.jumps).min()
    late = ~foreseen(case(parameters, PRINTED, start))
    return bool(foreseen(case(parameters, AUTHORS, start)).all() and np.array_equal(late, small))


def two_per_piece(parameters: Mapping[str, Any], start: int) -> bool:
    """Return whether §4.2's assumption holds for a start."""
    return fewest_per_piece(start_of(parameters, start).positions, PRINTED.target) >= 2


def shown_start(parameters: Mapping[str, Any]) -> int:
    """Return the first start 0, 1, … that follows `RULE`."""
    for start in range(MOST_STARTS):
        if telling(parameters, start):
            return start
    raise ShallowflowError(f"none of the starts 0 to {MOST_STARTS - 1} has {RULE}: change width or steps")


def train_many(parameters: Mapping[str, Any], sweep: Sweep) -> dict[str, list[Result]]:
    """Train from many starts by SGD with larger steps, in both settings."""
    larger = parameters["starts_step"] / parameters["step"]
    points = [
        case(
            parameters,
            setting,
            start,
            step=parameters["starts_step"],
            steps=round(parameters["steps"][setting.name] / larger),
        )
        for setting in SETTINGS
        for start in range(parameters["starts"])
    ]
    results = sweep(Study("two_timescale/fig3, starts", task, points))
    return {
        setting.name: [one for one in results if one.parameters["setting"] == setting.name]
        for setting in SETTINGS
    }


def start_claims(parameters: Mapping[str, Any], results: Mapping[str, list[Result]]) -> list[Claim]:
    """Judge many starts: what hitting times foresee, and what §4.2 assumes."""
    claims = [_foresight(parameters, setting, results[setting.name]) for setting in SETTINGS]
    total, shown = parameters["starts"], shown_start(parameters)
    crowded = np.array([two_per_piece(parameters, start) for start in range(total)])
    same = sum(telling(parameters, start) for start in range(total))
    recovered = np.array([one.metrics["missed"] == 0 for one in results[AUTHORS.name]])
    others = f"{int(recovered[~crowded].sum())} of the {int((~crowded).sum())} others"
    claims.append(
        Claim(
            "(assumed in §4.2) Uniform starts have two neurons on every piece",
            f"the closed form (7) needs it; m = {parameters['width']}",
            f"{int(crowded.sum())} of {total} starts; shown above is start {shown}, the first with {RULE} "
            f"({same} of {total} starts)",
            bool(crowded.mean() > 0.5),
            f"20 neurons are too few for it, but it is not needed: the authors' run recovers from {others}",
        )
    )
    return claims


def _foresight(parameters: Mapping[str, Any], setting: Setting, results: list[Result]) -> Claim:
    right = sum(one.metrics["as_foreseen"] for one in results) / (len(results) * len(setting.target.jumps))
    said = sum(bool(foreseen(one.parameters).all()) for one in results)
    whole = sum(one.metrics["missed"] == 0 for one in results)
    return Claim(
        f"{setting.name}: the hitting times of the limit say which jumps SGD reaches, from any start",
        "the dynamics match closely",
        f"so it is for {100 * right:.1f} % of the jumps; all five are reached from {whole} of {len(results)} "
        f"starts, said: {said} (h = {parameters['starts_step']:g})",
        right >= 0.95,
        "a neuron counts once it is within η, which is before it arrives" if whole > said else "",
    )
