"""Scenes on the line: "plateau" and "two timescales".

**Plateau**: a curve with knots, levels that the loss cannot undercut, and moves that leave them.

**Two timescales**: a step function drawn by hand, a fast outer layer, a slow inner one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset, PiecewiseConstant
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import stochastic_descent
from shallowflow.dynamics.flow import gradient_flow, population_flow, two_timescale_limit
from shallowflow.errors import InvalidInputError
from shallowflow.explorer.scene import (
    GRID,
    Action,
    Control,
    Handles,
    Layer,
    Point,
    Scene,
    Show,
    State,
    View,
    Watch,
    curves,
    events_of,
    frame_times,
    function_view,
    grid_of,
    loss_view,
    losses_of,
    networks,
)
from shallowflow.landscape import plateau_level
from shallowflow.models import KnotNetwork, StepNetwork, initialize
from shallowflow.readings.stages import Stage, stages

MOST_MOVES = 500
MOST_STAGES = 12
"""Borders of stages that are drawn, at most: those of the longest."""


def run_plateau(state: State, watch: Watch) -> Show:
    """Follow the flow of the knots up to a time, then move them one by one by ANLS, [plateau] §§3–4."""
    return _plateau_show(state, watch, staged=True)


def preview_plateau(state: State) -> Show:
    """Return the run without its stages: to find them takes longer than the flow."""
    return replace(_plateau_show(state, Watch(), staged=False), stage="preview")


def _plateau_show(state: State, watch: Watch, *, staged: bool) -> Show:
    data, start = Dataset(state.x[:, None], state.y), _start_knots(state)
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
        _plateau_sentences(made, losses, found, data, len(made) - reached),
        _plateau_code(state),
        tuple(events),
        kept,
        places={"knots": _places(start)},
    )


def _start_knots(state: State) -> KnotNetwork:
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


def _plateau_sentences(
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


def _plateau_code(state: State) -> str:
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
    run_plateau,
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
    preview_plateau,
)  # fmt: skip


FLOW, SGD = "flow", "SGD"
TAU = "slow time τ = εt"
STEP = 1e-2
MOST_STEPS = 200_000_000


def run_two_timescales(state: State, watch: Watch) -> Show:
    """Train at a finite ε beside the limit ε → 0, [two_timescale] (1) and (6), in slow time τ = εt."""
    target, start = _target(state), _start_steps(state)
    watch.parts(lambda so_far: _steps_show(state, target, so_far, None))
    trained = _trained(state, start, target, watch)
    watch.show(_steps_show(state, target, trained, None))
    taus = frame_times(float(state["until"]))
    limit = two_timescale_limit(
        start, target, until=float(taus[-1]), record=Record.at(taus), progress=lambda share: watch(share)
    )
    return _steps_show(state, target, trained, limit)


def preview_steps(state: State) -> Show:
    """Return the run without the limit, by the flow."""
    target = _target(state)
    trained = _trained(state, _start_steps(state), target, None)
    return replace(_steps_show(state, target, trained, None), stage="preview")


def _steps_show(
    state: State, target: PiecewiseConstant, trained: Trajectory, limit: Trajectory | None
) -> Show:
    """Return what there is: the run, or its first part, and the limit once it is there."""
    epsilon, until = 10.0 ** state["epsilon"], float(state["until"])
    taus = frame_times(until)
    taus = taus[taus <= epsilon * trained.path.times[-1] * (1 + 1e-12)]
    last = float(trained.path.times[-1])
    made = [_steps(trained(min(float(tau) / epsilon, last))) for tau in taus]
    ends = float(limit.path.times[-1]) if limit is not None else 0.0
    ideal = [_steps(limit(float(min(tau, ends)))) for tau in taus] if limit is not None else []
    return Show(
        taus,
        (
            _function(target, made, ideal),
            _positions(taus, made, ideal, target),
            _loss(taus, trained, limit, epsilon),
        ),
        _steps_sentences(made[-1], target, limit, trained),
        _steps_code(state),
        events_of(limit) if limit is not None else (),
        trained,
        end=until,
        clock=1.0 / epsilon,
        stage="part" if limit is None else "whole",
    )


def _start_steps(state: State) -> StepNetwork:
    return initialize.uniform_positions(state["width"], sharpness=state["sharpness"], seed=state["seed"])


def _target(state: State) -> PiecewiseConstant:
    """Return the steps through the points: each starts at its x and has the height y."""
    order = np.argsort(state.x)
    x, y = state.x[order], state.y[order]
    if np.any(np.diff(x) <= 0):
        raise InvalidInputError("points: no two steps may start at the same x")
    return PiecewiseConstant(x[1:], y)


def _trained(state: State, start: StepNetwork, target: PiecewiseConstant, watch: Watch | None) -> Trajectory:
    """Return the run at ε: the flow, or SGD with steps of 0.01 (a preview has no watch: the flow)."""
    epsilon, until = 10.0 ** state["epsilon"], float(state["until"])
    record = Record.at(frame_times(until) / epsilon)
    if state["method"] == FLOW or watch is None:
        return population_flow(
            start, target, until=until / epsilon, epsilon=epsilon, record=record, progress=watch
        )
    steps = round(until / (epsilon * STEP))
    if steps > MOST_STEPS:
        raise InvalidInputError(f"epsilon: SGD would need {steps:,} steps here, more than {MOST_STEPS:,}")
    seed = state["seed"]
    return stochastic_descent(
        start, target, step=STEP, steps=steps, epsilon=epsilon, seed=seed, record=record, progress=watch
    )


def _steps(network: object) -> StepNetwork:
    assert isinstance(network, StepNetwork)
    return network


def _function(target: PiecewiseConstant, made: list[StepNetwork], ideal: list[StepNetwork]) -> View:
    x = np.linspace(0.0, 1.0, GRID)
    edges = np.concatenate([[0.0], np.repeat(target.breakpoints, 2), [1.0]])
    layers = [Layer("curve", "target", "muted", {"x": edges, "y": np.repeat(target.values, 2)})]
    for each, label, tone in ((ideal, "limit ε → 0", "theory"), (made, "network", "network")):
        if each:
            values = np.array([f(x[:, None]) for f in each])
            layers.append(Layer("curve", label, tone, {"x": x, "y": values}, moving=True))
    title = "The function; drag where the steps start, or draw them"
    return View("function", title, tuple(layers), "x", "f(x)", x_limits=(0.0, 1.0))


def _positions(
    taus: Floats, made: list[StepNetwork], ideal: list[StepNetwork], target: PiecewiseConstant
) -> View:
    """Return the positions of the neurons over time, with the jumps of the target."""
    layers = [Layer("levels", "jumps of the target", "muted", {"y": target.breakpoints})]
    for each, label, tone, kind in (
        (ideal, "limit ε → 0", "theory", "curve"),
        (made, "network", "network", "history"),
    ):
        found = np.array([f.positions for f in each]).T
        layers += [Layer(kind, label * (k == 0), tone, {"x": taus, "y": u}) for k, u in enumerate(found)]
    return View(
        "positions", "Positions u_j", tuple(layers), TAU, "u_j", y_limits=(0.0, 1.0), timed=True
    )  # fmt: skip


def _loss(taus: Floats, trained: Trajectory, limit: Trajectory | None, epsilon: float) -> View:
    def read(times: Floats, losses: Floats) -> dict[str, Floats]:
        return {"x": taus, "y": np.maximum(np.interp(taus, times, losses), 1e-16)}

    layers = [Layer("history", "network", "network", read(epsilon * trained.times, trained.losses))]
    if limit is not None:
        layers.insert(0, Layer("curve", "limit ε → 0", "theory", read(limit.times, limit.losses)))
    return View("loss", "The loss", tuple(layers), TAU, "½ ∫ (f − f*)²", y_scale="log", timed=True)


def _steps_sentences(
    end: StepNetwork, target: PiecewiseConstant, limit: Trajectory | None, trained: Trajectory
) -> tuple[str, ...]:
    found = sum(bool(np.any(np.abs(end.positions - jump) < 0.02)) for jump in target.breakpoints)
    beside = "" if limit is None else f", in the limit at {limit.losses[-1]:.3g}"
    return (
        f"{found} of {len(target.breakpoints)} jumps have a neuron within 0.02.",
        f"The loss ends at {trained.losses[-1]:.3g}{beside}.",
    )


def _steps_code(state: State) -> str:
    target, epsilon, until = _target(state), 10.0 ** state["epsilon"], float(state["until"])
    call = (
        f"run = sf.population_flow(net, target, until={until / epsilon!r}, epsilon={epsilon!r})\n"
        if state["method"] == FLOW
        else f"run = sf.stochastic_descent(net, target, step={STEP}, "
        f"steps={round(until / (epsilon * STEP))}, epsilon={epsilon!r}, seed={state['seed']})\n"
    )
    return (
        "import shallowflow as sf\n\n"
        f"target = sf.PiecewiseConstant({target.breakpoints.tolist()}, {target.values.tolist()})\n"
        f"net = sf.initialize.uniform_positions({state['width']}, sharpness={state['sharpness']!r}, "
        f"seed={state['seed']})\n"
        f"limit = sf.two_timescale_limit(net, target, until={until!r})\n"
        f"{call}print(limit.losses[-1], run.losses[-1])\n"
    )


TWO_TIMESCALES = Scene(
    "two-timescales",
    "Two timescales",
    "Draw a step function. The outer layer is fast, the inner one slow: the smaller their ratio ε, the "
    "closer the network follows a limit in which every jump is found.",
    (
        Control(
            "epsilon",
            "ratio ε",
            "ε: speed of the inner layer over that of the outer one, a power of ten",
            -2.0,
            -5.0,
            0.0,
            log=True,
        ),
        Control("width", "neurons m", "m: number of neurons", 12, 1, 40, whole=True),
        Control("sharpness", "width η", "η: width of the neurons' steps", 0.02, 0.002, 0.1),
        Control("until", "until τ", "τ: slow time", 3.0, 0.1, 50.0),
        Control(
            "method",
            "how",
            "gradient flow, or stochastic descent with one sample per step",
            FLOW,
            choices=(FLOW, SGD),
        ),
        Control("seed", "seed", "which random start", 0, 0, 9_999, whole=True),
    ),
    (
        Handles(
            "function",
            "steps: where they start, how high they are",
            ((0.0, 0.0), (0.3, 1.0), (0.55, 0.4), (0.8, 1.2)),
            (0.0, 0.999),
            (-10.0, 10.0),
            least=2,
            most=12,
            stroke="steps",
        ),
    ),
    run_two_timescales,
    {
        "x": "input, between 0 and 1",
        "f": "output of the network, a sum of smooth steps",
        "f*": "the target, a step function",
        "u_j": "position of neuron j: where its step is",
        "ε": "speed of the inner layer over that of the outer one",
        "η": "width of the neurons' steps",
        "τ": "slow time, εt",
        "t": "time of the outer layer",
        "m": "number of neurons",
    },
    preview=preview_steps,
)
