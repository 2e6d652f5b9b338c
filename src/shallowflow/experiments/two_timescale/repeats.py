"""Figure 8: the distance to the target over ε, by SGD, by smaller steps, and by the exact flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Sweep
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.training import FLOW, SETTINGS, SGD, task
from shallowflow.studies import Study

FINER, LONGER = "SGD, smaller steps", "exact flow, longer"
METHODS = (SGD, FINER, FLOW, LONGER)
MORE = 0.25
"""So many more of all starts must miss a jump at ε = 1 than at small ε for ε to be the cause."""
Results = Mapping[tuple[str, str, float], Sequence[Mapping[str, float]]]
"""(setting, method, ε) → results of the repeats."""


def run_fig8(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
    """Repeat the training over ε and over starts, each method as a study of its own."""
    results: dict[tuple[str, str, float], list[Mapping[str, float]]] = {}
    for method in METHODS:
        study = Study(
            f"two_timescale/fig8, {method}", task, _points(method, parameters), root_seed=parameters["seed"]
        )
        for one in sweep(study):
            key = (one.parameters["setting"], method, one.parameters["epsilon"])
            results.setdefault(key, []).append(one.metrics)
    panels = tuple(_panel(setting.name, results, parameters) for setting in SETTINGS)
    claims = tuple(
        claim for setting in SETTINGS for claim in _claims(setting.name, results, parameters["epsilons"])
    )
    caption = (
        "Mean of ∫(f − f*)² over the repeats at the end, with one standard deviation. Every method starts "
        "from the same positions. The longer flow runs on to converge."
    )
    return Findings((Figure("fig8", "Distance to the target over ε", panels, caption),), claims)


def _points(method: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of all trainings by a method."""
    step = parameters["step"] / (parameters["finer"] if method == FINER else 1)
    until = parameters["slow_time"] * (parameters["longer"] if method == LONGER else 1)
    fixed = {name: parameters[name] for name in ("width", "sharpness", "noise")}
    return [
        {
            **fixed,
            "setting": setting.name,
            "method": SGD if method in (SGD, FINER) else FLOW,
            "epsilon": epsilon,
            "step": step,
            "steps": round(until / (epsilon * step)),
            "start": start,
        }
        for setting in SETTINGS
        for epsilon in _epsilons(method, parameters)
        for start in range(parameters["repeats"])
    ]


def _epsilons(method: str, parameters: Mapping[str, Any]) -> Sequence[float]:
    chosen: Sequence[float] = parameters["epsilons"]
    if method == FINER:
        return [epsilon for epsilon in chosen if epsilon >= parameters["finer_from"]]
    return [max(chosen)] if method == LONGER else chosen


def _values(results: Results, setting: str, method: str, epsilon: float, name: str) -> Floats:
    return np.array([result[name] for result in results[setting, method, epsilon]])


def _panel(setting: str, results: Results, parameters: Mapping[str, Any]) -> Panel:
    series = []
    for method, tone in zip(METHODS, ("orange", "pink", "green", "blue"), strict=True):
        epsilons = _epsilons(method, parameters)
        distances = [_values(results, setting, method, epsilon, "distance") for epsilon in epsilons]
        mean, spread = np.array([d.mean() for d in distances]), np.array([d.std() for d in distances])
        band = (np.maximum(mean - spread, 0.0), mean + spread) if len(mean) > 1 else None
        series.append(Series(epsilons, mean, method, tone=tone, band=band))
        series.append(Series(epsilons, mean, style="points", tone=tone))
    return Panel(tuple(series), setting, "ε", "∫(f − f*)² at the end", x_scale="log")


def _claims(setting: str, results: Results, epsilons: Sequence[float]) -> list[Claim]:
    small, large = min(epsilons), max(epsilons)

    def words(method: str, epsilon: float) -> str:
        distance = _values(results, setting, method, epsilon, "distance")
        missed = _values(results, setting, method, epsilon, "missed")
        share = f"{int((missed > 0).sum())}/{len(missed)} miss a jump"
        return f"{method} at ε = {epsilon:g}: {distance.mean():.3f} ({share})"

    def mean(method: str, epsilon: float) -> float:
        return float(_values(results, setting, method, epsilon, "distance").mean())

    def missing(method: str, epsilon: float) -> float:
        return float((_values(results, setting, method, epsilon, "missed") > 0).mean())

    slow, fast = mean(SGD, small), mean(SGD, large)
    flow, longer = mean(FLOW, large), mean(LONGER, large)
    still = min(missing(FINER, large), missing(LONGER, large))
    return [
        Claim(
            f"{setting}: SGD recovers the target for ε ≪ 1 and fails at ε = 1",
            "the mean distance grows with ε; transition near ε = 0.1",
            "; ".join(words(SGD, epsilon) for epsilon in sorted(epsilons)),
            slow < 0.2 * fast,
        ),
        Claim(
            f"{setting}: at ε = 1 jumps are missed with smaller steps and with more time, too",
            "both regimes are run until convergence",
            "; ".join(words(method, large) for method in METHODS[1:]) + f"; {words(FLOW, small)}",
            still >= missing(FLOW, small) + MORE,
            f"run on, the flow at ε = 1 goes from {flow:.3f} to {longer:.3f} and from "
            f"{100 * missing(FLOW, large):.0f} % to {100 * missing(LONGER, large):.0f} % of starts that miss "
            "a jump",
        ),
    ]


_FIG8 = {
    "epsilons": (0.01, 0.1, 1.0),
    "width": 20,
    "sharpness": 4e-3,
    "noise": 1.0,
    "slow_time": 3.0,
    "finer": 10,
    "finer_from": 0.1,
    "longer": 30.0,
    "seed": 8,
}

FIG8 = Experiment(
    "two_timescale/fig8",
    "Distance to the target as a function of ε",
    "Figure 8, App. C",
    {
        "quick": {**_FIG8, "step": 1e-4, "repeats": 2},
        "paper": {**_FIG8, "step": 1e-5, "repeats": 20},
    },
    run_fig8,
    sweeps=True,
    cost={"quick": 4.4, "paper": 79},
)
