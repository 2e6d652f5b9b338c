"""Figure 3: SGD beside the two-timescale limit, what stands between the two, and many starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

import shallowflow.experiments.two_timescale.training as training
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import two_timescale_limit
from shallowflow.dynamics.heaviside import hitting_times
from shallowflow.experiments.experiment import (
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
    AUTHORS,
    PRINTED,
    PUBLISHED,
    PUBLISHED_SEED,
    SETTINGS,
    SHARES,
    Setting,
    case,
    foreseen,
)
from shallowflow.landscape import covered_error, step_class
from shallowflow.models import StepNetwork
from shallowflow.readings.curves import largest_gap
from shallowflow.studies import Result, Study

STEP_OF_PAPER = 1e-5


def train_many(parameters: Values, sweep: Sweep) -> dict[str, list[Result]]:
    """Train from many starts by SGD with larger steps, in both settings."""
    step, points = parameters["starts_step"], list[Values]()
    for setting in SETTINGS:
        steps = round(parameters["steps"][setting.name] / (step / parameters["step"]))
        points += [
            case(parameters, setting, start, step=step, steps=steps) for start in range(parameters["starts"])
        ]
    results = sweep(Study("two_timescale/fig3, starts", training.task, points))
    return {
        setting.name: [one for one in results if one.parameters["setting"] == setting.name]
        for setting in SETTINGS
    }


def setting_claims(parameters: Values, setting: Setting, results: list[Result]) -> list[Claim]:
    """Judge the many starts of a setting: what hitting times foresee, how many recover."""
    whole = sum(one.metrics["missed"] == 0 for one in results)
    said = sum(bool(foreseen(one.parameters).all()) for one in results)
    right = round(sum(one.metrics["as_foreseen"] for one in results))
    jumps = len(results) * len(setting.target.jumps)
    return [
        foresight_claim(setting.name, right, jumps, (whole, said, len(results))),
        share_claim(setting.name, whole, len(results)),
    ]


def share_claim(setting: str, whole: int, starts: int) -> Claim:
    """Judge from how many uniform starts SGD recovers the target."""
    return Claim.that(
        "From most uniform starts SGD recovers the target",
        "in the two-timescale regime SGD recovers the target",
        Interval.of_share(whole, starts),
        least=0.5,
        words=f"share {{}} of {starts} starts cover all jumps",
        setting=setting,
    )


def start_claims(parameters: Values, results: list[Result]) -> list[Claim]:
    """Judge what §4.2 assumes, what of it is needed, and App. C's number of steps."""
    crowded = [training.two_per_piece(parameters, start) for start in range(parameters["starts"])]
    recovered = [one.metrics["missed"] == 0 for one in results]
    others = [whole for whole, two in zip(recovered, crowded, strict=True) if not two]
    published = case(parameters, AUTHORS, PUBLISHED)
    network = training.start_of(parameters, PUBLISHED)
    last = float(hitting_times(network, AUTHORS.target).max()) / AUTHORS.loss_factor
    steps = last / (published["epsilon"] * STEP_OF_PAPER)
    return [
        crowded_claim(sum(crowded), len(crowded), sum(others), len(others)),
        steps_claim(steps),
        remark_claim(recovered_times(parameters)),
    ]


def crowded_claim(crowded: int, starts: int, recovered: int, others: int) -> Claim:
    """Judge the assumption of §4.2 for uniform starts."""
    return Claim.that(
        "(assumed in §4.2) Uniform starts have two neurons on every piece",
        "the closed form (7) needs it; m = 20",
        Interval.of_share(crowded, starts),
        least=0.5,
        words=f"share {{}} of {starts} starts",
        reason=f"20 neurons are too few for it, but it is not needed: the authors' run recovers from "
        f"{recovered} of the {others} others",
    )


def steps_claim(steps: float) -> Claim:
    """Judge App. C: about 2·10⁸ steps are needed; `steps` bring the limit to its last jump."""
    return Claim.that(
        "About 2·10⁸ steps bring every neuron to its jump (App. C)",
        "≈ 2·10⁸ steps of 10⁻⁵ at ε = 2·10⁻⁵, by the order of magnitude",
        Interval.exact(steps / 2e8),
        least=0.2,
        most=5,
        words=f"the last hitting time of the published start takes {steps:.2g} steps: {{}} times as many",
        setting="authors",
    )


