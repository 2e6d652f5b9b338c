"""Figures 3 to 8: blocks, candidates of ANLS, and fully trained networks, by construction and by training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import CURVES, curve
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress, Values, part, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau.methods import (
    LOSS,
    SKETCH,
    Training,
    anls,
    descend,
    error_panel,
    flow,
    many_starts,
    share_claim,
    start_of,
)
from shallowflow.landscape import blocks, fully_trained, stationarity
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


CONVERGED = 1e-6
"""The mean square of (3.4) has converged to 0 when it is below this share of its start."""
EXACT = 1e-3
"""A network passes through points if it misses none by more."""
TONES = ("blue", "orange", "green", "pink", "sky", "red", "ink", "muted")


def five_points() -> Dataset:
    """Return the data of Figure 4: ((k − 3)/2, (1 − (−1)^k)/2), k = 1, …, 5."""
    k = np.arange(1, 6)
    return Dataset(((k - 3) / 2)[:, None], (1.0 - (-1.0) ** k) / 2, name="five points")


def _train(dataset: Dataset, parameters: Values, progress: Progress) -> Training:
    return descend(dataset, parameters, part(progress, 0, 2, "gradient descent"))


@dataclass(frozen=True)
class Ending:
    """How the flow from one start ends.

    defect: the largest defect of (3.4) at the end; falling: its mean square there over that at the start;
    reached: the iteration from which on it is below `CONVERGED` of its start (∞: not); misfit: the largest
    distance to the macroscopic data, distance: to the data; settled: the last iteration at which a count u_l
    differs from the end; drift: the largest change of a parameter over the last tenth at least; smallest:
    the least |c| of a living neuron over the largest; knots_rest, outer_rest: from which iteration on they
    stay within 1 % of their range of where they end; plateaus: how many were left again.
    """

    defect: float
    falling: float
    reached: float
    misfit: float
    distance: float
    settled: float
    drift: float
    smallest: float
    knots_rest: float
    outer_rest: float
    plateaus: int
    final: KnotNetwork


def ending(training: Training, dataset: Dataset) -> Ending:
    """Return how a run ends."""
    iterations, final = training.iterations, training.final
    networks = [training.network(k) for k in iterations]
    squares = np.array([stationarity(one, dataset).value for one in networks])
    counts = [blocks(one, dataset).counts for one in networks]
    changed = [not np.array_equal(one, counts[-1]) for one in counts]
    found = blocks(final, dataset)
    full = np.flatnonzero(found.counts[1:]) + 1
    living = np.abs(final.outer[~found.dead])
    knots, outer = (np.array([getattr(one, name) for one in networks]) for name in ("knots", "outer"))
    late = int(np.searchsorted(iterations, 0.9 * iterations[-1], side="right")) - 1
    drifts = [float(np.abs(path[late:] - path[-1]).max()) for path in (knots, outer)]
    fallen = CONVERGED * squares[0]
    return Ending(
        defect=stationarity(final, dataset).largest,
        falling=float(squares[-1] / squares[0]),
        reached=_after_last(iterations, squares > fallen),
        misfit=float(np.max(np.abs(final(found.means[full]) - found.target_means[full]), initial=0.0)),
        distance=float(np.max(np.abs(final(dataset.inputs) - dataset.targets))),
        settled=float(iterations[int(np.max(np.flatnonzero(changed), initial=0))]),
        drift=max(drifts),
        smallest=float(living.min() / living.max()) if living.size else 0.0,
        knots_rest=_rest(iterations, knots),
        outer_rest=_rest(iterations, outer),
        plateaus=len(training.plateaus),
        final=final,
    )


def _after_last(iterations: Floats, before: Floats) -> float:
    """Return the first recorded iteration after the last at which `before` is true; ∞ if that is the end."""
    last = int(np.max(np.flatnonzero(before), initial=-1))
    return float(iterations[last + 1]) if last + 1 < len(iterations) else np.inf


def _rest(iterations: Floats, path: Floats) -> float:
    """Return from which iteration on parameters (k, n) stay within 1 % of their range of the end."""
    away = np.abs(path - path[-1]).max(axis=1)
    return _after_last(iterations, away > 0.01 * float(np.ptp(path, axis=0).max()))


def endings(dataset: Dataset, parameters: Values, progress: Progress) -> list[Ending]:
    """Return how the flows from the starts 0, 1, … end."""
    found = []
    for number, one in enumerate(many_starts(parameters)):
        progress(0.5 + 0.5 * number / parameters["starts"], "other starts")
        found.append(ending(flow(dataset, one), dataset))
    return found


def _macroscopic(network: KnotNetwork, dataset: Dataset) -> Series:
    found = blocks(network, dataset)
    full = np.flatnonzero(found.counts[1:]) + 1
    return Series(found.means[full], found.target_means[full], "macroscopic data", style="points", tone="ink")


def _parameter_panels(
    training: Training, dataset: Dataset, lines: Floats | None = None
) -> tuple[Panel, Panel, Panel]:
    """Return the paths of knots, outer weights and block counts; lines: places beside the knots, dashed."""
    networks = [training.network(k) for k in training.iterations]

    ends = [float(training.iterations[1]), float(training.iterations[-1])]
    places = () if lines is None else lines
    dashed = tuple(Series(ends, [place, place], style="dashed", tone="muted", size=0.5) for place in places)

    def panel(title: str, lines: str, table: Sequence[ArrayLike], behind: tuple[Series, ...] = ()) -> Panel:
        paths = tuple(
            Series(
                training.iterations[1:],
                column[1:],
                f"{j}",
                tone=TONES[j % len(TONES)],
                style="line" if j < len(TONES) else "dashed",
                size=0.7,
            )
            for j, column in enumerate(np.array(table).T)
        )
        return Panel(behind + paths, f"{title}, a line per {lines}", "iterations", title, "log")

    return (
        panel("knots b", "neuron", [network.knots for network in networks], dashed),
        panel("outer weights c", "neuron", [network.outer for network in networks]),
        panel("block counts u", "block", [blocks(network, dataset).counts for network in networks]),
    )


def seed_with_two_dead(dataset: Dataset, width: int) -> int:
    """Return the first seed whose start has two knots beyond the data, as that of Figure 4 has."""
    end = float(dataset.inputs.max())
    return next(
        seed for seed in count() if np.sum(start_of({"width": width, "seed": seed}).knots >= end) == 2
    )


def run_fig4(parameters: Values, progress: Progress) -> Findings:
    """Fit five points with eight neurons until nothing moves."""
    dataset = five_points()
    seed = seed_with_two_dead(dataset, parameters["width"])
    training = _train(dataset, {**parameters, "seed": seed}, progress)
    final = training.final
    data = Series(dataset.inputs[:, 0], dataset.targets, "data", style="crosses", tone="red")
    shown = (training.graph("trained network", "blue"), data, _macroscopic(final, dataset))
    network = Panel(shown, "trained network", "x", "f(x)")
    knots, outer, _ = _parameter_panels(training, dataset, lines=dataset.inputs[:, 0])
    caption = f"The start shown (seed {seed}) is the first with two knots beyond the data, as in the paper."
    title = "Five points, eight neurons: trained to the end"
    figure = Figure("fig4", title, (network, knots, outer), caption, columns=3)
    return Findings((figure,), fig4_claims(endings(dataset, parameters, progress)))


def fig4_claims(found: Sequence[Ending]) -> tuple[Claim, ...]:
    """Return the claims about fully trained networks on the five points, from many starts."""
    fitted = [one for one in found if one.distance < EXACT]
    return (
        share_claim(
            f"The fully trained network interpolates the macroscopic data (Lemma 3.4), to {EXACT:g}",
            "interpolates",
            [one.misfit < EXACT for one in found],
            reason="where a knot rests on a data point the flow stands still though (3.4) fails there",
        ),
        share_claim(
            "The macroscopic data are the data themselves: the network fits all five points",
            "identical to the training data in this case",
            [one.distance < EXACT for one in found],
            reason="from most starts some block keeps several points",
        ),
        share_claim(
            "Where it fits, the network is 4φ(x − ½) − 4φ(x) + 4φ(x + ½) + c₂φ(x + 1) + c₁φ(x − b₁)",
            "coefficients 4, −4, 4 at ½, 0, −½",
            [published_end(one.final) for one in fitted],
        ),
        share_claim(
            "All knots and outer weights converge (Theorem 3.3): no change above 10⁻² over the last tenth",
            "constant at the end",
            [one.drift < 1e-2 for one in found],
        ),
        share_claim(
            "None of the coefficients vanishes: of living neurons above 10⁻³ of the largest",
            "none vanishes",
            [one.smallest > 1e-3 for one in found],
        ),
    )


def published_end(network: KnotNetwork, tolerance: float = 0.01) -> bool:
    """Whether the turns at −½, 0 and ½ are 4, −4 and 4, and there are no others inside (−1, ½)."""
    turns = dict.fromkeys((-0.5, 0.0, 0.5), 0.0)
    for knot, change in zip(network.knots, network.outer, strict=True):
        place = min(turns, key=lambda place: abs(place - knot))
        if abs(place - knot) < tolerance:
            turns[place] += float(change)
        elif -1 + tolerance < knot < 0.5 and abs(change) > tolerance:
            return False
    return bool(np.allclose(list(turns.values()), [4.0, -4.0, 4.0], atol=4 * tolerance))


def run_fig7(parameters: Values, progress: Progress) -> Findings:
    """Train ten neurons on sin πx until the stationarity conditions hold."""
    dataset = curve("sin_pi", parameters["size"])
    training = _train(dataset, parameters, progress)
    iterations, errors, final = training.iterations, training.errors, training.final
    defects = np.array([stationarity(training.network(k), dataset).value for k in iterations])
    falling = Series(iterations[1:], defects[1:], tone="orange")
    sine = Series(dataset.inputs[:, 0], dataset.targets, "sin πx", style="dashed", tone="muted")
    shown = (sine, training.graph("trained network", "blue"), _macroscopic(final, dataset))
    ends = [end for _, end in training.plateaus] or [float(iterations[-1]) / 2]
    shown_part = (iterations >= 1e4) & (iterations <= 2 * ends[-1])
    part_of = Series(iterations[shown_part], errors[shown_part], tone="blue")
    panels = (
        error_panel((training.series("blue"),)),
        Panel((part_of,), "the last plateaus left", "iterations", "mean squared error", "log", "log"),
        Panel((falling,), "mean square of (3.4)", "iterations", "mean squared defect", "log", "log"),
        Panel(shown, "fully trained network", "x", "f(x)"),
    )
    figure = Figure("fig7", "sin πx by ten neurons: trained to the end", panels)
    return Findings((figure,), fig7_claims(endings(dataset, parameters, progress)))


def fig7_claims(found: Sequence[Ending]) -> tuple[Claim, ...]:
    """Return the claims about training to stationarity, as flows of 10⁸ steps from many starts."""
    reached = np.array([one.reached for one in found])
    return (
        share_claim(
            f"The mean squared error of (3.4) converges to 0: below {CONVERGED:g} of its start",
            "→ 0 within 10⁸ iterations",
            [one.falling < CONVERGED for one in found],
        ),
        share_claim(
            "Convergence takes more than ten million iterations",
            "> 10⁷",
            [one.reached > 1e7 for one in found],
            words=f"median {np.median(reached) if len(reached) else np.inf:.2g}",
            reason="depends on the start; the paper's is unknown",
        ),
        share_claim(
            "The fully trained network interpolates the macroscopic data (Lemma 3.4), to 10⁻³",
            "interpolates",
            [one.misfit < EXACT for one in found],
        ),
        share_claim(
            "Multiple plateaus are observed: two or more that are left again",
            "multiple plateaus",
            [one.plateaus >= 2 for one in found],
            words=f"median {np.median([one.plateaus for one in found] or [0]):.0f}",
            reason="most starts have one or none that is left again within 10⁸ iterations",
        ),
    )


def run_fig8(parameters: Values, progress: Progress) -> Findings:
    """Follow knots, outer weights and block counts of the run of Figure 7."""
    dataset = curve("sin_pi", parameters["size"])
    training = _train(dataset, parameters, progress)
    panels = _parameter_panels(training, dataset)
    figure = Figure("fig8", "Knots, outer weights and block counts", panels, columns=3)
    found = endings(dataset, parameters, progress)
    return Findings((figure,), fig8_claims(found, parameters["flow_steps"]))


def fig8_claims(found: Sequence[Ending], steps: int) -> tuple[Claim, ...]:
    """Return the claims about parameters, as flows of so many steps from many starts."""
    return (
        share_claim(
            "The counts u_l are constant at the end: over the second half of the iterations",
            "constant after about 2·10⁷ of 10⁸ iterations",
            [one.settled < 0.5 * steps for one in found],
            words=f"median last change {np.median([one.settled for one in found] or [0]):.2g}",
        ),
        share_claim(
            "All parameters converge (Theorem 3.3): no change above 10⁻² over the last tenth",
            "converged",
            [one.drift < 1e-2 for one in found],
        ),
        share_claim(
            "The coefficients converge once the knots are stable: they come to rest after the knots",
            "coefficients begin to converge once the biases are stabilized",
            [one.outer_rest >= one.knots_rest for one in found],
        ),
    )


_SINE = scales(
    {"width": 10, "size": 100, "points": 400, "seed": 0, "flow_steps": 100_000_000},
    quick={"steps": 40_000_000, "starts": 16},
    paper={"steps": 100_000_000, "starts": 60},
)

FIG4 = Experiment(
    "plateau/fig4",
    "Five points, eight neurons: what a fully trained network is",
    "Figure 4, §3.2",
    scales(
        {"width": 8, "points": 300, "starts": 60},
        quick={"steps": 10_000_000, "flow_steps": 10_000_000},
        paper={"steps": 100_000_000, "flow_steps": 100_000_000},
    ),
    run_fig4,
    cost={"quick": 9.8, "paper": 12},
)
FIG7 = Experiment(
    "plateau/fig7",
    "sin πx: gradient descent to stationarity",
    "Figure 7, §5.1",
    _SINE,
    run_fig7,
    cost={"quick": 6.1, "paper": 17},
)
FIG8 = Experiment(
    "plateau/fig8",
    "sin πx: parameters converge",
    "Figure 8, §5.1",
    _SINE,
    run_fig8,
    cost={"quick": 5, "paper": 16},
)
