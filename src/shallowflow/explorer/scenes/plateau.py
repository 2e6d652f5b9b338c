"""Scene "plateau": a curve with knots, levels that the loss cannot undercut, and moves that leave them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.explorer.scene import (
    Action,
    Control,
    Handles,
    Layer,
    Point,
    Scene,
    Show,
    State,
    Watch,
    curves,
    events_of,
    function_view,
    grid_of,
    loss_view,
    losses_of,
    networks,
)
from shallowflow.landscape import plateau_level
from shallowflow.models import KnotNetwork, initialize
from shallowflow.readings.stages import Stage, stages

MOST_MOVES = 500
MOST_STAGES = 12
"""Borders of stages that are drawn, at most: those of the longest."""


def run(state: State, watch: Watch) -> Show:
    """Follow the flow of the knots up to a time, then move them one by one by ANLS, [plateau] §§3–4."""
    return _show(state, watch, staged=True)


def preview(state: State) -> Show:
    """Return the run without its stages: to find them takes longer than the flow."""
    return replace(_show(state, Watch(), staged=False), stage="preview")


def _show(state: State, watch: Watch, *, staged: bool) -> Show:
    data, start = Dataset(state.x[:, None], state.y), _start(state)
    until = float(state["until"])
    times, made, kept = np.zeros(1), [start], None
    found: tuple[Stage, ...] = ()
    events: list[tuple[float, str]] = []
    if until > 0:
        # Every step is kept, so that stages are known to the last digit.
        kept = gradient_flow(start, data, until=until, progress=lambda share: watch(share))
        times, read = networks(kept, until)
        made = [network for network in read if isinstance(network, KnotNetwork)]
        found = stages(kept, data, samples=5, rates=False) if staged else ()
        events = list(events_of(kept))
    reached = len(made)
    if state["moves"] > 0:
        moved = active_neuron_least_squares(
            made[-1], data, max_iterations=state["moves"], progress=lambda share: watch(share)
        )
        # A move takes no time: on the page each has a hundredth of the run.
        later = times[-1] + (until / 100 or 1.0) * np.arange(len(moved.path.times))
        steps = [moved(float(t)) for t in moved.path.times]
        made += [network for network in steps if isinstance(network, KnotNetwork)]
        events += _moves(moved, later)
        times, kept = np.concatenate([times, later]), moved
    floors = {"x": times[reached:], "y": np.array([plateau_level(one, data) for one in made[reached:]])}
    losses = losses_of(made, data)
    grid = grid_of(state.x, 0.0)
    drawn = curves(made, grid)
    return Show(
        times,
        (
            function_view(grid, drawn, (_knots(made, drawn),), "The function (△: knots at the start)"),
            loss_view(times, losses, _floors(found, floors), "time t, then moves"),
        ),
        _sentences(made, losses, found, data, len(made) - reached),
        _code(state),
        tuple(events),
        kept,
        places={"knots": _places(start)},
    )


def _start(state: State) -> KnotNetwork:
    """Return the knots that were placed, or knots spread over the points: He's start is drawn on [−1, 1]."""
    drawn = initialize.he_knots(state["width"], seed=state["seed"])
    placed = state.places["knots"]
    if placed:
        return KnotNetwork([x for x, _ in placed], initialize.he_knots(len(placed), seed=state["seed"]).outer)
    low, high = state.x.min(), state.x.max()
    middle, half = (low + high) / 2, (high - low) / 2 or 1.0
    return KnotNetwork(middle + half * drawn.knots, drawn.outer)


def _places(start: KnotNetwork) -> tuple[Point, ...]:
    return tuple((float(knot), 0.0) for knot in start.knots)


def _moves(run: Trajectory, later: Floats) -> list[tuple[float, str]]:
    """Return the moves in words: which knot passed which point, and what that did to the loss."""
    said = {"on": "now sees", "off": "no longer sees"}
    first = [(float(later[0]), "outer weights solved by least squares")]
    return first + [
        (
            float(later[k + 1]),
            f"move {k + 1}: knot {event.neuron + 1} {said[event.kind]} point {event.point + 1}, "
            f"loss {run.losses[k]:.4g} → {run.losses[k + 1]:.4g}",
        )
        for k, event in enumerate(run.events[: len(later) - 1])
    ]


def _knots(made: list[KnotNetwork], drawn: Floats) -> Layer:
    """Return the knots, on the function; those beyond the points do not stretch the picture."""
    knots = np.array([network.knots for network in made])
    heights = np.array([network(network.knots[:, None]) for network in made])
    shown = np.clip(heights, drawn.min(), drawn.max())
    return Layer("dots", "knots", "positive", {"x": knots, "y": shown}, moving=True)


