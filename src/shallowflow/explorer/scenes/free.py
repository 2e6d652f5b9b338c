"""Scenes "free", points of your own, any network, loss, start and engine; and "saved", a run from a file.

`shown` draws any trajectory: the scene "saved" takes it for runs from a file.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset, PiecewiseConstant
from shallowflow.dynamics.baselines import adam
from shallowflow.dynamics.choice import names_of
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent, stochastic_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.errors import InvalidInputError, ShallowflowError
from shallowflow.explorer.scene import (
    COARSE,
    FRAMES,
    LIGHT,
    Control,
    Handles,
    Layer,
    Scene,
    Show,
    State,
    View,
    Watch,
    curve_of,
    curves,
    events_of,
    frame_times,
    grid_of,
    neurons_view,
    sketch,
)
from shallowflow.models import (
    KnotNetwork,
    LogisticLoss,
    Loss,
    Network,
    NormLoss,
    ReLUNetwork,
    SquareLoss,
    StepNetwork,
    initialize,
)
from shallowflow.readings.story import story

STARTS = ("balanced", "dominated", "gaussian", "he_uniform", "asymmetric")
SCALED = STARTS[:3]
"""Those that take a size."""
LEAK, SMOOTH = 0.1, 0.03
"""Slope of leaky neurons on their dark side; width of steps, as a share of the range of x."""
STEPS = 10_000
METHODS = {
    "flow": "gradient_flow",
    "descent": "gradient_descent",
    "SGD": "stochastic_descent",
    "Adam": "adam",
}
LOSSES: dict[str, tuple[Loss, str]] = {
    "square": (SquareLoss(), "sf.SquareLoss()"),
    "sum of squares": (SquareLoss("sum"), 'sf.SquareLoss("sum")'),
    "logistic": (LogisticLoss(), "sf.LogisticLoss()"),
    "norm": (NormLoss(), "sf.NormLoss()"),
}
ENGINES = tuple(dict.fromkeys(n for verb in ("gradient_flow", "gradient_descent") for n in names_of(verb)))
MOST_LINES = 60
"""Neurons whose sizes are drawn."""


def run(state: State, watch: Watch) -> Show:
    """Train on the points, and say how it went."""
    data, start, until = _data(state), _start(state, state["width"]), float(state["until"])
    step, method = until / STEPS, state["method"]
    unit = step if method == "Adam" else 1.0
    watch.parts(lambda so_far: replace(_drawn(so_far, unit), stage="part", end=until, code=""))
    options: dict[str, Any] = {"loss": LOSSES[state["loss"]][0], "progress": watch}
    options |= {"record": Record.at(frame_times(until) / unit), "engine": state["engine"]}
    if method == "flow":
        trajectory = gradient_flow(start, data, until=until, **options)
    elif method == "descent":
        trajectory = gradient_descent(start, data, step=step, steps=STEPS, **options)
    elif method == "SGD":
        trajectory = stochastic_descent(
            start, data, step=step, steps=STEPS, seed=state["seed"], **options
        )  # fmt: skip
    else:
        trajectory = adam(start, data, step=step, steps=STEPS, **options)
    drawn = _drawn(trajectory, unit)
    return replace(drawn, code=_code(state), sentences=(*drawn.sentences, *_story(trajectory)))


def preview(state: State) -> Show | None:
    """Return a descent of few neurons, where a flow takes long."""
    relu = state["network"] in ("relu", "leaky relu") and state["method"] == "flow"
    if not relu or state["loss"] == "norm" or state["width"] * len(state.points) <= LIGHT:
        return None
    start = _start(state, min(state["width"], COARSE))
    assert isinstance(start, ReLUNetwork)
    made = sketch(start, _data(state), float(state["until"]), LOSSES[state["loss"]][0])
    return None if made is None else replace(_drawn(made, 1.0), stage="preview")


def shown(trajectory: Trajectory) -> Show:
    """Return any trajectory as a show, with its story."""
    drawn = _drawn(trajectory, 1.0)
    return replace(drawn, sentences=(*drawn.sentences, *_story(trajectory)))


def _drawn(trajectory: Trajectory, unit: float) -> Show:
    """Return function, neurons or their sizes, and loss; `unit`: of the page's time, in the run's."""
    kept = trajectory.path.times
    if len(kept) > 2 * FRAMES:
        reached = frame_times(float(kept[-1] - kept[0])) + kept[0]
        kept = reached if not getattr(trajectory.path, "sparse", False) else kept[[0, -1]]
    made = [trajectory(float(time)) for time in kept]
    losses = np.interp(kept, trajectory.times, trajectory.losses)
    times: Floats = unit * kept
    positive = np.maximum(np.where(np.isfinite(losses), losses, 1e300), 1e-16)
    history = Layer("history", "loss", "network", {"x": times, "y": positive})
    views = (
        *_function(made, trajectory.setting.data),
        *_neurons(made, times),
        View("loss", "The loss", (history,), "time t", "loss L", y_scale="log", timed=True),
    )
    words = (
        f"Engine {trajectory.statistics.get('engine', '?')!r}; {trajectory.outcome}",
        f"The loss goes from {losses[0]:.4g} to {losses[-1]:.4g}; {len(trajectory.events)} events.",
    )
    events = tuple((unit * time, word) for time, word in events_of(trajectory))
    return Show(times, views, words, "", events, trajectory, clock=1.0 / unit)


def _function(made: list[Network], data: object) -> tuple[View, ...]:
    """Return the function, if it is a curve over a line."""
    drawn = [one for network in made if (one := curve_of(network)) is not None]
    layers: list[Layer] = []
    if isinstance(data, Dataset):
        x, flat = data.inputs[:, 0], data.dimension == 2 and bool(np.all(data.inputs[:, -1] == 1.0))
        if not drawn or not (data.dimension == 1 or flat):
            return ()
        layers.append(Layer("dots", "data", "data", {"x": x, "y": data.targets}))
        grid = grid_of(x)
    elif isinstance(data, PiecewiseConstant) and drawn:
        grid = np.linspace(0.0, 1.0, 2 * FRAMES + 1)
        layers.append(Layer("curve", "target", "muted", {"x": grid, "y": data(grid[:, None])}))
    else:
        return ()
    layers.append(Layer("curve", "network", "network", {"x": grid, "y": curves(drawn, grid)}, moving=True))
    limits = float(grid[0]), float(grid[-1])
    return (View("function", "The function", tuple(layers), "x", "f(x)", x_limits=limits),)


def _neurons(made: list[Network], times: Floats) -> tuple[View, ...]:
    """Return neurons of the plane by angle, others by their sizes |a_j|‖w_j‖."""
    plane = [one for one in made if isinstance(one, ReLUNetwork)]
    if plane and plane[0].inner.shape[1] == 2:
        return (neurons_view(plane),)
    if not plane:
        return ()
    with np.errstate(divide="ignore"):
        sizes = np.log10([np.abs(f.outer) * np.linalg.norm(f.inner, axis=1) for f in plane])
    lines = np.maximum(sizes, -320.0).T[:MOST_LINES]
    layers = [
        Layer("history", "neuron" * (k == 0), "network", {"x": times, "y": y}) for k, y in enumerate(lines)
    ]
    title = "Sizes of the neurons"
    return (View("sizes", title, tuple(layers), "time t", "log₁₀ |a_j| ‖w_j‖", timed=True),)


def _story(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the story of the run, where it has one."""
    try:
        tale = story(trajectory)
    except ShallowflowError as error:
        return (f"No story: {error}",)
    return tuple(line for line in tale.text().split("\n") if line)


