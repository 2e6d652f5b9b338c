"""Figures 1, 3 and 4: one training, 64 orthonormal points, six neurons, a start beyond floating point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import orthonormal
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.limits.jumps import Jumps, fitted_points, jumps, log_norms
from shallowflow.dynamics.limits.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.models import LogScaledNetwork, initialize

SPARSE = 20
"""Of so many recorded moments of the descent one is drawn."""
TONES = ("blue", "orange", "green", "pink", "sky", "red")


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
        log_scale=-parameters["digits"] * float(np.log(10.0)),
        seed=parameters["seed"],
    )
    limit = saddle_to_saddle(network, dataset)
    until = 1.1 * float(limit.jump_times[-1]) * network.acceleration
    flow = gradient_flow(network, dataset, until=until, tolerance=parameters["tolerance"])
    return Training(dataset, network, limit, flow, jumps(flow, dataset))


def run_fig1(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Loss and number of fitted points: descent, flow and Algorithm 1."""
    training = train(parameters)
    step = parameters["step"]
    steps = int(training.until / step)
    grid = np.linspace(0.0, steps * step, parameters["points"])[1:]
    near = np.outer(1.0 + np.linspace(-0.01, 0.01, 81), training.predicted).ravel()
    grid = np.unique(np.concatenate([grid, near[near <= steps * step]]))
    descent = gradient_descent(
        training.network,
        training.dataset,
        step=step,
        steps=steps,
        record=Record.at(grid),
        progress=lambda fraction: progress(fraction, "descent in log-scaled weights"),
    )
    times = np.unique(np.concatenate([grid, training.flow.times[1:]]))
    counted = np.array([int(fitted_points(training.flow(float(t)), training.dataset).sum()) for t in times])
    by_descent = np.array(
        [int(fitted_points(descent(float(t)), training.dataset).sum()) for t in descent.times[1:]]
    )
    figure = _fig1_figure(training, descent, (times, counted), (descent.times[1:], by_descent), step)
    return Findings((figure,), _fig1_claims(training, descent))


def _fig1_figure(
    training: Training,
    descent: Trajectory,
    fitted: tuple[Floats, Floats],
    fitted_by_descent: tuple[Floats, Floats],
    step: float,
) -> Figure:
    limit, edges = training.limit, np.append(0.0, training.predicted)
    counts = np.cumsum([0] + [len(points) for points in limit.process.fitted])
    ends = np.append(edges, training.until)

    def stairs(levels: Floats) -> Series:
        x = np.repeat(ends, 2)[1:-1] / step
        return Series(x, np.repeat(levels, 2), "Algorithm 1", style="dashed", tone="ink", size=0.6)

    loss = Panel(
        (
            Series(training.flow.times / step, training.flow.losses, "flow", tone="blue"),
            Series(
                descent.times[::SPARSE] / step,
                descent.losses[::SPARSE],
                "descent",
                style="points",
                tone="orange",
            ),
            stairs(limit.losses),
        ),
        title="loss",
        x_label="epochs",
        y_label="½ mean squared error",
    )
    points = Panel(
        (
            Series(fitted[0] / step, fitted[1], "flow", tone="blue"),
            Series(
                fitted_by_descent[0][::SPARSE] / step,
                fitted_by_descent[1][::SPARSE],
                "descent",
                style="points",
                tone="orange",
            ),
            stairs(counts.astype(np.float64)),
        ),
        title="fitted points",
        x_label="epochs",
        y_label="points fitted by half or more",
    )
    return Figure(
        "fig1",
        "Incremental learning: each jump fits the points of one more neuron",
        (loss, points),
        "Loss and number of fitted points in training. Dashed: the plateaus of Algorithm 1, jumps at the "
        "times predicted to first order in 1/ln(1/α).",
    )


