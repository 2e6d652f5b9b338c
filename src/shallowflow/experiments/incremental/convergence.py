"""Theorem 2 as a measurement: the flow tends to the jump process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.certificates.incremental import distance_off_jumps
from shallowflow.data import Dataset
from shallowflow.data.generators import orthonormal
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.limits.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.training import CHOSEN, LN10
from shallowflow.models import LogScaledNetwork, initialize
from shallowflow.readings.jumps import jumps


def run_theorem2(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Jump times and distance from the limit process, for smaller and smaller starts."""
    dataset = orthonormal(parameters["size"], labels="bounded", seed=parameters["data_seed"])
    scales, rows = LN10 * np.array(parameters["digits"]), list[tuple[float, float, float, int]]()
    for i, scale in enumerate(scales):
        progress(i / len(scales), f"α = 10^−{parameters['digits'][i]}")
        network = initialize.log_scaled(
            parameters["width"], parameters["size"], log_scale=-float(scale), seed=parameters["seed"]
        )
        limit = saddle_to_saddle(network, dataset)
        rows.append(_measure(network, dataset, limit, parameters["margin"]))
    errors, corrected, distances, missing = np.array(rows).T
    gap = float(limit.process.gaps.min())
    figure = Figure(
        "theorem2",
        "The flow tends to the jump process as the start shrinks",
        (
            _times_panel(scales, errors, corrected),
            _distance_panel(scales, distances, gap, f"distance off the jumps (± {parameters['margin']:g})"),
        ),
        f"n = {parameters['size']}, m = {parameters['width']}, labels of both signs; smallest gap {gap:.4f}. "
        + CHOSEN,
    )
    return Findings((figure,), _theorem2_claims(scales, errors, corrected, distances, missing))


def _times_panel(scales: Floats, errors: Floats, corrected: Floats) -> Panel:
    return Panel(
        (
            Series(scales, errors, "Algorithm 1", style="points", tone="blue"),
            Series(scales, corrected, "with first-order correction", style="points", tone="orange"),
            Series(scales, errors[-1] * scales[-1] / scales, "slope −1", style="dashed", tone="muted"),
        ),
        title="jump times",
        x_label="ln(1/α)",
        y_label="largest error, accelerated time",
        x_scale="log",
        y_scale="log",
    )


def _distance_panel(scales: Floats, distances: Floats, gap: float, title: str) -> Panel:
    power = distances[0] * np.exp(-gap * (scales - scales[0]))
    return Panel(
        (
            Series(scales, distances, "flow", style="points", tone="blue"),
            Series(scales, power, "α^gap", style="dashed", tone="muted"),
        ),
        title=title,
        x_label="ln(1/α)",
        y_label="largest ‖θ − θ_limit‖",
        x_scale="log",
        y_scale="log",
        y_limits=(1e-12, 20.0),
    )


def _measure(
    network: LogScaledNetwork, dataset: Dataset, limit: SaddleToSaddle, margin: float
) -> tuple[float, float, float, int]:
    """Largest error of a jump time, the same corrected, the distance off the jumps, and jumps not made."""
    scale = network.acceleration
    until = 1.2 * scale * float(limit.predicted_times(scale).max())
    flow = gradient_flow(network, dataset, until=until, tolerance=1e-10)
    found = jumps(flow, dataset)
    when = dict(zip(limit.process.groups[found.neurons].tolist(), found.times / scale, strict=True))
    times = np.array([when.get(int(neuron), np.nan) for neuron in limit.neurons])
    errors = np.abs(times - limit.jump_times), np.abs(times - limit.predicted_times(scale))
    return (
        float(np.nanmax(errors[0])),
        float(np.nanmax(errors[1])),
        distance_off_jumps(flow, limit, margin),
        int(np.sum(np.isnan(times))),
    )


def _theorem2_claims(
    scales: Floats, errors: Floats, corrected: Floats, distances: Floats, missing: Floats
) -> tuple[Claim, ...]:
    """Claims on the errors of the jumps that were made, after one on those that were not."""
    slope = float(np.polyfit(np.log(scales[1:]), np.log(errors[1:]), 1)[0])
    late = scales[missing > 0]
    return (
        Claim(
            "From some scale on, the flow makes every jump of Algorithm 1",
            "implied by Theorem 2",
            "every jump at every scale"
            if not late.size
            else f"up to {missing.max():g} jumps missing, the last at ln(1/α) = {late[-1]:.0f}",
            bool(missing[-1] == 0),
            "errors of jump times are those of the jumps that were made",
        ),
        Claim(
            "Off its jumps the flow tends to the limit process",
            "uniformly on compact sets without jumps (Theorem 2)",
            f"largest distance {distances[0]:.2g} at ln(1/α) = {scales[0]:.0f}, {distances[-1]:.2g} at "
            f"{scales[-1]:.0f}",
            bool(distances[-1] < 1e-5),
            "jumps come C/ln(1/α) late, so that a margin around them is passed only once α is small enough",
        ),
        Claim(
            "Jump times tend to those of Algorithm 1 (ours: like 1/ln(1/α))",
            "convergence, no rate",
            f"slope {slope:.3f} against ln(1/α)",
            abs(slope + 1) < 0.1,
        ),
        Claim(
            "A first-order correction predicts them far better (ours)",
            "not in the paper",
            f"error {corrected[-1]:.1g} instead of {errors[-1]:.1g} at the smallest α",
            bool(corrected[-1] < 1e-3 * errors[-1]),
        ),
    )


THEOREM2 = Experiment(
    name="incremental/theorem2",
    title="Convergence of the flow to the jump process",
    source="Theorem 2",
    parameters={
        "quick": {
            "size": 24,
            "width": 12,
            "data_seed": 1000,
            "seed": 3,
            "digits": (10, 30, 100, 300, 1000, 3000, 10000),
            "margin": 0.05,
        },
        "paper": {
            "size": 64,
            "width": 30,
            "data_seed": 1000,
            "seed": 0,
            "digits": (10, 30, 100, 300, 1000, 3000, 10000, 30000),
            "margin": 0.05,
        },
    },
    run=run_theorem2,
    cost={"quick": 1, "paper": 2.4},
)
