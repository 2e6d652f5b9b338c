"""Figures 3, 4, 5, 7 and 8: the blocks U_l, and what a fully trained network looks like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.data import Dataset
from shallowflow.data.generators import CURVES, curve
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, part, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau.staircase import (
    LOSS,
    SKETCH,
    STEP,
    Training,
    anls,
    descend,
    error_panel,
    start_of,
)
from shallowflow.landscape import blocks, fully_trained, stationarity
from shallowflow.models import KnotNetwork

CONVERGED = 1e-6
"""The mean square of (3.4) has converged to 0 when it is below this share of its start."""
TONES = ("blue", "orange", "green", "pink", "sky", "red", "ink", "muted")


def run_fig3(parameters: Values, progress: Progress) -> Findings:
    """Show the partition of ten points by five knots."""
    points, knots = np.array(parameters["points"]), np.array(parameters["knots"])
    found = blocks(KnotNetwork(knots, np.ones(len(knots))), Dataset(points[:, None], np.zeros(len(points))))
    gaps = pairwise([-np.inf, *knots, np.inf])
    between = [int(np.sum((points > low) & (points <= high))) for low, high in gaps]
    claim = Claim(
        "U_0, …, U_n partition the data: the points between consecutive knots",
        f"counts between the knots {between}, {len(points)} points in all",
        f"counts {found.counts.tolist()}, sum {int(found.counts.sum())}",
        found.counts.tolist() == between and int(found.counts.sum()) == len(points),
    )
    borders = [float(points.min()) - 0.5, *np.sort(knots).tolist(), float(points.max()) + 0.5]
    names = tuple(
        ((left + right) / 2, f"U_{block}" if found.counts[block] else f"U_{block}\n(empty)")
        for block, (left, right) in enumerate(pairwise(borders))
    )
    panel = Panel(
        (
            Series(points, np.zeros(len(points)), "data", style="crosses", tone="ink"),
            Series(knots, np.zeros(len(knots)), "knots", style="points", tone="red"),
        ),
        x_label="x",
        x_limits=(borders[0], borders[-1]),
        y_limits=(-1.0, 1.0),
        y_ticks=(),
        marks=tuple((float(knot), "") for knot in knots),
        marks_label="borders of the blocks",
        headings=names,
    )
    return Findings((Figure("fig3", "The blocks U_l of five knots", (panel,), columns=1),), (claim,))


def five_points() -> Dataset:
    """Return the data of Figure 4: ((k − 3)/2, (1 − (−1)^k)/2), k = 1, …, 5."""
    k = np.arange(1, 6)
    return Dataset(((k - 3) / 2)[:, None], (1.0 - (-1.0) ** k) / 2, name="five points")


def _train(dataset: Dataset, parameters: Values, progress: Progress) -> Training:
    return descend(dataset, parameters, part(progress, 0, 1, "gradient descent"))


def _drift(training: Training) -> float:
    """Return the largest change of a parameter over the last tenth of the iterations."""
    early, final = training.network(0.9 * training.iterations[-1]), training.final
    return float(max(np.abs(final.knots - early.knots).max(), np.abs(final.outer - early.outer).max()))


def _macroscopic(network: KnotNetwork, dataset: Dataset) -> Series:
    found = blocks(network, dataset)
    full = np.flatnonzero(found.counts[1:]) + 1
    return Series(found.means[full], found.target_means[full], "macroscopic data", style="points", tone="ink")


def _parameter_panels(training: Training, dataset: Dataset) -> tuple[Panel, Panel, Panel]:
    """Return the paths of knots, outer weights and block counts over the iterations."""
    networks = [training.network(k) for k in training.iterations]

    def panel(title: str, lines: str, table: Sequence[ArrayLike]) -> Panel:
        paths = tuple(
            Series(training.iterations[1:], column[1:], tone=TONES[j % len(TONES)], size=0.7)
            for j, column in enumerate(np.array(table).T)
        )
        return Panel(paths, f"{title}, a line per {lines}", "iterations", title, "log")

    return (
        panel("knots b", "neuron", [network.knots for network in networks]),
        panel("outer weights c", "neuron", [network.outer for network in networks]),
        panel("block counts u", "block", [blocks(network, dataset).counts for network in networks]),
    )


def run_fig4(parameters: Values, progress: Progress) -> Findings:
    """Fit five points with eight neurons until nothing moves."""
    dataset = five_points()
    training = _train(dataset, parameters, progress)
    first, final = training.network(0.0), training.final
    defect = stationarity(final, dataset).largest
    moved = final.knots - first.knots
    dead = first.knots >= dataset.inputs.max()
    distance = float(np.max(np.abs(final(dataset.inputs) - dataset.targets)))
    share = _interpolating(dataset, parameters)
    claims = (
        Claim(
            "The fully trained network interpolates the macroscopic data (Lemma 3.4)",
            "here the macroscopic data are the data themselves",
            f"largest defect of (3.4): {defect:.1g}; largest distance to a data point {distance:.1g}",
            defect < 1e-3 and distance < 1e-3,
            f"true for {share} of {parameters['starts']} initial networks; in the others a block keeps "
            "several points",
        ),
        Claim(
            "Neurons beyond the data are dead and do not move",
            "two dead neurons stay where they are",
            f"{int(dead.sum())} dead at the start, largest move {np.max(np.abs(moved[dead]), initial=0.0):g}",
            bool(np.all(moved[dead] == 0)),
        ),
        Claim(
            "All knots and outer weights converge (Theorem 3.3)",
            "constant at the end",
            f"largest change over the last tenth of the iterations {_drift(training):.1g}",
            _drift(training) < 1e-2,
        ),
    )
    data = Series(dataset.inputs[:, 0], dataset.targets, "data", style="crosses", tone="red")
    shown = (training.graph("trained network", "blue"), data, _macroscopic(final, dataset))
    network = Panel(shown, "trained network", "x", "f(x)")
    knots, outer, _ = _parameter_panels(training, dataset)
    title = "Five points, eight neurons: trained to the end"
    return Findings((Figure("fig4", title, (network, knots, outer), columns=3),), claims)


def _interpolating(dataset: Dataset, parameters: Values) -> int:
    """Return how many initial networks the flow leads to zero loss."""
    losses = [
        gradient_flow(
            start_of({**parameters, "seed": seed}),
            dataset,
            until=parameters["steps"] * STEP,
            stop=1e-9,
            record=Record.geometric(2, networks=False),
            engine="stages",
        ).losses[-1]
        for seed in range(parameters["starts"])
    ]
    return int(np.sum(np.array(losses) < 1e-9))


def run_fig5(parameters: Values, progress: Progress) -> Findings:
    """Glue the regression lines of the initial blocks into a stationary network (Proposition F.1)."""
    dataset, start = curve("sin_5pi", parameters["size"]), start_of(parameters)
    network = fully_trained(start.knots, dataset)
    error = 2 * LOSS.value(network(dataset.inputs), dataset.targets)
    best = float(anls(dataset, parameters).errors[-1])
    x = np.linspace(-1.0, 1.0, 20_001)
    found, target = network(x), CURVES["sin_5pi"](x)
    steep = np.abs(np.diff(found) / np.diff(x)) > 2 * np.max(np.abs(np.diff(target) / np.diff(x)))
    spikes = int(np.sum(np.diff(steep.astype(int)) == 1))
    largest = stationarity(network, dataset).largest
    claims = (
        Claim(
            "The glued network is fully trained: gradient descent cannot improve it",
            "a stationary point",
            f"largest defect of (3.4): {largest:.1g}",
            largest < 1e-6,
        ),
        Claim(
            "It has spikes and approximates the target badly",
            "many spikes",
            f"{spikes} pieces more than twice as steep as the target anywhere; mean squared error on the "
            f"data {error:.2g}, ANLS from the same knots {best:.2g}",
            spikes >= 5 and error > 10 * best,
        ),
    )
    series = (
        Series(x, target, "sin 5πx", style="dashed", tone="muted"),
        Series(x, found, "fully trained network", tone="blue"),
        Series(start.knots, np.zeros(start.width), "initial knots", style="crosses", tone="red", size=0.6),
    )
    panel = Panel(series, "", "x", "f(x)", x_limits=(-1.05, 1.05), y_limits=(-1.6, 1.6))
    figure = Figure("fig5", "A fully trained network by construction (Proposition F.1)", (panel,), columns=1)
    return Findings((figure,), claims)


def run_fig7(parameters: Values, progress: Progress) -> Findings:
    """Train ten neurons on sin πx until the stationarity conditions hold."""
    dataset = curve("sin_pi", parameters["size"])
    training = _train(dataset, parameters, progress)
    iterations, errors, final = training.iterations, training.errors, training.final
    defects = np.array([stationarity(training.network(k), dataset).value for k in iterations])
    large = np.flatnonzero(defects > CONVERGED * defects[0])
    reached = float(iterations[min(int(np.max(large, initial=0)) + 1, len(defects) - 1)])
    found = blocks(final, dataset)
    full = np.flatnonzero(found.counts[1:]) + 1
    misfit = float(np.max(np.abs(final(found.means[full]) - found.target_means[full])))
    converged = bool(defects[-1] < CONVERGED * defects[0])
    claims = (
        Claim(
            "The mean squared error of (3.4) converges to 0",
            "→ 0 within 10⁸ iterations",
            f"{defects[0]:.1g} at the start, {defects[-1]:.1g} after {int(iterations[-1]):,} iterations",
            converged,
            "" if converged else "not yet converged at this number of iterations",
        ),
        Claim(
            "Convergence takes more than ten million iterations",
            "> 10⁷",
            f"(3.4) below {CONVERGED:g} of its start for good from iteration {reached:,.0f}",
            reached > 1e7,
            "" if reached > 1e7 else "depends on the seed; the paper's is unknown",
        ),
        Claim(
            "The fully trained network interpolates the macroscopic data (Lemma 3.4)",
            "interpolates",
            f"largest distance {misfit:.1g}",
            misfit < 1e-3,
        ),
    )
    late = iterations >= iterations[-1] / 100
    end = Series(iterations[late], errors[late], tone="blue")
    falling = Series(iterations[1:], defects[1:], tone="orange")
    sine = Series(dataset.inputs[:, 0], dataset.targets, "sin πx", style="dashed", tone="muted")
    shown = (sine, training.graph("trained network", "blue"), _macroscopic(final, dataset))
    panels = (
        error_panel((training.series("blue"),)),
        Panel((end,), "late loss", "iterations", "mean squared error", y_scale="log"),
        Panel((falling,), "mean square of (3.4)", "iterations", "mean squared defect", "log", "log"),
        Panel(shown, "fully trained network", "x", "f(x)"),
    )
    return Findings((Figure("fig7", "sin πx by ten neurons: trained to the end", panels),), claims)


def run_fig8(parameters: Values, progress: Progress) -> Findings:
    """Follow knots, outer weights and block counts of the run of Figure 7."""
    dataset = curve("sin_pi", parameters["size"])
    training = _train(dataset, parameters, progress)
    counts = [blocks(training.network(k), dataset).counts for k in training.iterations]
    changed = np.flatnonzero([not np.array_equal(before, counts[-1]) for before in counts])
    last, whole = float(training.iterations[int(np.max(changed, initial=0))]), training.iterations[-1]
    drift, smallest = _drift(training), float(np.min(np.abs(training.final.outer)))
    settled = last < 0.5 * whole
    claims = (
        Claim(
            "The counts u_l are constant at the end",
            "constant after about 2·10⁷ of 10⁸ iterations",
            f"last change seen after iteration {last:,.0f} of {int(whole):,}",
            settled,
            "" if settled else "a knot still crosses (or rattles at) a data point",
        ),
        Claim(
            "All parameters converge, none of the outer weights vanishes (Theorem 3.3)",
            "converged",
            f"largest change over the last tenth {drift:.1g}, smallest |c| {smallest:.2g}",
            drift < 1e-2 and smallest > 0,
        ),
    )
    panels = _parameter_panels(training, dataset)
    return Findings((Figure("fig8", "Knots, outer weights and block counts", panels, columns=3),), claims)


_SINE = scales(
    {"width": 10, "size": 100, "points": 400, "seed": 0},
    quick={"steps": 40_000_000},
    paper={"steps": 100_000_000},
)

FIG3 = Experiment(
    "plateau/fig3",
    "Illustration: the blocks U_l",
    "Figure 3, §3.1",
    scales(SKETCH),
    run_fig3,
    cost={"quick": 0.2, "paper": 0.2},
)
FIG4 = Experiment(
    "plateau/fig4",
    "Five points, eight neurons: what a fully trained network is",
    "Figure 4, §3.2",
    scales(
        {"width": 8, "points": 300, "starts": 60, "seed": 18},
        quick={"steps": 10_000_000},
        paper={"steps": 100_000_000},
    ),
    run_fig4,
    cost={"quick": 1.6},
)
FIG5 = Experiment(
    "plateau/fig5",
    "A fully trained network need not be good",
    "Figure 5, §3.3, Prop. F.1",
    scales({"width": 100, "size": 500, "seed": 0}),
    run_fig5,
    cost={"quick": 0.7, "paper": 0.7},
)
FIG7 = Experiment(
    "plateau/fig7",
    "sin πx: gradient descent to stationarity",
    "Figure 7, §5.1",
    _SINE,
    run_fig7,
    cost={"quick": 2.6},
)
FIG8 = Experiment(
    "plateau/fig8", "sin πx: parameters converge", "Figure 8, §5.1", _SINE, run_fig8, cost={"quick": 2.3}
)