def _fig1_claims(training: Training, descent: Trajectory) -> tuple[Claim, ...]:
    limit, found = training.limit, training.jumps
    middles = 0.5 * (np.append(0.0, training.predicted) + np.append(training.predicted, training.until))
    losses = np.array([_loss(training, float(t)) for t in middles])
    level = float(np.max(np.abs(losses - limit.losses)) / limit.losses[0])
    same = [set(a.tolist()) for a in found.fitted] == [set(b.tolist()) for b in limit.process.fitted]
    times = found.times / training.network.acceleration
    gap = float(np.max(np.abs(times / limit.jump_times - 1))) if len(times) == len(limit.jump_times) else 1.0
    first_order = float(np.max(np.abs(found.times / training.predicted - 1))) if gap < 1 else 1.0
    by_descent = jumps(descent, training.dataset)
    agree = by_descent.neurons.tolist() == found.neurons.tolist()
    lag = float(np.max(np.abs(by_descent.times / found.times - 1))) if agree else 1.0
    return (
        Claim(
            "The loss alternates between plateaus and sudden drops, one per neuron",
            f"plateaus at the losses of Algorithm 1's {len(limit.losses)} saddles",
            f"{len(found.times)} jumps; largest distance from these levels {level:.2g} of the initial loss",
            len(found.times) == len(limit.neurons) and level < 1e-3,
        ),
        Claim(
            "Each jump fits the points of Algorithm 1",
            "the unfitted points on which the neuron is active",
            "the same neurons and points" if same else "other neurons or points",
            same and found.neurons.tolist() == limit.neurons.tolist(),
        ),
        Claim(
            "Jump times are those of Algorithm 1 as α → 0",
            "t ≈ τ ln(1/α)",
            f"off by {gap:.2g} of the time at ln(1/α) = {training.network.acceleration:.0f}, "
            f"by {first_order:.1g} with the first-order correction",
            gap < 0.1 and first_order < 1e-3,
        ),
        Claim(
            "The training loop of the paper, descent in log-scaled weights, does the same",
            "figure 1 is such a run",
            f"jump times within {lag:.2g} of the flow's",
            lag < 0.01,
        ),
    )


def _loss(training: Training, time: float) -> float:
    residual = training.flow(time).predict(training.dataset.inputs) - training.dataset.targets
    return float(0.5 * np.mean(residual**2))