def _data(state: State) -> Dataset:
    """Return the points; of their heights the signs, for the logistic loss; with a bias for ReLU networks."""
    data = Dataset(state.x[:, None], _targets(state))
    return data.with_bias() if "relu" in state["network"] else data


def _targets(state: State) -> list[float]:
    return [float(np.sign(y) or 1.0) if state["loss"] == "logistic" else float(y) for y in state.y]


def _spread(state: State) -> tuple[float, float]:
    low, high = float(state.x.min()), float(state.x.max())
    return low, (high - low) or 1.0


def _start(state: State, width: int) -> Network:
    seed, (low, reach) = state["seed"], _spread(state)
    if state["network"] == "knots":
        drawn = initialize.he_knots(width, seed=seed)
        return KnotNetwork(low + reach / 2 * (1 + drawn.knots), drawn.outer)
    if state["network"] == "steps":
        steps = initialize.uniform_positions(width, sharpness=SMOOTH, seed=seed)
        return StepNetwork(low + reach * steps.positions, steps.outer, 0.0, SMOOTH * reach)
    make, slope = getattr(initialize, state["init"]), LEAK * (state["network"] == "leaky relu")
    size = {"init_scale": 10.0 ** state["scale"]} if state["init"] in SCALED else {}
    network: Network = make(width, 2, slope=slope, seed=seed, **size)
    return network


