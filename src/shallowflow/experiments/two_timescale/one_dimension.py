"""SGD on a piecewise constant function.

**Figures 4 and 5**: inside and outside the two-timescale regime.

**Figure 8**: the distance to the target over ε, by SGD, by smaller steps, and by the exact flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import shallowflow.experiments.two_timescale.training as training
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.experiments.experiment import (
    LEVEL,
    Claim,
    Experiment,
    Findings,
    Interval,
    Progress,
    Sweep,
    Values,
    scales,
)
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.training import (
    FLOW,
    PUBLISHED,
    PUBLISHED_SEED,
    SETTINGS,
    SGD,
    Setting,
    case,
    covered,
    task,
)
from shallowflow.landscape.two_timescale.step_classes import beside_jumps
from shallowflow.models import StepNetwork
from shallowflow.studies import Study


def _shown(setting: Setting, parameters: Values, progress: Progress) -> Trajectory:
    """Train the network whose functions are shown, from the published start."""
    chosen = case(parameters, setting, PUBLISHED)
    times = training.SHARES * training.slow_time(chosen) / chosen["epsilon"]
    show = f"SGD, {setting.name}"
    return training.train(chosen, PUBLISHED_SEED, Record.at(times), lambda done: progress(done, show))


def run_fig4(parameters: Values, progress: Progress) -> Findings:
    """Show function and neurons on the way, in the two-timescale regime."""
    panels, claims = list[Panel](), list[Claim]()
    for setting in SETTINGS:
        sgd = _shown(setting, parameters, progress)
        panels += _moments(setting, sgd, parameters)
        claims += fig4_claims(setting.name, movement(setting, sgd))
    caption = (
        "Neurons are dashed lines. First the weights fit, then the neuron next to each jump moves to it."
    )
    figure = Figure("fig4", "Two-timescale regime", tuple(panels), caption, columns=3)
    return Findings((figure,), tuple(claims))


class Movement(NamedTuple):
    """What a training did to the neurons.

    beside, others: how far neurons beside a jump, and the others, move at most; moving: the share of all that
    move by more than η; active: weights above a fifth of the smallest jump; jumps, missed; width.
    """

    beside: float
    others: float
    moving: int
    active: int
    jumps: int
    missed: int
    width: int


def movement(setting: Setting, sgd: Trajectory) -> Movement:
    """Return how the neurons of a run moved, and how many are active at the end."""
    first, last = sgd.initial, sgd.final
    assert isinstance(first, StepNetwork)
    assert isinstance(last, StepNetwork)
    near = beside_jumps(first.positions, setting.target)
    moved = np.abs(last.positions - first.positions)
    smallest = float(np.abs(setting.target.jumps).min())
    return Movement(
        float(moved[near].max()),
        float(moved[~near].max()),
        int((moved > first.sharpness).sum()),
        int((np.abs(last.outer) > 0.2 * smallest).sum()),
        len(setting.target.jumps),
        int((~covered(last, setting)).sum()),
        last.width,
    )


def _moments(setting: Setting, sgd: Trajectory, parameters: Values) -> list[Panel]:
    """Return the network at the start, early, and at the end."""
    end = float(sgd.times[-1])
    found = []
    for share, words in ((0.0, "start"), (parameters["early"], "early"), (1.0, "end")):
        title = f"{setting.name}: {words}, τ = {share * end * parameters['epsilon']:.3g}"
        found.append(training.function_panel(sgd(share * end), setting.target, title))
    return found


def fig4_claims(setting: str, found: Movement) -> list[Claim]:
    """Judge §6 in the two-timescale regime: who moves, and how many are active."""
    left = f"{found.missed} jumps have no neuron within η at the end" if found.missed else ""
    return [
        Claim.that(
            "Only the neurons next to a discontinuity move",
            "the others do not move significantly",
            Interval.exact(found.others / found.beside),
            most=0.1,
            words=f"neurons beside a jump move by {found.beside:.3f} at most, the others by {{}} of that",
            setting=setting,
        ),
        Claim.that(
            "The learned representation is sparse",
            "only as many neurons as jumps are active after training",
            Interval.exact(found.active),
            least=found.jumps,
            most=found.jumps,
            words=f"{{}} of {found.width} weights exceed a fifth of the smallest jump; there are "
            f"{found.jumps} jumps",
            reason=left,
            setting=setting,
        ),
    ]


def run_fig5(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Show what happens at ε = 1, and for how many starts a jump stays uncovered."""
    panels, claims = list[Panel](), list[Claim]()
    starts = range(parameters["starts"])
    points = [case(parameters, setting, start) for setting in SETTINGS for start in starts]
    results = sweep(Study("two_timescale/fig5", task, points, root_seed=parameters["seed"]))
    for setting in SETTINGS:
        shown = _shown(setting, parameters, progress)
        panels += _moments(setting, shown, parameters)
        missed = [one.metrics["missed"] for one in results if one.parameters["setting"] == setting.name]
        claims += fig5_claims(setting.name, movement(setting, shown), missed)
    caption = "At ε = 1 positions and weights move together, and neurons leave zones with a jump."
    return Findings((Figure("fig5", "Outside the regime", tuple(panels), caption, columns=3),), tuple(claims))


