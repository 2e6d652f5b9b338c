"""Theorem 2 as a measurement: the flow tends to the jump process.

Beyond the paper: Algorithm 1 on inputs that are only nearly orthogonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Bools, Floats
from shallowflow.certificates.incremental import decay_exponent, distance_off_jumps
from shallowflow.data import Dataset
from shallowflow.data.generators import correlated, orthonormal
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.saddle_to_saddle import saddle_to_saddle
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.staircase import CHOSEN, LN10
from shallowflow.models import LogScaledNetwork, initialize
from shallowflow.readings.jumps import JumpAgreement, jump_agreement, jump_times, jumps
from shallowflow.readings.many_runs import log_slope

SMALL, ACCURATE = 0.1, 1e-9
"""Between them a distance from the limit is neither of order 1 nor the integrator's."""


class Distances(NamedTuple):
    """The flow beside Algorithm 1, for every ln(1/α), (k,) each.

    errors, corrected: the largest error of a jump time, without and with the first-order correction;
    distances: the largest off the jumps; missing: jumps not made. exponent: of α, by which distances fall.
    """

    scales: Floats
    errors: Floats
    corrected: Floats
    distances: Floats
    missing: Floats
    exponent: float

    @property
    def falling(self) -> Bools:
        """Where the distance is that of an exponential: no longer of order 1, not yet the integrator's."""
        return (self.distances < SMALL) & (self.distances > ACCURATE)


def run_theorem2(parameters: Values, progress: Progress) -> Findings:
    """Jump times and distance from the limit process, for smaller and smaller starts."""
    size, width, margin = (parameters[name] for name in ("size", "width", "margin"))
    dataset = orthonormal(size, labels="bounded", seed=parameters["data_seed"])
    scales, rows = LN10 * np.array(parameters["digits"]), list[tuple[float, ...]]()
    for i, scale in enumerate(scales):
        progress(i / len(scales), f"α = 10^−{parameters['digits'][i]}")
        network = initialize.log_scaled(width, size, log_scale=-float(scale), seed=parameters["seed"])
        limit = saddle_to_saddle(network, dataset)
        predicted = limit.predicted_times(network.acceleration)
        until = 1.2 * network.acceleration * float(predicted.max())
        flow = gradient_flow(network, dataset, until=until, tolerance=1e-10)
        times = jump_times(jumps(flow, dataset), limit) / network.acceleration
        errors = [float(np.nanmax(np.abs(times - expected))) for expected in (limit.jump_times, predicted)]
        rows.append((*errors, distance_off_jumps(flow, limit, margin), float(np.sum(np.isnan(times)))))
    late, corrected, distances, missing = np.array(rows).T
    exponent = decay_exponent(limit, margin)
    found = Distances(scales, late, corrected, distances, missing, exponent)
    return Findings((_theorem2_figure(found, parameters),), theorem2_claims(found))


def _theorem2_figure(found: Distances, parameters: Values) -> Figure:
    scales, margin = found.scales, parameters["margin"]
    slope = found.errors[-1] * scales[-1] / scales
    anchor = int(np.argmax(found.falling)) if found.falling.any() else 0
    power = found.distances[anchor] * np.exp(-found.exponent * (scales - scales[anchor]))
    times_series = (
        Series(scales, found.errors, "Algorithm 1", style="points", tone="blue"),
        Series(scales, found.corrected, "with first-order correction", style="points", tone="orange"),
        Series(scales, slope, "slope −1", style="dashed", tone="muted"),
    )
    distance_series = (
        Series(scales, found.distances, "flow", style="points", tone="blue"),
        Series(scales, power, "α^min(gap, γ·margin)", style="dashed", tone="muted"),
    )
    title, far = f"distance off the jumps (± {margin:g})", "largest ‖θ − θ_limit‖"
    return Figure(
        "theorem2",
        "The flow tends to the jump process as the start shrinks",
        (
            Panel(times_series, "jump times", "ln(1/α)", "largest error, accelerated time", "log", "log"),
            Panel(distance_series, title, "ln(1/α)", far, "log", "log", y_limits=(1e-14, 100.0)),
        ),
        f"n = {parameters['size']}, m = {parameters['width']}, labels of both signs; the exponent is "
        f"{found.exponent:.4f}. Below 1e-9 the distance is that of the integrator. {CHOSEN}",
    )


