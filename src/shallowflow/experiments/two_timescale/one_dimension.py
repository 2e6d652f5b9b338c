"""SGD on a piecewise constant function, figures 4 and 5: inside and outside the two-timescale regime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import shallowflow.experiments.two_timescale.training as training
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Sweep, Values, scales
from shallowflow.experiments.figure import Figure, Panel
from shallowflow.experiments.two_timescale.training import (
    PUBLISHED,
    PUBLISHED_SEED,
    SETTINGS,
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
