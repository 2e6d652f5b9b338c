"""Figures 3, 4 and 5: SGD on a piecewise constant function, inside and outside the two-timescale regime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.dynamics.limits.two_timescale import hitting_times, two_timescale_limit
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.stochastic import stochastic_descent
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.two_timescale.settings import (
    SETTINGS,
    Setting,
    covered,
    function_panel,
    squared_distance,
)
from shallowflow.landscape import covered_error
from shallowflow.models import StepNetwork, initialize


def _train(
    setting: Setting, parameters: Mapping[str, Any], progress: Progress, part: int, seed: int | None = None
) -> Trajectory:
    """Run SGD (9) in a setting; time is that of the loss ½r²."""
    steps, step = parameters["steps"][setting.name], parameters["step"] * setting.loss_factor
    shares = np.unique(np.concatenate([np.geomspace(1e-4, 1.0, 60), np.linspace(0.0, 1.0, 101)]))
    return stochastic_descent(
        _start(parameters, seed),
        setting.target,
        step=step,
        steps=steps,
        epsilon=parameters["epsilon"],
        noise=parameters["noise"],
        seed=parameters["seed"] if seed is None else seed,
        box_slope=setting.box_slope,
        record=Record.at(shares * steps * step),
        progress=lambda done: progress((part + done) / len(SETTINGS), f"SGD, {setting.name}"),
    )


def _start(parameters: Mapping[str, Any], seed: int | None = None) -> StepNetwork:
    return initialize.uniform_positions(
        parameters["width"],
        sharpness=parameters["sharpness"],
        seed=parameters["seed"] if seed is None else seed,
    )


def run_fig3(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Compare SGD with the two-timescale limit with η = 0, in both settings."""
    panels, claims = list[Panel](), list[Claim]()
    for part, setting in enumerate(SETTINGS):
        sgd = _train(setting, parameters, progress, part)
        start = _start(parameters)
        heaviside = StepNetwork(start.positions, start.outer)
        slow = sgd.times * parameters["epsilon"]
        limit = two_timescale_limit(heaviside, setting.target, until=float(slow[-1]))
        panels += _fig3_panels(setting, sgd, limit, slow)
        claims += _fig3_claims(setting, sgd, limit, slow, parameters)
    figure = Figure(
        "fig3",
        "SGD beside the two-timescale limit",
        tuple(panels),
        "Left: ∫(f − f*)² over the slow time τ = ε·t (dotted: when the limit reaches a jump). Right: the "
        "functions at the end; a dashed vertical line stands at every neuron. "
        "Time is that of the loss ½r²; the authors' r² runs twice as fast.",
    )
    return Findings((figure,), tuple(claims))


def _fig3_panels(setting: Setting, sgd: Trajectory, limit: Trajectory, slow: Floats) -> list[Panel]:
    at = np.linspace(0.0, float(slow[-1]), 400)
    exact = [squared_distance(limit(float(t)), setting) for t in at]
    error = Panel(
        (
            Series(slow, 2 * sgd.losses, "SGD", tone="orange"),
            Series(at, exact, "limit, η = 0", style="dashed", tone="green"),
        ),
        title=f"{setting.name}: distance to the target",
        x_label="τ",
        y_label="∫(f − f*)²",
        y_limits=(0.0, 1.3 * exact[0]),
        marks=tuple((event.time, "") for event in limit.events),
        marks_label="the limit reaches a jump",
    )
    x = np.linspace(0.0, 1.0, 2001)
    shown = function_panel(sgd.final, setting.target, f"{setting.name}: at the end")
    final = Series(x, limit.final(x), "limit, η = 0", style="dashed", tone="green")
    return [error, replace(shown, series=(*shown.series, final))]


def _fig3_claims(
    setting: Setting, sgd: Trajectory, limit: Trajectory, slow: Floats, parameters: Mapping[str, Any]
) -> list[Claim]:
    start, until = _start(parameters), float(slow[-1])
    times, reached = hitting_times(start, setting.target), covered(sgd.final, setting)
    late = np.flatnonzero(times > until)
    floor = covered_error(setting.target, parameters["sharpness"])
    error, begin = 2.0 * float(sgd.losses[-1]), squared_distance(limit.initial, setting)
    settled = slow >= 0.2 * until
    gaps = [
        abs(2 * loss - squared_distance(limit(min(float(t), until)), setting))
        for t, loss in zip(slow[settled], sgd.losses[settled], strict=True)
    ]
    worst = max(gaps) / begin
    late_words = ", ".join(f"{setting.target.breakpoints[i]:g} (τ = {times[i]:.3f})" for i in late)
    return [
        Claim(
            f"{setting.name}: SGD follows the two-timescale limit",
            "the curves match closely until the limit has recovered the target",
            f"after a fifth of the run they differ by at most {100 * worst:.1f} % of the limit's start "
            f"({begin:.3f})",
            worst < 0.1,
        ),
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
            "" if reached.all() else "two jumps are not reached yet",
        ),
    ]


