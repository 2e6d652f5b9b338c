"""How far a run agrees with its limit: curves of the loss, jumps, growth and directions of neurons."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle
from shallowflow.models.networks import LogScaledNetwork, Network, ReLUNetwork
from shallowflow.readings.jumps import Jumps, log_norms


def largest_gap(times: Floats, first: Floats, second: Floats, since: float = 0.0) -> float:
    """Return max |first − second| of two curves over the times t ≥ since·T, T the last one; all (k,)."""
    return float(np.abs(first - second)[times >= since * times[-1]].max())


def mean_gap(times: Floats, first: Floats, second: Floats) -> float:
    """Return (1/T) ∫ |first − second| dt of two curves from time 0 to T, by the trapezoidal rule."""
    return float(np.trapezoid(np.abs(first - second), times) / times[-1])


def jump_times(found: Jumps, limit: SaddleToSaddle) -> Floats:
    """Return when the neurons of [incremental] Algorithm 1 jumped, in its order, (J,); NaN: not at all.

    Neurons that start alike form a group, and each of them stands for it.
    """
    when = dict(zip(limit.process.groups[found.neurons].tolist(), found.times.tolist(), strict=True))
    return np.array([when.get(int(neuron), np.nan) for neuron in limit.neurons])


class JumpAgreement(NamedTuple):
    """A run beside Algorithm 1.

    error: the median of |t/t_predicted − 1| over its jumps; ordered: the share of pairs of jumps that come in
    its order; points: the share of the points that are fitted by its neuron, or by none as predicted.
    """

    error: float
    ordered: float
    points: float


def jump_agreement(found: Jumps, limit: SaddleToSaddle, predicted: Floats) -> JumpAgreement:
    """Return how the jumps of a run agree with those of Algorithm 1, predicted at plain times (J,)."""
    times = jump_times(found, limit)
    first, second = np.triu_indices(len(times), 1)
    ordered = times[first] < times[second]
    owner, expected = (np.full(limit.dataset.size, -1) for _ in range(2))
    for neuron, chosen in zip(found.neurons, found.fitted, strict=True):
        owner[chosen] = limit.process.groups[neuron]
    for neuron, chosen in zip(limit.neurons, limit.process.fitted, strict=True):
        expected[chosen] = neuron
    return JumpAgreement(
        float(np.nanmedian(np.abs(times / predicted - 1))),
        float(ordered.mean()) if len(ordered) else 1.0,
        float(np.mean(owner == expected)),
    )


def growth_rates(trajectory: Trajectory, first: float, second: float) -> Floats:
    """Return the mean rates d ln‖w_j‖/dt of the neurons between two times, (m,)."""
    moved = log_norms(trajectory(second)) - log_norms(trajectory(first))
    return np.asarray(moved / (second - first))


def misdirections(network: Network, directions: Floats) -> Floats:
    """Return 1 − cos of the angle between w_j and a unit vector for every neuron, (m,)."""
    assert isinstance(network, ReLUNetwork | LogScaledNetwork)
    units = network.inner / np.linalg.norm(network.inner, axis=1, keepdims=True)
    return np.asarray(1 - np.sum(units * directions, axis=1))
