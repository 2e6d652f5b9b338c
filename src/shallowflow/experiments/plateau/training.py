"""What the experiments of [plateau] share: trainings in iterations and mean squared errors, shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.dynamics.clock.problem import Record
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.descent import gradient_descent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.experiments.claim import Claim, Interval
from shallowflow.experiments.experiment import Values
from shallowflow.experiments.figure import Panel, Series
from shallowflow.models import KnotNetwork, SquareLoss, initialize
from shallowflow.readings.curves import plateaus

RATE = 1e-3
STEP = 2 * RATE
"""The step on ½·mean that equals the paper's rate on the mean squared error."""
LOSS = SquareLoss()
SKETCH = {"points": tuple(float(k) for k in range(10)), "knots": (1.5, 3.25, 3.75, 5.5, 8.5)}
"""Five knots among ten points, as in Figures 3 and 6: U_2 is empty and U_5 has one point."""
MOSTLY = 0.5
"""What is published of one start is asked of most: of more than this share."""


@dataclass(frozen=True)
class Training:
    """A training run: its iterations (k,), mean squared errors (k,), and networks on the way."""

    name: str
    iterations: Floats
    errors: Floats
    trajectory: Trajectory

    @property
    def final(self) -> KnotNetwork:
        """The network at the end."""
        return self.network(float(self.iterations[-1]))

    @property
    def plateaus(self) -> list[tuple[float, float]]:
        """The plateaus of the error that it leaves again, in iterations."""
        return plateaus_left(self.iterations[1:], self.errors[1:])

    def network(self, iteration: float) -> KnotNetwork:
        """Return the network at a recorded iteration."""
        times, iterations = self.trajectory.times, self.iterations
        return knots(self.trajectory(float(times[int(np.searchsorted(iterations, iteration))])))

    def series(self, tone: str = "auto") -> Series:
        """Return the error curve, from the first iteration on."""
        return Series(self.iterations[1:], self.errors[1:], self.name, tone=tone)

    def graph(self, name: str, tone: str) -> Series:
        """Return the graph of the network at the end on [−1, 1]."""
        x = np.linspace(-1.0, 1.0, 1001)
        return Series(x, self.final(x), name, tone=tone)


def plateaus_left(times: Floats, losses: Floats) -> list[tuple[float, float]]:
    """Return the plateaus of a curve but for one at its beginning: on a log axis every curve begins flat."""
    return [(first, last) for first, last in plateaus(times, losses) if first > times[0]]


def knots(network: object) -> KnotNetwork:
    """Return the network as what it is."""
    assert isinstance(network, KnotNetwork)
    return network


def start_of(parameters: Values) -> KnotNetwork:
    """Return the initial network: its width and its seed."""
    return initialize.he_knots(parameters["width"], seed=parameters["seed"])


def descend(dataset: Dataset, parameters: Values, progress: Callable[[float], None]) -> Training:
    """Train by gradient descent at the paper's rate."""
    trajectory = gradient_descent(
        start_of(parameters),
        dataset,
        step=STEP,
        steps=parameters["steps"],
        record=Record.geometric(parameters["points"]),
        progress=progress,
    )
    return Training("GD", trajectory.times / STEP, 2 * trajectory.losses, trajectory)


def flow(dataset: Dataset, parameters: Values) -> Training:
    """Follow the flow for as long as descent would take `flow_steps` steps: its limit for small steps."""
    until = STEP * parameters["flow_steps"]
    times = np.geomspace(STEP, until, parameters["points"])
    run = gradient_flow(start_of(parameters), dataset, until=until, record=Record.at(times))
    return Training("gradient flow", run.times / STEP, 2 * run.losses, run)


def anls(dataset: Dataset, parameters: Values, progress: Callable[[float], None] | None = None) -> Training:
    """Train by active neuron least squares."""
    trajectory = active_neuron_least_squares(start_of(parameters), dataset, loss=LOSS, progress=progress)
    return Training("ANLS", trajectory.times, 2 * trajectory.losses, trajectory)


def many_starts(parameters: Values) -> list[dict[str, int]]:
    """Return the parameters for the seeds 0, 1, …, `starts` − 1."""
    return [{**parameters, "seed": seed} for seed in range(parameters["starts"])]


def error_panel(series: tuple[Series, ...], title: str = "loss") -> Panel:
    """Return mean squared errors over iterations."""
    return Panel(series, title, "iterations", "mean squared error", "log", "log")


def share_claim(
    statement: str,
    published: str,
    outcomes: Sequence[bool],
    least: float = MOSTLY,
    *,
    reason: str = "",
    words: str = "",
    ours: bool = False,
) -> Claim:
    """Return the claim that at least so large a share of cases has a property; open without cases.

    reason: said unless it holds; words: what else was measured.
    """
    counted = sum(bool(one) for one in outcomes)
    if not outcomes:
        limit = f"below {least:g}"
        return Claim(statement, published, "no case seen", None, "nothing to judge by", limit, ours)
    text = f"{counted} of {len(outcomes)}, share {{}}{'; ' * bool(words)}{words}"
    found = Interval.of_share(counted, len(outcomes))
    claim = Claim.that(statement, published, found, least=least, words=text, ours=ours)
    return claim if claim.holds else replace(claim, reason=reason)


def undecided(claim: Claim, reason: str) -> Claim:
    """Return the claim as open: what was run is too short to tell."""
    return replace(claim, holds=None, reason=reason)
