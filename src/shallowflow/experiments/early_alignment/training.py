"""What the experiments of this paper share: a descent with networks kept, and the animation of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.figure import Animation, Figure, Panel, Series
from shallowflow.experiments.network_panels import NeuronPanels, function_panel, largest_norm
from shallowflow.models import ReLUNetwork

MEMORY = 2 * 2**30
"""Bytes that the recorded networks may take."""
DRAWN = 4_000
"""Neurons shown in an animation."""
POINTS = 121
"""Points at which its function is drawn."""


def train(
    network: ReLUNetwork,
    dataset: Dataset,
    parameters: Mapping[str, Any],
    progress: Callable[[float], None] | None = None,
    *,
    times: Sequence[float] = (),
    frames: int = 0,
) -> Trajectory:
    """Descend as the parameters say; keep networks at `times` and at `frames` geometric ones."""
    step, steps = parameters["step"], parameters["steps"]
    moments = np.array([0.0, *times, *_geometric(step, step * steps, frames)])
    record = Record.at(np.unique(np.rint(moments / step)) * step, max_bytes=MEMORY)
    return gradient_descent(
        network,
        dataset,
        step=step,
        steps=steps,
        record=record,
        engine=parameters["engine"],
        progress=progress,
    )


def _geometric(step: float, until: float, frames: int) -> Floats:
    return np.geomspace(max(0.2, step), until, frames) if frames else np.zeros(0)


def network_at(trajectory: Trajectory, time: float) -> ReLUNetwork:
    """Return the network at a time."""
    network = trajectory(time)
    assert isinstance(network, ReLUNetwork)
    return network


def story(
    trajectory: Trajectory,
    dataset: Dataset,
    stages: Mapping[str, float],
    behind: tuple[Series, ...] = (),
) -> tuple[Panel, ...]:
    """Return two panels per stage (name → time): the function, and the neurons on one radial scale."""
    networks = {stage: network_at(trajectory, time) for stage, time in stages.items()}
    top = largest_norm(list(networks.values()))
    neurons = NeuronPanels(dataset, top, trajectory.path.template.width)
    panels: list[Panel] = []
    for stage, network in networks.items():
        title = f"{stage}, t = {stages[stage]:g}"
        panels += [function_panel(network, dataset, title=title, behind=behind), neurons(network)]
    return tuple(panels)


def animation(
    trajectory: Trajectory, dataset: Dataset, name: str, title: str, behind: tuple[Series, ...] = ()
) -> Animation:
    """Return function and neurons over the recorded times."""
    times = [float(time) for time in trajectory.path.times]
    networks = [network_at(trajectory, time) for time in times]
    neurons = NeuronPanels(dataset, largest_norm(networks), networks[0].width, most=DRAWN)
    frames = tuple(
        Figure(
            name,
            title,
            (_function(network, dataset, time, behind), neurons(network)),
        )
        for time, network in zip(times, networks, strict=True)
    )
    shown = len(neurons.chosen)
    caption = f"{shown:,} of {networks[0].width:,} neurons are shown; time runs faster and faster."
    return Animation(name, title, frames, tuple(f"t = {time:.4g}" for time in times), caption)


def _function(network: ReLUNetwork, dataset: Dataset, time: float, behind: tuple[Series, ...]) -> Panel:
    return function_panel(network, dataset, points=POINTS, title=f"t = {time:.3g}", behind=behind)


def loss_panel(trajectory: Trajectory, stages: Mapping[str, float]) -> Panel:
    """Return the training loss over time, with the stages marked."""
    return Panel(
        (Series(trajectory.times[1:], trajectory.losses[1:], "loss"),),
        x_label="time (step × iterations)",
        y_label="½ mean squared error",
        x_scale="log",
        marks=tuple((time, stage) for stage, time in stages.items() if time > 0),
    )
