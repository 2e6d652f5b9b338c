"""Scene "plateau": a curve with knots, levels that the loss cannot undercut, and moves that leave them."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.explorer.scene import Control, Handles, Layer, Progress, Scene, Show, State
from shallowflow.explorer.scenes.drawing import (
    MOST_FRAMES,
    curves,
    events_of,
    frames_of,
    function_view,
    grid_of,
    loss_view,
    losses_of,
    networks,
)
from shallowflow.landscape import plateau_level
from shallowflow.models import KnotNetwork, initialize

FLOW, MOVES, BOTH = "flow", "moves", "flow, then moves"
MOST_MOVES = 500


def run(state: State, progress: Progress) -> Show:
    """Follow the flow of the knots, or move them one by one by ANLS, or the second after the first."""
    data = Dataset(state.x[:, None], state.y)
    start = _start(state)
    how, until = state["method"], float(state["until"])
    times, made, events, kept = np.zeros(1), [start], [], None
    if how != MOVES:
        kept = gradient_flow(start, data, until=until, record=frames_of(until), progress=progress)
        times, found = networks(kept, until)
        made = [network for network in found if isinstance(network, KnotNetwork)]
        events = list(events_of(kept))
    if how != FLOW:
        moved = _moves(made[-1], data, progress)
        # A move takes no time: on the page each has a hundredth of the run.
        unit = until / 100 if how == BOTH else 1.0
        later = times[-1] + unit * np.arange(1, len(moved.path.times))
        steps = (moved(float(t)) for t in moved.path.times[1:])
        made += [network for network in steps if isinstance(network, KnotNetwork)]
        events += [(float(t), f"move {k + 1}") for k, t in enumerate(later)]
        times = np.concatenate([times, later])
        kept = kept or moved
    grid = grid_of(state, 0.0)
    levels = np.array([plateau_level(network, data) for network in made])
    floor = Layer("history", "level of the pattern", "theory", {"x": times, "y": np.maximum(levels, 1e-16)})
    return Show(
        times,
        (
            function_view(grid, curves(made, grid), (_knots(made, data),)),
            loss_view(times, losses_of(made, data), (floor,), "time t" if how != MOVES else "moves"),
        ),
        _sentences(made, data, levels),
        _code(state),
        tuple(events),
        kept,
    )


def _start(state: State) -> KnotNetwork:
    """Return knots spread over the points; He's start is drawn on [−1, 1]."""
    drawn = initialize.he_knots(state["width"], seed=state["seed"])
    low, high = state.x.min(), state.x.max()
    middle, half = (low + high) / 2, (high - low) / 2 or 1.0
    return KnotNetwork(middle + half * drawn.knots, drawn.outer)


def _moves(network: KnotNetwork, data: Dataset, progress: Progress) -> Trajectory:
    return active_neuron_least_squares(network, data, max_iterations=MOST_MOVES, progress=progress)


def _knots(made: list[KnotNetwork], data: Dataset) -> Layer:
    """Return the knots, on the function."""
    knots = np.array([network.knots for network in made])
    heights = np.array([network(network.knots[:, None]) for network in made])
    return Layer("dots", "knots", "positive", {"x": knots, "y": heights}, moving=True)


def _sentences(made: list[KnotNetwork], data: Dataset, levels: Floats) -> tuple[str, ...]:
    losses = losses_of((made[0], made[-1]), data)
    alive = int(np.sum(made[-1].knots < data.inputs.max()))
    return (
        f"The loss goes from {losses[0]:.4g} to {losses[1]:.4g} in {len(made)} frames.",
        f"While no knot passes a point it cannot fall below {levels[-1]:.4g}.",
        f"{made[-1].width - alive} of {made[-1].width} knots lie right of all points: they do nothing.",
    )


def _code(state: State) -> str:
    low, high = float(state.x.min()), float(state.x.max())
    middle, half = (low + high) / 2, (high - low) / 2 or 1.0
    call = {
        FLOW: f"run = sf.gradient_flow(net, data, until={float(state['until'])!r})\n",
        MOVES: f"run = sf.active_neuron_least_squares(net, data, max_iterations={MOST_MOVES})\n",
        BOTH: f"run = sf.gradient_flow(net, data, until={float(state['until'])!r})\n"
        f"run = sf.active_neuron_least_squares(run.final, data, max_iterations={MOST_MOVES})\n",
    }[state["method"]]
    return (
        "import numpy as np\nimport shallowflow as sf\n\n"
        f"points = np.array({[list(point) for point in state.points]})\n"
        "data = sf.Dataset(points[:, :1], points[:, 1])\n"
        f"drawn = sf.initialize.he_knots({state['width']}, seed={state['seed']})\n"
        f"net = sf.KnotNetwork({middle!r} + {half!r} * drawn.knots, drawn.outer)\n"
        f"{call}print(run.losses[-1])\n"
    )


_X = np.linspace(-1.0, 1.0, 25)
PLATEAU = Scene(
    "plateau",
    "Plateaus",
    "A curve made of straight pieces that meet at knots. While no knot passes a data point the loss has "
    "a level below which it cannot fall. Moving knots on purpose (ANLS) leaves it at once.",
    (
        Control("width", "knots", "number of knots", 8, 1, 100, whole=True),
        Control("until", "until t", "t: time of the gradient flow", 200.0, 0.1, 100_000.0),
        Control(
            "method",
            "how",
            "gradient flow, moves of ANLS, or moves after the flow",
            FLOW,
            choices=(FLOW, MOVES, BOTH),
        ),
        Control("seed", "seed", "which random start", 0, 0, 9_999, whole=True),
    ),
    Handles(
        "function",
        "data points",
        tuple((round(float(x), 4), round(float(np.sin(np.pi * x)), 4)) for x in _X),
        (-10.0, 10.0),
        (-10.0, 10.0),
        least=2,
    ),
    run,
)
assert MOST_MOVES + 200 < MOST_FRAMES
