"""Figures 1 and 2: the loss of gradient descent on sin 5πx has plateaus; that of ANLS is not held up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import CURVES, curve
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.estimators import ANLSRegressor
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau.methods import (
    LOSS,
    RATE,
    STEP,
    Training,
    anls,
    descend,
    error_panel,
    flow,
    many_starts,
    share_claim,
    start_of,
)
from shallowflow.landscape.plateau.levels import frozen_losses, plateau_level
from shallowflow.landscape.plateau.moves import best_loss, candidates, losses_of_candidates, moved
from shallowflow.models import SquareLoss

REGIMES = ((0.0, 3e4), (3e4, 3e6), (3e6, 1e8))
"""The iterations of the three panels of Figure 1."""
NEAR = 1.1
"""A loss is near its level if it is at most this many times as large."""


@dataclass(frozen=True)
class Stagnation:
    """A run's plateaus that are left again: how many, and L/Q₀ in the middle of each."""

    ratios: tuple[float, ...]

    @property
    def near(self) -> int:
        """The number of plateaus on which the loss is near the level of its pattern."""
        return sum(ratio <= NEAR for ratio in self.ratios)


def _levels(training: Training, dataset: Dataset) -> Floats:
    """Return 2 Q₀ at the recorded iterations."""
    return np.array([2 * plateau_level(training.network(k), dataset, LOSS) for k in training.iterations])


def stagnation(training: Training, dataset: Dataset) -> Stagnation:
    """Return what the plateaus of a run are like."""
    ratios = []
    for first, last in training.plateaus:
        k = int(np.searchsorted(training.iterations, np.sqrt(first * last)))
        level = 2 * plateau_level(training.network(float(training.iterations[k])), dataset, LOSS)
        ratios.append(float(training.errors[k] / level))
    return Stagnation(tuple(ratios))


def run_fig1(parameters: Values, progress: Progress) -> Findings:
    """Descend on sin 5πx; beside the loss Q₀ of its pattern, and the outer weights alone (knots frozen)."""
    dataset = curve("sin_5pi", parameters["size"])
    training = descend(dataset, parameters, lambda done: progress(0.6 * done, "gradient descent"))
    later = flow(dataset, parameters)
    progress(0.7, "other starts")
    others = [stagnation(flow(dataset, one), dataset) for one in many_starts(parameters)]
    literal = gradient_descent(start_of(parameters), dataset, step=RATE, steps=1000, loss=SquareLoss("sum"))
    frozen = 2 * frozen_losses(start_of(parameters), dataset, STEP * later.iterations[1:])
    curves = (
        training.series("blue"),
        Series(later.iterations[1:], later.errors[1:], "gradient flow", style="dashed", tone="sky"),
        Series(
            later.iterations[1:],
            _levels(later, dataset)[1:],
            "level Q₀ of the pattern",
            style="steps",
            tone="orange",
        ),
        Series(later.iterations[1:], frozen, "knots frozen at the start", style="dashed", tone="green"),
    )
    panels = tuple(
        Panel(curves, f"({letter})", "iterations", "mean squared error", y_scale="log", x_limits=limits)
        for letter, limits in zip("abc", REGIMES, strict=True)
    )
    whole = Panel(curves, "all iterations", "iterations", "mean squared error", "log", "log")
    caption = (
        "While a pattern lasts the loss cannot fall below its level Q₀. On the first long plateau it is "
        "far above, and "
        "the outer weights alone, with the knots frozen, have a plateau there too: plateau/causes counts "
        "both kinds."
    )
    title = "sin 5πx by gradient descent: slow and fast in turn"
    figures = (
        Figure("fig1", title, panels, caption, columns=3),
        Figure("fig1_all", title, (whole,), columns=1),
    )
    return Findings(figures, fig1_claims(others, literal))


def fig1_claims(runs: Sequence[Stagnation], literal: Trajectory) -> tuple[Claim, ...]:
    """Return the claims: runs of several starts, and the descent of ½Σ at rate 10⁻³."""
    ratios = [ratio for run in runs for ratio in run.ratios]
    return (
        share_claim(
            "The loss alternates between slow and fast decay (plateau phenomenon): starts with a plateau "
            "left again",
            "plateaus within the training",
            [len(run.ratios) > 0 for run in runs],
            words=f"{len(ratios)} plateaus",
        ),
        share_claim(
            f"On its plateaus the loss is near the level Q₀ of its pattern (Theorem 3.1): L ≤ {NEAR:g} Q₀",
            "L → Q₀",
            [ratio <= NEAR for ratio in ratios],
            words=f"median L/Q₀ {np.median(ratios or [np.nan]):.3g}",
            reason="on most plateaus the outer weights are slow, not the pattern stuck: see plateau/causes",
        ),
        Claim(
            "Rate 10⁻³ trains this network with the loss ½Σr² (2.1)",
            "loss curve of Figure 1 at rate 10⁻³",
            f"{literal.outcome.status}: loss {literal.losses[0]:.0f} → {literal.losses[-1]:.0f}",
            literal.outcome.ok,
            ""
            if literal.outcome.ok
            else "rate × λ_max is far above 2 with the sum; the mean squared error, used here, is stable",
            "if the outcome is unstable or diverged",
        ),
    )