def run_fig3(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Log-norms of the neurons over time, with the lines of Algorithm 1."""
    training = train(parameters)
    limit, scale = training.limit, training.network.acceleration
    times = np.linspace(0.0, training.until, parameters["points"])
    norms = np.array([log_norms(training.flow(float(t))) for t in times]) / scale
    exponents = np.array([limit.exponents(float(t) / scale) for t in times])
    series = [
        Series(times / scale, norms[:, j], f"neuron {j}", tone=TONES[j % len(TONES)])
        for j in range(training.network.width)
    ]
    growing = np.flatnonzero(limit.process.rates[0] > 0)
    lines = [
        Series(
            times / scale,
            exponents[:, j],
            "Algorithm 1" if j == growing[0] else "",
            style="dashed",
            tone="ink",
        )
        for j in growing
    ]
    panel = Panel(
        (*series, *lines),
        x_label="accelerated time t / ln(1/α)",
        y_label="ln‖w‖ / ln(1/α)",
        y_limits=(-1.25, 0.1),
        marks=tuple((float(t), f"τ{i + 1}") for i, t in enumerate(limit.jump_times)),
    )
    figure = Figure(
        "fig3",
        "Norms grow exponentially, at rates that fall at every jump",
        (panel,),
        "Norms of the hidden neurons on a logarithmic axis. Dashed: the exponents of Algorithm 1.",
        columns=1,
    )
    return Findings((figure,), _fig3_claims(training))


def _fig3_claims(training: Training) -> tuple[Claim, ...]:
    """Compare the slopes in the middle of every plateau with Algorithm 1's rates."""
    limit, errors, rising = training.limit, list[float](), list[Floats]()
    edges = np.append(0.0, training.predicted)
    for i, (start, end) in enumerate(pairwise(edges)):
        first, second = start + 0.6 * (end - start), start + 0.9 * (end - start)
        moved = log_norms(training.flow(float(second))) - log_norms(training.flow(float(first)))
        slopes, rates = moved / (second - first), limit.process.rates[i]
        rising.append(slopes)
        grows = rates > 0
        errors.append(float(np.max(np.abs(slopes[grows] / rates[grows] - 1))))
    slack = 1e-6 * float(np.abs(rising[0]).max())
    falling = all(bool(np.all(after <= before + slack)) for before, after in pairwise(rising))
    return (
        Claim(
            "Log-norms are piecewise linear with the slopes of Algorithm 1",
            "slope (1/n)·√(Σ y²) over the neuron's unfitted points",
            f"largest relative error of a slope on a plateau {max(errors):.2g}",
            max(errors) < 1e-3,
        ),
        Claim(
            "Slopes fall at jumps, never rise",
            "decreasing slopes",
            "they fall" if falling else "one rises",
            falling,
        ),
    )


def run_fig4(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Norm and direction of the neurons at six moments around the first jump, in a random plane."""
    training = train(parameters)
    first, second = training.predicted[:2]
    length = 1.0 / float(training.limit.process.rates[0].max())
    moments = (
        (0.0, 0, "start"),
        (0.5 * float(first), 0, "aligned, growing"),
        (float(first) - 5 * length, 0, "just before the first jump"),
        (float(first) + 5 * length, 1, "just after it"),
        (float(first) + 15 * length, 1, "turning"),
        (0.5 * float(first + second), 1, "aligned anew"),
    )
    plane = np.random.default_rng(parameters["plane_seed"]).standard_normal((training.dataset.dimension, 2))
    panels = tuple(_fig4_panel(training, plane, *moment) for moment in moments)
    figure = Figure(
        "fig4",
        "Directions before and after a jump",
        panels,
        "Neurons by the angle of their direction in a random plane and by ln‖w‖/ln(1/α), −1 at the inner "
        "circle and 0 at the outer one. Crosses: the directions of Algorithm 1, at the neuron's own norm.",
        columns=3,
    )
    return Findings((figure,), _fig4_claims(training, [(moments[i][0], moments[i][1]) for i in (1, 5)]))


def _fig4_panel(training: Training, plane: Floats, time: float, jumped: int, title: str) -> Panel:
    network = training.flow(time)
    assert isinstance(network, LogScaledNetwork)
    radius = 2.0 + np.clip(log_norms(network) / training.network.acceleration, -1.0, 0.1)
    flat = network.inner @ plane
    angle = np.arctan2(flat[:, 1], flat[:, 0])
    predicted = training.limit.directions(jumped)
    shown = np.linalg.norm(predicted, axis=1) > 0
    aim = predicted @ plane
    crosses = Series(
        np.arctan2(aim[shown, 1], aim[shown, 0]), radius[shown], "Algorithm 1", style="crosses", tone="ink"
    )
    dots = [
        Series(angle[j : j + 1], radius[j : j + 1], f"neuron {j}", style="points", tone=TONES[j % len(TONES)])
        for j in range(network.width)
    ]
    return Panel(
        (*dots, crosses), title=f"{title}, t = {time:.0f}", polar=True, inner=1.0, y_limits=(0.0, 2.15)
    )


def _fig4_claims(training: Training, moments: list[tuple[float, int]]) -> tuple[Claim, ...]:
    worst = 0.0
    for time, jumped in moments:
        network = training.flow(time)
        assert isinstance(network, LogScaledNetwork)
        unit = network.inner / np.linalg.norm(network.inner, axis=1, keepdims=True)
        predicted = training.limit.directions(jumped)
        waiting = (training.limit.process.exponents[jumped] < 0) & (np.linalg.norm(predicted, axis=1) > 0)
        worst = max(worst, float(np.max(1 - np.sum(unit * predicted, axis=1)[waiting])))
    return (
        Claim(
            "On a plateau unfitted neurons point where Algorithm 1 says, and turn after a jump",
            "w/‖w‖ → s Σ y_k x_k over active unfitted points (9)",
            f"largest 1 − cos of the angle on the first two plateaus {worst:.2g}",
            worst < 1e-6,
        ),
    )


PROBLEM = {
    "size": 64,
    "width": 6,
    "digits": 300,
    "data_seed": 0,
    "seed": 1535,
    "tolerance": 1e-9,
}

FIG1 = Experiment(
    name="incremental/fig1",
    title="Loss and fitted points: incremental learning",
    source="Figure 1, App. A.1",
    parameters={
        "quick": {**PROBLEM, "step": 0.05, "points": 400},
        "paper": {**PROBLEM, "step": 0.01, "points": 2000},
    },
    run=run_fig1,
    cost={"quick": 2, "paper": 4},
)

FIG3 = Experiment(
    name="incremental/fig3",
    title="Norms of the neurons over time",
    source="Figure 3, App. A.2",
    parameters={"quick": {**PROBLEM, "points": 400}, "paper": {**PROBLEM, "points": 4000}},
    run=run_fig3,
    cost={"quick": 0.2, "paper": 0.5},
)

FIG4 = Experiment(
    name="incremental/fig4",
    title="Directions of the neurons around a jump",
    source="Figure 4, App. A.2",
    parameters={"quick": {**PROBLEM, "plane_seed": 2}, "paper": {**PROBLEM, "plane_seed": 2}},
    run=run_fig4,
    cost={"quick": 0.2, "paper": 0.2},
)
