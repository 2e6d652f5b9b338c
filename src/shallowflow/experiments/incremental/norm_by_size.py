"""Figure 5: the norm of the learned interpolator against the number of points.

Two limits meet here. At a fixed scale α and large n all neurons of a sign grow together: with Gaussian labels
their rates differ by a part of about √(3/2n) only. They share the points, and the norm is √2 times the
minimum (`SHARED_RATIO`). At fixed n and α → 0 the fastest neuron is alone, Algorithm 1 applies, and the norm
tends to 1 + √2 times the minimum as n grows (`HALVING_RATIO`). Between them ln(1/α) is of the order of √n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import shallowflow.experiments.incremental.norm_by_width as norm_by_width
from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.saddle_to_saddle import saddle_to_saddle
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.norm_by_width import (
    UNTRAINED,
    VISIBLE,
    Rule,
    banded,
    identity,
    interpolated,
    labels,
)
from shallowflow.landscape.incremental import (
    HALVING_RATIO,
    SHARED_RATIO,
    min_squared_norm,
    squared_norm,
)
from shallowflow.models import LogScaledNetwork
from shallowflow.readings.many_runs import log_slope

TONES = ("sky", "blue", "green", "orange")
NEAR = 0.03
"""How near to ½ a slope is that is about ½."""


def start_of(size: int, digits: float, seed: int) -> LogScaledNetwork:
    """Return the start on so many points, α = 10^−digits, so wide that interpolation is likely."""
    return norm_by_width.small_start(int(np.ceil(4 * np.log(size / 0.01))), size, digits, seed)


class Crossing(NamedTuple):
    """From shared growth to Algorithm 1 at one size: ln(1/α) of a neuron (K,) and the way covered (K,).

    way: (‖θ‖² − N₀)/(N₁ − N₀), N₀ from the largest α shown and N₁ from Algorithm 1.
    """

    size: int
    scales: Floats
    way: Floats

    @property
    def half(self) -> float:
        """ln(1/α)/√n at which half of the way is covered."""
        rising = np.maximum.accumulate(self.way)
        return float(np.exp(np.interp(0.5, rising, np.log(self.scales))) / np.sqrt(self.size))


def _crossing(size: int, descents: Floats, limits: Floats, parameters: Values) -> Crossing:
    """Follow the norm from the descents (scales, starts) on by the flow, to which no scale is too small.

    limits: the norms of Algorithm 1, from the same starts first.
    """
    dataset = identity(labels(size, parameters["label_seed"]))
    seeds, smaller = range(parameters["seeds"]), parameters["flow_digits"]
    by_flow = [np.mean([_flow_norm(start_of(size, d, seed), dataset) for seed in seeds]) for d in smaller]
    found, end = np.append(descents.mean(axis=1), by_flow), float(limits[: len(seeds)].mean())
    scales = np.array([start_of(size, d, 0).acceleration for d in (*parameters["digits"], *smaller)])
    return Crossing(size, scales, (found - found[0]) / (end - found[0]))


def _flow_norm(network: LogScaledNetwork, dataset: Dataset) -> float:
    """‖θ‖² at the end of the flow, well after Algorithm 1's last jump."""
    scale = network.acceleration
    until = 1.3 * scale * float(saddle_to_saddle(network, dataset).predicted_times(scale).max())
    run = gradient_flow(network, dataset, until=until, tolerance=1e-6, record=Record.geometric(2))
    assert isinstance(run.final, LogScaledNetwork)
    return squared_norm(run.final)


def crossing_claim(crossings: list[Crossing]) -> Claim:
    """Half of the way is covered at the same ln(1/α)/√n, whatever n."""
    halves = np.array([found.half for found in crossings])
    arrived = min(found.way[-1] for found in crossings)
    return Claim.that(
        "Descent has the norm of Algorithm 1 only where ln(1/α) ≫ √n",
        "tends to it as α → 0 at fixed n (Theorem 2)",
        Interval.exact(float(halves.max() / halves.min()) if arrived > 0.95 else np.inf),
        most=2.0,
        words="half of the way from shared growth at ln(1/α) = "
        + ", ".join(f"{half:.1f}√n (n = {found.size})" for half, found in zip(halves, crossings, strict=True))
        + f", which differ by a factor {{}}; at the smallest α {arrived:.3f} of it",
        reason="growth rates differ by a part of about √(3/2n): at a fixed α large n are never in the limit",
        ours=True,
    )


