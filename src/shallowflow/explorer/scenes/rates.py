"""Scene "rates": orthogonal groups of points, and how fast the loss falls: from 1/n to 1/√n."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.explorer.scene import Control, Handles, Layer, Scene, Show, State, View, Watch
from shallowflow.explorer.scenes.drawing import frame_times
from shallowflow.landscape.weak_interaction.group_flow import group_flow
from shallowflow.models import initialize


def run(state: State, watch: Watch) -> Show:
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
            _loss(times, losses, halves),
            _rate(times, speeds, len(labels)),
        ),
        (
            f"{len(labels)} points in {groups} groups, one neuron for each.",
            f"The rate starts at {speeds[0]:.3g} and ends at {speeds[-1]:.3g}; "
            f"1/n is {1 / len(labels):.3g}, 1/√n is {len(labels) ** -0.5:.3g}.",
        ),
        _code(state),
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


def _loss(times: Floats, losses: Floats, halves: Floats) -> View:
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


def _code(state: State) -> str:
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
    run,
    {
        "n": "number of points",
        "y": "label that all points of a group share",
        "f": "output of the network",
        "t": "time of the gradient flow",
        "μ": "local rate, −L'/L: how fast the loss falls, as a share per unit of time",
        "L": "the loss, ½ mean (f − y)²",
    },
)