def theorem2_claims(found: Distances) -> tuple[Claim, ...]:
    """Claims on the errors of the jumps that were made, after one on those that were not."""
    scales, errors, corrected, distances, missing, exponent = found
    late, fall = scales[missing > 0], found.falling
    rate = Interval(np.nan, -np.inf, np.inf)
    if fall.sum() > 1:
        rate = Interval.exact(-float(np.polyfit(scales[fall], np.log(distances[fall]), 1)[0]) / exponent)
    return (
        Claim.that(
            "From some scale on, the flow makes every jump of Algorithm 1",
            "implied by Theorem 2",
            Interval.exact(missing[-1]),
            most=0.0,
            words="{} jumps missing at the smallest α"
            + (f", some up to ln(1/α) = {late[-1]:.0f}" if late.size else ", none at any other"),
        ),
        Claim.that(
            "Off its jumps the flow tends to the limit process",
            "uniformly on compact sets without jumps (Theorem 2)",
            Interval.exact(distances[-1]),
            most=1e-5,
            words=f"distance {distances[0]:.2g} at ln(1/α) = {scales[0]:.0f}, {{}} at {scales[-1]:.0f}",
            reason="jumps come C/ln(1/α) late, so that a margin around them is passed only once α is small",
        ),
        Claim.that(
            "It does so like α^min(gap, γ·margin)",
            "convergence, no rate",
            rate,
            least=0.9,
            most=1.1,
            words=f"measured over predicted exponent {{}}, predicted {exponent:.4f}, {fall.sum()} scales",
            ours=True,
        ),
        Claim.that(
            "Jump times tend to those of Algorithm 1 like 1/ln(1/α)",
            "convergence, no rate",
            Interval.exact(log_slope(scales[1:], errors[1:])),
            least=-1.1,
            most=-0.9,
            words="slope {} against ln(1/α)",
            ours=True,
        ),
        Claim.that(
            "A first-order correction predicts them far better",
            "not in the paper",
            Interval.exact(corrected[-1] / errors[-1]),
            most=1e-3,
            words=f"error {corrected[-1]:.1g} instead of {errors[-1]:.1g} at the smallest α, {{}} of it",
            ours=True,
        ),
    )


def run_near_orthogonal(parameters: Values, progress: Progress) -> Findings:
    """Algorithm 1 beside descent on correlated inputs: errors of jump times, and order of the jumps."""
    levels, seeds, digits = parameters["correlations"], parameters["seeds"], parameters["digits"]
    found = np.zeros((len(digits), len(levels), seeds, 3))
    for i, exponent in enumerate(digits):
        for k, level in enumerate(levels):
            progress((i + k / len(levels)) / len(digits), f"α = 10^−{exponent}, correlation {level:g}")
            found[i, k] = [_compare(parameters, exponent, level, seed) for seed in range(seeds)]
    means = np.concatenate([np.nanmedian(found[..., :1], axis=2), found[..., 1:].mean(axis=2)], axis=2)
    shown = np.array(levels)
    x = np.where(shown > 0, shown, 0.1 * float(shown[shown > 0].min()))

    def panel(column: int, title: str, label: str) -> Panel:
        series = tuple(
            Series(x, table[:, column], f"α = 10^−{exponent}", tone=tone)
            for exponent, table, tone in zip(digits, means, ("blue", "orange", "green"), strict=False)
        )
        logarithmic, limits = ("linear", (0.0, 1.05)) if column else ("log", None)
        return Panel(series, title, "|⟨x_i, x_k⟩| (leftmost: 0)", label, "log", logarithmic, y_limits=limits)

    figure = Figure(
        "near_orthogonal",
        "How far Algorithm 1 predicts on nearly orthogonal inputs",
        (
            panel(0, "jump times", "median relative error"),
            panel(1, "order", "share of pairs in order"),
            panel(2, "points", "share with its neuron"),
        ),
        f"n = {parameters['size']}, m = {parameters['width']}, {seeds} starts; predictions from "
        "the activations at the start.",
        columns=3,
    )
    return Findings((figure,), near_claims(shown, digits, means))


