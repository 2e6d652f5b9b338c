"""Figure 1: the data of the paper's examples, and which of its assumptions they satisfy.

What the experiments of this paper share: a descent with networks kept, and the animation of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import STEWART_TEACHER, Dataset
from shallowflow.data.generators import stewart, three_points
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Animation, Figure, Panel, Series
from shallowflow.experiments.network_panels import (
    NeuronPanels,
    as_inputs,
    function_panel,
    largest_norm,
    line_grid,
)
from shallowflow.landscape import extremal_vectors, least_squares, spurious_conditions
from shallowflow.models import ReLUNetwork

ASSUMED = ((-0.95, 1.0), (0.0, 0.05), (0.95, 1.0))
"""Three points (x, y) of Assumption 3 with η < 1/6, like those that Figure 1 draws without numbers."""


def assumed_points(points: tuple[tuple[float, float], ...] = ASSUMED) -> Dataset:
    """Return data that satisfy Assumption 3, bias coordinate appended."""
    table = np.array(points)
    return Dataset(table[:, :1], table[:, 1], name="Assumption 3").with_bias()


def run_fig1(parameters: Mapping[str, Any], progress: Progress) -> Findings:
    """Show the three data sets and check what the paper says of them."""
    assumed, used = assumed_points(parameters["assumed"]), three_points()
    sampled = stewart(parameters["size"], seed=parameters["seed"])
    x = np.linspace(-1.0, 1.0, 401)
    teacher = Series(x, STEWART_TEACHER(x), "teacher", tone="muted")
    panels = (
        _panel(assumed, "Assumption 3, η < 1/6", _line(assumed)),
        _panel(used, "the three points of §6", _line(used)),
        _panel(sampled, f"Stewart's teacher, {sampled.size} points", (teacher,)),
    )
    caption = "Left and middle: small networks end in the dashed least-squares line. Right: App. B.2."
    figure = Figure("fig1", "The data of the examples", panels, caption, columns=3)
    return Findings((figure,), (*_claims(assumed, used), _teacher_claim()))


def _line(dataset: Dataset) -> tuple[Series, ...]:
    x = line_grid(dataset, 2)
    values = as_inputs(x, dataset) @ least_squares(dataset).coefficients
    return (Series(x, values, "least squares", style="dashed", tone="muted"),)


def _panel(dataset: Dataset, title: str, behind: tuple[Series, ...]) -> Panel:
    data = Series(dataset.inputs[:, 0], dataset.targets, "data", style="points", tone="ink")
    return Panel((*behind, data), title=title, x_label="x", y_label="y", y_limits=(-0.1, 1.3))


def _claims(assumed: Dataset, used: Dataset) -> tuple[Claim, ...]:
    first, second = spurious_conditions(assumed), spurious_conditions(used)
    kept = (first.assumption_4, first.assumption_5, first.assumption_6)
    middle = float(used.targets[1] - used.inputs[1] @ least_squares(used).coefficients)
    return (
        Claim(
            "Data of Assumption 3 with η < 1/6 satisfy Assumptions 4, 5 and 6 (Lemma 8)",
            "they do",
            f"smallest η {first.eta:.3g}; Assumptions 4, 5, 6: {', '.join(_yes(k) for k in kept)}",
            first.assumption_3 and all(kept),
            "true of these points; Lemma 8's proof has a slip, and Assumption 5 can fail for others",
        ),
        Claim(
            "The three points of §6 do not satisfy Assumption 3, yet resemble it",
            "all positively correlated, positive labels, middle point below the line",
            f"Assumption 3: {_yes(second.assumption_3)}; Assumption 4: {_yes(second.assumption_4)}; "
            f"middle point {middle:.3g} from the line; Assumption 5: {_yes(second.assumption_5)}, "
            f"Assumption 6: {_yes(second.assumption_6)}",
            not second.assumption_3 and second.assumption_4 and middle < 0,
        ),
        Claim(
            "There is one extremal vector, (1/n)Σ y_k x_k, a maximum of G",
            "the single extremal vector",
            "; ".join(_vectors(data) for data in (assumed, used)),
            all(_is_single(data) for data in (assumed, used)),
        ),
    )


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _vectors(dataset: Dataset) -> str:
    return ", ".join(f"{v.kind} {np.round(v.vector, 4).tolist()}" for v in extremal_vectors(dataset))


def _is_single(dataset: Dataset) -> bool:
    found = extremal_vectors(dataset)
    expected = dataset.targets @ dataset.inputs / dataset.size
    return len(found) == 1 and found[0].kind == "maximum" and np.allclose(found[0].vector, expected)


def _teacher_claim() -> Claim:
    kinks = 1 + int(np.sum(np.abs(np.diff(STEWART_TEACHER.slopes)) > 0))
    return Claim(
        "The teacher is a network of eight neurons",
        "8 neurons",
        f"{kinks} kinks in [−1, 1), the first at −1",
        kinks == 8,
    )


FIG1 = Experiment(
    name="early_alignment/fig1",
    title="The data: Assumption 3, the three points, Stewart's teacher",
    source="Figure 1, §4, §6, App. B",
    parameters={scale: {"assumed": ASSUMED, "size": 40, "seed": 0} for scale in ("quick", "paper")},
    run=run_fig1,
    cost={"quick": 0.2},
)


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
    moments = np.array([0.0, *times, *geometric(step * steps, frames)])
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


def geometric(until: float, frames: int) -> Floats:
    """Return the times of `frames` frames of an animation."""
    return np.geomspace(0.2, until, frames) if frames else np.zeros(0)


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
        x_label="time",
        y_label="½ mean squared error",
        x_scale="log",
        marks=tuple((time, stage) for stage, time in stages.items() if time > 0),
    )
