"""When neurons arrive at the jumps of a target, and whether they stay: two phases, [two_timescale] B.3."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shallowflow.data.targets import PiecewiseConstant
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import check_steps
from shallowflow.models.networks import StepNetwork


class Arrival(NamedTuple):
    """What happens at one jump.

    jump: its place v; neuron: the one that arrives; time: T_i, when it is first within η/2 of v (inf: none
    was, up to the end); wandering: the largest distance to v that it has afterwards, in units of η (the proof
    allows 1; NaN without an arrival).
    """

    jump: float
    neuron: int
    time: float
    wandering: float


def arrivals(trajectory: Trajectory, target: PiecewiseConstant) -> list[Arrival]:
    """Return for every jump of the target when a neuron arrives, at recorded times; needs η > 0.

    The first phase of a jump ends at T_i; in the second the neuron stays within η of the jump.
    """
    first = trajectory.initial
    check_steps(first, target)
    assert isinstance(first, StepNetwork)
    if first.sharpness == 0:
        raise InvalidInputError("trajectory: must be of a network with sharpness > 0, got 0")
    times = trajectory.path.times
    places = np.array([trajectory(float(t)).parameters["positions"] for t in times])
    found = []
    for v in target.breakpoints:
        far = np.abs(places - v) / first.sharpness
        inside = far <= 0.5
        if not inside.any():
            found.append(Arrival(float(v), -1, np.inf, np.nan))
            continue
        when = int(np.argmax(inside.any(axis=1)))
        who = int(np.argmax(inside[when]))
        found.append(Arrival(float(v), who, float(times[when]), float(far[when:, who].max())))
    return found
