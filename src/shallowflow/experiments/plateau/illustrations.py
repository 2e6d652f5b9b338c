"""Figures 3, 5 and 6: the blocks U_l, a fully trained network by construction, the candidates of ANLS."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import CURVES, curve
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape import blocks, fully_trained, stationarity
from shallowflow.landscape.plateau.moves import candidates
from shallowflow.models import KnotNetwork, SquareLoss, initialize

POINTS = tuple(float(k) for k in range(10))
KNOTS = (1.5, 3.25, 3.75, 5.5, 8.5)
"""Five knots among ten points, as in Figures 3 and 6: U_2 is empty and U_5 has one point."""


def run_fig3(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Show the partition of ten points by five knots."""
    points, knots = np.array(parameters["points"]), np.array(parameters["knots"])
    found = blocks(KnotNetwork(knots, np.ones(len(knots))), Dataset(points[:, None], np.zeros(len(points))))
    between = [int(np.sum((points > low) & (points <= high))) for low, high in _gaps(knots)]
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


def _gaps(knots: Floats) -> list[tuple[float, float]]:
    return list(pairwise([-np.inf, *knots, np.inf]))


def run_fig6(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Show where one knot may go in one iteration of ANLS."""
    points, knots = np.array(parameters["points"]), np.array(parameters["knots"])
    found = candidates(knots, points)
    claim = Claim(
        "Five knots and ten points have seven candidates",
        "7",
        str(len(found)),
        len(found) == 7,
    )
    rows = np.array([move.neuron for move in found])
    panel = Panel(
        (
            Series(points, np.full(len(points), -1.0), "data", style="crosses", tone="ink"),
            Series(knots, np.arange(len(knots)), "knots", style="points", tone="red"),
            Series([move.position for move in found], rows, "candidates", style="points", tone="blue"),
        ),
        x_label="x",
        y_label="neuron that moves",
        y_ticks=((-1.0, "data"), *((float(row), str(row)) for row in range(len(knots)))),
    )
    return Findings((Figure("fig6", "The candidates of ANLS", (panel,), columns=1),), (claim,))


def run_fig5(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Glue the regression lines of the initial blocks into a stationary network (Proposition F.1)."""
    dataset = curve("sin_5pi", parameters["size"])
    start = initialize.he_knots(parameters["width"], seed=parameters["seed"])
    network = fully_trained(start.knots, dataset)
    loss = SquareLoss()
    error = 2 * loss.value(network(dataset.inputs), dataset.targets)
    best = 2 * float(active_neuron_least_squares(start, dataset, loss=loss).losses[-1])
    x = np.linspace(-1.0, 1.0, 20_001)
    steep = np.abs(np.diff(network(x)) / np.diff(x)) > 2 * np.max(
        np.abs(np.diff(CURVES["sin_5pi"](x)) / np.diff(x))
    )
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
    panel = Panel(
        (
            Series(x, CURVES["sin_5pi"](x), "sin 5πx", style="dashed", tone="muted"),
            Series(x, network(x), "fully trained network", tone="blue"),
            Series(
                start.knots, np.zeros(start.width), "initial knots", style="crosses", tone="red", size=0.6
            ),
        ),
        x_label="x",
        y_label="f(x)",
        x_limits=(-1.05, 1.05),
        y_limits=(-1.6, 1.6),
    )
    figure = Figure("fig5", "A fully trained network by construction (Proposition F.1)", (panel,), columns=1)
    return Findings((figure,), claims)


_SKETCH = {"points": POINTS, "knots": KNOTS}
_GLUED = {"width": 100, "size": 500, "seed": 0}

FIG3 = Experiment(
    "plateau/fig3",
    "Illustration: the blocks U_l",
    "Figure 3, §3.1",
    {"quick": _SKETCH, "paper": _SKETCH},
    run_fig3,
    cost={"quick": 0.2, "paper": 0.2},
)
FIG5 = Experiment(
    "plateau/fig5",
    "A fully trained network need not be good",
    "Figure 5, §3.3, Prop. F.1",
    {"quick": _GLUED, "paper": _GLUED},
    run_fig5,
    cost={"quick": 0.7, "paper": 0.7},
)
FIG6 = Experiment(
    "plateau/fig6",
    "Illustration: the candidates of ANLS",
    "Figure 6, §4.2",
    {"quick": _SKETCH, "paper": _SKETCH},
    run_fig6,
    cost={"quick": 0.1, "paper": 0.1},
)