def recovered_times(parameters: Values) -> list[float]:
    """Return for many starts the last hitting time in units of T = 6/(Δf)², which does not know of ξ."""
    until = step_class(PRINTED.target).slow_time
    starts = range(parameters["starts"])
    return [
        float(hitting_times(training.start_of(parameters, start), PRINTED.target).max()) / until
        for start in starts
    ]


def remark_claim(shares: Sequence[float]) -> Claim:
    """Judge Remark 2: the time of recovery does not depend on the error asked for; T is enough."""
    return Claim.that(
        "The limit recovers by T = 6/(Δf)², whatever error is asked for (Remark 2)",
        "T does not depend on ξ",
        Interval.exact(max(shares)),
        most=1.0,
        words=f"with η = 0 the error is 0 at the last hitting time, at most {{}} T over {len(shares)} starts",
        setting="printed",
    )


def foresight_claim(setting: str, right: int, jumps: int, starts: tuple[int, int, int]) -> Claim:
    """Judge what hitting times foresee; starts: recovered, said to be recovered, all of them."""
    whole, said, total = starts
    return Claim.that(
        "The hitting times of the limit say which jumps SGD reaches, from any start",
        "the dynamics match closely",
        Interval.of_share(right, jumps),
        least=0.9,
        words=f"so it is for a share {{}} of the jumps; all five are reached from {whole} of {total} starts, "
        f"said: {said}",
        reason="a neuron counts once it is within η, which is before it arrives" if whole > said else "",
        setting=setting,
    )


TENTHS = (1, 10, 100)
LATER = 0.2
LARGER = 1e-3
"""The step of App. C that gives similar results."""
FAST_PHASE = 0.01
"""Share of the run within which the weights, which start at zero, catch up; the flow shows how."""


@dataclass(frozen=True)
class Comparison:
    """A run of SGD with the limits; curves of ∫(f − f*)² at the slow times `slow`, (k,) each.

    flows: by the exact flow (1) with ε over 1, 10 and 100. smooth, sharp: by the limit with η and with 0.
    """

    setting: Setting
    sgd: Trajectory
    limit: Trajectory
    slow: Floats
    curve: Floats
    flows: dict[int, Floats]
    smooth: Floats
    sharp: Floats

    @property
    def begin(self) -> float:
        """Where the limit with η = 0 begins."""
        return float(self.sharp[0])

    def gap(self, first: Floats, second: Floats, since: float = 0.0) -> float:
        """Return the largest distance of two curves in units of `begin`, from a share of the run on."""
        return largest_gap(self.slow, first, second, since) / self.begin


def compare(setting: Setting, chosen: Values, progress: Progress) -> Comparison:
    """Run SGD, the flow for three ε, and the limit with η and without, from one start."""
    until, target = training.slow_time(chosen), setting.target
    time = until / chosen["epsilon"]
    record = Record.at(SHARES * time)
    sgd = training.train(chosen, PUBLISHED_SEED, record, lambda done: progress(done, f"SGD, {setting.name}"))
    slow = np.minimum(sgd.times * chosen["epsilon"], until)
    flows = {}
    for tenth in TENTHS:
        epsilon, steps = chosen["epsilon"] / tenth, tenth * chosen["steps"]
        slower = {**chosen, "method": training.FLOW, "epsilon": epsilon, "steps": steps}
        flow = training.train(slower, 0, Record.at(SHARES * tenth * time))
        flows[tenth] = 2.0 * np.interp(slow, flow.times * epsilon, flow.losses)
    start = sgd.initial
    assert isinstance(start, StepNetwork)
    limit = two_timescale_limit(StepNetwork(start.positions, start.outer), target, until=until)
    smooth = two_timescale_limit(
        start, target, until=until, tolerance=1e-6, stiff=True, record=Record.at(SHARES * until)
    )
    return Comparison(
        setting,
        sgd,
        limit,
        slow,
        2.0 * sgd.losses,
        flows,
        2.0 * np.interp(slow, smooth.times, smooth.losses),
        np.array([training.squared_distance(limit(float(t)), setting) for t in slow]),
    )