def _compare(parameters: Values, digits: int, level: float, seed: int) -> JumpAgreement:
    """Return how a descent on correlated inputs agrees with Algorithm 1."""
    size, step = parameters["size"], parameters["step"]
    data_seed = parameters["data_seed"] + seed  # another stream than that of the start
    dataset = correlated(size, correlation=level, labels="bounded", seed=data_seed)
    network = initialize.log_scaled(
        parameters["width"], dataset.dimension, log_scale=-digits * LN10, seed=seed
    )
    # Algorithm 1 knows only activations: those of this start, on an orthonormal stand-in for the data.
    inner = network.preactivations(dataset.inputs)
    stand_in = LogScaledNetwork(inner, network.outer, network.log_scales)
    limit = saddle_to_saddle(stand_in, Dataset(np.eye(size), dataset.targets))
    predicted = network.acceleration * limit.predicted_times(network.acceleration)
    steps = round(parameters["longer"] * float(predicted.max()) / step)
    record = Record.every(max(steps // 1000, 1))
    run = gradient_descent(network, dataset, step=step, steps=steps, record=record)
    return jump_agreement(jumps(run, dataset), limit, predicted)


def near_claims(levels: Floats, scales: tuple[int, ...], means: Floats) -> tuple[Claim, ...]:
    """How far order and points agree as well, by 90 %, as on orthogonal inputs (the first level).

    The reach is the last of the growing levels before the first at which they do not; 0 if that is the first.
    """
    reaches, tables = list[float](), list[str]()
    for digits, mean in zip(scales, means, strict=True):
        good = np.all(mean[1:, 1:] >= 0.9 * mean[0, 1:], axis=1)
        reaches.append(float(levels[np.sum(np.cumprod(good))]))
        rows = (f"{c:g}: {e:.2g}/{o:.2f}/{p:.2f}" for c, (e, o, p) in zip(levels, mean, strict=True))
        tables.append(f"α = 10^−{digits}: " + ", ".join(rows))
    listed = ", ".join(f"{r:g} (α = 10^−{d})" for r, d in zip(reaches, scales, strict=True))
    growth = float(np.max(np.diff(reaches), initial=-np.inf))
    return (
        Claim.that(
            "Algorithm 1 still predicts order and points on weakly correlated inputs",
            "left open by the paper (§6)",
            Interval.exact(min(reaches)),
            least=float(levels[1]),
            words=f"nine tenths of the agreement on orthogonal inputs up to |⟨x_i, x_k⟩| = {listed}, "
            "at least {}; correlation: time error/order/points for " + "; ".join(tables),
            ours=True,
        ),
        Claim(
            "The correlation it bears shrinks with α: no fixed correlation survives α → 0",
            "not in the paper",
            listed,
            growth < 0,
            "a growing neuron moves inactive points by correlation × norm and switches some of them on once "
            "that exceeds their distance α at the start; on orthogonal inputs they are frozen",
            "if a smaller α bears as much",
            ours=True,
        ),
    )


THEOREM2 = Experiment(
    "incremental/theorem2",
    "Convergence of the flow to the jump process",
    "Theorem 2",
    scales(
        {"data_seed": 1000, "margin": 0.05},
        quick={
            "size": 24,
            "width": 12,
            "seed": 3,
            "digits": (10, 30, 100, 300, 600, 1000, 1500, 2000, 3000, 10000),
        },
        paper={
            "size": 64,
            "width": 30,
            "seed": 0,
            "digits": (10, 30, 100, 300, 600, 1000, 1500, 2000, 3000, 10000, 30000),
        },
    ),
    run_theorem2,
    cost={"quick": 1.7, "paper": 3.1},
)
_WEAK = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.1)
NEAR_ORTHOGONAL = Experiment(
    "incremental/near_orthogonal",
    "Beyond the paper: inputs that are only nearly orthogonal",
    "beyond the paper (its §6 asks for it)",
    scales(
        {"data_seed": 1000, "step": 0.2, "longer": 1.5},
        quick={"size": 12, "width": 10, "digits": (3, 6), "seeds": 3, "correlations": (0.0, *_WEAK)},
        paper={
            "size": 24,
            "width": 16,
            "digits": (3, 6, 9),
            "seeds": 5,
            "correlations": (0.0, 1e-13, 1e-12, 1e-11, *_WEAK),
        },
    ),
    run_near_orthogonal,
    cost={"quick": 7.8, "paper": 32},
)
