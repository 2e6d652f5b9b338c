"""Scene "jumps": on orthonormal inputs the flow from a tiny start jumps from saddle to saddle."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.jump_prediction import predict_jumps
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.explorer.scene import Control, Handles, Layer, Scene, Show, State, View, Watch
from shallowflow.explorer.scenes.drawing import events_of, frame_times
from shallowflow.models import initialize

AFTER = 1.4
"""The run goes this much beyond the last predicted jump."""


def run(state: State, watch: Watch) -> Show:
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
            _loss(taus, losses, limit, due),
            _masks(state, limit, taus),
        ),
        _sentences(limit, data),
        _code(state),
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


def _loss(taus: Floats, losses: Floats, limit: SaddleToSaddle, due: Floats) -> View:
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


def _code(state: State) -> str:
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
    run,
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
