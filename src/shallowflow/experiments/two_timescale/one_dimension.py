"""Figures 4 and 5: SGD on a piecewise constant function, inside and outside the two-timescale regime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Bools
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Sweep
from shallowflow.experiments.figure import Figure, Panel
from shallowflow.experiments.two_timescale.starts import case, shown_start
from shallowflow.experiments.two_timescale.training import (
    SETTINGS,
    Setting,
    covered,
    function_panel,
    slow_time,
    task,
    train,
)
from shallowflow.models import StepNetwork
from shallowflow.studies import Study

SHARES = np.unique(np.concatenate([np.geomspace(1e-4, 1.0, 60), np.linspace(0.0, 1.0, 101)]))
"""When curves are recorded, as shares of the run."""


def _shown(setting: Setting, parameters: Mapping[str, Any], start: int, progress: Progress) -> Trajectory:
    """Train the network whose functions are shown."""
    chosen = case(parameters, setting, start)
    times = SHARES * slow_time(chosen) / chosen["epsilon"]
    return train(chosen, start, Record.at(times), lambda done: progress(done, f"SGD, {setting.name}"))


def run_fig4(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Show function and neurons on the way, in the two-timescale regime."""
    panels, claims = list[Panel](), list[Claim]()
    start = shown_start(parameters)
    for setting in SETTINGS:
        sgd = _shown(setting, parameters, start, progress)
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


def _beside_jumps(network: StepNetwork, setting: Setting) -> Bools:
    """Return which neurons are the nearest to a jump from the left or from the right."""
    order = np.argsort(network.positions)
    right = np.searchsorted(network.positions[order], setting.target.breakpoints)
    beside = np.zeros(network.width, dtype=np.bool_)
    beside[order[np.clip(np.concatenate([right - 1, right]), 0, network.width - 1)]] = True
    return beside


def run_fig5(parameters: Mapping[str, Any], progress: Progress, sweep: Sweep) -> Findings:
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


_COMMON = {"width": 20, "sharpness": 4e-3, "noise": 1.0}
_SLOW = {**_COMMON, "epsilon": 2e-5}
TWO_TIMESCALE = {
    "quick": {**_SLOW, "step": 1e-4, "steps": {"printed": 18_000_000, "authors": 17_500_000}},
    "paper": {**_SLOW, "step": 1e-5, "steps": {"printed": 180_000_000, "authors": 175_000_000}},
}
"""Table 1, for figures 3 and 4."""
_ONE = {**_COMMON, "epsilon": 1.0, "step": 1e-5, "steps": {"printed": 1_000_000, "authors": 1_000_000}}

FIG4 = Experiment(
    "two_timescale/fig4",
    "The two-timescale regime: neurons align with the jumps",
    "Figure 4, §6, App. C Table 1",
    {scale: {**TWO_TIMESCALE[scale], "early": 0.05} for scale in TWO_TIMESCALE},
    run_fig4,
    cost={"quick": 0.5, "paper": 5.6},
)
FIG5 = Experiment(
    "two_timescale/fig5",
    "Outside the two-timescale regime a jump is lost",
    "Figure 5, §6, App. C Table 2",
    {
        "quick": {**_ONE, "seed": 5, "early": 0.2, "starts": 5},
        "paper": {**_ONE, "seed": 5, "early": 0.2, "starts": 20},
    },
    run_fig5,
    sweeps=True,
    cost={"quick": 0.3, "paper": 3.3},
)
