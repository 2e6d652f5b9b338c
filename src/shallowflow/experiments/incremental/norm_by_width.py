"""Figure 6: the norm of the learned interpolator against the width, from a small start and from He's.

What figures 5 and 6 share: starts, trainings on the standard basis, and the norm at their end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.staircase import LN10
from shallowflow.landscape.geometry.orthonormal import mask_of
from shallowflow.landscape.incremental import jump_process, min_squared_norm, squared_norm
from shallowflow.models import LogScaledNetwork, ReLUNetwork, initialize
from shallowflow.readings.many_runs import log_slope

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