def run_fig4(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Show function and neurons on the way, in the two-timescale regime."""
    panels, claims = list[Panel](), list[Claim]()
    for part, setting in enumerate(SETTINGS):
        sgd = _train(setting, parameters, progress, part)
        panels += _moments(setting, sgd, parameters)
        claims += _fig4_claims(setting, sgd)
    caption = (
        "Neurons are dashed lines. First the weights fit, then the neuron next to each jump moves to it."
    )
    return Findings(
        (Figure("fig4", "Two-timescale regime", tuple(panels), caption, columns=3),), tuple(claims)
    )


def _moments(setting: Setting, sgd: Trajectory, parameters: Mapping[str, Any]) -> list[Panel]:
    """Return the network at the start, early, and at the end."""
    end = float(sgd.times[-1])
    found = []
    for share, words in ((0.0, "start"), (parameters["early"], "early"), (1.0, "end")):
        title = f"{setting.name}: {words}, τ = {share * end * parameters['epsilon']:.3g}"
        found.append(function_panel(sgd(share * end), setting.target, title))
    return found


def _fig4_claims(setting: Setting, sgd: Trajectory) -> list[Claim]:
    first, last = sgd.initial, sgd.final
    assert isinstance(first, StepNetwork)
    assert isinstance(last, StepNetwork)
    beside = _beside_jumps(first, setting)
    moved = np.abs(last.positions - first.positions)
    largest = float(np.abs(setting.target.jumps).min())
    active = np.abs(last.outer) > 0.2 * largest
    needed = len(setting.target.jumps)
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
            "" if int(active.sum()) == needed else "two jumps are still shared by the neurons beside them",
        ),
    ]


def _beside_jumps(network: StepNetwork, setting: Setting) -> Bools:
    """Return which neurons are the nearest to a jump from the left or from the right."""
    order = np.argsort(network.positions)
    right = np.searchsorted(network.positions[order], setting.target.breakpoints)
    beside = np.zeros(network.width, dtype=np.bool_)
    beside[order[np.clip(np.concatenate([right - 1, right]), 0, network.width - 1)]] = True
    return beside


def run_fig5(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Show what happens at ε = 1, and for how many starts a jump stays uncovered."""
    panels, claims = list[Panel](), list[Claim]()
    for part, setting in enumerate(SETTINGS):
        runs = [
            _train(setting, parameters, progress, part, seed)
            for seed in range(parameters["seed"], parameters["seed"] + parameters["starts"])
        ]
        panels += _moments(setting, runs[0], parameters)
        missed = [int((~covered(run.final, setting)).sum()) for run in runs]
        least = np.mean([2 * run.losses[-1] for run in runs])
        failing = int(np.sum(np.array(missed) > 0))
        claims.append(
            Claim(
                f"{setting.name}: at ε = 1 a discontinuity is left without any neuron",
                "one of the discontinuities has no neuron; recovery fails",
                f"this start misses {missed[0]} of 5 jumps; {failing} of {len(runs)} starts miss at least "
                f"one; mean ∫(f − f*)² = {least:.3f}",
                missed[0] > 0,
            )
        )
    caption = "At ε = 1 positions and weights move together, and neurons leave zones with a jump."
    return Findings((Figure("fig5", "Outside the regime", tuple(panels), caption, columns=3),), tuple(claims))


_COMMON = {"width": 20, "sharpness": 4e-3, "noise": 1.0}
_SLOW = {**_COMMON, "epsilon": 2e-5, "seed": 141, "early": 0.05}
_TWO_TIMESCALE = {
    "quick": {
        **_SLOW,
        "step": 1e-4,
        "steps": {"printed": 18_000_000, "authors": 17_500_000},
        "floor_share": 0.2,
    },
    "paper": {
        **_SLOW,
        "step": 1e-5,
        "steps": {"printed": 180_000_000, "authors": 175_000_000},
        "floor_share": 0.05,
    },
}
_ONE = {**_COMMON, "epsilon": 1.0, "step": 1e-5, "steps": {"printed": 1_000_000, "authors": 1_000_000}}

FIG3 = Experiment(
    "two_timescale/fig3",
    "SGD with slow positions beside the two-timescale limit",
    "Figure 3, §6, App. C Table 1",
    _TWO_TIMESCALE,
    run_fig3,
    cost={"quick": 3},
)
FIG4 = Experiment(
    "two_timescale/fig4",
    "The two-timescale regime: neurons align with the jumps",
    "Figure 4, §6, App. C Table 1",
    _TWO_TIMESCALE,
    run_fig4,
    cost={"quick": 2.6},
)
FIG5 = Experiment(
    "two_timescale/fig5",
    "Outside the two-timescale regime a jump is lost",
    "Figure 5, §6, App. C Table 2",
    {
        "quick": {**_ONE, "seed": 0, "early": 0.2, "starts": 5},
        "paper": {**_ONE, "seed": 0, "early": 0.2, "starts": 20},
    },
    run_fig5,
    cost={"quick": 1.8},
)
