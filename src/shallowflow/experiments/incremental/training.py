"""The rule by which the starts of single trainings are chosen: the first whose jumps are apart.

The training of figures 1, 3 and 4: 64 orthonormal points, six neurons, a start beyond floating point.

Six neurons often leave a point without any, and even at α = 10⁻³⁰⁰ their jumps often overlap. The seed is the
first of `initialize.log_scaled` with which all outer weights have the sign of the labels and the rule of
`starts` holds.

What figures 5 and 6 share: starts, trainings on the standard basis, and the norm at their end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import orthonormal
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.limits.jump_process import jump_process
from shallowflow.dynamics.limits.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.figure import Series
from shallowflow.landscape.geometry.orthonormal import mask_of
from shallowflow.landscape.incremental import squared_norm
from shallowflow.models import LogScaledNetwork, ReLUNetwork, initialize
from shallowflow.readings.jumps import Jumps, jumps

SEPARATED = 16.0
"""On 200 random problems the flow followed Algorithm 1 wherever gap × ln(1/α) was at least this."""
CHOSEN = (
    "The start has the first seed with which Algorithm 1 interpolates and jumps are apart "
    f"(gap × ln(1/α) ≥ {SEPARATED:g})."
)
"""The rule, for captions."""


TONES = ("blue", "orange", "green", "pink", "sky", "red")
"""Colours of the six neurons."""
PROBLEM = {
    "size": 64,
    "width": 6,
    "digits": 300,
    "data_seed": 0,
    "seed": 413,
    "tolerance": 1e-9,
}


@dataclass(frozen=True)
class Training:
    """The problem, its flow, the jumps of the flow, and what Algorithm 1 predicts."""

    dataset: Dataset
    network: LogScaledNetwork
    limit: SaddleToSaddle
    flow: Trajectory
    jumps: Jumps

    @property
    def until(self) -> float:
        """The end of the training."""
        return float(self.flow.times[-1])

    @property
    def predicted(self) -> Floats:
        """Jump times of the flow as predicted to first order."""
        scale = self.network.acceleration
        return scale * self.limit.predicted_times(scale)


def train(parameters: Mapping[str, Any]) -> Training:
    """Run the flow to a tenth beyond the last jump."""
    dataset = orthonormal(parameters["size"], labels="positive", seed=parameters["data_seed"])
    network = initialize.log_scaled(
        parameters["width"],
        parameters["size"],
        log_scale=-parameters["digits"] * LN10,
        seed=parameters["seed"],
    )
    limit = saddle_to_saddle(network, dataset)
    until = 1.1 * float(limit.jump_times[-1]) * network.acceleration
    flow = gradient_flow(network, dataset, until=until, tolerance=parameters["tolerance"])
    return Training(dataset, network, limit, flow, jumps(flow, dataset))


LOOKED_EVERY = 1000
"""Epochs between two looks at the loss, which may end a training."""
LN10 = float(np.log(10.0))
BELOW = 1e-4
"""Part of the minimal norm by which a training that ends at a loss of 10⁻¹⁰ may stay below it: some √loss."""


def labels(size: int, seed: int) -> Floats:
    """Standard Gaussian labels."""
    return np.random.default_rng(seed).standard_normal(size)


def identity(targets: Floats) -> Dataset:
    """The standard basis with these labels: every orthonormal data set, up to a rotation."""
    return Dataset(np.eye(len(targets)), targets, name="identity")


def small_start(width: int, size: int, log_scale: float, seed: int) -> LogScaledNetwork:
    """Random directions and signs, ‖w_j‖ = |a_j| = α/√m with ln α = log_scale."""
    return initialize.log_scaled(width, size, log_scale=log_scale - 0.5 * float(np.log(width)), seed=seed)


def enough_neurons(size: int) -> int:
    """The width with which interpolation is likely: ⌈4 ln(n/0.01)⌉."""
    return int(np.ceil(4 * np.log(size / 0.01)))


def start_of(size: int, digits: float, seed: int) -> LogScaledNetwork:
    """Figure 5's start on so many points, α = 10^−digits."""
    return small_start(enough_neurons(size), size, -digits * LN10, seed)


def limit_norm(network: LogScaledNetwork, targets: Floats) -> float:
    """‖θ‖² at the end of Algorithm 1 on the standard basis."""
    return jump_process(mask_of(network.inner, network.outer, targets), targets).squared_norm


@dataclass(frozen=True)
class Rule:
    """Plain descent as the paper runs it: the rate, and when it ends."""

    step: float
    epochs: int
    stop_below: float


@dataclass(frozen=True)
class End:
    """‖θ‖² and the loss at the end of a training."""

    norm: float
    loss: float


def trained(network: ReLUNetwork, dataset: Dataset, rule: Rule) -> End:
    """Train by plain descent until the loss is small, or to the limit of epochs."""
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
    return End(squared_norm(run.final), float(run.losses[-1]))


def interpolated(loss: float, stop_below: float, ratios: Floats) -> bool:
    """Whether trainings reached the loss that counts as trained, and norms over the minimum are possible."""
    return loss <= stop_below and bool(np.min(ratios) >= 1 - BELOW)


def slope(x: Floats, values: Floats) -> float:
    """The slope of a straight line through values on logarithmic axes."""
    return float(np.polyfit(np.log(x), np.log(values), 1)[0])


def banded(x: Floats, values: Floats, label: str, tone: str, style: str = "line") -> Series:
    """The mean of values (x, starts), with a band from the smallest to the largest."""
    band = values.min(axis=1), values.max(axis=1)
    return Series(x, values.mean(axis=1), label, tone=tone, style=style, band=band)
