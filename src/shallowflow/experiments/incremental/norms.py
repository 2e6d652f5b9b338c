"""Figures 5 and 6: the norm of the learned interpolator against the number of points, and against the width.

The figures share starts, trainings on the standard basis, and the norm at their end.

Two limits meet in figure 5. At a fixed scale α and large n all neurons of a sign grow together: with Gaussian
labels their rates differ by a part of about √(3/2n) only. They share the points, and the norm is √2 times the
minimum (`SHARED_RATIO`). At fixed n and α → 0 the fastest neuron is alone, Algorithm 1 applies, and the norm
tends to 1 + √2 times the minimum as n grows (`HALVING_RATIO`). Between them ln(1/α) is of the order of √n.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.saddle_to_saddle import saddle_to_saddle
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Interval, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.staircase import LN10
from shallowflow.landscape.geometry.orthonormal import mask_of
from shallowflow.landscape.incremental import (
    HALVING_RATIO,
    SHARED_RATIO,
    jump_process,
    min_squared_norm,
    squared_norm,
)
from shallowflow.models import LogScaledNetwork, ReLUNetwork, initialize
from shallowflow.readings.curves import log_slope

LOOKED_EVERY = 1000
"""Epochs between two looks at the loss, which may end a training."""
BELOW = 1e-4
"""Part of the minimal norm by which a training that ends at a loss of 10⁻¹⁰ may stay below it: some √loss."""

UNTRAINED = Interval(np.nan, np.nan, np.nan)
"""What is known from trainings that did not end at an interpolator: a claim about them fails."""
VISIBLE = 0.1
"""A band wider than this part of its curve can be seen on logarithmic axes."""
PAPER_RUNS = 3
"""Starts at each width in the paper."""
STARTS = 6
"""Starts at each width here: the least number of which the smallest and the largest value enclose the median
with the probability of an interval, 1 − 2/2⁶ ≥ 0.95."""
LAST = 3
"""Widths at the end that show whether a norm still approaches the minimum."""


def labels(size: int, seed: int) -> Floats:
    """Standard Gaussian labels."""
    return np.random.default_rng(seed).standard_normal(size)


def identity(targets: Floats) -> Dataset:
    """The standard basis with these labels: every orthonormal data set, up to a rotation."""
    return Dataset(np.eye(len(targets)), targets, name="identity")


def small_start(width: int, size: int, digits: float, seed: int) -> LogScaledNetwork:
    """Random directions and signs, ‖w_j‖ = |a_j| = α/√m with α = 10^−digits."""
    scale = -digits * LN10 - 0.5 * float(np.log(width))
    return initialize.log_scaled(width, size, log_scale=scale, seed=seed)


def limit_norm(network: LogScaledNetwork, targets: Floats) -> float:
    """‖θ‖² at the end of Algorithm 1 on the standard basis."""
    return jump_process(mask_of(network.inner, network.outer, targets), targets).squared_norm


class Rule(NamedTuple):
    """Plain descent as the paper runs it: the rate, and when it ends."""

    step: float
    epochs: int
    stop_below: float


def trained(starts: Iterable[ReLUNetwork], dataset: Dataset, rule: Rule) -> tuple[list[float], float]:
    """Train by plain descent until the loss is small or time is up; return all ‖θ‖², and the largest loss."""
    norms, loss = list[float](), 0.0
    for network in starts:
        run = gradient_descent(
            network,
            dataset,
            step=rule.step,
            steps=rule.epochs,
            engine="decoupled",
            stop_below=rule.stop_below,
            record=Record.every(LOOKED_EVERY, networks=False),
        )
        assert isinstance(run.final, ReLUNetwork)
        norms.append(squared_norm(run.final))
        loss = max(loss, float(run.losses[-1]))
    return norms, loss


def interpolated(loss: float, stop_below: float, ratios: Floats) -> bool:
    """Whether trainings reached the loss that counts as trained, and norms over the minimum are possible."""
    return loss <= stop_below and bool(np.min(ratios) >= 1 - BELOW)


def banded(x: Floats, values: Floats, label: str, tone: str, style: str = "line") -> Series:
    """The mean of values (x, starts), with a band from the smallest to the largest."""
    band = values.min(axis=1), values.max(axis=1)
    return Series(x, values.mean(axis=1), label, tone=tone, style=style, band=band)


class Widths(NamedTuple):
    """‖θ‖²/minimum by width: small starts (scales, W, starts), Algorithm 1 (W', starts), He (W'', starts).

    widths: of Algorithm 1; descent from small starts has the first W of them, He's start the first W''.
    losses: the largest at the end of a training from a small start, and from He's; stop_below: the loss that
    counts as trained.
    """

    widths: Floats
    digits: tuple[int, ...]
    small: Floats
    limits: Floats
    he: Floats
    losses: tuple[float, float]
    stop_below: float


def run_fig6(parameters: Values, progress: Progress) -> Findings:
    """‖θ‖² against the width: small balanced start and uniform He start."""
    found = _measured(parameters, progress)
    widths, tones = found.widths, ("sky", "blue", "green", "pink")
    series = (
        *(
            banded(widths[: len(ratios)], ratios, f"small start, α = 10^−{digits}", tone)
            for ratios, digits, tone in zip(found.small, found.digits, tones, strict=False)
        ),
        banded(widths, found.limits, "Algorithm 1", "red", style="points"),
        banded(widths[: len(found.he)], found.he, "uniform He start", "orange"),
        Series(widths, np.ones(len(widths)), "minimal norm", style="dashed", tone="ink"),
    )
    figure = Figure(
        "fig6",
        "Width: a small start approaches the minimal norm, He's start leaves it",
        (Panel(series, "", "width m", "‖θ‖² / minimum", "log", "log"),),
        f"n = {parameters['size']}, mean over {parameters['seeds']} starts; bands from the smallest to the "
        f"largest. Rates {parameters['small_step']:g} and {parameters['he_step']:g}.",
        columns=1,
    )
    return Findings((figure,), (*small_claims(found), *he_claims(found)))


def _measured(parameters: Values, progress: Progress) -> Widths:
    size, seeds, widths = parameters["size"], range(parameters["seeds"]), parameters["widths"]
    digits, end = parameters["digits"], parameters["stop_below"]
    targets = labels(size, parameters["label_seed"])
    dataset, least = identity(targets), min_squared_norm(targets)
    gentle = Rule(parameters["small_step"], parameters["epochs"], end)
    he_rule = Rule(parameters["he_step"], parameters["he_epochs"], end)
    small, limits, he, losses, he_loss = [], [], [], [0.0], 0.0
    for i, width in enumerate(widths):
        progress(i / len(widths), f"width {width}")
        limits.append([limit_norm(small_start(width, size, 0, seed), targets) for seed in seeds])
        if width <= parameters["small_up_to"]:
            ends = [
                trained((small_start(width, size, d, s).to_relu() for s in seeds), dataset, gentle)
                for d in digits
            ]
            small.append([norms for norms, _ in ends])
            losses += [loss for _, loss in ends]
        if width <= parameters["he_up_to"]:
            starts = (initialize.he_uniform(width, size, seed=s) for s in seeds)
            norms, loss = trained(starts, dataset, he_rule)
            he.append(norms)
            he_loss = max(he_loss, loss)
    by_scale = np.array(small).transpose(1, 0, 2) / least
    others = np.array(limits) / least, np.array(he) / least
    places = np.array(widths, dtype=np.float64)
    return Widths(places, tuple(digits), by_scale, *others, (max(losses), he_loss), end)


def small_claims(found: Widths) -> tuple[Claim, ...]:
    """Descent from every scale, and Algorithm 1: does the excess fall to the end?"""
    names = [*(f"descent from α = 10^−{d}" for d in found.digits), "Algorithm 1"]
    losses = [found.losses[0]] * len(found.digits) + [0.0]
    claims = []
    for name, ratios, loss in zip(names, (*found.small, found.limits), losses, strict=True):
        widths, means = found.widths[: len(ratios)], ratios.mean(axis=1)
        excess = np.maximum(ratios[-LAST:] - 1, 1e-12)
        power = Interval.of_median([log_slope(widths[-LAST:], column) for column in excess.T])
        claims.append(
            Claim.that(
                f"With a small start the norm approaches the minimum as the width grows: {name}",
                "approaches the theoretical optimum",
                power if interpolated(loss, found.stop_below, ratios) else UNTRAINED,
                most=0.0,
                words=f"{_listed(widths, means)}; at the last {LAST} widths the excess goes like m^{{}}",
                reason="slowly: a neuron active on all n/2 points of a sign is there only at width 2^(n/2); "
                "at a fixed α the ratio levels off above 1, for wide networks have a limit of their own",
            )
        )
    return tuple(claims)


def he_claims(found: Widths) -> tuple[Claim, ...]:
    """The norm from He's start grows from each width to the next; all spreads are small."""
    (small, he), means = found.losses, found.he.mean(axis=1)
    least = min((Interval.of_median(step) for step in np.diff(found.he, axis=0)), key=lambda one: one.value)
    every = [ratios[:, :PAPER_RUNS] for ratios in (*found.small, found.he)]
    spread = max(float(np.max((r.max(axis=1) - r.min(axis=1)) / r.mean(axis=1))) for r in every)
    return (
        Claim.that(
            "With the uniform He start it keeps increasing",
            "the squared norm keeps increasing",
            least if interpolated(he, found.stop_below, found.he) else UNTRAINED,
            least=0.0,
            words=f"{_listed(found.widths[: len(means)], means)}, smallest step {{}} (largest loss at the "
            f"end {he:.1g}; from small starts {small:.1g})",
        ),
        Claim.that(
            f"The deviation over {PAPER_RUNS} runs is barely visible",
            "barely visible (App. A.2)",
            Interval.exact(spread),
            most=VISIBLE,
            words="largest less smallest over the mean {}, at most",
            reason="at small widths",
        ),
    )


def _listed(widths: Floats, means: Floats) -> str:
    pairs = ", ".join(f"{mean:.3g} ({width:.0f})" for width, mean in zip(widths, means, strict=True))
    return f"ratio to the minimum (width): {pairs}"


FIG6 = Experiment(
    "incremental/fig6",
    "Norm of the learned interpolator against the width",
    "Figure 6, App. A.2",
    scales(
        {
            "size": 32,
            "seeds": STARTS,
            "label_seed": 1000,
            "small_step": 1.0,
            "epochs": 1_000_000,
            "stop_below": 1e-10,
        },
        quick={
            "widths": (32, 64, 128, 256, 512, 2048, 8192, 65536),
            "small_up_to": 2048,
            "he_up_to": 256,
            "digits": (2, 8),
            "he_step": 0.05,
            "he_epochs": 20_000,
        },
        paper={
            "widths": (32, 64, 128, 256, 512, 1024, 2048, 8192, 65536),
            "small_up_to": 8192,
            "he_up_to": 1024,
            "digits": (2, 4, 8, 30),
            "he_step": 0.001,
            "he_epochs": 1_000_000,
        },
    ),
    run_fig6,
    cost={"quick": 3.6, "paper": 25},
)


TONES = ("sky", "blue", "green", "orange")
NEAR = 0.03
"""How near to ½ a slope is that is about ½."""


def start_of(size: int, digits: float, seed: int) -> LogScaledNetwork:
    """Return the start on so many points, α = 10^−digits, so wide that interpolation is likely."""
    return small_start(int(np.ceil(4 * np.log(size / 0.01))), size, digits, seed)


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
        limits.append([limit_norm(start, targets) for start in starts])
        if size <= parameters["descent_up_to"]:
            dataset = identity(targets)
            ends = [
                trained((start_of(size, d, seed).to_relu() for seed in seeds), dataset, rule) for d in digits
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
