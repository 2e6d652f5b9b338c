"""Theorem 3 with its numbers: each jump fits about half of what is left, so log n neurons suffice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Experiment, Findings, Progress, Values, scales
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.landscape.geometry.orthonormal import mask_of
from shallowflow.landscape.halving import fitted_shares, norm_bound, points_left
from shallowflow.landscape.incremental import HALVING_RATIO, JumpProcess, jump_process, norm_constant
from shallowflow.landscape.weak_interaction.first_activation import lemma_5_widths

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
