"""What the certificates of [weak_interaction] share: the paper's units, the start, a look at a trajectory.

A network with output factor s is the paper's network (factor 1/m) with parameters √(sm)·θ; along a flow at
`speed` v the paper's time is s·v·t. Curvatures are in the paper's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, positive
from shallowflow.certificates.certificate import Hypothesis, Promise
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import activity, check_relu
from shallowflow.landscape.weak_interaction.first_activation import correctly_activated
from shallowflow.landscape.weak_interaction.interactions import local_pl
from shallowflow.models.networks import ReLUNetwork
from shallowflow.readings.settings import agreed, resting_at

MOST_TIMES = 200
"""At most so many recorded times are looked at."""


def in_paper_units(network: ReLUNetwork) -> ReLUNetwork:
    """Return the same function with output factor 1/m."""
    factor = np.sqrt(network.scale * network.width)
    return ReLUNetwork(
        factor * network.inner, factor * network.outer, slope=network.slope, scale=1.0 / network.width
    )


def checked_start(network: ReLUNetwork | None, dataset: Dataset) -> ReLUNetwork | None:
    """Return the network in the paper's units after checking that it fits the data."""
    if network is None:
        return None
    check_relu(network, "network")
    if network.dimension != dataset.dimension:
        raise InvalidInputError(
            f"network: must take inputs of dimension {dataset.dimension}, got {network.dimension}"
        )
    return in_paper_units(network)


def given_start(network: ReLUNetwork | None, dataset: Dataset) -> ReLUNetwork:
    """Return the network in the paper's units, where a theorem is about nothing without one."""
    start = checked_start(check_relu(network), dataset)
    assert start is not None
    return start


@dataclass(frozen=True)
class Moment:
    """A recorded time in the paper's clock: the network, which neurons are active, its predictions, and μ.

    active: (m, n); curvature: None where the network fits exactly.
    """

    time: float
    network: ReLUNetwork
    active: Bools
    predictions: Floats
    curvature: float | None


def moments(trajectory: Trajectory, dataset: Dataset, speed: float) -> Iterator[Moment]:
    """Yield what was recorded, at evenly chosen times; speed: of the flow, if the run does not say."""
    speed = positive(agreed(trajectory, "speed", speed, 1.0), "speed")
    times = trajectory.path.times
    chosen = np.unique(np.linspace(0, len(times) - 1, min(len(times), MOST_TIMES)).astype(int))
    for time in times[chosen]:
        now = check_relu(trajectory(float(time)), "trajectory")
        network = in_paper_units(now)
        predictions = network.predict(dataset.inputs)
        exact = np.array_equal(predictions, dataset.targets)
        resting = resting_at(trajectory, float(time))
        yield Moment(
            float(time) * now.scale * speed,
            network,
            activity(network, dataset.inputs, resting=resting) > 0,
            predictions,
            None if exact else local_pl(network, dataset, resting=resting),
        )


def assumption_1(network: ReLUNetwork | None) -> Hypothesis:
    """Return |a_j| ≥ ‖w_j‖ for all neurons, with the smallest difference."""
    name = "Assumption 1: |a_j| ≥ ‖w_j‖ for every neuron: the smallest difference"
    if network is None:
        return Hypothesis(name, None, None, 0)
    margin = float(np.min(np.abs(network.outer) - np.linalg.norm(network.inner, axis=1)))
    size = float(np.max(np.abs(network.outer)))
    return Hypothesis(name, margin >= -1e-12 * size, margin, 0)


def event(network: ReLUNetwork | None, dataset: Dataset) -> Hypothesis:
    """Return the event 𝓘 of Lemma 5, with the number of samples that lack a neuron of their sign."""
    name = "the event 𝓘: samples without an active neuron of their sign"
    if network is None:
        return Hypothesis(name, None, None, 0)
    missing = int(np.sum(~correctly_activated(network, dataset)))
    return Hypothesis(name, missing == 0, missing, 0)


def relu(network: ReLUNetwork | None) -> Hypothesis:
    """Return that the activation is the ReLU."""
    slope = None if network is None else network.slope
    return Hypothesis("the activation is the ReLU: its leaky slope", slope is None or slope == 0, slope, 0)


def vanishing_loss(trajectory: Trajectory | None, accuracy: float) -> Promise:
    """Return the promise L → 0: kept if the loss fell to `accuracy` of its start, else not decided."""
    statement = "the loss tends to 0: its last value, relative to the first, to"
    if trajectory is None:
        return Promise(statement, 0)
    ratio = float(trajectory.losses[-1] / trajectory.losses[0]) if trajectory.losses[0] > 0 else 0.0
    return Promise(statement, 0, ratio, True if ratio <= accuracy else None)
