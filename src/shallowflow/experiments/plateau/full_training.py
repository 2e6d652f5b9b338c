"""Figures 4, 7 and 8: training to the end, and what a fully trained network looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import curve
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, part, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.plateau.methods import (
    Training,
    descend,
    error_panel,
    flow,
    many_starts,
    share_claim,
    start_of,
)
from shallowflow.landscape import blocks, stationarity
from shallowflow.models import KnotNetwork

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
