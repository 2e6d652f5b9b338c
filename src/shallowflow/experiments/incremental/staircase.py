"""Figure 1: the loss and the number of fitted points are staircases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.training import CHOSEN, PROBLEM, Training, train
from shallowflow.readings.jumps import fitted_points, jumps

SPARSE = 20
"""Of so many recorded moments of the descent one is drawn."""


Curve = tuple[Floats, Floats]
"""Times and values."""


def run_fig1(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Loss and number of fitted points: descent, flow and Algorithm 1."""
    training, step = train(parameters), parameters["step"]
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
    return Findings((_fig1_figure(training, descent, times, step),), _fig1_claims(training, descent))


def _fig1_figure(training: Training, descent: Trajectory, times: Floats, step: float) -> Figure:
    flow, process = training.flow, training.limit.process
    counts = np.cumsum([0] + [len(points) for points in process.fitted]).astype(np.float64)
    loss = _stairs(training, step, (flow.times, flow.losses), (descent.times, descent.losses), process.losses)
    points = _stairs(
        training,
        step,
        _counted(training, flow, times),
        _counted(training, descent, descent.times[1:]),
        counts,
    )
    return Figure(
        "fig1",
        "Incremental learning: each jump fits the points of one more neuron",
        (
            Panel(loss, title="loss", x_label="epochs", y_label="½ mean squared error"),
            Panel(points, title="fitted points", x_label="epochs", y_label="points fitted by half or more"),
        ),
        "Loss and number of fitted points in training. Dashed: the plateaus of Algorithm 1, jumps at the "
        "times predicted to first order in 1/ln(1/α). " + CHOSEN,
    )


def _counted(training: Training, run: Trajectory, times: Floats) -> Curve:
    """The number of points fitted by half or more at these times."""
    counts = [float(fitted_points(run(float(t)), training.dataset).sum()) for t in times]
    return times, np.array(counts)


def _stairs(
    training: Training, step: float, flow: Curve, descent: Curve, levels: Floats
) -> tuple[Series, ...]:
    """Flow, some moments of the descent, and the levels of Algorithm 1, over epochs."""
    ends = np.concatenate([[0.0], training.predicted, [training.until]])
    x, y = (values[::SPARSE] for values in descent)
    return (
        Series(flow[0] / step, flow[1], "flow", tone="blue"),
        Series(x / step, y, "descent", style="points", tone="orange"),
        Series(
            np.repeat(ends, 2)[1:-1] / step,
            np.repeat(levels, 2),
            "Algorithm 1",
            style="dashed",
            tone="ink",
            size=0.6,
        ),
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


FIG1 = Experiment(
    name="incremental/fig1",
    title="Loss and fitted points: incremental learning",
    source="Figure 1, App. A.1",
    parameters={
        "quick": {**PROBLEM, "step": 0.05, "points": 400},
        "paper": {**PROBLEM, "step": 0.01, "points": 2000},
    },
    run=run_fig1,
    cost={"quick": 1.1, "paper": 2.7},
)