def fig5_claims(setting: str, found: Movement, missed: Sequence[float]) -> list[Claim]:
    """Judge §6 outside the regime: jumps left alone, by the published start and by many; who moves."""
    failing = sum(one > 0 for one in missed)
    return [
        Claim.that(
            "At ε = 1 a discontinuity is left without any neuron",
            "one of the discontinuities has no neuron; recovery fails",
            Interval.exact(found.missed),
            least=1,
            words=f"the published start misses {{}} of {found.jumps} jumps",
            setting=setting,
        ),
        Claim.that(
            "At ε = 1 most starts leave a discontinuity without any neuron",
            "recovery can fail away from the two-timescale regime",
            Interval.of_share(failing, len(missed)),
            least=0.5,
            words=f"share {{}} of {len(missed)} starts",
            setting=setting,
        ),
        Claim.that(
            "At ε = 1 all neurons move",
            "all neurons move to align with discontinuities",
            Interval.exact(found.moving / found.width),
            least=1,
            words=f"share {{}} of the {found.width} neurons moves by more than η",
            reason="" if found.moving == found.width else "most do, some stay where they start",
            setting=setting,
        ),
        Claim.that(
            "At ε = 1 the learned representation is not sparse",
            "not sparse",
            Interval.exact(found.active),
            least=found.jumps + 1,
            words=f"{{}} of {found.width} weights exceed a fifth of the smallest jump",
            setting=setting,
        ),
    ]


FIG4 = Experiment(
    "two_timescale/fig4",
    "The two-timescale regime: neurons align with the jumps",
    "Figure 4, §6, App. C Table 1",
    scales({"early": 0.05}, **training.TWO_TIMESCALE),
    run_fig4,
    cost={"quick": 1.7, "paper": 6.4},
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
        quick={"starts": 10},
        paper={"starts": 20},
    ),
    run_fig5,
    sweeps=True,
    cost={"quick": 0.3, "paper": 3.3},
)


FINER, LONGER = "SGD, smaller steps", "exact flow, longer"
METHODS = (SGD, FINER, FLOW, LONGER)
MORE = 0.25
"""So many more of all starts must miss a jump at ε = 1 than at small ε for ε to be the cause."""
ENOUGH = 20
"""Starts by which a difference of that size would be seen."""
TRANSITION = 0.1
LONGER_WORDS = "30 times as long"
Results = Mapping[tuple[str, str, float], Sequence[Mapping[str, float]]]
"""(setting, method, ε) → results of the repeats."""


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
        "∫(f − f*)² at the end over the repeats: quartiles and median. Every method starts from the same "
        "positions. The longer flow runs on to converge."
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
    shifts = dict(zip(METHODS, (0.66, 0.87, 1.15, 1.52), strict=True))
    for method, tone in zip(METHODS, ("orange", "pink", "green", "blue"), strict=True):
        pairs = [
            (epsilon * shifts[method], distance)
            for epsilon in _epsilons(method, parameters)
            for distance in _values(results, setting, method, epsilon, "distance")
        ]
        x, y = np.array(pairs).T
        series.append(Series(x, y, method, style="boxes", tone=tone, size=0.3))
    ticks = tuple((epsilon, f"{epsilon:g}") for epsilon in parameters["epsilons"])
    limits = (0.5 * min(parameters["epsilons"]), 2.0 * max(parameters["epsilons"]))
    return Panel(
        tuple(series),
        setting,
        "ε",
        "∫(f − f*)² at the end",
        "log",
        "log",
        x_limits=limits,
        x_ticks=ticks,
    )


