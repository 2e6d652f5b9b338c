"""Figure 3: SGD beside the two-timescale limit, what stands between the two, and many starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

import shallowflow.experiments.two_timescale.training as training
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.two_timescale import hitting_times, two_timescale_limit
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.training import AUTHORS, SETTINGS, SHARES, Setting, case, foreseen
from shallowflow.landscape import covered_error
from shallowflow.models import StepNetwork
from shallowflow.readings.agreement import largest_gap, mean_gap
from shallowflow.studies import Result, Study

TENTHS = (1, 10, 100)
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
    sgd = training.train(chosen, chosen["start"], record, lambda done: progress(done, f"SGD, {setting.name}"))
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
    """Compare SGD with the two-timescale limit with η = 0, in both settings; then train many starts."""
    start = training.shown_start(parameters)
    panels, claims = list[Panel](), list[Claim]()
    for setting in SETTINGS:
        found = compare(setting, case(parameters, setting, start), progress)
        panels += _panels(found)
        claims += [*gap_claims(found, parameters["epsilon"]), *recovery_claims(found, parameters)]
    claims += _start_claims(parameters, _train_many(parameters, sweep))
    figure = Figure(
        "fig3",
        "SGD beside the two-timescale limit",
        tuple(panels),
        "Left: ∫(f − f*)² over the slow time τ = ε·t (dotted: when the limit reaches a jump). Right: the "
        "functions at the end; a dashed vertical line stands at every neuron. Weights start at zero and are "
        "not the best ones at once: the exact flow with the same ε shows it, too. "
        "Time is that of the loss ½r²; the authors' r² runs twice as fast.",
    )
    return Findings((figure,), tuple(claims))


def _panels(found: Comparison) -> list[Panel]:
    setting = found.setting
    error = Panel(
        (
            Series(found.slow, found.curve, "SGD", tone="orange"),
            Series(found.slow, found.flows[1], "exact flow, same ε", style="dashed", tone="blue"),
            Series(found.slow, found.sharp, "limit, η = 0", style="dashed", tone="green"),
        ),
        f"{setting.name}: distance to the target",
        "τ",
        "∫(f − f*)²",
        y_limits=(0.0, 1.3 * found.begin),
        marks=tuple((event.time, "") for event in found.limit.events),
        marks_label="the limit reaches a jump",
    )
    x = np.linspace(0.0, 1.0, 2001)
    shown = training.function_panel(found.sgd.final, setting.target, f"{setting.name}: at the end")
    final = Series(x, found.limit.final(x), "limit, η = 0", style="dashed", tone="green")
    return [error, replace(shown, series=(*shown.series, final))]


def gap_claims(found: Comparison, epsilon: float) -> list[Claim]:
    """Judge SGD against the limit, against the flow with its ε, and that flow against the limit."""
    name = found.setting.name
    mean = mean_gap(found.slow, found.curve, found.sharp) / found.begin
    early, later = (100 * found.gap(found.curve, found.sharp, since) for since in (FAST_PHASE, 0.2))
    flow = found.flows[1]
    off = float(np.max(np.abs(found.curve - flow) / np.maximum(flow, found.begin)))
    gaps = [found.gap(found.flows[tenth], found.smooth, FAST_PHASE) for tenth in TENTHS]
    words = ", ".join(
        f"{100 * one:.2g} % at ε = {epsilon / tenth:g}" for one, tenth in zip(gaps, TENTHS, strict=True)
    )
    return [
        Claim(
            f"{name}: SGD follows the two-timescale limit",
            "the curves match closely",
            f"over the whole run they differ by {100 * mean:.1f} % of the limit's start ({found.begin:.3f}) "
            f"on average, after a hundredth of it by {early:.0f} % at most, after a fifth by {later:.1f} %",
            mean < 0.1,
            "the early gap is not SGD's: the flow with the same ε has it, see the next two claims",
        ),
        Claim(
            f"{name}: SGD follows the exact flow (1) with the same ε, from the first step on",
            "SGD with small steps approximates the flow",
            f"at most {100 * off:.1f} % off, of the flow's value or of the limit's start if that is larger",
            off < 0.05,
        ),
        Claim(
            f"{name}: the exact flow tends to the limit as ε → 0",
            "so it does, by Prop. 4",
            f"after a hundredth of the run at most {words}, in units of the limit's start; η adds "
            f"{100 * found.gap(found.smooth, found.sharp):.1f} %",
            bool(gaps[1] < gaps[0] / 3 and gaps[2] < gaps[1] / 3),
        ),
    ]


def recovery_claims(found: Comparison, parameters: Values) -> list[Claim]:
    """Judge the end of SGD: are all jumps covered, and is the rest what the smooth steps leave?"""
    setting, until = found.setting, float(found.slow[-1])
    start = found.sgd.initial
    assert isinstance(start, StepNetwork)
    times, reached = hitting_times(start, setting.target), training.covered(found.sgd.final, setting)
    late = np.flatnonzero(times > until)
    floor, error = covered_error(setting.target, parameters["sharpness"]), float(found.curve[-1])
    late_words = ", ".join(f"{setting.target.breakpoints[i]:g} (τ = {times[i]:.3f})" for i in late)
    missing = f"{int((~reached).sum())} jumps are not reached yet"
    return [
        Claim(
            f"{setting.name}: SGD recovers the target",
            "every discontinuity has a neuron",
            f"{int(reached.sum())} of {len(reached)} jumps have a neuron within η at τ = {until:.3g}",
            bool(reached.all()),
            ""
            if reached.all()
            else f"the limit itself reaches the jumps at {late_words} only later: the printed jumps are "
            "smaller, and the printed loss ½r² runs half as fast as the authors' r²",
        ),
        Claim(
            f"{setting.name}: what remains is the smoothing of the steps",
            f"a small non-zero error; covered jumps leave (η/28)Σs² = {floor:.5f}",
            f"{error:.5f}, {100 * (error / floor - 1):+.1f} % "
            f"(allowed {100 * parameters['floor_share']:.0f} %)",
            abs(error / floor - 1) < parameters["floor_share"],
            "" if reached.all() else missing,
        ),
    ]


def _train_many(parameters: Values, sweep: Sweep) -> dict[str, list[Result]]:
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


def _start_claims(parameters: Values, results: Mapping[str, list[Result]]) -> list[Claim]:
    """Judge many starts: what hitting times foresee, and what §4.2 assumes."""
    claims = [_foresight(parameters, setting, results[setting.name]) for setting in SETTINGS]
    total, shown = parameters["starts"], training.shown_start(parameters)
    crowded = np.array([training.two_per_piece(parameters, start) for start in range(total)])
    same = sum(training.telling(parameters, start) for start in range(total))
    recovered = np.array([one.metrics["missed"] == 0 for one in results[AUTHORS.name]])
    others = f"{int(recovered[~crowded].sum())} of the {int((~crowded).sum())} others"
    claims.append(
        Claim(
            "(assumed in §4.2) Uniform starts have two neurons on every piece",
            f"the closed form (7) needs it; m = {parameters['width']}",
            f"{int(crowded.sum())} of {total} starts; shown above is start {shown}, the first with "
            f"{training.RULE} ({same} of {total} starts)",
            bool(crowded.mean() > 0.5),
            f"20 neurons are too few for it, but it is not needed: the authors' run recovers from {others}",
        )
    )
    return claims


def _foresight(parameters: Values, setting: Setting, results: list[Result]) -> Claim:
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
    cost={"quick": 4.8, "paper": 99},
)
