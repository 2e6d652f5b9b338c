"""One training in one dimension, by SGD or by the exact flow, and the numbers that its end is judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from shallowflow.arrays import Bools
from shallowflow.dynamics.limits.two_timescale import hitting_times
from shallowflow.dynamics.population import population_flow
from shallowflow.dynamics.record import Record
from shallowflow.dynamics.stochastic import stochastic_descent
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.experiments.two_timescale.settings import NAMED, covered, squared_distance
from shallowflow.models import StepNetwork, initialize

SGD, FLOW = "SGD", "exact flow"
LAST = Record.geometric(2, networks=False)


def start_of(parameters: Mapping[str, Any], start: int) -> StepNetwork:
    """Return the network of a start: uniform positions, weights zero."""
    return initialize.uniform_positions(parameters["width"], sharpness=parameters["sharpness"], seed=start)


def train(
    parameters: Mapping[str, Any],
    seed: int | np.random.SeedSequence,
    record: Record = LAST,
    progress: Callable[[float], None] | None = None,
) -> Trajectory:
    """Train one network; time is that of the loss ½r².

    parameters: setting, method (SGD or FLOW), start, width, sharpness, epsilon, noise, and step, steps of
    the setting's own loss, which is the time for the flow, too.
    """
    setting = NAMED[parameters["setting"]]
    network, step = start_of(parameters, parameters["start"]), parameters["step"] * setting.loss_factor
    if parameters["method"] == FLOW:
        return population_flow(
            network,
            setting.target,
            until=step * parameters["steps"],
            epsilon=parameters["epsilon"],
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
        epsilon=parameters["epsilon"],
        noise=parameters["noise"],
        seed=seed,
        box_slope=setting.box_slope,
        record=record,
        progress=progress,
    )


def slow_time(parameters: Mapping[str, Any]) -> float:
    """Return the slow time τ = εt at the end of a training, in the clock of the loss ½r²."""
    setting = NAMED[parameters["setting"]]
    return float(setting.loss_factor * parameters["step"] * parameters["steps"] * parameters["epsilon"])


def foreseen(parameters: Mapping[str, Any]) -> Bools:
    """Return for every jump whether the limit with η = 0 reaches it in time, by its hitting time alone."""
    network = start_of(parameters, parameters["start"])
    times = hitting_times(network, NAMED[parameters["setting"]].target)
    return np.asarray(times <= slow_time(parameters))


def task(parameters: Mapping[str, Any], seed: np.random.SeedSequence) -> dict[str, float]:
    """Train; return ∫(f − f*)² at the end, the jumps without a neuron, and how many were foreseen rightly."""
    run = train(parameters, seed)
    setting = NAMED[parameters["setting"]]
    reached = covered(run.final, setting)
    return {
        "distance": squared_distance(run.final, setting),
        "missed": float((~reached).sum()),
        "as_foreseen": float((reached == foreseen(parameters)).sum()),
    }
