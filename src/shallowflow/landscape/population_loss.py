"""L = ½∫(f − f*)² over [0, 1]^d, exactly, for the networks and targets of [two_timescale]."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats, shown
from shallowflow.data.targets import Additive, PiecewiseAffine, PiecewiseConstant
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.population import step_loss, swept
from shallowflow.models.networks import AdditiveStepNetwork, KnotNetwork, Network, StepNetwork

Target = PiecewiseConstant | PiecewiseAffine | Additive
GAUSS = np.polynomial.legendre.leggauss(2)


def population_loss(network: Network, target: Target) -> float:
    """Return ½∫(f − f*)² over [0, 1]^d for the pairs that [two_timescale] trains.

    `StepNetwork` with `PiecewiseConstant`; `AdditiveStepNetwork` with an `Additive` of those; `KnotNetwork`
    with `PiecewiseAffine`.

    Examples
    --------
    >>> population_loss(StepNetwork([0.5], [1.0]), PiecewiseConstant([0.25], [0.0, 1.0]))
    0.125
    """
    if isinstance(network, StepNetwork) and isinstance(target, PiecewiseConstant):
        return step_loss(network, target)
    if isinstance(network, KnotNetwork) and isinstance(target, PiecewiseAffine):
        return _knot_loss(network, target)
    if isinstance(network, AdditiveStepNetwork) and isinstance(target, Additive):
        return _additive_loss(network, target)
    raise InvalidInputError(
        "network, target: must be a StepNetwork with a PiecewiseConstant, an AdditiveStepNetwork with an "
        f"Additive, or a KnotNetwork with a PiecewiseAffine; got {type(network).__name__}, {shown(target)}"
    )


def _additive_loss(network: AdditiveStepNetwork, target: Additive) -> float:
    """Return ½(Σ_k Var g_k + (offset + Σ_k E g_k)²): the parts g_k of the residual are independent."""
    if target.dimension != network.dimension:
        raise InvalidInputError(
            f"target: must have the network's dimension {network.dimension}, got {target.dimension}"
        )
    mean, variance = float(network.offset), 0.0
    for k, component in enumerate(target.components):
        if not isinstance(component, PiecewiseConstant):
            raise InvalidInputError(f"target: components must be PiecewiseConstant, got {shown(component)}")
        _, half_square, gradient, _ = swept(network.coordinate(k), component)
        part = float(gradient[0])  # the gradient in the offset is ∫g_k
        mean += part
        variance += 2.0 * half_square - part * part
    return 0.5 * (variance + mean * mean)


def _knot_loss(network: KnotNetwork, target: PiecewiseAffine) -> float:
    """Return ½∫r² with r affine between knots and breakpoints: two-point Gauss quadrature is exact."""
    inside = np.concatenate([network.knots, target.breakpoints])
    edges = np.unique(np.concatenate([[0.0, 1.0], inside[(inside > 0) & (inside < 1)]]))
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    total = 0.0
    for node, weight in zip(*GAUSS, strict=True):
        x: Floats = middle + node * half
        total += float(np.sum(weight * half * (network(x) - target(x)) ** 2))
    return 0.5 * total