def run_fig3(parameters: Values, progress: Progress, sweep: Sweep) -> Findings:
    """Compare SGD with the limit with η = 0, from the published start; then train many starts."""
    panels, claims = list[Panel](), list[Claim]()
    results = train_many(parameters, sweep)
    for setting in SETTINGS:
        found = compare(setting, case(parameters, setting, PUBLISHED), progress)
        panels += _panels(found, parameters)
        claims += [*gap_claims(found, parameters["epsilon"]), *recovery_claims(ending(found), parameters)]
        claims.append(larger_step_claim(setting.name, _larger_step(parameters, setting), found))
        claims += setting_claims(parameters, setting, results[setting.name])
    claims += start_claims(parameters, results[AUTHORS.name])
    figure = Figure(
        "fig3",
        "SGD beside the two-timescale limit",
        tuple(panels),
        "Left: ∫(f − f*)² over the slow time τ = ε·t (dotted: when the limit reaches a jump), with the error "
        "that covered jumps leave. Right: the functions at the end; a dashed vertical line stands at every "
        "neuron. Positions start where the authors' program draws them. Weights start at zero and are not "
        "the best ones at once: the exact flow with the same ε shows it, too. Time is that of the loss ½r²; "
        "the authors' r² runs twice as fast.",
    )
    return Findings((figure,), tuple(claims))


def _panels(found: Comparison, parameters: Values) -> list[Panel]:
    setting = found.setting
    floor = covered_error(setting.target, parameters["sharpness"])
    ends = np.array([found.slow[1], found.slow[-1]])
    error = Panel(
        (
            Series(found.slow, found.curve, "SGD", tone="orange"),
            Series(found.slow, found.flows[1], "exact flow, same ε", style="dashed", tone="blue"),
            Series(found.slow, found.sharp, "limit, η = 0", style="dashed", tone="green"),
            Series(ends, np.full(2, floor), "what covered jumps leave", tone="muted", size=0.6),
        ),
        f"{setting.name}: distance to the target",
        "τ",
        "∫(f − f*)²",
        y_scale="log",
        y_limits=(0.3 * floor, 2.0 * float(found.curve.max())),
        marks=tuple((event.time, "") for event in found.limit.events),
        marks_label="the limit reaches a jump",
    )
    x = np.linspace(0.0, 1.0, 2001)
    shown = training.function_panel(found.sgd.final, setting.target, f"{setting.name}: at the end")
    final = Series(x, found.limit.final(x), "limit, η = 0", style="dashed", tone="green")
    return [error, replace(shown, series=(*shown.series, final))]


CLOSE = 0.1
"""Curves match closely if they differ by no more than this share of the limit's start."""


def gap_claims(found: Comparison, epsilon: float) -> list[Claim]:
    """Judge SGD against the limit, against the flow with its ε, and that flow against the limit."""
    flow = found.flows[1]
    off = float(np.max(np.abs(found.curve - flow) / np.maximum(flow, found.begin)))
    gaps = [found.gap(found.flows[tenth], found.smooth, FAST_PHASE) for tenth in TENTHS]
    words = ", ".join(
        f"{100 * one:.2g} % at ε = {epsilon / tenth:g}" for one, tenth in zip(gaps, TENTHS, strict=True)
    )
    words += f" of the limit's start at most; η adds {100 * found.gap(found.smooth, found.sharp):.1f} %"
    name = found.setting.name
    return [
        match_claim(name, *(found.gap(found.curve, found.sharp, since) for since in (FAST_PHASE, LATER))),
        Claim.that(
            "SGD follows the exact flow (1) with the same ε, from the first step on",
            "SGD with small steps approximates the flow",
            Interval.exact(off),
            most=0.05,
            words="at most {} off, of the flow's value or of the limit's start if that is larger",
            setting=name,
        ),
        limit_claim(name, gaps, words),
    ]


def limit_claim(setting: str, gaps: Sequence[float], words: str) -> Claim:
    """Judge Prop. 4 by the gaps of flow and limit, each at a tenth of the ε before."""
    return Claim.that(
        "The exact flow tends to the limit as ε → 0",
        "so it does, by Prop. 4",
        Interval.exact(max(later / earlier for earlier, later in pairwise(gaps))),
        most=1 / 3,
        words=f"a tenth of ε leaves {{}} of the gap; after a hundredth of the run they differ by {words}",
        setting=setting,
    )


def match_claim(setting: str, early: float, later: float) -> Claim:
    """Judge "the curves match closely" by the largest gaps after a hundredth and after a fifth of the run."""
    return Claim.that(
        "SGD matches the two-timescale limit closely",
        "the curves match closely",
        Interval.exact(later),
        most=CLOSE,
        words=f"the largest gap after a fifth of the run is {{}} of the limit's start (after a hundredth: "
        f"{early:.2f})",
        reason="early on they do not: weights start at zero, and ε is not 0; the flow with the same ε has "
        "that gap, too"
        if early > CLOSE
        else "",
        setting=setting,
    )


