"""The two readings of the experiments of [two_timescale]: as printed, and as the authors' code runs them.

One training in one dimension, by SGD or by the exact flow, and the numbers that its end is judged by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shallowflow.arrays import Bools
from shallowflow.data import PiecewiseConstant
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.flow import population_flow
from shallowflow.dynamics.stochastic import stochastic_descent
from shallowflow.dynamics.two_timescale import hitting_times
from shallowflow.experiments.experiment import Values
from shallowflow.experiments.figure import Panel, Series
from shallowflow.landscape import jump_distances, population_loss
from shallowflow.landscape.two_timescale.step_classes import fewest_per_piece
from shallowflow.models import Network, StepNetwork, initialize

SHARES = np.unique(np.concatenate([np.geomspace(1e-4, 1.0, 60), np.linspace(0.0, 1.0, 101)]))
"""When curves are recorded, as shares of the run."""
COMMON = {"width": 20, "sharpness": 4e-3, "noise": 1.0}
_SLOW = {**COMMON, "epsilon": 2e-5}
TWO_TIMESCALE = {
    "quick": {**_SLOW, "step": 1e-4, "steps": {"printed": 18_000_000, "authors": 17_500_000}},
    "paper": {**_SLOW, "step": 1e-5, "steps": {"printed": 180_000_000, "authors": 175_000_000}},
}
"""Table 1, for figures 3 and 4."""
MOST_LINES = 50
"""More neurons are shown by short lines: they would hide the functions."""
JUMPS = (0.2, 0.35, 0.5, 0.65, 0.8)
SGD, FLOW = "SGD", "exact flow"
LAST = Record.geometric(2, networks=False)
NEEDED = ("width", "sharpness", "noise", "epsilon", "step")
PUBLISHED = "published"
"""The start of the published figures 3 to 5: NumPy's RandomState(42) draws the positions."""
PUBLISHED_SEED = 42


@dataclass(frozen=True)
class Setting:
    """A reading: its target, the factor of the loss r²/2, and whether positions move by the box slope.

    loss_factor: 2 where the loss of a sample is r² instead of ½r²; all steps and times double.
    """

    name: str
    values: tuple[float, ...]
    loss_factor: float
    box_slope: bool

    @property
    def target(self) -> PiecewiseConstant:
        """The piecewise constant target in one dimension."""
        return PiecewiseConstant(JUMPS, self.values)


PRINTED = Setting("printed", (1.0, 4.0, 1.0, 2.0, 1.0, 4.0), 1.0, False)
AUTHORS = Setting("authors", (1.0, 5.0, 1.0, 3.0, 1.0, 5.0), 2.0, True)
SETTINGS = (PRINTED, AUTHORS)
NAMED = {setting.name: setting for setting in SETTINGS}


def covered(network: Network, setting: Setting) -> Bools:
    """Return for every jump whether a neuron is closer than the sharpness η."""
    assert isinstance(network, StepNetwork)
    return np.asarray(jump_distances(network, setting.target) < network.sharpness)


def squared_distance(network: Network, setting: Setting) -> float:
    """Return ∫(f − f*)², what the paper calls the L2 distance in one dimension."""
    return 2.0 * population_loss(network, setting.target)


def function_panel(network: Network, target: PiecewiseConstant, title: str, label: str = "SGD") -> Panel:
    """Show a network over its target, with a dashed line (a short one if many) at every neuron."""
    assert isinstance(network, StepNetwork)
    x = np.linspace(0.0, 1.0, 2001)
    bottom, top = min(float(target.values.min()), 0.0) - 0.4, float(target.values.max()) + 0.6
    lines = np.repeat(network.positions, 3)
    height = top if network.width <= MOST_LINES else bottom + 0.08 * (top - bottom)
    heights = np.tile([bottom, height, np.nan], network.width)
    series = (
        Series(lines, heights, "neuron positions", style="dashed", tone="muted", size=0.5),
        Series(x, target(x), "target", tone="sky", size=2.6),
        Series(x, network(x), label, tone="orange"),
    )
    return Panel(series, title, "x", "f(x)", x_limits=(0.0, 1.0), y_limits=(bottom, top))


def start_of(parameters: Values, start: int | str) -> StepNetwork:
    """Return the network of a start, `PUBLISHED` or a number: uniform positions, weights zero."""
    if start == PUBLISHED:
        drawn = np.sort(np.random.RandomState(PUBLISHED_SEED).rand(parameters["width"]))
        return StepNetwork(drawn, np.zeros(len(drawn)), 0.0, parameters["sharpness"])
    assert isinstance(start, int)
    return initialize.uniform_positions(parameters["width"], sharpness=parameters["sharpness"], seed=start)


def train(
    parameters: Values,
    seed: int | np.random.SeedSequence,
    record: Record = LAST,
    progress: Callable[[float], None] | None = None,
) -> Trajectory:
    """Train one network; time is that of the loss ½r².

    parameters: setting, method (SGD or FLOW), start, width, sharpness, epsilon, noise, and step, steps of
    the setting's own loss, which is the time for the flow, too.
    """
    setting, epsilon = NAMED[parameters["setting"]], parameters["epsilon"]
    network, step = start_of(parameters, parameters["start"]), parameters["step"] * setting.loss_factor
    if parameters["method"] == FLOW:
        return population_flow(
            network,
            setting.target,
            until=step * parameters["steps"],
            epsilon=epsilon,
            tolerance=1e-6,
            stiff=True,
            record=record,
            progress=progress,
        )
    return stochastic_descent(
        network,
        setting.target,
        step=step,
        steps=parameters["steps"],
        epsilon=epsilon,
        noise=parameters["noise"],
        seed=seed,
        box_slope=setting.box_slope,
        record=record,
        progress=progress,
    )


def slow_time(parameters: Values) -> float:
    """Return the slow time τ = εt at the end of a training, in the clock of the loss ½r²."""
    setting = NAMED[parameters["setting"]]
    return float(setting.loss_factor * parameters["step"] * parameters["steps"] * parameters["epsilon"])


def foreseen(parameters: Values) -> Bools:
    """Return for every jump whether the limit with η = 0 reaches it in time, by its hitting time alone."""
    network = start_of(parameters, parameters["start"])
    times = hitting_times(network, NAMED[parameters["setting"]].target)
    return np.asarray(times <= slow_time(parameters))


def task(parameters: Values, seed: np.random.SeedSequence) -> dict[str, float]:
    """Train; return ∫(f − f*)² at the end, the jumps without a neuron, and how many were foreseen rightly."""
    run = train(parameters, seed)
    setting = NAMED[parameters["setting"]]
    reached = covered(run.final, setting)
    return {
        "distance": squared_distance(run.final, setting),
        "missed": float((~reached).sum()),
        "as_foreseen": float((reached == foreseen(parameters)).sum()),
    }


def case(parameters: Values, setting: Setting, start: int | str, **changes: Any) -> dict[str, Any]:
    """Return the parameters of one training by SGD in a setting, with changes."""
    fixed = {name: parameters[name] for name in NEEDED}
    steps = parameters["steps"][setting.name]
    return {**fixed, "setting": setting.name, "method": SGD, "start": start, "steps": steps, **changes}


def two_per_piece(parameters: Values, start: int) -> bool:
    """Return whether §4.2's assumption holds for a start."""
    return fewest_per_piece(start_of(parameters, start).positions, PRINTED.target) >= 2
