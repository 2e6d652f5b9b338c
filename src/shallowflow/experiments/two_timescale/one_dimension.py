"""SGD on a piecewise constant function.

Figures 4 and 5: inside and outside the two-timescale regime. Figure 8: the distance to the target over ε, by
SGD, by smaller steps, and by the exact flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import shallowflow.experiments.two_timescale.training as training
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.training import FLOW, SETTINGS, SGD, Setting, case, covered, task
from shallowflow.landscape.two_timescale.step_classes import beside_jumps
from shallowflow.models import StepNetwork
from shallowflow.studies import Study

FINER, LONGER = "SGD, smaller steps", "exact flow, longer"
METHODS = (SGD, FINER, FLOW, LONGER)
MORE = 0.25
"""So many more of all starts must miss a jump at ε = 1 than at small ε for ε to be the cause."""
Results = Mapping[tuple[str, str, float], Sequence[Mapping[str, float]]]
"""(setting, method, ε) → results of the repeats."""


def _shown(setting: Setting, parameters: Values, start: int, progress: Progress) -> Trajectory:
    """Train the network whose functions are shown."""
    chosen = case(parameters, setting, start)
    times = training.SHARES * training.slow_time(chosen) / chosen["epsilon"]
    show = f"SGD, {setting.name}"
    return training.train(chosen, start, Record.at(times), lambda done: progress(done, show))


def run_fig4(parameters: Values, progress: Progress) -> Findings:
    """Show function and neurons on the way, in the two-timescale regime."""
    panels, claims = list[Panel](), list[Claim]()
    start = training.shown_start(parameters)
    for setting in SETTINGS:
        sgd = _shown(setting, parameters, start, progress)
        panels += _moments(setting, sgd, parameters)
        claims += _fig4_claims(setting, sgd)
    caption = (
        "Neurons are dashed lines. First the weights fit, then the neuron next to each jump moves to it."
    )
    figure = Figure("fig4", "Two-timescale regime", tuple(panels), caption, columns=3)
    return Findings((figure,), tuple(claims))


def _moments(setting: Setting, sgd: Trajectory, parameters: Values) -> list[Panel]:
    """Return the network at the start, early, and at the end."""
    end = float(sgd.times[-1])
    found = []
    for share, words in ((0.0, "start"), (parameters["early"], "early"), (1.0, "end")):
        title = f"{setting.name}: {words}, τ = {share * end * parameters['epsilon']:.3g}"
        found.append(training.function_panel(sgd(share * end), setting.target, title))
    return found


def _fig4_claims(setting: Setting, sgd: Trajectory) -> list[Claim]:
    first, last = sgd.initial, sgd.final
    assert isinstance(first, StepNetwork)
    assert isinstance(last, StepNetwork)
    beside = beside_jumps(first.positions, setting.target)
    moved = np.abs(last.positions - first.positions)
    smallest = float(np.abs(setting.target.jumps).min())
    active = np.abs(last.outer) > 0.2 * smallest
    needed, left = len(setting.target.jumps), int((~covered(last, setting)).sum())
    return [
        Claim(
            f"{setting.name}: only the neurons next to a discontinuity move",
            "the others do not move significantly",
            f"neurons beside a jump move by {moved[beside].max():.3f} at most, the others by "
            f"{moved[~beside].max():.4f}",
            float(moved[~beside].max()) < 0.1 * float(moved[beside].max()),
        ),
        Claim(
            f"{setting.name}: the learned representation is sparse",
            "only as many neurons as jumps are active after training",
            f"{int(active.sum())} of {last.width} weights exceed a fifth of the smallest jump; "
            f"there are {needed} jumps",
            int(active.sum()) == needed,
            f"{left} jumps have no neuron within η at the end" if left else "",
        ),
    ]


def run_fig5(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Show what happens at ε = 1, and for how many starts a jump stays uncovered."""
    panels, claims = list[Panel](), list[Claim]()
    starts = range(parameters["starts"])
    points = [case(parameters, setting, start) for setting in SETTINGS for start in starts]
    results = sweep(Study("two_timescale/fig5", task, points, root_seed=parameters["seed"]))
    for setting in SETTINGS:
        shown = _shown(setting, parameters, 0, progress)
        panels += _moments(setting, shown, parameters)
        of = [one.metrics for one in results if one.parameters["setting"] == setting.name]
        missed, failing = int((~covered(shown.final, setting)).sum()), sum(one["missed"] > 0 for one in of)
        claims.append(
            Claim(
                f"{setting.name}: at ε = 1 a discontinuity is left without any neuron",
                "one of the discontinuities has no neuron; recovery fails",
                f"start 0, shown, misses {missed} of 5 jumps; {failing} of {len(of)} starts miss at least "
                f"one; mean ∫(f − f*)² = {np.mean([one['distance'] for one in of]):.3f}",
                missed > 0 and failing > len(of) / 2,
            )
        )
    caption = "At ε = 1 positions and weights move together, and neurons leave zones with a jump."
    return Findings((Figure("fig5", "Outside the regime", tuple(panels), caption, columns=3),), tuple(claims))