def _claims(setting: str, results: Results, epsilons: Sequence[float]) -> list[Claim]:
    """Judge what SGD does over ε, and what of it is left with smaller steps and with more time."""
    small, large = min(epsilons), max(epsilons)

    def mean(method: str, epsilon: float) -> float:
        return float(_values(results, setting, method, epsilon, "distance").mean())

    def missing(method: str, epsilon: float) -> tuple[int, int]:
        missed = _values(results, setting, method, epsilon, "missed")
        return int((missed > 0).sum()), len(missed)

    factors = [
        fast / slow
        for slow, fast in zip(
            *(_values(results, setting, SGD, epsilon, "distance") for epsilon in (small, large)), strict=True
        )
    ]
    recovered = {epsilon: _recovered(*missing(SGD, epsilon)) for epsilon in epsilons}
    return [
        growth_claim(setting, factors, (small, large)),
        transition_claim(setting, recovered),
        remaining_claim(
            setting, [missing(method, large) for method in (FINER, LONGER)], missing(FLOW, small)
        ),
        convergence_claim(setting, mean(FLOW, large), mean(LONGER, large)),
    ]


def convergence_claim(setting: str, flow: float, longer: float) -> Claim:
    """Judge that ε = 1 was run to its end, by the distances of the flow then and much later."""
    return Claim.that(
        "Both regimes are run until convergence (§6, App. C)",
        "at ε = 1 about 5·10⁵ steps of 10⁻⁵ suffice",
        Interval.exact(longer / flow),
        least=0.5,
        words=f"run on {LONGER_WORDS}, the exact flow at ε = 1 goes from {flow:.3f} to {longer:.3f}: {{}} of "
        "it is left",
        reason="weights are still on their way at ε = 1" if longer < 0.5 * flow else "",
        setting=setting,
    )


def _recovered(missed: int, starts: int) -> Interval:
    return Interval.of_share(starts - missed, starts)


def growth_claim(setting: str, factors: Sequence[float], epsilons: tuple[float, float]) -> Claim:
    """Judge that the distance grows with ε; factors: of the distances from the same start."""
    logs = Interval.of_mean(np.log(factors))
    found = Interval(*(float(np.exp(one)) for one in (logs.value, logs.low, logs.high)))
    return Claim.that(
        "The distance grows with ε: SGD recovers the target for ε ≪ 1 and not at ε = 1",
        "the mean distance grows with ε",
        found,
        least=5,
        words=f"from ε = {epsilons[0]:g} to {epsilons[1]:g} by a factor of {{}} (geometric mean of "
        f"{len(factors)} starts)",
        setting=setting,
    )


def transition_claim(setting: str, recovered: Mapping[float, Interval]) -> Claim:
    """Judge "near ε = 0.1": below a third of it most starts recover, above three times it few do."""
    epsilons = sorted(recovered)
    below = [recovered[one].within(least=0.5) for one in epsilons if one < TRANSITION / 3]
    above = [recovered[one].within(most=0.5) for one in epsilons if one > TRANSITION * 3]
    answers = [*below, *above]
    holds = False if False in answers else None if None in answers or not (below and above) else True
    words = "; ".join(f"{recovered[one]} at ε = {one:g}" for one in epsilons)
    return Claim(
        "The transition is near ε = 0.1",
        "it seems to occur for ε ≈ 0.1",
        f"share of starts whose jumps are all covered: {words}",
        holds,
        "too few starts at this scale to tell" if holds is None else "",
        "if at ε < 0.03 most starts miss a jump, or at ε > 0.3 most miss none",
        setting=setting,
    )


def remaining_claim(setting: str, large: Sequence[tuple[int, int]], small: tuple[int, int]) -> Claim:
    """Judge whether at ε = 1 smaller steps and more time miss jumps, too, more often than small ε does.

    large, small: (starts that miss a jump, all starts).
    """
    from scipy.stats import fisher_exact

    worst = min(large, key=lambda one: one[0] / one[1])
    p = float(fisher_exact([[worst[0], worst[1] - worst[0]], [small[0], small[1] - small[0]]], "greater")[1])
    more = worst[0] / worst[1] > small[0] / small[1] + MORE
    shares = " and ".join(str(Interval.of_share(*one)) for one in large)
    return Claim(
        "At ε = 1 jumps are missed with smaller steps and with more time, too",
        "the failure at ε = 1 is one of the regime, not of the step",
        f"share of starts that miss a jump: {shares}; by the exact flow at small ε "
        f"{Interval.of_share(*small)} (Fisher's exact test: p = {p:.2g})",
        more if p < 1 - LEVEL or (not more and worst[1] >= ENOUGH) else None,
        "" if p < 1 - LEVEL else f"{worst[1]} starts are too few to tell",
        f"if not {100 * MORE:.0f} % more of the starts miss a jump at ε = 1",
        setting=setting,
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
        quick={"step": 1e-4, "repeats": 6},
        paper={"step": 1e-5, "repeats": 20},
    ),
    run_fig8,
    sweeps=True,
    cost={"quick": 4.4, "paper": 130},
)
