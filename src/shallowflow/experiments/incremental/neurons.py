"""Figures 3 and 4: norms and directions of the neurons over time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.experiments.experiment import Claim, Experiment, Findings, Progress
from shallowflow.experiments.figure import Figure, Panel, Series
from shallowflow.experiments.incremental.training import CHOSEN, PROBLEM, TONES, Training, train
from shallowflow.models import LogScaledNetwork
from shallowflow.readings.jumps import log_norms


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
        "Norms of the hidden neurons on a logarithmic axis. Dashed: the exponents of Algorithm 1. " + CHOSEN,
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
        "Neurons by the angle of their direction in a random plane and by 1 + ln‖w‖/ln(1/α): 0 at the inner "
        "circle, where they start, and 1 at a norm of 1. Crosses: the directions of Algorithm 1, at the "
        "neuron's own norm. " + CHOSEN,
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


FIG3 = Experiment(
    name="incremental/fig3",
    title="Norms of the neurons over time",
    source="Figure 3, App. A.2",
    parameters={"quick": {**PROBLEM, "points": 400}, "paper": {**PROBLEM, "points": 4000}},
    run=run_fig3,
    cost={"quick": 0.8, "paper": 0.9},
)

FIG4 = Experiment(
    name="incremental/fig4",
    title="Directions of the neurons around a jump",
    source="Figure 4, App. A.2",
    parameters={"quick": {**PROBLEM, "plane_seed": 2}, "paper": {**PROBLEM, "plane_seed": 2}},
    run=run_fig4,
    cost={"quick": 0.7, "paper": 0.7},
)
