"""Theorems 2 and 3, measured: the flow tends to the jump process; each jump fits half of what is left.

Beyond the paper: Algorithm 1 on inputs that are only nearly orthogonal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.certificates.incremental import decay_exponent, distance_off_jumps
from shallowflow.data import Dataset
from shallowflow.data.generators import correlated, orthonormal
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.saddle_to_saddle import saddle_to_saddle
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Interval, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.staircase import CHOSEN, LN10
from shallowflow.landscape.geometry.orthonormal import mask_of
from shallowflow.landscape.incremental import (
    HALVING_RATIO,
    JumpProcess,
    fitted_shares,
    jump_process,
    norm_bound,
    norm_constant,
    points_left,
)
from shallowflow.landscape.weak_interaction.interactions import lemma_5_widths
from shallowflow.models import LogScaledNetwork, initialize
from shallowflow.readings.curves import log_slope
from shallowflow.readings.phases import JumpAgreement, jump_agreement, jump_times, jumps

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


DELTA = 0.05
"""Probability with which the bounds may be broken."""


class Halving(NamedTuple):
    """Starts on the largest number of points, labels of one sign.

    left (starts, jumps + 1): points left, −1 after the last jump; shares: of what is left that each jump
    fits, while at least `many` points are left; low, high: the bounds of Cor. 1.
    """

    left: Ints
    shares: Floats
    low: Ints
    high: Ints

    @property
    def inside(self) -> int:
        """How many starts stay within the bounds."""
        seen = self.left >= 0
        good = (self.left >= self.low) & (self.left <= self.high)
        return int(np.sum(np.all(good | ~seen, axis=1)))


class Sized(NamedTuple):
    """Starts at one n: ‖θ_∞‖²/(max|y|√n), the bound on it, and how many interpolate."""

    constants: Floats
    bound: float
    interpolates: int


def drawn(size: int, width: int, labels: str, seed: int) -> tuple[JumpProcess, Floats]:
    """Return Algorithm 1 for a random mask (Assumption 3) and random labels, without their inputs."""
    rng = np.random.default_rng(seed)
    targets = rng.standard_normal(size)
    if labels == "positive":
        targets = np.abs(targets)
    signs = np.ones(width) if labels == "positive" else rng.choice(np.array([-1.0, 1.0]), width)
    return jump_process(mask_of(rng.standard_normal((width, size)), signs, targets), targets), targets


def enough(size: int) -> int:
    """Return the number of neurons that interpolate with probability 1 − DELTA."""
    return int(np.ceil(lemma_5_widths(size, DELTA)[1]))


def run_halving(parameters: Values, progress: Progress) -> Findings:
    """Run Algorithm 1 on masks of many points: what each jump leaves, and the norm at its end."""
    found = _halved(parameters)
    by_size = {}
    for i, size in enumerate(parameters["sizes"]):
        progress(0.3 + 0.7 * i / len(parameters["sizes"]), f"n = {size}")
        by_size[size] = _sized(size, parameters["starts"])
    figure = _figure(found, by_size, parameters)
    return Findings((figure,), (halving_claim(found), *bound_claims(found, by_size)))


def _halved(parameters: Values) -> Halving:
    size, width, starts = parameters["points"], parameters["width"], parameters["starts"]
    left = np.full((starts, width + 1), -1, dtype=np.int64)
    shares = list[float]()
    for seed in range(starts):
        process, targets = drawn(size, width, "positive", seed)
        part, numbers = fitted_shares(process, targets)
        after = size - np.cumsum([len(points) for points in process.fitted])
        left[seed, 0], left[seed, 1 : len(after) + 1] = size, after
        shares += part[numbers >= parameters["many"]].tolist()
    return Halving(left, np.array(shares), *points_left(size, width, DELTA))


def _sized(size: int, starts: int) -> Sized:
    constants, bounds, good = list[float](), list[float](), 0
    for seed in range(starts):
        process, targets = drawn(size, enough(size), "both", seed)
        constants.append(norm_constant(process.squared_norm, targets))
        bounds.append(norm_constant(norm_bound(targets, enough(size), DELTA), targets))
        good += process.interpolates
    return Sized(np.array(constants), float(np.min(bounds)), good)


def halving_claim(found: Halving) -> Claim:
    """The mean share, over starts and jumps that have many points left."""
    return Claim.that(
        "Each newly added neuron fits about half of the remaining labels",
        "approximately half (§5)",
        Interval.of_mean(found.shares),
        least=0.45,
        most=0.55,
        words=f"mean share {{}} over {len(found.shares)} jumps, from {found.shares.min():.2f} to "
        f"{found.shares.max():.2f}",
        reason="a little more than half: the neuron that jumps first is active on more than others",
    )


def bound_claims(found: Halving, by_size: Mapping[int, Sized]) -> tuple[Claim, ...]:
    """Cor. 1 and Theorem 3 with our numbers, and interpolation with log n neurons."""
    kept = sum(int(np.sum(one.constants <= one.bound)) for one in by_size.values())
    total = sum(len(one.constants) for one in by_size.values())
    loose = [one.bound / float(one.constants.mean()) for one in by_size.values()]
    means = [float(one.constants.mean()) for one in by_size.values()]
    good = sum(one.interpolates for one in by_size.values())
    return (
        Claim.that(
            "Whatever the order, what is left after each jump stays near 2^−u n (Cor. 1, numbers ours)",
            f"with high probability; ours: within the bounds with probability {1 - DELTA:g}",
            Interval.of_share(found.inside, len(found.left)),
            least=0.9,
            words="share of starts within the bounds {}",
        ),
        Claim.that(
            "‖θ_∞‖² ≤ C·max|y|·√n (Theorem 3, C ours)",
            f"with high probability; ours: with probability {1 - DELTA:g}",
            Interval.of_share(kept, total),
            least=1 - DELTA,
            words=f"share of starts {{}}; C measured {', '.join(f'{mean:.2f}' for mean in means)} for n = "
            f"{', '.join(str(size) for size in by_size)}, the bound is {min(loose):.1f} to {max(loose):.1f} "
            "times that",
        ),
        Claim.that(
            "4 ln(n/ε) neurons interpolate with probability 1 − ε, ε = 0.05",
            "with high probability as soon as m ≳ log n",
            Interval.of_share(good, total),
            least=1 - DELTA,
            words="share of starts {}",
        ),
    )


def _figure(found: Halving, by_size: Mapping[int, Sized], parameters: Values) -> Figure:
    most = int(np.max(np.sum(found.left >= 0, axis=1)))
    u = np.arange(most)
    courses = [
        Series(u, np.where(row[:most] >= 0, row[:most], np.nan), "starts" if i == 0 else "", tone="sky")
        for i, row in enumerate(found.left[:10])
    ]
    band = found.low[:most], found.high[:most]
    bounds = Series(u, found.high[:most], "bounds, 95 %", style="dashed", tone="muted", band=band)
    exact = Series(u, found.left[0, 0] * 0.5**u, "2^−u n", style="dashed", tone="ink")
    sizes = np.array(list(by_size), dtype=np.float64)
    values = np.array([one.constants for one in by_size.values()])
    span = values.min(axis=1), values.max(axis=1)
    constants = (
        Series(sizes, values.mean(axis=1), "Algorithm 1", tone="blue", band=span),
        Series(sizes, [one.bound for one in by_size.values()], "bound, 95 %", style="dashed", tone="muted"),
        Series(
            sizes,
            np.full(len(sizes), 2 * np.sqrt(2.0) * HALVING_RATIO),
            "equal labels, exact halving",
            style="dashed",
            tone="ink",
        ),
    )
    return Figure(
        "halving",
        "Each jump fits about half of what is left",
        (
            Panel((*courses, bounds, exact), "", "jump u", "points left", y_scale="log", y_limits=(0.5, 2e5)),
            Panel(constants, "", "number of points n", "‖θ_∞‖² / (max|y| √n)", "log"),
        ),
        f"Left: n = {parameters['points']}, {parameters['width']} neurons of the labels' sign. Right: "
        f"Gaussian labels, ⌈4 ln(n/0.05)⌉ neurons, mean over {parameters['starts']} starts, band from the "
        "smallest to the largest.",
    )


HALVING = Experiment(
    "incremental/halving",
    "Each jump halves what is left",
    "Theorem 3, App. E, Prop. 2",
    scales(
        {"many": 100, "width": 40},
        quick={"points": 20_000, "starts": 100, "sizes": (100, 1000, 10_000)},
        paper={"points": 100_000, "starts": 200, "sizes": (100, 1000, 10_000, 100_000)},
    ),
    run_halving,
    cost={"quick": 5, "paper": 77},
)
