"""Paths: networks as a function of time, kept as arrays.

A path flattens the parameters of a network into one vector θ ∈ R^P (in the order of `PARAMETERS`).
`Snapshots` keeps θ at recorded times; `Polynomials` keeps one polynomial per step of an integrator, as its
values at the Chebyshev–Lobatto nodes of the step, so that the path can be read at any time at the
integrator's own accuracy. `dynamics.replayed.Replayed` keeps the state at the ends of steps and makes a step
again to read in between; `GroupPath` keeps wide networks by groups of neurons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Union

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays
from shallowflow.dynamics.group_path import GroupPath
from shallowflow.dynamics.nodes import lobatto_nodes as lobatto_nodes
from shallowflow.dynamics.nodes import lobatto_weights as lobatto_weights
from shallowflow.dynamics.nodes import within as within
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import Network

if TYPE_CHECKING:
    from shallowflow.dynamics.replayed import Replayed


def flatten(network: Network) -> Floats:
    """Return the parameters of a network as one vector (P,)."""
    return np.concatenate([np.ravel(values) for values in network.parameters.values()])


def unflatten(template: Network, theta: Floats) -> Network:
    """Return the network of `template`'s shape with parameters θ."""
    parameters, start = {}, 0
    for name, values in template.parameters.items():
        parameters[name] = theta[start : start + values.size].reshape(values.shape)
        start += values.size
    return template.moved(parameters)


@dataclass(frozen=True, eq=False, repr=False)
class Snapshots(FrozenArrays):
    """Networks at recorded times (K,), values (K, P); linear between neighbours.

    Between two consecutive steps of a descent the straight line is the descent itself; between sparser
    records it is an interpolation. With `sparse` (networks not recorded on the way) only the recorded times
    themselves may be asked for.
    """

    kind: ClassVar[str] = "snapshots"
    template: Network
    times: Floats
    values: Floats
    sparse: bool = False

    def __call__(self, time: float) -> Network:
        """Return the network at a time in [times[0], times[-1]]."""
        time = within(time, self.times)
        right = int(np.clip(np.searchsorted(self.times, time), 1, max(len(self.times) - 1, 1)))
        if len(self.times) == 1 or time <= self.times[right - 1]:
            return unflatten(self.template, self.values[right - 1])
        if time == self.times[right]:
            return unflatten(self.template, self.values[right])
        if self.sparse:
            raise InvalidInputError(
                f"t: networks were recorded at {len(self.times)} times only, none at {time:g}; "
                "run again with networks=True in the record"
            )
        share = (time - self.times[right - 1]) / (self.times[right] - self.times[right - 1])
        theta = (1 - share) * self.values[right - 1] + share * self.values[right]
        return unflatten(self.template, theta)

    def recorded(self) -> Floats:
        """Return θ at the recorded times, (K, P)."""
        return self.values


@dataclass(frozen=True, eq=False, repr=False)
class Polynomials(FrozenArrays):
    """One polynomial per step: times (s+1,), values (s, q, P) at the q Chebyshev–Lobatto nodes."""

    kind: ClassVar[str] = "polynomials"
    template: Network
    times: Floats
    values: Floats

    def __call__(self, time: float) -> Network:
        """Return the network at a time in [times[0], times[-1]]."""
        time = within(time, self.times)
        step = int(np.clip(np.searchsorted(self.times, time, side="right") - 1, 0, len(self.times) - 2))
        share = (time - self.times[step]) / (self.times[step + 1] - self.times[step])
        weights = lobatto_weights(share, self.values.shape[1])
        return unflatten(self.template, weights @ self.values[step])

    def recorded(self) -> Floats:
        """Return θ at the ends of the steps, (s+1, P)."""
        return np.concatenate([self.values[:, 0], self.values[-1:, -1]])


Path = Union[Snapshots, Polynomials, GroupPath, "Replayed"]


def snapshots(template: Network, times: list[float], values: list[Floats], *, sparse: bool) -> Snapshots:
    """Return a `Snapshots` from lists gathered during a run."""
    return Snapshots(template, np.array(times), np.array(values), sparse)
