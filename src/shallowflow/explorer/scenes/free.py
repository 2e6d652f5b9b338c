"""Scene "free": points of your own, any network, loss and start; what happened, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.explorer.scene import Control, Handles, Layer, Progress, Scene, Show, State, View
from shallowflow.explorer.scenes.drawing import (
    curves,
    events_of,
    frames_of,
    grid_of,
    networks,
)
from shallowflow.models import KnotNetwork, LogisticLoss, Loss, Network, SquareLoss, initialize

STARTS = ("balanced", "dominated", "gaussian")
STEPS = 10_000
LOSSES: dict[str, Loss] = {"square": SquareLoss(), "logistic": LogisticLoss()}


def run(state: State, progress: Progress) -> Show:
    """Train on the points by flow or descent, and tell how it went."""
    knots = state["network"] == "knots"
    data = Dataset(state.x[:, None], _targets(state))
    data = data if knots else data.with_bias()
    until, loss = float(state["until"]), LOSSES[state["loss"]]
    options: dict[str, Any] = {"loss": loss, "record": frames_of(until), "progress": progress}
    start = _start(state)
    if state["method"] == "flow":
        trajectory = gradient_flow(start, data, until=until, **options)
    else:
        trajectory = gradient_descent(start, data, step=until / STEPS, steps=STEPS, **options)
    times, made = networks(trajectory, until)
    grid = grid_of(state)
    losses = np.array([loss.value(network(data.inputs), data.targets) for network in made])
    function = Layer("curve", "network", "network", {"x": grid, "y": curves(made, grid)}, moving=True)
    limits = float(grid[0]), float(grid[-1])
    history = Layer("history", "loss", "network", {"x": times, "y": np.maximum(losses, 1e-16)})
    return Show(
        times,
        (
            View("function", "The function", (function,), "x", "f(x)", x_limits=limits),
            View("loss", "The loss", (history,), "time t", "loss", y_scale="log"),
        ),
        (
            f"Engine {trajectory.statistics['engine']!r}; {trajectory.outcome}",
            f"The loss goes from {losses[0]:.4g} to {losses[-1]:.4g}; {len(trajectory.events)} events.",
        ),
        _code(state),
        events_of(trajectory),
        trajectory,
    )


def _targets(state: State) -> list[float]:
    """Return the heights; for the logistic loss their signs."""
    return [float(np.sign(y) or 1.0) if state["loss"] == "logistic" else float(y) for y in state.y]


def _start(state: State) -> Network:
    width, seed = state["width"], state["seed"]
    if state["network"] == "knots":
        drawn = initialize.he_knots(width, seed=seed)
        low, high = state.x.min(), state.x.max()
        return KnotNetwork((low + high) / 2 + ((high - low) / 2 or 1.0) * drawn.knots, drawn.outer)
    make = getattr(initialize, state["init"])
    network: Network = make(width, 2, init_scale=10.0 ** state["scale"], seed=seed)
    return network


def _code(state: State) -> str:
    until, knots = float(state["until"]), state["network"] == "knots"
    loss = {"square": "sf.SquareLoss()", "logistic": "sf.LogisticLoss()"}[state["loss"]]
    low, high = float(state.x.min()), float(state.x.max())
    middle, half, width, seed = (low + high) / 2, (high - low) / 2 or 1.0, state["width"], state["seed"]
    start = (
        f"drawn = sf.initialize.he_knots({width}, seed={seed})\n"
        f"net = sf.KnotNetwork({middle!r} + {half!r} * drawn.knots, drawn.outer)\n"
        if knots
        else f"net = sf.initialize.{state['init']}({width}, 2, "
        f"init_scale={10.0 ** state['scale']!r}, seed={seed})\n"
    )
    call = (
        f"run = sf.gradient_flow(net, data, until={until!r}, loss={loss})\n"
        if state["method"] == "flow"
        else f"run = sf.gradient_descent(net, data, step={until / STEPS!r}, steps={STEPS}, loss={loss})\n"
    )
    return (
        "import shallowflow as sf\n\n"
        f"data = sf.Dataset({[[x] for x, _ in state.points]}, {_targets(state)})"
        f"{'' if knots else '.with_bias()'}\n{start}{call}print(run.losses[-1])\n"
    )


FREE = Scene(
    "free",
    "Your own data",
    "Open a CSV file or place points, choose a network, a loss and a start, and see what training does.",
    (
        Control(
            "network",
            "network",
            "ReLU neurons with a bias, or knots on the line",
            "relu",
            choices=("relu", "knots"),
        ),
        Control(
            "method",
            "how",
            "gradient flow, or gradient descent in 10,000 steps",
            "flow",
            choices=("flow", "descent"),
        ),
        Control(
            "loss",
            "loss",
            "½ mean of squares; or logistic, for the signs of y",
            "square",
            choices=("square", "logistic"),
        ),
        Control(
            "init",
            "start",
            "balanced: |a_j| = ‖w_j‖; dominated: |a_j| ≥ ‖w_j‖; Gaussian",
            "balanced",
            choices=STARTS,
        ),
        Control(
            "scale",
            "start λ",
            "λ: size of the network at the start, as a power of ten",
            -1.0,
            -8.0,
            1.0,
            log=True,
        ),
        Control("width", "neurons m", "m: number of neurons", 50, 1, 2_000, whole=True),
        Control("until", "until t", "t: time of the flow", 50.0, 0.1, 5_000.0),
        Control("seed", "seed", "which random start", 0, 0, 9_999, whole=True),
    ),
    Handles(
        "function",
        "data points",
        tuple((round(-1 + 2 * k / 11, 3), round(abs(-1 + 2 * k / 11), 3)) for k in range(12)),
        (-1e6, 1e6),
        (-1e6, 1e6),
    ),
    run,
)