def run_fig8(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Repeat the training over ε and over starts, each method as a study of its own."""
    results: dict[tuple[str, str, float], list[Mapping[str, float]]] = {}
    for method in METHODS:
        name, points = f"two_timescale/fig8, {method}", _points(method, parameters)
        for one in sweep(Study(name, task, points, root_seed=parameters["seed"])):
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


def _points(method: str, parameters: Values) -> list[dict[str, Any]]:
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


def _epsilons(method: str, parameters: Values) -> Sequence[float]:
    chosen: Sequence[float] = parameters["epsilons"]
    if method == FINER:
        return [epsilon for epsilon in chosen if epsilon >= parameters["finer_from"]]
    return [max(chosen)] if method == LONGER else chosen


def _values(results: Results, setting: str, method: str, epsilon: float, name: str) -> Floats:
    return np.array([result[name] for result in results[setting, method, epsilon]])


def _panel(setting: str, results: Results, parameters: Values) -> Panel:
    series = []
    for method, tone in zip(METHODS, ("orange", "pink", "green", "blue"), strict=True):
        epsilons = _epsilons(method, parameters)
        distances = [_values(results, setting, method, epsilon, "distance") for epsilon in epsilons]
        mean, spread = np.array([d.mean() for d in distances]), np.array([d.std() for d in distances])
        band = (np.maximum(mean - spread, 0.0), mean + spread) if len(mean) > 1 else None
        series.append(Series(epsilons, mean, method, tone=tone, band=band))
        series.append(Series(epsilons, mean, style="points", tone=tone))
    return Panel(tuple(series), setting, "ε", "∫(f − f*)² at the end", "log")


def _claims(setting: str, results: Results, epsilons: Sequence[float]) -> list[Claim]:
    small, large = min(epsilons), max(epsilons)

    def mean(method: str, epsilon: float) -> float:
        return float(_values(results, setting, method, epsilon, "distance").mean())

    def missing(method: str, epsilon: float) -> float:
        return float((_values(results, setting, method, epsilon, "missed") > 0).mean())

    def words(method: str, epsilon: float) -> str:
        total = len(results[setting, method, epsilon])
        share = f"{round(total * missing(method, epsilon))}/{total} miss a jump"
        return f"{method} at ε = {epsilon:g}: {mean(method, epsilon):.3f} ({share})"

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


FIG4 = Experiment(
    "two_timescale/fig4",
    "The two-timescale regime: neurons align with the jumps",
    "Figure 4, §6, App. C Table 1",
    scales({"early": 0.05}, **training.TWO_TIMESCALE),
    run_fig4,
    cost={"quick": 0.5, "paper": 5.6},
)
FIG5 = Experiment(
    "two_timescale/fig5",
    "Outside the two-timescale regime a jump is lost",
    "Figure 5, §6, App. C Table 2",
    scales(
        {
            **training.COMMON,
            "epsilon": 1.0,
            "step": 1e-5,
            "steps": {"printed": 1_000_000, "authors": 1_000_000},
            "seed": 5,
            "early": 0.2,
        },
        quick={"starts": 5},
        paper={"starts": 20},
    ),
    run_fig5,
    sweeps=True,
    cost={"quick": 0.3, "paper": 3.3},
)
FIG8 = Experiment(
    "two_timescale/fig8",
    "Distance to the target as a function of ε",
    "Figure 8, App. C",
    scales(
        {
            **training.COMMON,
            "epsilons": (0.01, 0.1, 1.0),
            "slow_time": 3.0,
            "finer": 10,
            "finer_from": 0.1,
            "longer": 30.0,
            "seed": 8,
        },
        quick={"step": 1e-4, "repeats": 2},
        paper={"step": 1e-5, "repeats": 20},
    ),
    run_fig8,
    sweeps=True,
    cost={"quick": 4.4, "paper": 79},
)
