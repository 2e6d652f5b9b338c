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
from shallowflow.experiments.claim import Claim
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.norm_by_width import Rule, banded, identity, interpolated, labels
from shallowflow.landscape.incremental import (
    HALVING_RATIO,
    SHARED_RATIO,
    min_squared_norm,
    norm_constant,
    squared_norm,
)
from shallowflow.models import LogScaledNetwork
from shallowflow.readings.many_runs import log_slope

TONES = ("sky", "blue", "green", "orange")


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
    return Claim(
        "Descent has the norm of Algorithm 1 only where ln(1/α) ≫ √n (ours)",
        "tends to it as α → 0 at fixed n (Theorem 2)",
        "half of the way from shared growth at ln(1/α) = "
        + ", ".join(f"{half:.1f}√n (n = {found.size})" for half, found in zip(halves, crossings, strict=True))
        + f"; at the smallest α {min(found.way[-1] for found in crossings):.3f} of it",
        bool(halves.max() < 2 * halves.min() and all(found.way[-1] > 0.95 for found in crossings)),
        "growth rates differ by a part of about √(3/2n): at a fixed α large n are never in the limit regime",
    )


class Norms(NamedTuple):
    """‖θ‖² by number of points: least (S,), Algorithm 1 (S, starts), descent (scales, T, starts).

    Descent runs at the first T sizes, from α = 10^−digits and the first starts; constants: those of Theorem 3
    at Algorithm 1's end (S,); losses: the largest at the end of a descent, by scale; stop_below: the loss
    that counts as trained.
    """

    sizes: Floats
    digits: tuple[int, ...]
    least: Floats
    limits: Floats
    descents: Floats
    constants: Floats
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
    return Findings((figure,), (*_slope_claims(norms), *_norm_claims(norms), crossing_claim(crossings)))


def _norms(parameters: Values, progress: Progress) -> Norms:
    sizes, digits, seeds = parameters["sizes"], parameters["digits"], range(parameters["seeds"])
    rule = Rule(parameters["step"], parameters["epochs"], parameters["stop_below"])
    least, limits, constants = list[float](), list[list[float]](), list[float]()
    descents, losses = list[list[list[float]]](), np.zeros(len(digits))
    for i, size in enumerate(sizes):
        progress(i / len(sizes), f"n = {size}")
        targets = labels(size, parameters["label_seed"])
        starts = (start_of(size, 0, seed) for seed in range(parameters["limit_seeds"]))
        least.append(min_squared_norm(targets))
        limits.append([norm_by_width.limit_norm(start, targets) for start in starts])
        constants.append(norm_constant(max(limits[-1]), targets))
        if size <= parameters["descent_up_to"]:
            dataset = identity(targets)
            ends = [
                norm_by_width.trained((start_of(size, d, seed).to_relu() for seed in seeds), dataset, rule)
                for d in digits
            ]
            descents.append([norms for norms, _ in ends])
            losses = np.maximum(losses, [loss for _, loss in ends])
    by_scale = np.array(descents).transpose(1, 0, 2)
    arrays = np.array(least), np.array(limits), by_scale, np.array(constants), losses
    return Norms(np.array(sizes, dtype=np.float64), tuple(digits), *arrays, rule.stop_below)


def _norm_panels(norms: Norms) -> tuple[Panel, Panel]:
    """Return the norms, and their ratios to the minimum: unlabelled, for the colours are the same."""
    x, level = norms.sizes, np.ones(len(norms.sizes))
    descents = [
        banded(norms.trained, found, f"descent, α = 10^−{digits}", tone)
        for found, digits, tone in zip(norms.descents, norms.digits, TONES, strict=False)
    ]
    ratios = [
        banded(norms.trained, found, "", tone) for found, tone in zip(norms.ratios, TONES, strict=False)
    ]
    whole = (
        banded(x, norms.limits, "Algorithm 1", "red"),
        *descents,
        Series(x, norms.least, "minimal norm", style="dashed", tone="ink"),
    )
    relative = (
        banded(x, norms.limits / norms.least[:, None], "", "red"),
        *ratios,
        Series(x, HALVING_RATIO * level, "1 + √2 (exact halving)", style="dashed", tone="muted"),
        Series(x, SHARED_RATIO * level, "√2 (shared)", style="dashed", tone="ink"),
    )
    return (
        Panel(whole, "", "number of points n", "‖θ‖²", "log", "log"),
        Panel(relative, "", "number of points n", "‖θ‖² / minimum", "log", y_limits=(1.0, 3.0)),
    )


