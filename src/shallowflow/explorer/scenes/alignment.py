"""Scene "alignment": three points, a small start, neurons that turn to few directions before they grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import gradient_flow
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
from shallowflow.models import ReLUNetwork, initialize

MOST_CONES = 40
"""Points up to which extremal vectors are looked for while the page waits."""
FALL = 0.01
"""The predicted exit: when the loss has fallen by this share."""


def run(state: State, watch: Watch) -> Show:
    """Follow the flow on the points with a bias, [early_alignment] (2); draw its neurons in their plane."""
    data, start = _problem(state, state["width"])
    until = float(state["until"])
    found = exit_time(start, data, fall=FALL).time
    watch(0.0)
    watch.parts(lambda so_far: replace(_show(state, so_far, data, found), stage="part", end=until))
    trajectory = gradient_flow(start, data, until=until, record=frames_of(until), progress=watch)
    return _show(state, trajectory, data, found)


def preview(state: State) -> Show | None:
    """Return a run of few neurons by descent, where the flow takes long."""
    if state["width"] * len(state.points) <= LIGHT:
        return None
    data, start = _problem(state, min(state["width"], COARSE))
    made = sketch(start, data, float(state["until"]))
    return None if made is None else replace(_show(state, made, data, np.inf), stage="preview")


def _problem(state: State, width: int) -> tuple[Dataset, ReLUNetwork]:
    data = Dataset(np.column_stack([state.x, np.ones(len(state.points))]), state.y)
    return data, initialize.balanced(width, 2, init_scale=10.0 ** state["scale"], seed=state["seed"])


def _show(state: State, trajectory: Trajectory, data: Dataset, exits: float) -> Show:
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
        _sentences(made[-1], data, losses, line.loss, vectors, exits),
        _code(state),
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


def _sentences(
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


def _code(state: State) -> str:
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
    run,
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
    preview=preview,
)
