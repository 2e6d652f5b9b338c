"""Figures 4, 7 and 8: gradient descent to the end, and what a fully trained network looks like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import curve
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.record import Record
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau.training import STEP, Training, curve_series, descend
from shallowflow.landscape import blocks, stationarity
from shallowflow.models import KnotNetwork, initialize

CONVERGED = 1e-6
"""The mean square of (3.4) has converged to 0 when it is below this share of its start."""
TONES = ("blue", "orange", "green", "pink", "sky", "red", "ink", "muted")


def five_points() -> Dataset:
    """Return the data of Figure 4: ((k − 3)/2, (1 − (−1)^k)/2), k = 1, …, 5."""
    k = np.arange(1, 6)
    return Dataset(((k - 3) / 2)[:, None], (1.0 - (-1.0) ** k) / 2, name="five points")


def _train(dataset: Dataset, parameters: Mapping[str, Any], progress: Progress) -> Training:
    return descend(
        initialize.he_knots(parameters["width"], seed=parameters["seed"]),
        dataset,
        parameters["steps"],
        points=parameters["points"],
        progress=lambda done: progress(done, "gradient descent"),
    )


def _last_change(training: Training, dataset: Dataset) -> float:
    """Return the last recorded iteration after which the counts u_l still changed."""
    counts = [blocks(training.network(k), dataset).counts for k in training.iterations]
    changed = [not np.array_equal(before, counts[-1]) for before in counts]
    return float(training.iterations[int(np.max(np.flatnonzero(changed), initial=0))])


def _macroscopic(network: KnotNetwork, dataset: Dataset) -> Series:
    found = blocks(network, dataset)
    full = np.flatnonzero(found.counts[1:]) + 1
    return Series(found.means[full], found.target_means[full], "macroscopic data", style="points", tone="ink")


def _parameter_panels(training: Training, dataset: Dataset) -> tuple[Panel, Panel, Panel]:
    """Return the paths of knots, outer weights and block counts over the iterations."""
    networks = [training.network(k) for k in training.iterations]
    counts = [blocks(network, dataset).counts for network in networks]
    titles = ("knots b", "outer weights c", "block counts u")
    values = ([n.knots for n in networks], [n.outer for n in networks], counts)
    first, second, third = (
        Panel(
            _paths(training.iterations, np.array(table)),
            title=f"{title}, a line per {'block' if table is counts else 'neuron'}",
            x_label="iterations",
            y_label=title,
            x_scale="log",
        )
        for title, table in zip(titles, values, strict=True)
    )
    return first, second, third


def _paths(iterations: Floats, table: Floats) -> tuple[Series, ...]:
    return tuple(
        Series(iterations[1:], column[1:], tone=TONES[j % len(TONES)], size=0.7)
        for j, column in enumerate(table.T)
    )


def run_fig4(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Fit five points with eight neurons until nothing moves."""
    dataset = five_points()
    training = _train(dataset, parameters, progress)
    final = training.final
    defect = stationarity(final, dataset).largest
    moved = final.knots - training.network(0.0).knots
    dead = training.network(0.0).knots >= dataset.inputs.max()
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
    network = Panel(
        (
            curve_series("trained network", final, "blue"),
            Series(dataset.inputs[:, 0], dataset.targets, "data", style="crosses", tone="red"),
            _macroscopic(final, dataset),
        ),
        title="trained network",
        x_label="x",
        y_label="f(x)",
    )
    knots, outer, _ = _parameter_panels(training, dataset)
    figure = Figure(
        "fig4", "Five points, eight neurons: trained to the end", (network, knots, outer), columns=3
    )
    return Findings((figure,), claims)


def _interpolating(dataset: Dataset, parameters: Mapping[str, Any]) -> int:
    """Return how many initial networks the flow leads to zero loss."""
    losses = [
        gradient_flow(
            initialize.he_knots(parameters["width"], seed=seed),
            dataset,
            until=parameters["steps"] * STEP,
            stop=1e-9,
            record=Record.geometric(2, networks=False),
        ).losses[-1]
        for seed in range(parameters["starts"])
    ]
    return int(np.sum(np.array(losses) < 1e-9))


def _drift(training: Training) -> float:
    """Return the largest change of a parameter over the last tenth of the iterations."""
    early = training.network(0.9 * training.iterations[-1])
    final = training.final
    return float(max(np.abs(final.knots - early.knots).max(), np.abs(final.outer - early.outer).max()))