def _code(state: State) -> str:
    until, (low, reach), width, seed = float(state["until"]), _spread(state), state["width"], state["seed"]
    kind, step = state["network"], float(state["until"]) / STEPS
    size = f"init_scale={10.0 ** state['scale']!r}, " if state["init"] in SCALED else ""
    start = {
        "knots": f"drawn = sf.initialize.he_knots({width}, seed={seed})\n"
        f"net = sf.KnotNetwork({low!r} + {reach / 2!r} * (1 + drawn.knots), drawn.outer)\n",
        "steps": f"drawn = sf.initialize.uniform_positions({width}, sharpness={SMOOTH}, seed={seed})\n"
        f"net = sf.StepNetwork({low!r} + {reach!r} * drawn.positions, drawn.outer, 0.0, "
        f"{SMOOTH * reach!r})\n",
    }.get(
        kind,
        f"net = sf.initialize.{state['init']}({width}, 2, {size}slope={LEAK * (kind == 'leaky relu')!r}, "
        f"seed={seed})\n",
    )
    how = f"until={until!r}" if state["method"] == "flow" else f"step={step!r}, steps={STEPS}"
    how += f", seed={seed}" if state["method"] == "SGD" else ""
    return (
        "import shallowflow as sf\n\n"
        f"data = sf.Dataset({[[x] for x, _ in state.points]}, {_targets(state)})"
        f"{'.with_bias()' if 'relu' in kind else ''}\n{start}"
        f"run = sf.{METHODS[state['method']]}(net, data, {how}, loss={LOSSES[state['loss']][1]}, "
        f"engine={state['engine']!r})\nprint(run.losses[-1])\n"
    )


FREE = Scene(
    "free",
    "Your own data",
    "Open a table with two columns or place points, choose a network, a loss, a start and an engine, and "
    "read the story of the run.",
    (
        Control("network", "network", "ReLU neurons with a bias, leaky ones (slope 0.1), knots, smooth steps",
                "relu", choices=("relu", "leaky relu", "knots", "steps")),
        Control("method", "how", "gradient flow; or 10,000 steps of descent, SGD (one point each) or Adam",
                "flow", choices=tuple(METHODS)),
        Control("loss", "loss L", "L: ½ mean or ½ sum of squares; logistic for the signs of y; ‖f − y‖/n",
                "square", choices=tuple(LOSSES)),
        Control("init", "start", "balanced: |a_j| = ‖w_j‖; dominated: |a_j| ≥ ‖w_j‖; Gaussian; others have a "
                "size of their own", "balanced", choices=STARTS),
        Control("engine", "engine", "what computes the run: auto takes the fastest that is exact", "auto",
                choices=ENGINES),
        Control("scale", "start λ", "λ: size of the network at the start, as a power of ten", -1.0, -8.0, 1.0,
                log=True),
        Control("width", "neurons m", "m: number of neurons", 50, 1, 2_000, whole=True, bend=3),
        Control("until", "until t", "t: time of the run", 50.0, 0.1, 5_000.0, bend=3),
        Control("seed", "seed", "which random start", 0, 0, 9_999, whole=True),
    ),
    (
        Handles(
            "function",
            "data points",
            tuple((round(-1 + 2 * k / 11, 3), round(abs(-1 + 2 * k / 11), 3)) for k in range(12)),
            (-1e6, 1e6),
            (-1e6, 1e6),
        ),
    ),
    run,
    {
        "x": "input",
        "y": "target, the height of a data point",
        "f": "output of the network",
        "w_j": "inner weights of neuron j",
        "a_j": "outer weight of neuron j",
        "n": "number of points",
        "t": "time: of the flow, or step × number of steps",
        "λ": "size of the network at the start",
        "L": "the loss",
        "m": "number of neurons",
        "SGD": "stochastic gradient descent: every step on one point",
    },
    preview=preview,
)  # fmt: skip


def opened(content: bytes, name: str) -> Show:
    """Return the run that a file holds; damaged and foreign files are refused by `Trajectory.load`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.trajectory"
        file.write_bytes(content)
        trajectory = Trajectory.load(file)
    code = f"import shallowflow as sf\n\nrun = sf.Trajectory.load({name!r})\nprint(run.losses[-1])\n"
    return replace(shown(trajectory), code=code)


def no_file(state: State, watch: Watch) -> Show:
    """Say that a file is needed."""
    raise InvalidInputError("saved: open a trajectory file first")


SAVED = Scene(
    "saved",
    "Saved run",
    "A run from a file. Play it, scrub it, read its story; to change something, open a scene.",
    (),
    (),
    no_file,
    FREE.letters,
)
