"""Scene "alignment": three points, a small start, neurons that turn to few directions before they grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.explorer.scene import Control, Handles, Layer, Progress, Scene, Show, State, View
from shallowflow.explorer.scenes.drawing import (
    curves,
    events_of,
    frames_of,
    function_view,
    grid_of,
    loss_view,
    losses_of,
    networks,
)
from shallowflow.landscape import extremal_vectors, least_squares
from shallowflow.landscape.early_alignment.extremal import ExtremalVector
from shallowflow.models import ReLUNetwork, initialize

DECADES = 8.0
"""Of norms shown: the inner circle is 10⁻⁸ of the largest, or smaller."""
MOST_CONES = 24
"""Points up to which extremal vectors are looked for while the page waits."""


def run(state: State, progress: Progress) -> Show:
    """Follow the flow on the points with a bias, [early_alignment] (2); draw its neurons in their plane."""
    data = Dataset(np.column_stack([state.x, np.ones(len(state.points))]), state.y)
    scale, until = 10.0 ** state["scale"], float(state["until"])
    start = initialize.balanced(state["width"], 2, init_scale=scale, seed=state["seed"])
    trajectory = gradient_flow(start, data, until=until, record=frames_of(until), progress=progress)
    times, curved = networks(trajectory, until)
    made = [network for network in curved if isinstance(network, ReLUNetwork)]
    grid, losses = grid_of(state), losses_of(made, data)
    vectors = extremal_vectors(data) if data.size <= MOST_CONES else ()
    line = least_squares(data)
    fitted = np.column_stack([grid, np.ones_like(grid)]) @ line.coefficients
    straight = Layer("curve", "least-squares line", "theory", {"x": grid, "y": fitted})
    level = Layer("levels", "the line's loss", "theory", {"y": np.array([line.loss])}, names=("line",))
    exits = _exit(vectors, scale, until)
    return Show(
        times,
        (
            function_view(grid, curves(made, grid), (straight,)),
            _neurons(made, data, vectors),
            loss_view(times, losses, (level, *exits)),
        ),
        _sentences(made[-1], data, losses, line.loss, vectors),
        _code(state),
        events_of(trajectory),
        trajectory,
    )


def _neurons(made: list[ReLUNetwork], data: Dataset, vectors: Sequence[ExtremalVector]) -> View:
    """Return the neurons as points (angle, logarithm of the norm), with data directions and extremal ones."""
    inner = np.array([network.inner for network in made])
    norms = np.linalg.norm(inner, axis=2)
    top = float(norms.max()) or 1.0
    with np.errstate(divide="ignore"):
        radius = np.clip(1.0 + np.log10(norms / top) / DECADES, 0.0, 1.0)
    angle = np.arctan2(inner[:, :, 1], inner[:, :, 0])
    blocks = {
        "angle": angle.astype(np.float32),
        "radius": radius.astype(np.float32),
        "sign": np.sign(made[0].outer).astype(np.float32),
    }
    normals = np.arctan2(data.inputs[:, 1], data.inputs[:, 0])
    borders = np.concatenate([normals + np.pi / 2, normals - np.pi / 2])
    layers = [Layer("rays", "borders of the cones", "muted", {"angle": borders})]
    if vectors:
        found = np.array([np.arctan2(v.vector[1], v.vector[0]) for v in vectors])
        kinds = tuple(v.kind for v in vectors)
        layers.append(Layer("rays", "extremal vectors", "theory", {"angle": found}, names=kinds))
    layers.append(Layer("neurons", "neurons w_j", "network", blocks, moving=True))
    return View("neurons", "The neurons: angle and logarithm of the norm", tuple(layers), square=True)


def _exit(vectors: Sequence[ExtremalVector], scale: float, until: float) -> tuple[Layer, ...]:
    """Return the time ln(1/λ)/G_max at which the first neurons leave the small norms, if it is shown."""
    growth = max((float(np.linalg.norm(v.vector)) for v in vectors), default=0.0)
    if growth == 0 or not 0 < (time := np.log(1 / scale) / growth) < until:
        return ()
    return (Layer("marks", "ln(1/λ)/G_max", "theory", {"x": np.array([time])}, names=("growth is due",)),)


def _sentences(
    end: ReLUNetwork, data: Dataset, losses: Floats, line: float, vectors: Sequence[ExtremalVector]
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
        Control("until", "until t", "t: time of the gradient flow", 100.0, 1.0, 2_000.0),
        Control("seed", "seed", "which random start", 0, 0, 9_999, whole=True),
    ),
    Handles(
        "function",
        "data points",
        ((-0.75, 1.1), (-0.5, 0.1), (0.125, 0.8)),
        (-10.0, 10.0),
        (-10.0, 10.0),
        most=40,
    ),
    run,
)