def _slope_claims(norms: Norms) -> tuple[Claim, ...]:
    """The paper's own experiment at every scale, then the limit α → 0 at the same sizes and beyond."""
    sizes, count = norms.trained, len(norms.trained)
    span, least = f"n = {sizes[0]:.0f} … {sizes[-1]:.0f}", log_slope(sizes, norms.least[:count])
    claims = []
    for found, ratio, digits, loss in zip(
        norms.descents, norms.ratios, norms.digits, norms.losses, strict=True
    ):
        steep, means = log_slope(sizes, found.mean(axis=1)), ratio.mean(axis=1)
        claims.append(
            Claim(
                f"‖θ‖² grows like √n where descent from α = 10^−{digits} ends, {span}",
                "slope about ½ on logarithmic axes",
                f"slope {steep:.3f} (minimum: {least:.3f}); {means[0]:.2f} to {means[-1]:.2f} times the "
                f"minimum, at most {means.max():.2f}; largest loss at the end {loss:.1g}",
                abs(steep - 0.5) <= 0.03 and interpolated(loss, norms.stop_below, ratio),
                "what exceeds the minimum's slope is the ratio's climb",
            )
        )
    limits, tail = norms.limits.mean(axis=1), norms.sizes >= sizes[-1]
    early, late = log_slope(sizes, limits[:count]), log_slope(norms.sizes[tail], limits[tail])
    return (
        *claims,
        Claim(
            f"So it does in the limit α → 0 (Algorithm 1) at the same sizes, {span}",
            "slope about ½; the paper shows descent only",
            f"slope {early:.3f}",
            abs(early - 0.5) <= 0.03,
            "at these sizes the ratio to the minimum still climbs towards 1 + √2, which adds to the slope",
        ),
        Claim(
            f"and at larger ones, n = {sizes[-1]:.0f} … {norms.sizes[-1]:.0f}",
            "‖θ‖² = O(√n) (Theorem 3)",
            f"slope {late:.3f}",
            abs(late - 0.5) <= 0.03,
        ),
    )


def _norm_claims(norms: Norms) -> tuple[Claim, ...]:
    limits, bound = norms.limits / norms.least[:, None], 2 * np.sqrt(2.0) * HALVING_RATIO
    shared, constants = norms.ratios, norms.constants
    loss, every = float(norms.losses.max()), np.append(limits, shared)
    return (
        Claim(
            "The norm exceeds the minimum by a constant factor only",
            "a constant factor; √2 if neurons share, 1 + √2 if every jump halves what is left (ours)",
            f"descent {shared.min():.2f} … {shared.max():.2f}; Algorithm 1 {limits.min():.2f} … "
            f"{limits.max():.2f}, {limits[-1].mean():.2f} at n = {norms.sizes[-1]:.0f}; largest loss at "
            f"the end {loss:.1g}",
            bool(every.max() < 3.0) and interpolated(loss, norms.stop_below, every),
        ),
        Claim(
            "‖θ_∞‖² ≤ C·max|y|·√n for Algorithm 1's end (Theorem 3)",
            f"bounded; exact halving gives at most 2√2(1 + √2) = {bound:.2f}",
            f"C = {constants[0]:.2f} at n = {norms.sizes[0]:.0f}, {constants[-1]:.2f} at n = "
            f"{norms.sizes[-1]:.0f}, largest {constants.max():.2f}",
            float(constants.max()) <= bound,
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
            "seeds": 3,
            "label_seed": 1000,
            "step": 0.5,
            "epochs": 1_000_000,
            "stop_below": 1e-10,
            "flow_digits": (50, 100, 300, 1000, 3000),
        },
        quick={"digits": (2, 8), "limit_seeds": 3, "crossing_sizes": (64, 256)},
        paper={"digits": (2, 4, 8, 30), "limit_seeds": 10, "crossing_sizes": (64, 256, 1024)},
    ),
    run_fig5,
    cost={"quick": 31, "paper": 127},
)
