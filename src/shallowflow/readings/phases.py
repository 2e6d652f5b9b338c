"""The phases of a small network on the way to the least-squares line, [early_alignment] §4.1.

With 𝓘 the neurons that start with a_i > 0 and an active point, and β* the least-squares estimator:

    1   alignment: until τ = −ε ln λ / D_max; the neurons turn, their norms stay small (Lemma 4);
    2a  growth:    until Σ_{i∈𝓘} a_i² = ε₂ (Lemma 5);
    2b  fit:       until ‖β* − Σ_{i∈𝓘} a_i w_i‖ ≤ ε₃ (Lemma 6);
    3   local convergence, from then on (Lemma 7).

The paper's ε₂ and ε₃ are small constants without a number; here they are shares of ‖β*‖, which is what Σ
a_i² tends to. λ = √Σ_j a_j(0)² is the smallest initialisation scale for which (5) holds at this width. A
network with output factor s behaves like one with parameters √s·θ whose time runs s times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import positive
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.dynamics.clock.paths import Snapshots
from shallowflow.dynamics.clock.trajectory import Trajectory, checked_trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.balances import init_scale
from shallowflow.landscape.early_alignment.phase_state import largest_pull
from shallowflow.landscape.early_alignment.pulls import check_exponents
from shallowflow.landscape.early_alignment.spurious import least_squares
from shallowflow.landscape.geometry.activity import activity, check_relu
from shallowflow.models.networks import ReLUNetwork
from shallowflow.readings.settings import agreed

PHASES = ("1", "2a", "2b", "3")
BISECTIONS = 40


@dataclass(frozen=True)
class Phase:
    """One phase: name "1", "2a", "2b" or "3"; start and end in the trajectory's time.

    complete: whether the phase ended before the trajectory did (never for phase 3).
    """

    name: str
    start: float
    end: float
    complete: bool

    @property
    def length(self) -> float:
        """end − start."""
        return self.end - self.start


def phases(
    trajectory: Trajectory,
    dataset: Dataset,
    *,
    epsilon: float = 0.25,
    growth: float = 0.1,
    fit: float = 0.1,
    speed: float = 1.0,
) -> tuple[Phase, ...]:
    """Return the phases that a trajectory of a `ReLUNetwork` went through (square loss, ½·mean).

    epsilon: ε of Thm 1; growth, fit: ε₂ and ε₃ as shares of ‖β*‖; speed: of the flow, if the trajectory does
    not say. The last phase listed is the one in which the trajectory ends; on data unlike those of Thm 4 that
    may be an early one. Between two records of a descent the times are those of the straight line; without
    networks recorded on the way (`networks=False`) they are those of the records. Where the activation cones
    are too many to list D_max is the largest ‖D‖ that a search finds, and τ may be a little late.
    """
    first = check_relu(checked_trajectory(trajectory).initial, "trajectory")
    estimator = least_squares(checked_dataset(dataset)).coefficients
    size = float(np.linalg.norm(estimator))
    if size == 0:
        raise InvalidInputError("targets: the least-squares estimator is zero: there is nothing to grow to")
    thresholds = positive(growth, "growth") * size, positive(fit, "fit") * size
    active = (first.outer > 0) & np.any(activity(first, dataset.inputs) > 0, axis=1)
    begin, last = float(trajectory.path.times[0]), float(trajectory.path.times[-1])
    rate = positive(agreed(trajectory, "speed", speed, 1.0), "speed") * first.scale
    check_exponents(epsilon, 1.0)
    fastest, scale = largest_pull(dataset, slope=first.slope).value, init_scale(first)
    aligned = begin + (max(-epsilon * np.log(scale), 0.0) / fastest if fastest > 0 else np.inf) / rate

    def grown(network: ReLUNetwork) -> bool:
        return bool(network.scale * np.sum(network.outer[active] ** 2) >= thresholds[0])

    def fitted(network: ReLUNetwork) -> bool:
        line = network.scale * network.outer[active] @ network.inner[active]
        return bool(np.linalg.norm(estimator - line) <= thresholds[1])

    found, start = [], begin
    ends: tuple[Callable[[float], float | None], ...] = (
        lambda _: aligned if aligned <= last else None,
        lambda time: _first_time(trajectory, grown, time),
        lambda time: _first_time(trajectory, fitted, time),
        lambda _: None,
    )
    for name, find in zip(PHASES, ends, strict=True):
        end = find(start)
        found.append(Phase(name, start, last if end is None else end, end is not None))
        if end is None:
            break
        start = end
    return tuple(found)


def _first_time(trajectory: Trajectory, reached: Callable[[ReLUNetwork], bool], start: float) -> float | None:
    """Return the first time from `start` on at which `reached` is true, or None."""
    path = trajectory.path
    sparse = isinstance(path, Snapshots) and path.sparse
    times = [float(time) for time in path.times if time > start]
    before = start
    for time in times if sparse else [start, *times]:
        if not reached(check_relu(trajectory(time), "trajectory")):
            before = time
            continue
        if sparse or time == start:
            return time
        return _bisect(trajectory, reached, before, time)
    return None


def _bisect(
    trajectory: Trajectory, reached: Callable[[ReLUNetwork], bool], before: float, after: float
) -> float:
    for _ in range(BISECTIONS):
        middle = 0.5 * (before + after)
        if not before < middle < after:
            break
        if reached(check_relu(trajectory(middle), "trajectory")):
            after = middle
        else:
            before = middle
    return after