def run_fig7(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Train ten neurons on sin πx until the stationarity conditions hold."""
    dataset = curve("sin_pi", parameters["size"])
    training = _train(dataset, parameters, progress)
    defects = np.array([stationarity(training.network(k), dataset).value for k in training.iterations])
    large = np.flatnonzero(defects > CONVERGED * defects[0])
    reached = float(training.iterations[min(int(np.max(large, initial=0)) + 1, len(defects) - 1)])
    found = blocks(training.final, dataset)
    full = np.flatnonzero(found.counts[1:]) + 1
    misfit = float(np.max(np.abs(training.final(found.means[full]) - found.target_means[full])))
    claims = (
        Claim(
            "The mean squared error of (3.4) converges to 0",
            "→ 0 within 10⁸ iterations",
            f"{defects[0]:.1g} at the start, {defects[-1]:.1g} after "
            f"{int(training.iterations[-1]):,} iterations",
            bool(defects[-1] < CONVERGED * defects[0]),
            "" if defects[-1] < CONVERGED * defects[0] else "not yet converged at this number of iterations",
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
    late = training.iterations >= training.iterations[-1] / 100
    panels = (
        Panel(
            (training.series("blue"),),
            title="loss",
            x_label="iterations",
            y_label="mean squared error",
            x_scale="log",
            y_scale="log",
        ),
        Panel(
            (Series(training.iterations[late], training.errors[late], tone="blue"),),
            title="late loss",
            x_label="iterations",
            y_label="mean squared error",
            y_scale="log",
        ),
        Panel(
            (Series(training.iterations[1:], defects[1:], tone="orange"),),
            title="mean square of (3.4)",
            x_label="iterations",
            y_label="mean squared defect",
            x_scale="log",
            y_scale="log",
        ),
        Panel(
            (
                Series(dataset.inputs[:, 0], dataset.targets, "sin πx", style="dashed", tone="muted"),
                curve_series("trained network", training.final, "blue"),
                _macroscopic(training.final, dataset),
            ),
            title="fully trained network",
            x_label="x",
            y_label="f(x)",
        ),
    )
    return Findings((Figure("fig7", "sin πx by ten neurons: trained to the end", panels),), claims)


def run_fig8(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Follow knots, outer weights and block counts of the run of Figure 7."""
    dataset = curve("sin_pi", parameters["size"])
    training = _train(dataset, parameters, progress)
    last, drift = _last_change(training, dataset), _drift(training)
    smallest = float(np.min(np.abs(training.final.outer)))
    claims = (
        Claim(
            "The counts u_l are constant at the end",
            "constant after about 2·10⁷ of 10⁸ iterations",
            f"last change seen after iteration {last:,.0f} of {int(training.iterations[-1]):,}",
            last < 0.5 * training.iterations[-1],
            ""
            if last < 0.5 * training.iterations[-1]
            else "a knot still crosses (or rattles at) a data point",
        ),
        Claim(
            "All parameters converge, none of the outer weights vanishes (Theorem 3.3)",
            "converged",
            f"largest change over the last tenth {drift:.1g}, smallest |c| {smallest:.2g}",
            drift < 1e-2 and smallest > 0,
        ),
    )
    figure = Figure(
        "fig8", "Knots, outer weights and block counts", _parameter_panels(training, dataset), columns=3
    )
    return Findings((figure,), claims)


_FIVE = {"width": 8, "points": 300, "starts": 60, "seed": 18}
_SINE = {"width": 10, "size": 100, "points": 400, "seed": 0}
_SINE_SCALES = {"quick": {**_SINE, "steps": 40_000_000}, "paper": {**_SINE, "steps": 100_000_000}}

FIG4 = Experiment(
    "plateau/fig4",
    "Five points, eight neurons: what a fully trained network is",
    "Figure 4, §3.2",
    {"quick": {**_FIVE, "steps": 10_000_000}, "paper": {**_FIVE, "steps": 100_000_000}},
    run_fig4,
    cost={"quick": 1.6},
)
FIG7 = Experiment(
    "plateau/fig7",
    "sin πx: gradient descent to stationarity",
    "Figure 7, §5.1",
    _SINE_SCALES,
    run_fig7,
    cost={"quick": 2.6},
)
FIG8 = Experiment(
    "plateau/fig8",
    "sin πx: parameters converge",
    "Figure 8, §5.1",
    _SINE_SCALES,
    run_fig8,
    cost={"quick": 2.3},
)