@dataclass(frozen=True)
class Race:
    """Where methods end from one start: mean squared errors of descent and ANLS, plateaus of ANLS.

    saving: the CPU time of least squares for every candidate of the first move, over that of Theorem 4.2.
    """

    descent: float
    anls: float
    plateaus: int
    saving: float


def run_fig2(parameters: Values, progress: Progress) -> Findings:
    """Compare gradient descent with active neuron least squares on the task of Figure 1."""
    dataset = curve("sin_5pi", parameters["size"])
    training = descend(dataset, parameters, lambda done: progress(0.6 * done, "gradient descent"))
    found = anls(dataset, parameters)
    races = list[Race]()
    for number, one in enumerate(many_starts(parameters)):
        progress(0.6 + 0.3 * number / parameters["starts"], "other starts")
        moves = anls(dataset, one)
        end = float(flow(dataset, one).errors[-1])
        saving = _saving(start_of(one).knots, dataset)
        races.append(Race(end, float(moves.errors[-1]), len(moves.plateaus), saving))
    progress(0.95, "the best known fit")
    best = best_known(dataset, parameters["width"])
    x = np.linspace(-1.0, 1.0, 1001)
    target = Series(x, CURVES["sin_5pi"](x), "target", style="dashed", tone="muted")
    functions = (target, training.graph("GD", "blue"), found.graph("ANLS", "orange"))
    figure = Figure(
        "fig2",
        "Gradient descent and active neuron least squares on sin 5πx",
        (
            error_panel((training.series("blue"), found.series("orange"))),
            Panel(functions, "trained networks", "x", "f(x)"),
        ),
    )
    return Findings((figure,), fig2_claims(races, best, parameters["flow_steps"]))


def _saving(knots: Floats, dataset: Dataset) -> float:
    """Return the CPU time of one least-squares problem per candidate, over that of one decomposition."""
    x, y = dataset.inputs[:, 0], dataset.targets
    first = time.process_time()
    losses_of_candidates(knots, x, y)
    second = time.process_time()
    for candidate in candidates(knots, np.unique(x)):
        best_loss(moved(knots, candidate), x, y)
    return (time.process_time() - second) / (second - first)


def best_known(dataset: Dataset, width: int) -> float:
    """Return the mean squared error of the best fit known with so many neurons: knots relocated."""
    x, y = dataset.inputs, dataset.targets
    model = ANLSRegressor(width, left="zero").fit(x, y)
    return float(np.mean((model.predict(x) - y) ** 2))


def fig2_claims(races: Sequence[Race], best: float, steps: int) -> tuple[Claim, ...]:
    """Return the claims about descents (as flows, of so many steps) and ANLS from the same starts."""
    ends = np.array([race.anls for race in races])
    return (
        share_claim(
            "ANLS ends at a much smaller loss than gradient descent: less than half of it",
            "ANLS well below GD",
            [race.anls < 0.5 * race.descent for race in races],
            words=f"medians {np.median(ends):.2g} and, after {steps:,} steps (as flow), "
            f"{np.median([race.descent for race in races]):.2g}",
        ),
        share_claim(
            "ANLS has no plateau that it leaves again",
            "steady decrease",
            [race.plateaus == 0 for race in races],
        ),
        share_claim(
            "ANLS is not stuck: it ends within twice the best known error of as many neurons (knots "
            "relocated)",
            "–",
            [race.anls <= 2 * best for race in races],
            words=f"median {np.median(ends):.2g}, best known {best:.2g}",
            reason="no single passage lowers the loss there: a level of its own",
            ours=True,
        ),
        Claim.that(
            "One decomposition for all candidates is cheaper than least squares for each (§4.4, Remark 3)",
            "efficient: a much smaller problem",
            Interval.of_median([race.saving for race in races]),
            least=1.0,
            words="the latter takes {} times the CPU time, in the median over starts",
            reason="it hangs on the sizes",
        ),
    )


_SCALES = scales(
    {"width": 100, "size": 500, "points": 400, "seed": 0, "starts": 12, "flow_steps": 100_000_000},
    quick={"steps": 1_000_000},
    paper={"steps": 100_000_000, "starts": 40},
)

FIG1 = Experiment(
    "plateau/fig1",
    "The plateau phenomenon on sin 5πx",
    "Figure 1, §1",
    _SCALES,
    run_fig1,
    cost={"quick": 5.3, "paper": 41},
)
FIG2 = Experiment(
    "plateau/fig2",
    "ANLS beside gradient descent",
    "Figure 2, §1",
    _SCALES,
    run_fig2,
    cost={"quick": 7.3, "paper": 48},
)
