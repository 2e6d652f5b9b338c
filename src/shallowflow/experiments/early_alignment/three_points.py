"""Figure 2: three points on which early alignment ends in a spurious stationary point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shallowflow.data import Dataset
from shallowflow.data.generators import three_points
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.early_alignment.training import (
    animation,
    loss_panel,
    network_at,
    story,
    train,
)
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Series
from shallowflow.experiments.network_panels import as_inputs, line_grid
from shallowflow.landscape import activity, extremal_vectors, least_squares, neuron_alignment
from shallowflow.models import ReLUNetwork, initialize

STAGES = ("start", "end of alignment", "growth", "convergence")
ALIGNED = 0.99
"""Cosine from which on a neuron counts as aligned."""


def run_fig2(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Train on the three points and show function and neurons at four times."""
    dataset = three_points()
    scale, seed = parameters["init_scale"], parameters["seed"]
    network = initialize.balanced(parameters["width"], 2, init_scale=scale, seed=seed)
    stages = dict(zip(STAGES, parameters["times"], strict=True))
    trajectory = train(
        network,
        dataset,
        parameters,
        lambda fraction: progress(fraction, "training"),
        times=parameters["times"],
        frames=parameters["frames"],
    )
    moments = {stage: network_at(trajectory, time) for stage, time in stages.items()}
    claims = (*_line_claims(trajectory, dataset), *_neuron_claims(moments, dataset))
    moving = animation(trajectory, dataset, "fig2", "Three points: function and neurons", _line(dataset))
    return Findings(_figures(trajectory, dataset, stages), claims, (moving,))


def _line_claims(trajectory: Trajectory, dataset: Dataset) -> tuple[Claim, ...]:
    line = least_squares(dataset)
    distance = float(np.max(np.abs(trajectory.final(dataset.inputs) - dataset.inputs @ line.coefficients)))
    loss = float(trajectory.losses[-1])
    return (
        Claim(
            "The network converges to the least-squares line (Theorem 2)",
            "the estimated function is the line β*",
            f"largest distance to the line on the data {distance:.2g}",
            distance < 1e-3,
        ),
        Claim(
            "Training ends at a spurious stationary point: the loss stays positive",
            f"loss > 0 although two neurons fit the data (the line's loss is {line.loss:.7f})",
            f"loss {loss:.7f}",
            abs(loss - line.loss) < 1e-3 * line.loss and loss > 0,
        ),
    )


def _neuron_claims(moments: Mapping[str, ReLUNetwork], dataset: Dataset) -> tuple[Claim, ...]:
    start, aligned, growth, end = (moments[stage] for stage in STAGES)
    found = neuron_alignment(aligned, dataset)
    positive = aligned.outer > 0
    arrived = (found.norms == 0) | (found.of_kind("maximum") & (found.cosines > ALIGNED))
    share = float(np.mean(arrived[positive]))
    output = float(np.max(np.abs(aligned(dataset.inputs))))
    weights = np.abs(growth.outer) * np.linalg.norm(growth.inner, axis=1)
    small = float(np.sum(weights[growth.outer < 0]) / np.sum(weights))
    on = activity(end, dataset.inputs) > 0
    mixed = int(np.sum(np.any(on, axis=1) & ~np.all(on, axis=1)))
    return (
        Claim(
            "After the early phase every positive neuron is aligned with the one extremal vector, or dead",
            f"all of them; {len(extremal_vectors(dataset))} extremal vector, (1/n)Σ y_k x_k",
            f"{100 * share:.2f} % (cosine > {ALIGNED}, or active on no point)",
            share > 0.99,
            "a few neurons start almost opposed to it (Condition 1 excludes them) and take longer",
        ),
        Claim(
            "Then the estimated function is still nearly zero",
            "norms close to 0",
            f"largest output on the data {output:.2g}, at the start {_largest_output(start, dataset):.1g}",
            output < 0.1 * float(np.max(np.abs(dataset.targets))),
        ),
        Claim(
            "During growth the negative neurons stay irrelevant",
            "negative neurons remain small in norm",
            f"their share of Σ|a_j|‖w_j‖ is {small:.1g}",
            small < 0.01,
        ),
        Claim(
            "In the end every neuron is active on all data points or on none",
            "two activation cones",
            f"{mixed} of {end.width:,} neurons lie in other cones",
            mixed == 0,
        ),
        Claim(
            "The direction of the positive neurons changes after alignment",
            "Figures 2(d) and 2(h) differ",
            f"by {_turn(aligned, end):.3g} rad, weighted by norm",
            _turn(aligned, end) > 0.01,
        ),
    )


def _largest_output(network: ReLUNetwork, dataset: Dataset) -> float:
    return float(np.max(np.abs(network(dataset.inputs))))


def _turn(before: ReLUNetwork, after: ReLUNetwork) -> float:
    """Return the angle between the mean directions Σ a_j w_j of the positive neurons."""
    first, second = (
        np.where(network.outer > 0, network.outer, 0.0) @ network.inner for network in (before, after)
    )
    cosine = first @ second / (np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.arccos(np.clip(cosine, -1.0, 1.0)))


def _line(dataset: Dataset) -> tuple[Series, ...]:
    x = line_grid(dataset)
    values = as_inputs(x, dataset) @ least_squares(dataset).coefficients
    return (Series(x, values, "least squares", style="dashed", tone="muted"),)


def _figures(trajectory: Trajectory, dataset: Dataset, stages: Mapping[str, float]) -> tuple[Figure, ...]:
    return (
        Figure(
            "fig2",
            "Three points: estimated function and neurons at four times",
            story(trajectory, dataset, stages, _line(dataset)),
            "Left: the estimated function and the data. Right: the neurons w_j in the plane of slope and "
            "bias; norm 0 is the inner circle, one radial scale for all times; blue outer weight > 0, "
            "orange < 0 (drawn a little further in). Crosses: directions of the data; "
            "dashed: borders of the activation cones.",
        ),
        Figure(
            "fig2-loss", "Training loss on the three points", (loss_panel(trajectory, stages),), columns=1
        ),
    )


FIG2 = Experiment(
    name="early_alignment/fig2",
    title="Three points: early alignment ends in a spurious stationary point",
    source="Figure 2, §6, App. B.1",
    parameters={
        "quick": {
            "width": 2_000,
            "init_scale": 1e-3,
            "engine": "cones",
            "step": 1e-2,
            "steps": 20_000,
            "times": (0.0, 7.5, 12.0, 200.0),
            "frames": 40,
            "seed": 0,
        },
        "paper": {
            "width": 200_000,
            "init_scale": 1e-3,
            "engine": "cones",
            "step": 2e-3,
            "steps": 2_000_000,
            "times": (0.0, 7.5, 12.0, 4_000.0),
            "frames": 80,
            "seed": 0,
        },
    },
    run=run_fig2,
    cost={"quick": 3.4, "paper": 17.9},
)
