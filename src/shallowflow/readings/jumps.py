"""Jumps of a trajectory: which neuron fitted which points, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, FrozenArrays, Ints, probability, shown
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.paths import Replayed
from shallowflow.dynamics.clock.problem import check_problem
from shallowflow.dynamics.clock.trajectory import Trajectory, checked_trajectory
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
