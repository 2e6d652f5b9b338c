"""Scene "two timescales": a step function drawn by hand, a fast outer layer, a slow inner one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import stochastic_descent
from shallowflow.dynamics.flow import population_flow, two_timescale_limit
from shallowflow.errors import InvalidInputError
from shallowflow.explorer.scene import (
    GRID,
    Control,
    Handles,
    Layer,
    Scene,
    Show,
    State,
    View,
    Watch,
    events_of,
    frame_times,
)
from shallowflow.models import StepNetwork, initialize

FLOW, SGD = "flow", "SGD"
TAU = "slow time τ = εt"
STEP = 1e-2
MOST_STEPS = 200_000_000


def run(state: State, watch: Watch) -> Show:
    """Train at a finite ε beside the limit ε → 0, [two_timescale] (1) and (6), in slow time τ = εt."""
    target, start = _target(state), _start(state)
    watch.parts(lambda so_far: _show(state, target, so_far, None))
    trained = _trained(state, start, target, watch)
    watch.show(_show(state, target, trained, None))
    taus = frame_times(float(state["until"]))
    limit = two_timescale_limit(
        start, target, until=float(taus[-1]), record=Record.at(taus), progress=lambda share: watch(share)
    )
    return _show(state, target, trained, limit)


def preview(state: State) -> Show:
    """Return the run without the limit, by the flow."""
    return replace(_show(state, _target(state), _trained(state, _start(state), _target(state), None), None),
                   stage="preview")  # fmt: skip


def _show(state: State, target: PiecewiseConstant, trained: Trajectory, limit: Trajectory | None) -> Show:
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
        _sentences(made[-1], target, limit, trained),
        _code(state),
        events_of(limit) if limit is not None else (),
        trained,
        end=until,
        clock=1.0 / epsilon,
        stage="part" if limit is None else "whole",
    )


def _start(state: State) -> StepNetwork:
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


def _sentences(
    end: StepNetwork, target: PiecewiseConstant, limit: Trajectory | None, trained: Trajectory
) -> tuple[str, ...]:
    found = sum(bool(np.any(np.abs(end.positions - jump) < 0.02)) for jump in target.breakpoints)
    beside = "" if limit is None else f", in the limit at {limit.losses[-1]:.3g}"
    return (
        f"{found} of {len(target.breakpoints)} jumps have a neuron within 0.02.",
        f"The loss ends at {trained.losses[-1]:.3g}{beside}.",
    )


def _code(state: State) -> str:
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
    run,
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
    preview=preview,
)
