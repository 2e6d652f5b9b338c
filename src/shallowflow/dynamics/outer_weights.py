"""The best outer weights for a given inner layer: the least-squares problem (4.1) of [plateau].

It is the baseline LSQ, the second half of every alternating step, and what Active Neuron Least Squares ends
with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.problem import check_problem
from shallowflow.models.networks import (
    AdditiveStepNetwork,
    KnotNetwork,
    Network,
    Parameters,
    ReLUNetwork,
    StepNetwork,
)


def least_squares_outer(network: Network, dataset: Dataset) -> Network:
    """Return the network with the outer weights (and offset) of least squares, of minimum norm: c = A⁺y.

    A_kj is the output of neuron j at input k. [plateau] (4.1). For a `KnotNetwork` by elimination along the
    knots, O(m + n), with the exact rank; for others by singular values, with rank decided at rounding.

    Examples
    --------
    >>> best = least_squares_outer(KnotNetwork([0.0, 1.0], [0.0, 0.0]), Dataset([[1.0], [2.0]], [3.0, 5.0]))
    >>> best.outer
    array([ 3., -1.])
    """
    check_problem(network, dataset)
    if isinstance(network, KnotNetwork):
        points = distinct_points(dataset)
        return network.moved({"outer": minimum_norm_outer(network.knots, points)})
    return network.moved(dense_outer(network, dataset.inputs, dataset.targets))


@dataclass(frozen=True, eq=False, repr=False)
class DistinctPoints:
    """Univariate data, equal inputs merged: Σ_i (f(x_i) − y_i)² = scatter + Σ_k weights_k (f(x_k) − y_k)².

    x: (k,) strictly increasing; y: (k,) mean targets; weights: (k,) how many samples; scatter: the sum of
    squared deviations from the means; first: (k,) the first sample of each.
    """

    x: Floats
    y: Floats
    weights: Floats
    scatter: float
    first: Ints


def distinct_points(dataset: Dataset) -> DistinctPoints:
    """Return the data of a one-dimensional data set, sorted and merged."""
    x, first, group, counts = np.unique(
        dataset.inputs[:, 0], return_index=True, return_inverse=True, return_counts=True
    )
    weights = counts.astype(np.float64)
    base = dataset.targets[first]
    means = base + np.bincount(group, dataset.targets - base[group]) / weights
    scatter = float(np.sum((dataset.targets - means[group]) ** 2))
    return DistinctPoints(x, means, weights, scatter, first)


def minimum_norm_outer(knots: Floats, points: DistinctPoints) -> Floats:
    """Return c = A⁺y (n,) for knots (n,) in any order."""
    from shallowflow.kernels.fitting.min_norm import minimum_norm

    order = np.argsort(knots, kind="stable")
    coefficients, _, _ = minimum_norm(knots[order], points.x, points.y, points.weights, 0)
    outer = np.empty_like(coefficients)
    outer[order] = coefficients
    return outer


def dense_outer(network: Network, inputs: Floats, targets: Floats) -> Parameters:
    """Return the minimum-norm outer layer of any network, by singular values."""
    if isinstance(network, AdditiveStepNetwork):
        steps = network.activation(inputs[:, None, :] - network.positions).reshape(len(inputs), -1)
        solution = _minimum_norm(np.column_stack([steps, np.ones(len(inputs))]), targets)
        return {"outer": solution[:-1].reshape(network.outer.shape), "offset": np.array(solution[-1])}
    z = network.preactivations(inputs).T
    if isinstance(network, ReLUNetwork):
        return {"outer": _minimum_norm(network.scale * network.activation(z), targets)}
    if isinstance(network, KnotNetwork):
        return {"outer": _minimum_norm(np.maximum(z, 0.0), targets)}
    assert isinstance(network, StepNetwork)  # log-scaled networks are refused at the border
    solution = _minimum_norm(np.column_stack([network.activation(z), np.ones(len(z))]), targets)
    return {"outer": solution[:-1], "offset": np.array(solution[-1])}


def _minimum_norm(features: Floats, targets: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(features, targets)[0], dtype=np.float64)