class Norms(NamedTuple):
    """‖θ‖² by number of points: least (S,), Algorithm 1 (S, starts), descent (scales, T, starts).

    Descent runs at the first T sizes, from α = 10^−digits and the first starts; losses: the largest
    at the end of a descent, by scale; stop_below: the loss that counts as trained.
    """

    sizes: Floats
    digits: tuple[int, ...]
    least: Floats
    limits: Floats
    descents: Floats
    losses: Floats
    stop_below: float

    @property
    def trained(self) -> Floats:
        """The sizes at which descent runs."""
        return self.sizes[: self.descents.shape[1]]

    @property
    def ratios(self) -> Floats:
        """‖θ‖² of descent over the minimum, (scales, T, starts)."""
        return self.descents / self.least[: len(self.trained), None]


def run_fig5(parameters: Values, progress: Progress) -> Findings:
    """‖θ‖² against n: descent from several scales, Algorithm 1, and the minimum."""
    norms = _norms(parameters, lambda fraction, doing: progress(0.8 * fraction, doing))
    crossings = []
    for i, size in enumerate(parameters["crossing_sizes"]):
        progress(0.8 + 0.2 * i / len(parameters["crossing_sizes"]), f"flow, n = {size}")
        at = int(np.flatnonzero(norms.sizes == size)[0])
        crossings.append(_crossing(size, norms.descents[:, at], norms.limits[at], parameters))
    way = tuple(
        Series(found.scales / np.sqrt(found.size), found.way, f"n = {found.size}", tone=tone)
        for found, tone in zip(crossings, ("blue", "orange", "green"), strict=False)
    )
    figure = Figure(
        "fig5",
        "The learned interpolator's squared norm grows like √n",
        (*_norm_panels(norms), Panel(way, "", "ln(1/α) / √n", "share of the way to Algorithm 1", "log")),
        "Mean over starts, bands from smallest to largest. Width ⌈4 ln(n/0.01)⌉, Gaussian labels; descent "
        f"has rate {parameters['step']:g} and ends at a loss below {parameters['stop_below']:g}. Right: the "
        "share of the way from the norm at the largest α to that of Algorithm 1, by descent and, from "
        f"α = 10^−{parameters['flow_digits'][0]} on, by the flow.",
        columns=3,
    )
    return Findings((figure,), (*slope_claims(norms), *norm_claims(norms), crossing_claim(crossings)))


def _norms(parameters: Values, progress: Progress) -> Norms:
    sizes, digits, seeds = parameters["sizes"], parameters["digits"], range(parameters["seeds"])
    rule = Rule(parameters["step"], parameters["epochs"], parameters["stop_below"])
    least, limits = list[float](), list[list[float]]()
    descents, losses = list[list[list[float]]](), np.zeros(len(digits))
    for i, size in enumerate(sizes):
        progress(i / len(sizes), f"n = {size}")
        targets = labels(size, parameters["label_seed"])
        starts = (start_of(size, 0, seed) for seed in range(parameters["limit_seeds"]))
        least.append(min_squared_norm(targets))
        limits.append([norm_by_width.limit_norm(start, targets) for start in starts])
        if size <= parameters["descent_up_to"]:
            dataset = identity(targets)
            ends = [
                norm_by_width.trained((start_of(size, d, seed).to_relu() for seed in seeds), dataset, rule)
                for d in digits
            ]
            descents.append([norms for norms, _ in ends])
            losses = np.maximum(losses, [loss for _, loss in ends])
    by_scale = np.array(descents).transpose(1, 0, 2)
    arrays = np.array(least), np.array(limits), by_scale, losses
    return Norms(np.array(sizes, dtype=np.float64), tuple(digits), *arrays, rule.stop_below)


def _norm_panels(norms: Norms) -> tuple[Panel, Panel]:
    """Return the norms, and their ratios to the minimum."""
    x, level = norms.sizes, np.ones(len(norms.sizes))
    descents = [
        banded(norms.trained, found, f"descent, α = 10^−{digits}", tone)
        for found, digits, tone in zip(norms.descents, norms.digits, TONES, strict=False)
    ]
    ratios = [
        banded(norms.trained, found, f"α = 10^−{digits}", tone)
        for found, digits, tone in zip(norms.ratios, norms.digits, TONES, strict=False)
    ]
    whole = (
        banded(x, norms.limits, "Algorithm 1", "red"),
        *descents,
        Series(x, norms.least, "minimal norm", style="dashed", tone="ink"),
    )
    relative = (
        banded(x, norms.limits / norms.least[:, None], "Algorithm 1", "red"),
        *ratios,
        Series(x, HALVING_RATIO * level, "1 + √2 (exact halving)", style="dashed", tone="muted"),
        Series(x, SHARED_RATIO * level, "√2 (shared)", style="dashed", tone="ink"),
    )
    return (
        Panel(whole, "", "number of points n", "‖θ‖²", "log", "log"),
        Panel(relative, "", "number of points n", "‖θ‖² / minimum", "log", y_limits=(1.0, 3.0)),
    )


