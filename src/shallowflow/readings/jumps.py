"""Jumps of a trajectory: which neuron fitted which points, and when; and beside its limit, Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints, probability, shown
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.paths import Replayed
from shallowflow.dynamics.clock.problem import check_problem
from shallowflow.dynamics.clock.trajectory import Trajectory, checked_trajectory
from shallowflow.dynamics.saddle_to_saddle import SaddleToSaddle
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import LogScaledNetwork, Network, ReLUNetwork

FITTED = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Jumps(FrozenArrays):
    """Jumps in the order of time: times (J,) plain, neurons (J,), the points each has fitted.

    unfitted: points whose output ends below the threshold. Points with the label 0 are in neither.
    """

    times: Floats
    neurons: Ints
    fitted: tuple[Ints, ...]
    unfitted: Ints


def jumps(trajectory: Trajectory, dataset: Dataset, *, threshold: float = FITTED) -> Jumps:
    """Return the jumps of a flow or descent of a ReLU network, as [incremental] App. A reads them.

    A point is fitted if the output ends at a share `threshold` of its label or more, and belongs to the
    neuron with the largest share in that output; a neuron that owns points jumps when its squared norm
    reaches that share of its final value (for a lone jump that is the moment at which the output on its
    points reaches it).

    Examples
    --------
    >>> import shallowflow as sf
    >>> data = sf.Dataset([[1.0, 0.0], [0.0, 1.0]], [3.0, 4.0])
    >>> net = sf.LogScaledNetwork([[0.6, 0.8]], [1.0], [-2302.6])
    >>> found = sf.jumps(sf.gradient_flow(net, data, until=2000.0), data)
    >>> found.times.round(6), found.neurons, found.fitted  # (2302.6 + ½ ln 5)·2/5
    (array([921.361888]), array([0]), (array([0, 1]),))
    """
    threshold = probability(threshold, "threshold")
    final = checked_trajectory(trajectory).final
    if not isinstance(final, ReLUNetwork | LogScaledNetwork):
        raise InvalidInputError(
            f"trajectory: must be that of a ReLU network, got {shown(type(final).__name__)}"
        )
    check_problem(final, dataset, log_scaled=True)
    plain = final.to_relu() if isinstance(final, LogScaledNetwork) else final
    shares = plain.outer[:, None] * np.maximum(plain.preactivations(dataset.inputs), 0.0) * plain.scale
    # A label of zero is fitted by no neuron and missed by none.
    asked = dataset.targets != 0
    fitted = asked & (shares.sum(axis=0) * np.sign(dataset.targets) >= threshold * np.abs(dataset.targets))
    owners = np.argmax(shares * np.sign(dataset.targets), axis=0)
    neurons = np.unique(owners[fitted])
    times = _rise_times(trajectory, neurons, threshold)
    order = np.argsort(times, kind="stable")
    return Jumps(
        times[order],
        neurons[order],
        tuple(np.flatnonzero(fitted & (owners == j)) for j in neurons[order]),
        np.flatnonzero(asked & ~fitted),
    )


def fitted_points(network: Network, dataset: Dataset, *, threshold: float = FITTED) -> Bools:
    """Return which points are fitted, (n,): output ≥ threshold × label, ½ in [incremental] App. A.1."""
    outputs = network.predict(dataset.inputs) * np.sign(dataset.targets)
    return np.asarray(outputs >= threshold * np.abs(dataset.targets))


def log_norms(network: Network) -> Floats:
    """Return ln ‖w_j‖ of a ReLU network, (m,)."""
    if isinstance(network, LogScaledNetwork):
        return network.log_norms
    assert isinstance(network, ReLUNetwork)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.linalg.norm(network.inner, axis=1)))


def _rise_times(trajectory: Trajectory, neurons: Ints, threshold: float) -> Floats:
    """Return when the squared norm of each neuron last rises to this share of its final value."""
    path, read = trajectory.path, _reader(trajectory)
    if isinstance(path, Replayed):
        curves = path.values[:, :, 0]
    else:
        curves = np.array([log_norms(path(float(time))) for time in path.times])
    found = []
    for j in neurons:
        level = curves[-1, j] + 0.5 * np.log(threshold)
        below = np.flatnonzero(curves[:, j] < level)
        if not below.size:
            found.append(float(path.times[0]))
            continue
        start, end = float(path.times[below[-1]]), float(path.times[below[-1] + 1])
        found.append(_crossing(read, int(j), float(level), start, end))
    return np.array(found)


def _reader(trajectory: Trajectory) -> Callable[[float], Floats]:
    """Return ln ‖w_j‖ (up to what never changes: |a_j| for a path of log-norms) as a function of time."""
    path = trajectory.path
    if isinstance(path, Replayed):
        return lambda time: path.state(time)[:, 0]
    return lambda time: log_norms(path(time))


def _crossing(read: Callable[[float], Floats], neuron: int, level: float, start: float, end: float) -> float:
    """Return when a neuron's log-norm reaches a level between two times."""
    from scipy.optimize import brentq

    def excess(time: float) -> float:
        return float(read(time)[neuron]) - level

    return float(brentq(excess, start, end, xtol=1e-12 * max(end, 1e-300), rtol=1e-14))


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