class Ending(NamedTuple):
    """How a run of SGD ends: jumps with a neuron, those the limit reaches later (place, τ), error, floor."""

    setting: str
    until: float
    reached: int
    jumps: int
    late: tuple[tuple[float, float], ...]
    error: float
    floor: float


def ending(found: Comparison) -> Ending:
    """Return how SGD ends, and what the limit foresees."""
    setting, until, start = found.setting, float(found.slow[-1]), found.sgd.initial
    assert isinstance(start, StepNetwork)
    times, reached = hitting_times(start, setting.target), training.covered(found.sgd.final, setting)
    return Ending(
        setting.name,
        until,
        int(reached.sum()),
        len(reached),
        tuple((float(setting.target.breakpoints[i]), float(times[i])) for i in np.flatnonzero(times > until)),
        float(found.curve[-1]),
        covered_error(setting.target, start.sharpness),
    )


def recovery_claims(end: Ending, parameters: Values) -> list[Claim]:
    """Judge the end of SGD: are all jumps covered, and is the rest what the smooth steps leave?"""
    late = ", ".join(f"{place:g} (τ = {time:.3f})" for place, time in end.late)
    early = (
        f"the limit itself reaches the jumps at {late} only later: the printed jumps are smaller, and the "
    )
    early += "printed loss ½r² runs half as fast as the authors' r²"
    return [
        Claim.that(
            "SGD recovers the target",
            "every discontinuity has a neuron",
            Interval.exact(end.reached),
            least=end.jumps,
            words=f"{{}} of {end.jumps} jumps have a neuron within η at τ = {end.until:.3g}, from the "
            "published start",
            reason=early if end.late else "",
            setting=end.setting,
        ),
        Claim.that(
            "What remains is the smoothing of the steps",
            "a small non-zero error",
            Interval.exact(end.error / end.floor),
            least=1 - parameters["floor_share"],
            most=1 + parameters["floor_share"],
            words=f"{end.error:.5f}, {{}} times what covered jumps leave, (η/28)Σs² = {end.floor:.5f}",
            reason="" if end.reached == end.jumps else f"{end.jumps - end.reached} jumps are not reached yet",
            setting=end.setting,
        ),
    ]


def _larger_step(parameters: Values, setting: Setting) -> Trajectory:
    """Train with the step 10⁻³ that App. C names, for as long."""
    steps = round(parameters["steps"][setting.name] * parameters["step"] / LARGER)
    chosen = case(parameters, setting, PUBLISHED, step=LARGER, steps=steps)
    return training.train(chosen, PUBLISHED_SEED)


def larger_step_claim(setting: str, larger: Trajectory, found: Comparison) -> Claim:
    """Judge App. C: a step of 10⁻³ gives similar results."""
    first, second = larger.final, found.sgd.final
    assert isinstance(first, StepNetwork)
    assert isinstance(second, StepNetwork)
    same = training.covered(first, found.setting) == training.covered(second, found.setting)
    apart = float(np.abs(np.sort(first.positions) - np.sort(second.positions)).max())
    ratio = training.squared_distance(first, found.setting) / float(found.curve[-1])
    return similar_claim(setting, bool(same.all()), apart / first.sharpness, ratio)


def similar_claim(setting: str, same: bool, apart: float, ratio: float) -> Claim:
    """Judge "similar": the same jumps are covered, positions within η, errors within a factor of 2."""
    return Claim(
        f"A step of {LARGER:g} gives similar results (App. C)",
        "similar, at a hundredth of the cost",
        f"{'the same' if same else 'other'} jumps are covered, positions differ by {apart:.2f} η at most, "
        f"the error at the end is {ratio:.2g} times as large",
        same and apart <= 1 and 0.5 <= ratio <= 2,
        "positions are similar, the error is not: weights shake with the larger step"
        if same and apart <= 1 and ratio > 2
        else "",
        "if other jumps are covered, positions differ by more than η, or errors by more than a factor of 2",
        setting=setting,
    )


FIG3 = Experiment(
    "two_timescale/fig3",
    "SGD with slow positions beside the two-timescale limit",
    "Figure 3, §6, App. C Table 1",
    scales(
        {},
        quick={**training.TWO_TIMESCALE["quick"], "starts": 40, "starts_step": 1e-3, "floor_share": 0.2},
        paper={**training.TWO_TIMESCALE["paper"], "starts": 200, "starts_step": 1e-4, "floor_share": 0.05},
    ),
    run_fig3,
    sweeps=True,
    cost={"quick": 4.8, "paper": 190},
)
