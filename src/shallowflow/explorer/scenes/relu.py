"""Scenes of ReLU networks from small starts: "alignment", "jumps" and "rates".

**Alignment**: three points, neurons that turn to few directions before they grow.

**Jumps**: on orthonormal inputs the flow from a tiny start jumps from saddle to saddle.

**Rates**: orthogonal groups of points, and how fast the loss falls: from 1/n to 1/√n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.jump_prediction import predict_jumps
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle, saddle_to_saddle
from shallowflow.explorer.scene import (
    COARSE,
    LIGHT,
    Control,
    Handles,
    Layer,
    Scene,
    Show,
    State,
    View,
    Watch,
    curves,
    events_of,
    frame_times,
    frames_of,
    function_view,
    grid_of,
    loss_view,
    losses_of,
    networks,
    neurons_view,
    sketch,
)
from shallowflow.landscape import extremal_vectors, least_squares
from shallowflow.landscape.early_alignment.extremal import ExtremalVector
from shallowflow.landscape.early_alignment.frozen import exit_time
from shallowflow.landscape.weak_interaction.group_flow import group_flow
from shallowflow.models import ReLUNetwork, initialize

MOST_CONES = 40
"""Points up to which extremal vectors are looked for while the page waits."""
FALL = 0.01
"""The predicted exit: when the loss has fallen by this share."""


def run_alignment(state: State, watch: Watch) -> Show:
    """Follow the flow on the points with a bias, [early_alignment] (2); draw its neurons in their plane."""
    data, start = _problem(state, state["width"])
    until = float(state["until"])
    found = exit_time(start, data, fall=FALL).time
    watch(0.0)
    watch.parts(lambda so_far: replace(_alignment_show(state, so_far, data, found), stage="part", end=until))
    trajectory = gradient_flow(start, data, until=until, record=frames_of(until), progress=watch)
    return _alignment_show(state, trajectory, data, found)


def preview_alignment(state: State) -> Show | None:
    """Return a run of few neurons by descent, where the flow takes long."""
    if state["width"] * len(state.points) <= LIGHT:
        return None
    data, start = _problem(state, min(state["width"], COARSE))
    made = sketch(start, data, float(state["until"]))
    return None if made is None else replace(_alignment_show(state, made, data, np.inf), stage="preview")


def _problem(state: State, width: int) -> tuple[Dataset, ReLUNetwork]:
    data = Dataset(np.column_stack([state.x, np.ones(len(state.points))]), state.y)
    return data, initialize.balanced(width, 2, init_scale=10.0 ** state["scale"], seed=state["seed"])


def _alignment_show(state: State, trajectory: Trajectory, data: Dataset, exits: float) -> Show:
    times, curved = networks(trajectory, float(state["until"]))
    made = [network for network in curved if isinstance(network, ReLUNetwork)]
    grid, losses = grid_of(state.x), losses_of(made, data)
    vectors = extremal_vectors(data) if data.size <= MOST_CONES else ()
    line = least_squares(data)
    fitted = np.column_stack([grid, np.ones_like(grid)]) @ line.coefficients
    straight = Layer("curve", "least-squares line", "theory", {"x": grid, "y": fitted})
    level = Layer("levels", "the line's loss", "theory", {"y": np.array([line.loss])}, names=("line",))
    return Show(
        times,
        (
            function_view(grid, curves(made, grid), (straight,)),
            _neurons(made, data, vectors),
            loss_view(times, losses, (level, *_exit(exits, float(state["until"])))),
        ),
        _alignment_sentences(made[-1], data, losses, line.loss, vectors, exits),
        _alignment_code(state),
        events_of(trajectory),
        trajectory,
    )


def _neurons(made: list[ReLUNetwork], data: Dataset, vectors: Sequence[ExtremalVector]) -> View:
    """Return the neurons with the borders of the cones and the extremal vectors."""
    normals = np.arctan2(data.inputs[:, 1], data.inputs[:, 0])
    borders = np.concatenate([normals + np.pi / 2, normals - np.pi / 2])
    layers = [Layer("rays", "borders of the cones", "muted", {"angle": borders})]
    if vectors:
        found = np.array([np.arctan2(v.vector[1], v.vector[0]) for v in vectors])
        kinds = tuple(v.kind for v in vectors)
        layers.append(Layer("rays", "extremal vectors", "theory", {"angle": found}, names=kinds))
    return neurons_view(made, layers)


def _exit(time: float, until: float) -> tuple[Layer, ...]:
    """Return when the loss will have fallen by 1 %, from the start alone, if that is within the run."""
    if not time < until:
        return ()
    return (Layer("marks", "predicted exit", "theory", {"x": np.array([time])}, names=("exit predicted",)),)


def _alignment_sentences(
    end: ReLUNetwork,
    data: Dataset,
    losses: Floats,
    line: float,
    vectors: Sequence[ExtremalVector],
    exits: float,
) -> tuple[str, ...]:
    """Return what there is to see, in words."""
    seen = np.sum(end.preactivations(data.inputs) > 0, axis=1)
    dead, last = int(np.sum(seen == 0)), float(losses[-1])
    said = [f"The loss ends at {last:.4g}; the best straight line has {line:.4g}."]
    if abs(last - line) < 1e-3 * max(line, 1e-12):
        said.append("The network has become that line: a spurious stationary point.")
    if vectors:
        count = "1 direction" if len(vectors) == 1 else f"{len(vectors)} directions"
        said.append(f"Neurons can align with {count}.")
    if np.isfinite(exits):
        said.append(f"From the start alone: the loss has fallen by 1 % at t = {exits:.4g}.")
    return (*said, f"{dead} of {end.width} neurons see no point.")


def _alignment_code(state: State) -> str:
    return (
        "import numpy as np\nimport shallowflow as sf\n\n"
        f"points = np.array({[list(point) for point in state.points]})\n"
        "data = sf.Dataset(np.column_stack([points[:, 0], np.ones(len(points))]), points[:, 1])\n"
        f"net = sf.initialize.balanced({state['width']}, 2, init_scale={10.0 ** state['scale']!r}, "
        f"seed={state['seed']})\n"
        f"run = sf.gradient_flow(net, data, until={float(state['until'])!r})\n"
        "print(run.losses[-1])\n"
    )


ALIGNMENT = Scene(
    "alignment",
    "Early alignment",
    "From a small start all neurons first turn to a few directions, and only then grow. That can be too few: "
    "drag the middle point, and see when the network becomes a straight line for good.",
    (
        Control(
            "scale",
            "start λ",
            "λ: size of the network at the start, as a power of ten",
            -3.0,
            -8.0,
            0.0,
            log=True,
        ),
        Control("width", "neurons m", "m: number of neurons", 200, 1, 2_000, whole=True),
        Control("until", "until t", "t: time of the gradient flow", 100.0, 1.0, 2_000.0, bend=3),
        Control("seed", "seed", "which random start", 0, 0, 9_999, whole=True),
    ),
    (
        Handles(
            "function",
            "data points",
            ((-0.75, 1.1), (-0.5, 0.1), (0.125, 0.8)),
            (-10.0, 10.0),
            (-10.0, 10.0),
            most=40,
        ),
    ),
    run_alignment,
    {
        "x": "input; a second input is always 1, for the bias",
        "y": "target, the height of a data point",
        "f": "output of the network, f(x) = Σ_j a_j max(0, ⟨w_j, (x, 1)⟩)",
        "w_j": "inner weights of neuron j: slope and bias",
        "a_j": "outer weight of neuron j",
        "t": "time of the gradient flow",
        "λ": "size of the network at the start",
        "m": "number of neurons",
    },
    preview=preview_alignment,
)


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
        _jumps_sentences(limit, data),
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


def _jumps_sentences(limit: SaddleToSaddle, data: Dataset) -> tuple[str, ...]:
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
