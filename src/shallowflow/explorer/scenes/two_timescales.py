"""Scene "two timescales": a step function drawn by hand, a fast outer layer, a slow inner one."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.population import population_flow
from shallowflow.dynamics.stochastic import stochastic_descent
from shallowflow.dynamics.two_timescale import two_timescale_limit
from shallowflow.errors import InvalidInputError
from shallowflow.explorer.scene import Control, Handles, Layer, Progress, Scene, Show, State, View
from shallowflow.explorer.scenes.drawing import GRID, events_of, frame_times
from shallowflow.models import StepNetwork, initialize

FLOW, SGD = "flow", "SGD"
STEP = 1e-2
MOST_STEPS = 20_000_000


def run(state: State, progress: Progress) -> Show:
    """Train at a finite ε beside the limit ε → 0, [two_timescale] (1) and (6), in slow time τ = εt."""
    target = _target(state)
    start = initialize.uniform_positions(state["width"], sharpness=state["sharpness"], seed=state["seed"])
    until = float(state["until"])
    taus = frame_times(until)
    limit = two_timescale_limit(start, target, until=until, record=Record.at(taus))
    progress(0.2)
    trained = _trained(state, start, target, taus, progress)
    epsilon = 10.0 ** state["epsilon"]
    made = [_steps(trained(float(tau) / epsilon)) for tau in taus]
    ideal = [_steps(limit(float(min(tau, limit.path.times[-1])))) for tau in taus]
    x = np.linspace(0.0, 1.0, GRID)
    return Show(
        taus,
        (
            _function(x, made, ideal),
            _positions(taus, made, ideal, target),
            _loss(taus, trained, limit, epsilon),
        ),
        _sentences(made[-1], target, limit, trained),
        _code(state),
        events_of(limit),
        trained,
    )


def _target(state: State) -> PiecewiseConstant:
    """Return the steps through the points: each starts at its x and has the height y."""
    order = np.argsort(state.x)
    x, y = state.x[order], state.y[order]
    if np.any(np.diff(x) <= 0):
        raise InvalidInputError("points: no two steps may start at the same x")
    return PiecewiseConstant(x[1:], y)


def _trained(
    state: State, start: StepNetwork, target: PiecewiseConstant, taus: Floats, progress: Progress
) -> Trajectory:
    """Return the run at ε: the flow, or SGD with steps of 0.01."""
    epsilon, until = 10.0 ** state["epsilon"], float(taus[-1])

    def later(share: float) -> None:
        progress(0.2 + 0.8 * share)

    record = Record.at(taus / epsilon)
    if state["method"] == FLOW:
        return population_flow(
            start, target, until=until / epsilon, epsilon=epsilon, record=record, progress=later
        )
    steps = round(until / (epsilon * STEP))
    if steps > MOST_STEPS:
        raise InvalidInputError(f"epsilon: SGD would need {steps:,} steps here, more than {MOST_STEPS:,}")
    seed = state["seed"]
    return stochastic_descent(
        start, target, step=STEP, steps=steps, epsilon=epsilon, seed=seed, record=record, progress=later
    )


def _steps(network: object) -> StepNetwork:
    assert isinstance(network, StepNetwork)
    return network


def _function(x: Floats, made: list[StepNetwork], ideal: list[StepNetwork]) -> View:
    layers = (
        Layer(
            "curve",
            "limit ε → 0",
            "theory",
            {"x": x, "y": np.array([f(x[:, None]) for f in ideal])},
            moving=True,
        ),
        Layer(
            "curve", "network", "network", {"x": x, "y": np.array([f(x[:, None]) for f in made])}, moving=True
        ),
    )
    return View(
        "function", "The function; drag where the steps start", layers, "x", "f(x)", x_limits=(0.0, 1.0)
    )


def _positions(
    taus: Floats, made: list[StepNetwork], ideal: list[StepNetwork], target: PiecewiseConstant
) -> View:
    """Return the positions of the neurons over time, with the jumps of the target."""
    own, other = (np.array([f.positions for f in each]) for each in (made, ideal))
    layers = [Layer("levels", "jumps of the target", "muted", {"y": target.breakpoints})]
    layers += [
        Layer("curve", "limit" * (k == 0), "theory", {"x": taus, "y": other[:, k]})
        for k in range(other.shape[1])
    ]
    layers += [
        Layer("history", "network" * (k == 0), "network", {"x": taus, "y": own[:, k]})
        for k in range(own.shape[1])
    ]
    return View("positions", "Positions u_j", tuple(layers), "slow time τ = εt", "u_j", y_limits=(0.0, 1.0))


def _loss(taus: Floats, trained: Trajectory, limit: Trajectory, epsilon: float) -> View:
    layers = (
        Layer(
            "curve",
            "limit ε → 0",
            "theory",
            {"x": taus, "y": np.maximum(np.interp(taus, limit.times, limit.losses), 1e-16)},
        ),
        Layer(
            "history",
            "network",
            "network",
            {"x": taus, "y": np.maximum(np.interp(taus, epsilon * trained.times, trained.losses), 1e-16)},
        ),
    )
    return View("loss", "The loss", layers, "slow time τ = εt", "½ ∫ (f − f*)²", y_scale="log")


def _sentences(
    end: StepNetwork, target: PiecewiseConstant, limit: Trajectory, trained: Trajectory
) -> tuple[str, ...]:
    found = sum(bool(np.any(np.abs(end.positions - jump) < 0.02)) for jump in target.breakpoints)
    return (
        f"{found} of {len(target.breakpoints)} jumps have a neuron within 0.02.",
        f"The loss ends at {trained.losses[-1]:.3g}, in the limit at {limit.losses[-1]:.3g}.",
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
    Handles(
        "function",
        "steps: where they start, how high they are",
        ((0.0, 0.0), (0.3, 1.0), (0.55, 0.4), (0.8, 1.2)),
        (0.0, 0.999),
        (-10.0, 10.0),
        least=2,
        most=12,
    ),
    run,
)
