"""Gradients and best outer layers against targets beyond one dimension and beyond steps, exactly.

Additive networks of steps: the coordinates of x ~ U[0, 1]^d are independent, so that with g_k = (part k of
the network) − (part k of the target) the loss is ½(Σ_k Var g_k + (offset + Σ_k E g_k)²). Its gradient in part
k is that of one dimension with the offset `offset` + Σ_{l≠k} E g_l, and the best outer weights and offset are
those of d problems of one dimension, the offsets added up: the two-timescale limit is a product.

Knots against a piecewise affine target: between knots and breakpoints residuals are affine, and Gauss's rule
of two points is exact for their products: L is the loss of a weighted data set of two points per piece.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.targets import Additive, PiecewiseAffine, PiecewiseConstant
from shallowflow.landscape.two_timescale.population import (
    Target,
    best_outer,
    population_gradient,
    population_loss,
    swept,
)
from shallowflow.models.networks import AdditiveStepNetwork, KnotNetwork, Network, Parameters, StepNetwork


def parts_of(network: AdditiveStepNetwork, target: Additive) -> list[tuple[StepNetwork, PiecewiseConstant]]:
    """Return network and target of every coordinate; `population_loss` has refused others."""
    parts = []
    for k, component in enumerate(target.components):
        assert isinstance(component, PiecewiseConstant)
        parts.append((network.coordinate(k), component))
    return parts


def target_gradient(network: Network, target: Target) -> Parameters:
    """Return ∇L of ½∫(f − f*)² over [0, 1]^d for every pair that `population_loss` knows.

    Examples
    --------
    >>> net = KnotNetwork([0.0], [1.0])
    >>> gradient = target_gradient(net, PiecewiseAffine([0.0, 1.0], [0.0, 2.0]))
    >>> gradient["outer"].round(12), gradient["knots"].round(12)  # −∫x·x, ∫x
    (array([-0.33333333]), array([0.5]))
    """
    population_loss(network, target)  # refuses what does not fit
    if isinstance(network, AdditiveStepNetwork) and isinstance(target, Additive):
        return _additive_gradient(network, target)
    if isinstance(network, KnotNetwork) and isinstance(target, PiecewiseAffine):
        x, weights = knot_nodes(network, target)
        inputs = x[:, None]
        return network.pullback(inputs, weights * (network.predict(inputs) - target(x)))
    assert isinstance(network, StepNetwork)
    assert isinstance(target, PiecewiseConstant)
    return population_gradient(network, target)


def _additive_gradient(network: AdditiveStepNetwork, target: Additive) -> Parameters:
    parts = parts_of(network, target)
    # The gradient in the offset of a part without offset is E g_k.
    means = np.array([swept(part, component)[2][0] for part, component in parts])
    total = float(network.offset) + means.sum()
    positions, outer = np.empty_like(network.positions), np.empty_like(network.outer)
    for k, (part, component) in enumerate(parts):
        shifted = part.moved({"offset": np.asarray(total - means[k])})
        gradient = population_gradient(shifted, component)
        positions[:, k], outer[:, k] = gradient["positions"], gradient["outer"]
    return {"positions": positions, "outer": outer, "offset": np.asarray(total)}


def best_target_outer(network: Network, target: Target) -> Network:
    """Return the network with the outer layer of least ½∫(f − f*)², of minimum norm if it is not unique.

    Examples
    --------
    >>> best_target_outer(KnotNetwork([0.0], [0.0]), PiecewiseAffine([0.0, 1.0], [0.0, 2.0])).outer.round(12)
    array([2.])
    """
    population_loss(network, target)  # refuses what does not fit
    if isinstance(network, AdditiveStepNetwork) and isinstance(target, Additive):
        best = [best_outer(*part) for part in parts_of(network, target)]
        outer = np.column_stack([part.outer for part in best])
        return network.moved({"outer": outer, "offset": np.asarray(sum(float(p.offset) for p in best))})
    if isinstance(network, KnotNetwork) and isinstance(target, PiecewiseAffine):
        x, weights = knot_nodes(network, target)
        root = np.sqrt(weights)
        features = root[:, None] * np.maximum(x[:, None] - network.knots, 0.0)
        solution: Floats = np.linalg.lstsq(features, root * target(x))[0]
        return network.moved({"outer": np.asarray(solution, dtype=np.float64)})
    assert isinstance(network, StepNetwork)
    assert isinstance(target, PiecewiseConstant)
    return best_outer(network, target)


def knot_nodes(network: KnotNetwork, target: PiecewiseAffine) -> tuple[Floats, Floats]:
    """Return nodes and weights of a rule on [0, 1] that is exact for products of affine pieces."""
    inside = np.concatenate([network.knots, target.breakpoints])
    edges = np.unique(np.concatenate([[0.0, 1.0], inside[(inside > 0) & (inside < 1)]]))
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    node = 3**-0.5
    return np.concatenate([middle - node * half, middle + node * half]), np.concatenate([half, half])
