"""Runs of the knot-flow kernel with defaults, and an independent smooth flow to compare them with."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.interpolate import BarycentricInterpolator

from shallowflow.kernels.knots import flow as kf
from shallowflow.kernels.knots.flow import NODES
from shallowflow.kernels.knots.stage import summarize
from tests.kernels.knots.knot_reference import FloatArray, IntArray, Stage


class Run:
    """A result, with the state at its end as attributes."""

    def __init__(self, result: kf.FlowResult) -> None:
        self.status, _, self.times, self.losses, self.nodes, self.event_times, self.events, self.counts = (
            result
        )
        self.knots, self.outer, self.held, self.t, self.h = result.state

    def state_at(self, t: float) -> FloatArray:
        """Knots and outer weights at time t, from the stored interpolants."""
        step = min(max(int(np.searchsorted(self.times, t, side="right")) - 1, 0), len(self.nodes) - 1)
        begin, end = self.times[step], self.times[step + 1]
        return np.asarray(BarycentricInterpolator(NODES, self.nodes[step])((t - begin) / (end - begin)))


def run(
    x: FloatArray,
    y: FloatArray,
    knots: FloatArray,
    outer: FloatArray,
    until: float,
    *,
    rates: tuple[float, float] = (1.0, 1.0),
    tolerance: float = 1e-10,
    held: IntArray | None = None,
    t: float = 0.0,
    h: float = 0.0,
    stop: float = 0.0,
    steps: int = 50_000,
    events: int = 50_000,
    ridge_side: int = 1,
    keep: bool = False,
) -> Run:
    state = kf.FlowState(knots, outer, np.full(knots.size, -1) if held is None else held, t, h)
    options = kf.Options(rates, (tolerance, tolerance), stop, steps, events, ridge_side, keep)
    return Run(kf.integrate(state, summarize(x, y), until, options))


def curve(task: str, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """x, y, knots, outer of a sine task with He initialisation ([plateau], section 5)."""
    width, size, waves = {"sin_pi": (10, 100, 1), "sin_5pi": (100, 500, 5)}[task]
    rng = np.random.default_rng(seed)
    x = np.linspace(-1, 1, size)
    knots, outer = rng.normal(0, np.sqrt(2), width), rng.normal(0, np.sqrt(2 / width), width)
    return x, np.sin(waves * np.pi * x), knots, outer


def tight(
    x: FloatArray,
    y: FloatArray,
    knots: FloatArray,
    outer: FloatArray,
    rates: tuple[float, float],
    times: FloatArray,
) -> FloatArray:
    """States (times, 2·width) of the smooth flow inside the first stage, by an independent stiff solver."""
    stage = Stage(x, y, knots, outer, np.full(knots.size, -1), x[:, None] > knots)
    scale = np.repeat(rates, knots.size)
    flow = solve_ivp(
        lambda _, s: -scale * stage.gradient(s),
        (0, times[-1]),
        np.concatenate([knots, outer]),
        method="Radau",
        rtol=1e-11,
        atol=1e-13,
        t_eval=times,
    )
    return np.asarray(flow.y.T)
