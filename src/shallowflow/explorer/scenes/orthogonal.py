"""Scenes on orthogonal inputs: "jumps" and "rates".

**Jumps**: on orthonormal inputs the flow from a tiny start jumps from saddle to saddle.

**Rates**: orthogonal groups of points, and how fast the loss falls: from 1/n to 1/√n.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.jump_prediction import predict_jumps
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.explorer.scene import (
    Control,
    Handles,
    Layer,
    Scene,
    Show,
    State,
    View,
    Watch,
    events_of,
    frame_times,
)
from shallowflow.landscape.weak_interaction.group_flow import group_flow
from shallowflow.models import initialize

AFTER = 1.4
"""The run goes this much beyond the last predicted jump."""


def run_jumps(state: State, watch: Watch) -> Show:
    """Follow the flow from scale α beside Algorithm 1, [incremental]: the limit of α → 0."""
    data = Dataset(np.eye(len(state.points)), state.y)
    logarithm = float(state["alpha"]) * np.log(10.0)
    start = initialize.log_scaled(state["width"], data.size, log_scale=logarithm, seed=state["seed"])
    limit = saddle_to_saddle(start, data)
    last = float(limit.jump_times[-1]) if len(limit.jump_times) else 1.0
    taus = frame_times(AFTER * last)
    until = float(taus[-1]) * -logarithm
    flow = gradient_flow(start, data, until=until, record=Record.at(taus * -logarithm), progress=watch)
    due = predict_jumps(start, data).times / -logarithm
    losses = np.interp(taus * -logarithm, flow.times, flow.losses)
    fitted = np.array([_outputs(flow(float(t) * -logarithm), data) for t in taus])
    return Show(
        taus,
        (
            _labels(state, fitted),
            _staircase(taus, losses, limit, due),
            _masks(state, limit, taus),
        ),
        _sentences(limit, data),
        _jumps_code(state),
        tuple((float(t) / -logarithm, word) for t, word in events_of(flow)),
        flow,
        clock=-logarithm,
    )


def _outputs(network: object, data: Dataset) -> Floats:
    return np.asarray(network(data.inputs))  # type: ignore[operator]


def _labels(state: State, fitted: Floats) -> View:
    """Return labels (to be dragged) and outputs, point by point."""
    x = state.x
    dots = Layer(
        "dots",
        "output of the network",
        "network",
        {"x": np.broadcast_to(x, fitted.shape), "y": fitted},
        moving=True,
    )
    limits = float(x.min() - 0.5), float(x.max() + 0.5)
    return View("labels", "Labels and outputs", (dots,), "point k", "y_k", x_limits=limits)


def _staircase(taus: Floats, losses: Floats, limit: SaddleToSaddle, due: Floats) -> View:
    """Return the loss of the flow over the staircase of Algorithm 1, and when jumps are due at this α."""
    edges = np.concatenate([[0.0], limit.jump_times, [taus[-1]]])
    steps = np.repeat(limit.losses, 2)
    stairs = {"x": np.repeat(edges, 2)[1:-1], "y": np.maximum(steps, 1e-16)}
    layers = (
        Layer("marks", "jumps predicted at this α", "muted", {"x": due[due < taus[-1]]}),
        Layer("curve", "Algorithm 1 (α → 0)", "theory", stairs),
        Layer("history", "flow", "network", {"x": taus, "y": np.maximum(losses, 1e-16)}),
    )
    return View("loss", "The loss", layers, "time t / ln(1/α)", "½ mean (f − y)²", timed=True)


def _masks(state: State, limit: SaddleToSaddle, taus: Floats) -> View:
    """Return which neuron sees which point; those that have jumped are full."""
    mask = np.asarray(limit.mask, dtype=float).T
    jumped = np.zeros((len(taus), len(mask)))
    for neuron, time in zip(limit.neurons, limit.jump_times, strict=True):
        jumped[taus >= time, neuron] = 1.0
    shown = mask * (0.25 + 0.75 * jumped[:, :, None])
    cells = Layer(
        "cells", "neuron j sees point k", "network", {"value": shown.astype(np.float32)}, moving=True
    )
    return View("masks", "Who sees what (full: has jumped)", (cells,), "point k", "neuron j", square=True)


def _sentences(limit: SaddleToSaddle, data: Dataset) -> tuple[str, ...]:
    jumps = len(limit.neurons)
    end = (
        "and fits the data"
        if limit.interpolates
        else "and cannot fit: some points are seen by no neuron of their sign"
    )
    times = ", ".join(f"{time:.3g}" for time in limit.jump_times[:6])
    return (
        f"Algorithm 1 makes {jumps} jump{'s' * (jumps != 1)} {end}.",
        f"Predicted times, in units of ln(1/α): {times or 'none'}.",
    )


def _jumps_code(state: State) -> str:
    return (
        "import numpy as np\nimport shallowflow as sf\n\n"
        f"data = sf.Dataset(np.eye({len(state.points)}), {[float(y) for y in state.y]})\n"
        f"log_scale = {float(state['alpha'])!r} * np.log(10.0)\n"
        f"net = sf.initialize.log_scaled({state['width']}, {len(state.points)}, log_scale=log_scale, "
        f"seed={state['seed']})\n"
        "limit = sf.saddle_to_saddle(net, data)\n"
        f"run = sf.gradient_flow(net, data, until={AFTER} * limit.jump_times[-1] * -log_scale)\n"
        "print(limit.jump_times, run.losses[-1])\n"
    )


_LABELS = (1.0, 0.8, 1.4, 0.6, 1.1, 0.9, 0.7, 1.2)
JUMPS = Scene(
    "jumps",
    "Saddle to saddle",
    "On orthonormal inputs a tiny network learns one neuron at a time: long rests, sudden jumps. The "
    "smaller the start α, the sharper the stairs, and Algorithm 1 predicts them all.",
    (
        Control(
            "alpha",
            "start α",
            "α: size of the network at the start, as a power of ten",
            -30.0,
            -300.0,
            -2.0,
            log=True,
        ),
        Control("width", "neurons m", "m: number of neurons", 6, 1, 40, whole=True),
        Control("seed", "seed", "which random start", 0, 0, 9_999, whole=True),
    ),
    (
        Handles(
            "labels",
            "labels",
            tuple((float(k + 1), y) for k, y in enumerate(_LABELS)),
            (0.0, 41.0),
            (-10.0, 10.0),
            most=40,
            vertical=True,
        ),
    ),
    run_jumps,
    {
        "α": "size of the network at the start",
        "y": "label of a point",
        "y_k": "label of point k",
        "f": "output of the network",
        "k": "number of a point",
        "j": "number of a neuron",
        "t": "time of the gradient flow; in units of ln(1/α) the jumps stay where they are as α → 0",
        "m": "number of neurons",
    },
)


def run_rates(state: State, watch: Watch) -> Show:
    """Follow the closed form of groups, [weak_interaction] §3.3, for the labels that were dragged."""
    labels, groups = np.repeat(state.y, state["size"]), len(state.points)
    data = Dataset(np.eye(len(labels)), labels)
    start = initialize.grouped(
        data.inputs, data.targets, groups, norm=10.0 ** state["norm"], seed=state["seed"]
    )
    flow = group_flow(start, data)
    watch(0.5)
    until = 2.0 * float(np.max(flow.transition_times(0.5)))
    times = frame_times(until)
    losses, speeds = flow.loss(times), flow.curvature(times)
    halves = flow.transition_times(0.5)
    return Show(
        times,
        (
            _groups(state, flow.group_losses(times)),
            _falling_loss(times, losses, halves),
            _rate(times, speeds, len(labels)),
        ),
        (
            f"{len(labels)} points in {groups} groups, one neuron for each.",
            f"The rate starts at {speeds[0]:.3g} and ends at {speeds[-1]:.3g}; "
            f"1/n is {1 / len(labels):.3g}, 1/√n is {len(labels) ** -0.5:.3g}.",
        ),
        _rates_code(state),
        tuple((float(t), f"group {k + 1} is half learnt") for k, t in enumerate(halves)),
    )


def _groups(state: State, left: Floats) -> View:
    """Return the labels (to be dragged) and how much of each is learnt."""
    heights = state.y * (1 - np.sqrt(np.minimum(left / left[0], 1.0)))
    dots = {"x": np.broadcast_to(state.x, heights.shape), "y": heights}
    limits = float(state.x.min() - 0.5), float(state.x.max() + 0.5)
    layer = Layer("dots", "learnt", "network", dots, moving=True)
    return View(
        "labels", "Groups: label, and how much of it is learnt", (layer,), "group", "y", x_limits=limits
    )


def _falling_loss(times: Floats, losses: Floats, halves: Floats) -> View:
    layers = (
        Layer("marks", "half of a group is learnt", "theory", {"x": halves}),
        Layer("history", "loss", "network", {"x": times, "y": np.maximum(losses, 1e-16)}),
    )
    return View("loss", "The loss", layers, "time t", "½ mean (f − y)²", y_scale="log", timed=True)


def _rate(times: Floats, speeds: Floats, size: int) -> View:
    both = np.array([1 / size, size**-0.5])
    layers = (
        Layer("levels", "1/n and 1/√n", "theory", {"y": both}, names=("1/n", "1/√n")),
        Layer("history", "μ(t)", "network", {"x": times, "y": np.maximum(speeds, 1e-12)}),
    )
    return View("rate", "Local rate μ(t) = −L'/L", layers, "time t", "μ", y_scale="log", timed=True)


def _rates_code(state: State) -> str:
    return (
        "import numpy as np\nimport shallowflow as sf\n"
        "from shallowflow.landscape.weak_interaction.group_flow import group_flow\n\n"
        f"labels = np.repeat({[float(y) for y in state.y]}, {state['size']})\n"
        "data = sf.Dataset(np.eye(len(labels)), labels)\n"
        f"net = sf.initialize.grouped(data.inputs, data.targets, {len(state.points)}, "
        f"norm={10.0 ** state['norm']!r}, seed={state['seed']})\n"
        "flow = group_flow(net, data)\n"
        "print(flow.transition_times(0.5))\n"
    )


RATES = Scene(
    "rates",
    "How fast?",
    "Groups of orthogonal points, one neuron each. A group is learnt after a time that depends on its "
    "label, and the rate of the whole goes from the order of 1/n to that of 1/√n.",
    (
        Control("size", "points per group", "number of points that share a neuron", 25, 1, 100, whole=True),
        Control(
            "norm", "start", "norm of the neurons at the start, as a power of ten", 0.0, -8.0, 0.0, log=True
        ),
        Control("seed", "seed", "which random start", 0, 0, 9_999, whole=True),
    ),
    (
        Handles(
            "labels",
            "labels",
            ((1.0, 1.0), (2.0, 0.7), (3.0, 1.3), (4.0, 0.5)),
            (0.0, 41.0),
            (-10.0, 10.0),
            most=20,
            vertical=True,
        ),
    ),
    run_rates,
    {
        "n": "number of points",
        "y": "label that all points of a group share",
        "f": "output of the network",
        "t": "time of the gradient flow",
        "μ": "local rate, −L'/L: how fast the loss falls, as a share per unit of time",
        "L": "the loss, ½ mean (f − y)²",
    },
)