def slope_of(sizes: Floats, norms: Floats) -> Interval:
    """Return the mean over starts of the slope of ln‖θ‖² over ln n, of norms (sizes, starts)."""
    return Interval.of_mean([log_slope(sizes, column) for column in norms.T])


def slope_claims(norms: Norms) -> tuple[Claim, ...]:
    """The paper's own experiment at every scale, then the limit α → 0 at the same sizes and beyond."""
    sizes, count = norms.trained, len(norms.trained)
    span, least = f"n = {sizes[0]:.0f} … {sizes[-1]:.0f}", log_slope(sizes, norms.least[:count])
    claims = []
    for found, ratio, digits, loss in zip(
        norms.descents, norms.ratios, norms.digits, norms.losses, strict=True
    ):
        means = ratio.mean(axis=1)
        claims.append(
            Claim.that(
                f"‖θ‖² grows like √n where descent from α = 10^−{digits} ends, {span}",
                "slope about ½ on logarithmic axes",
                slope_of(sizes, found) if interpolated(loss, norms.stop_below, ratio) else UNTRAINED,
                least=0.5 - NEAR,
                most=0.5 + NEAR,
                words=f"slope {{}} (minimum: {least:.3f}); {means[0]:.2f} to {means[-1]:.2f} times the "
                f"minimum; largest loss at the end {loss:.1g}",
                reason="what exceeds the minimum's slope is the ratio's climb",
            )
        )
    tail = norms.sizes >= sizes[-1]
    return (
        *claims,
        Claim.that(
            f"So it does in the limit α → 0 (Algorithm 1) at the same sizes, {span}",
            "slope about ½; the paper shows descent only",
            slope_of(sizes, norms.limits[:count]),
            least=0.5 - NEAR,
            most=0.5 + NEAR,
            words="slope {}",
            reason="here the ratio to the minimum still climbs towards 1 + √2, which adds to the slope",
        ),
        Claim.that(
            f"and at larger ones, n = {sizes[-1]:.0f} … {norms.sizes[-1]:.0f}",
            "‖θ‖² = O(√n) (Theorem 3)",
            slope_of(norms.sizes[tail], norms.limits[tail]),
            least=0.5 - NEAR,
            most=0.5 + NEAR,
            words="slope {}",
        ),
    )


def norm_claims(norms: Norms) -> tuple[Claim, ...]:
    """A constant factor, small spreads, and the two limits of the factor."""
    ratios, loss = norms.ratios, float(norms.losses.max())
    climbs = [slope_of(norms.trained, ratio) for ratio in ratios]
    worst = max(climbs, key=lambda climb: abs(climb.value))
    spread = float(np.max((ratios.max(axis=2) - ratios.min(axis=2)) / ratios.mean(axis=2)))
    ends = norms.limits[-1] / norms.least[-1]
    return (
        Claim.that(
            "The achieved norm is only by a constant factor larger than the optimal one",
            "a constant factor",
            worst if interpolated(loss, norms.stop_below, ratios) else UNTRAINED,
            least=-NEAR,
            most=NEAR,
            words=f"it grows like n^{{}}, from {ratios.min():.2f} to {ratios.max():.2f}; largest loss at the "
            f"end {loss:.1g}",
        ),
        Claim.that(
            "The deviation over three runs is barely visible",
            "barely visible (App. A.2)",
            Interval.exact(spread),
            most=VISIBLE,
            words="largest less smallest over the mean {}, at most",
            reason="at small n",
        ),
        Claim.that(
            f"In the limit the factor tends to 1 + √2: at n = {norms.sizes[-1]:.0f}",
            "not in the paper; every jump halves what is left",
            Interval.of_mean(ends),
            least=float(0.95 * HALVING_RATIO),
            most=float(1.05 * HALVING_RATIO),
            words=f"{{}}, 1 + √2 = {HALVING_RATIO:.3f}",
            ours=True,
        ),
    )


FIG5 = Experiment(
    "incremental/fig5",
    "Norm of the learned interpolator against the number of points",
    "Figure 5, App. A.2",
    scales(
        {
            "sizes": (32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 131072),
            "descent_up_to": 4096,
            "label_seed": 1000,
            "step": 0.5,
            "epochs": 1_000_000,
            "stop_below": 1e-10,
            "flow_digits": (50, 100, 300, 1000, 3000),
        },
        quick={"seeds": 3, "digits": (2, 8), "limit_seeds": 3, "crossing_sizes": (64, 256)},
        paper={"seeds": 6, "digits": (2, 4, 8, 30), "limit_seeds": 10, "crossing_sizes": (64, 256, 1024)},
    ),
    run_fig5,
    cost={"quick": 28, "paper": 190},
)