def _floors(found: tuple[Stage, ...], moves: dict[str, Floats]) -> tuple[Layer, ...]:
    """Return the floor of every stage as stairs, the borders of the longest stages, the floors of moves."""
    ends = np.array([[stage.start, stage.end] for stage in found]).reshape(-1)
    levels = np.repeat([stage.level for stage in found], 2)
    stairs = {"x": np.append(ends, moves["x"]), "y": np.append(levels, moves["y"])}
    longest = sorted(found, key=lambda stage: -stage.length)[:MOST_STAGES]
    borders = np.array(sorted(stage.start for stage in longest if stage.start > 0))
    return (
        Layer("marks", "stages", "muted", {"x": borders}),
        Layer("curve", "floor of the stage", "theory", {**stairs, "y": np.maximum(stairs["y"], 1e-16)}),
    )


def _sentences(
    made: list[KnotNetwork], losses: Floats, found: tuple[Stage, ...], data: Dataset, moves: int
) -> tuple[str, ...]:
    idle = int(np.sum(made[-1].knots >= data.inputs.max()))
    said = [f"The loss goes from {losses[0]:.4g} to {losses[-1]:.4g}."]
    if found:
        longest = max(found, key=lambda stage: stage.length)
        said.append(
            f"{len(found)} stages without a knot passing a point; the longest from t = {longest.start:.4g} "
            f"to {longest.end:.4g}: there the loss cannot fall below {longest.level:.4g}."
        )
    if moves:
        said.append(f"{moves - 1} moves, each with the best outer weights.")
    return (*said, f"{idle} of {made[-1].width} knots lie right of all points: they do nothing.")


def _code(state: State) -> str:
    low, high = float(state.x.min()), float(state.x.max())
    middle, half = (low + high) / 2, (high - low) / 2 or 1.0
    placed, seed, until = state.places["knots"], state["seed"], float(state["until"])
    drawn = f"drawn = sf.initialize.he_knots({len(placed) or state['width']}, seed={seed})\n"
    knots = f"{[x for x, _ in placed]}" if placed else f"{middle!r} + {half!r} * drawn.knots"
    flow = f"run = sf.gradient_flow(net, data, until={until!r})\nnet = run.final\n" if until > 0 else ""
    moves = f"run = sf.active_neuron_least_squares(net, data, max_iterations={state['moves']})\n"
    printed = "print(run.losses[-1])\n" if until > 0 or state["moves"] else "print(net)\n"
    return (
        "import numpy as np\nimport shallowflow as sf\n\n"
        f"points = np.array({[list(point) for point in state.points]})\n"
        "data = sf.Dataset(points[:, :1], points[:, 1])\n"
        f"{drawn}net = sf.KnotNetwork({knots}, drawn.outer)\n"
        f"{flow}{moves if state['moves'] else ''}{printed}"
    )


_X = np.linspace(-1.0, 1.0, 25)
PLATEAU = Scene(
    "plateau",
    "Plateaus",
    "A curve made of straight pieces that meet at knots. While no knot passes a data point the loss has "
    "a floor below which it cannot fall. Drag knots or points; moving knots on purpose (ANLS) leaves a "
    "plateau at once.",
    (
        Control("width", "knots", "number of knots", 8, 1, 100, whole=True, bend=2),
        Control("until", "until t", "t: time of the gradient flow", 200.0, 0.0, 100_000.0, bend=5),
        Control(
            "moves", "moves", "moves of ANLS after the flow, at most", 0, 0, MOST_MOVES, whole=True, bend=3
        ),
        Control("seed", "seed", "which random start", 0, 0, 9_999, whole=True),
    ),
    (
        Handles(
            "function",
            "data points",
            tuple((round(float(x), 4), round(float(np.sin(np.pi * x)), 4)) for x in _X),
            (-10.0, 10.0),
            (-10.0, 10.0),
            least=2,
        ),
        Handles(
            "function",
            "knots at the start",
            (),
            (-100.0, 100.0),
            (0.0, 0.0),
            least=0,
            most=100,
            name="knots",
            horizontal=True,
            stroke="",
            drawn_by=("width", "seed"),
            counted_by="width",
        ),
    ),
    run,
    {
        "x": "input",
        "y": "target, the height of a data point",
        "f": "output of the network: straight pieces that meet at knots",
        "t": "time of the gradient flow",
        "ANLS": "Active Neuron Least Squares: the best move of one knot past one point, outer weights solved",
    },
    (
        Action("one move", "from what is shown: the best move of one knot past one point (ANLS)",
               now="until", adds={"moves": 1}, then="end"),
        Action("escape", "from what is shown: moves of ANLS until none helps", now="until",
               sets={"moves": MOST_MOVES}),
    ),
    preview,
)  # fmt: skip
