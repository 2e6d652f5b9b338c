"""Figures 3, 5 and 6: the blocks U_l, a fully trained network by construction, the candidates of ANLS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import CURVES, curve
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau.methods import LOSS, SKETCH, anls, many_starts, share_claim, start_of
from shallowflow.landscape import blocks, fully_trained
from shallowflow.landscape.plateau.moves import candidates
from shallowflow.models import KnotNetwork


def run_fig3(parameters: Values, progress: Progress) -> Findings:
    """Show the partition of ten points by five knots."""
    points, knots = np.array(parameters["points"]), np.array(parameters["knots"])
    found = blocks(KnotNetwork(knots, np.ones(len(knots))), Dataset(points[:, None], np.zeros(len(points))))
    claim = Claim(
        "Five knots partition the ten points into U_0, …, U_5; U_2 is empty",
        "10 points, u_2 = 0",
        f"counts {found.counts.tolist()}, sum {int(found.counts.sum())}",
        int(found.counts.sum()) == 10 and int(found.counts[2]) == 0,
        fails_if="if the counts do not add up to 10, or U_2 has points",
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


@dataclass(frozen=True)
class Glued:
    """A network of Prop. F.1: steep pieces, its error and ANLS's, and how far a flow from it falls."""

    spikes: int
    error: float
    anls: float
    fall: float


def glued(dataset: Dataset, parameters: Values) -> tuple[KnotNetwork, Glued]:
    """Return the network glued from the regression lines of the initial blocks, and what it is like."""
    network = fully_trained(start_of(parameters).knots, dataset)
    x = np.linspace(-1.0, 1.0, 20_001)
    found, target = network(x), CURVES["sin_5pi"](x)
    steep = np.abs(np.diff(found) / np.diff(x)) > 2 * np.max(np.abs(np.diff(target) / np.diff(x)))
    error = 2 * LOSS.value(network(dataset.inputs), dataset.targets)
    run = gradient_flow(network, dataset, until=parameters["until"])
    fall = float(1 - run.losses[-1] / run.losses[0])
    spikes = int(np.sum(np.diff(steep.astype(int)) == 1))
    return network, Glued(spikes, error, float(anls(dataset, parameters).errors[-1]), fall)


def run_fig5(parameters: Values, progress: Progress) -> Findings:
    """Glue the regression lines of the initial blocks into a stationary network (Proposition F.1)."""
    dataset, start = curve("sin_5pi", parameters["size"]), start_of(parameters)
    network, _ = glued(dataset, parameters)
    found = []
    for number, one in enumerate(many_starts(parameters)):
        progress(number / parameters["starts"], "starts")
        found.append(glued(dataset, one)[1])
    x = np.linspace(-1.0, 1.0, 20_001)
    values, inside = network(x), _inside_blocks(x, start.knots, dataset)
    series = (
        Series(x, CURVES["sin_5pi"](x), "sin 5πx", style="dashed", tone="muted", size=0.7),
        Series(x, np.where(inside, values, np.nan), "least-squares lines", tone="blue"),
        Series(x, np.where(inside, np.nan, values), "gluing lines", style="dashed", tone="orange", size=0.7),
        Series(start.knots, np.zeros(start.width), "initial knots", style="crosses", tone="red", size=0.6),
    )
    panel = Panel(series, "", "x", "f(x)", x_limits=(-1.05, 1.05), y_limits=(-1.6, 1.6))
    figure = Figure("fig5", "A fully trained network by construction (Proposition F.1)", (panel,), columns=1)
    return Findings((figure,), fig5_claims(found))


def _inside_blocks(x: Floats, cuts: Floats, dataset: Dataset) -> Floats:
    """Return which places lie between the first and the last point of a block, (k,)."""
    data = np.sort(dataset.inputs[:, 0])
    labels = np.searchsorted(np.sort(cuts), data)
    left = np.clip(np.searchsorted(data, x, side="right") - 1, 0, len(data) - 2)
    return np.asarray(labels[left] == labels[left + 1])


def fig5_claims(found: Sequence[Glued]) -> tuple[Claim, ...]:
    """Return the claims about networks of Prop. F.1 from many starts."""
    return (
        share_claim(
            "The glued network is fully trained: the flow from it lowers its loss by less than 10⁻⁶ of it",
            "no further improvement",
            [one.fall < 1e-6 for one in found],
            words=f"largest fall {max((one.fall for one in found), default=0.0):.1g}",
        ),
        share_claim(
            "It has spikes: five or more pieces twice as steep as the target is anywhere",
            "many spikes",
            [one.spikes >= 5 for one in found],
            words=f"median {np.median([one.spikes for one in found] or [0]):.0f}",
        ),
        share_claim(
            "It approximates the target badly: ten times the error of ANLS from the same knots",
            "not very well",
            [one.error > 10 * one.anls for one in found],
        ),
    )


def run_fig6(parameters: Values, progress: Progress) -> Findings:
    """Show where one knot may go in one iteration of ANLS."""
    points, knots = np.array(parameters["points"]), np.array(parameters["knots"])
    found = candidates(knots, points)
    claim = Claim(
        "Five knots and ten points have seven candidates",
        "7",
        str(len(found)),
        len(found) == 7,
        fails_if="if there are more or fewer",
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
        y_ticks=((-1.0, "data"), *((float(row), str(row + 1)) for row in range(len(knots)))),
    )
    return Findings((Figure("fig6", "The candidates of ANLS", (panel,), columns=1),), (claim,))


FIG3 = Experiment(
    "plateau/fig3",
    "Illustration: the blocks U_l",
    "Figure 3, §3.1",
    scales(SKETCH),
    run_fig3,
    cost={"quick": 0.75, "paper": 0.1},
)
FIG5 = Experiment(
    "plateau/fig5",
    "A fully trained network need not be good",
    "Figure 5, §3.3, Prop. F.1",
    scales({"width": 100, "size": 500, "seed": 0, "starts": 12, "until": 1.0}),
    run_fig5,
    cost={"quick": 1.2, "paper": 0.63},
)
FIG6 = Experiment(
    "plateau/fig6",
    "Illustration: the candidates of ANLS",
    "Figure 6, §4.2",
    scales(SKETCH),
    run_fig6,
    cost={"quick": 0.1, "paper": 0.1},
)
