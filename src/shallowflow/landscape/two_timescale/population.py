"""Exact losses ½∫(f − f*)² over [0, 1]^d for the networks and targets of [two_timescale], and more for steps.

For a `StepNetwork` and a piecewise constant target also the gradient, H_η(u) and b_η(u) of App. A, and the
best weights; a = (offset, outer), neurons in the order of the network. The arithmetic is in
`kernels.steps.windows`.

**Beyond one dimension, and beyond steps**: gradients and best outer layers against targets, exactly.

Additive networks of steps: the coordinates of x ~ U[0, 1]^d are independent, so that with g_k = (part k of
the network) − (part k of the target) the loss is ½(Σ_k Var g_k + (offset + Σ_k E g_k)²). Its gradient in part
k is that of one dimension with the offset `offset` + Σ_{l≠k} E g_l, and the best outer weights and offset are
those of d problems of one dimension, the offsets added up: the two-timescale limit is a product.

Knots against a piecewise affine target: between knots and breakpoints residuals are affine, and Gauss's rule
of two points is exact for their products: L is the loss of a weighted data set of two points per piece.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, Ints, public, shown
from shallowflow.data.dataset import Additive, PiecewiseAffine, PiecewiseConstant
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import AdditiveStepNetwork, KnotNetwork, Network, Parameters, StepNetwork

SHARPEST = 1e-10
"""Sharpness below which gradients in the positions would be wrong by more than 10⁻⁶ of themselves."""
DOMAIN_FACTOR = 2.0
"""𝒰 is the set of positions with Δ(u) > 2η, [two_timescale] §5.1."""


def check_steps(network: object, target: object) -> None:
    """Refuse anything but a `StepNetwork` and a `PiecewiseConstant` target."""
    _step_network(network)
    if not isinstance(target, PiecewiseConstant):
        raise InvalidInputError(f"target: must be a PiecewiseConstant, got {shown(target)}")


def _step_network(network: object) -> StepNetwork:
    if not isinstance(network, StepNetwork):
        raise InvalidInputError(f"network: must be a StepNetwork, got {shown(network)}")
    return network


@dataclass(frozen=True, eq=False)
class _Sorted:
    """A network's arrays in the order of its positions: u (m,), a (m + 1,) with the offset first."""

    order: Ints
    u: Floats
    a: Floats

    @property
    def rows(self) -> Ints:
        """Where the entries of a belong in the network's own order, (m + 1,)."""
        return np.concatenate([[0], self.order + 1]).astype(np.int64)


def _sorted(network: StepNetwork) -> _Sorted:
    order = np.argsort(network.positions, kind="stable")
    a = np.concatenate([[float(network.offset)], network.outer[order]])
    return _Sorted(order, network.positions[order], a)


def swept(network: StepNetwork, target: PiecewiseConstant) -> tuple[_Sorted, float, Floats, Floats]:
    """Return the sorted arrays, L, and its gradients in a (m + 1,) and u (m,), in sorted order."""
    from shallowflow.kernels.steps.windows import sweep

    parts = _sorted(network)
    grad_a, grad_u = np.empty(network.width + 1), np.empty(network.width)
    loss = sweep(parts.u, parts.a, network.sharpness, target.breakpoints, target.values, grad_a, grad_u)
    return parts, float(loss), grad_a, grad_u


def step_loss(network: StepNetwork, target: PiecewiseConstant) -> float:
    """Return L = ½∫(f − f*)² over [0, 1], exactly; sharpness may be 0."""
    check_steps(network, target)
    return swept(network, target)[1]


@public
def population_gradient(network: StepNetwork, target: PiecewiseConstant) -> Parameters:
    """Return ∇L for every parameter array, exactly, [two_timescale] (10), (11); needs sharpness > 0.

    Examples
    --------
    >>> net = StepNetwork([0.5], [1.0], 0.0, 0.1)
    >>> gradient = population_gradient(net, PiecewiseConstant([0.25], [0.0, 1.0]))
    >>> float(gradient["positions"][0].round(12)), float(gradient["offset"].round(12))
    (0.5, -0.25)
    """
    check_steps(network, target)
    if network.sharpness == 0:
        raise InvalidInputError("network: sharpness must be > 0 for a gradient in the positions, got 0")
    check_resolved(network.sharpness)
    parts, _, grad_a, grad_u = swept(network, target)
    positions, outer = np.empty(network.width), np.empty(network.width)
    positions[parts.order], outer[parts.order] = grad_u, grad_a[1:]
    return {"positions": positions, "outer": outer, "offset": np.asarray(grad_a[0])}


def check_resolved(sharpness: float) -> None:
    """Refuse a sharpness whose windows u ± η/2 rounding blurs: u ∈ [0, 1] is known to 10⁻¹⁶, not to η."""
    if 0 < sharpness < SHARPEST:
        raise InvalidInputError(
            f"network: sharpness must be 0 or at least {SHARPEST:g}, below which rounding of the positions "
            f"blurs the steps (0 is the limit of small ones), got {sharpness:g}"
        )


@public
def feature_gram(network: StepNetwork) -> Floats:
    """Return H_η(u)_ij = ∫σ_η(x − u_i)σ_η(x − u_j) over [0, 1], (m + 1, m + 1), the constant feature first.

    It is the Hessian of L in a. For gaps ≥ η and windows inside [0, 1] it is H_0 − (5/56)η·diag(0, 1, …, 1)
    with H_0,ij = 1 − max(u_i, u_j, 0), [two_timescale] Lemma 2.
    """
    from shallowflow.kernels.steps.windows import gram

    parts = _sorted(_step_network(network))
    H = np.empty((network.width + 1, network.width + 1))
    H[np.ix_(parts.rows, parts.rows)] = gram(parts.u, network.sharpness)
    return H


@public
def feature_moments(network: StepNetwork, target: PiecewiseConstant) -> Floats:
    """Return b_η(u)_j = ∫f*(x)σ_η(x − u_j) over [0, 1], (m + 1,), the constant feature first."""
    check_steps(network, target)
    parts, ordered = _moments(network, target)
    moments = np.empty(network.width + 1)
    moments[parts.rows] = ordered
    return moments


def _moments(network: StepNetwork, target: PiecewiseConstant) -> tuple[_Sorted, Floats]:
    """Return the sorted arrays, and b_η(u) (m + 1,) in their order: minus the gradient in a at a = 0."""
    silent = network.moved({"outer": np.zeros(network.width), "offset": np.asarray(0.0)})
    parts, _, grad_a, _ = swept(silent, target)
    return parts, -grad_a


@public
def best_outer(network: StepNetwork, target: PiecewiseConstant) -> StepNetwork:
    """Return the network with a = a*(u) = argmin_a L(a, u), of minimal norm if H is singular.

    O(m) (tridiagonal in the plateau values) while neighbouring positions are η apart; else by the dense H.

    Examples
    --------
    >>> net = best_outer(StepNetwork([0.25, 0.75], [0.0, 0.0]), PiecewiseConstant([0.5], [0.0, 1.0]))
    >>> net.outer
    array([0.5, 0.5])
    """
    from shallowflow.kernels.steps.windows import best_plateaus

    check_steps(network, target)
    parts, moments = _moments(network, target)
    gaps, plateaus = np.diff(parts.u), np.empty(network.width + 1)
    apart = bool(np.all(gaps >= network.sharpness) and np.all(gaps > 0))
    outer = np.empty(network.width)
    if apart and best_plateaus(parts.u, network.sharpness, moments, plateaus):
        outer[parts.order], offset = np.diff(plateaus), float(plateaus[0])
    else:
        a = np.linalg.lstsq(feature_gram(network), feature_moments(network, target))[0].astype(np.float64)
        outer, offset = a[1:], float(a[0])
    return network.moved({"outer": outer, "offset": np.asarray(offset)})


@public
def separation(network: StepNetwork) -> float:
    """Return Δ(u), the least distance of two of u_0 = −η/2, u_1, …, u_m, u_{m+1} = 1 + η/2, §5.1."""
    half = 0.5 * _step_network(network).sharpness
    places = np.concatenate([[-half, 1.0 + half], network.positions])
    return float(np.min(np.diff(np.sort(places))))


@public
def well_separated(network: StepNetwork) -> bool:
    """Return whether u ∈ 𝒰: positions in [0, 1] with Δ(u) > 2η, where (5) is well defined, §5.1."""
    inside = np.all((_step_network(network).positions >= 0) & (network.positions <= 1))
    return bool(inside) and separation(network) > DOMAIN_FACTOR * network.sharpness


Target = PiecewiseConstant | PiecewiseAffine | Additive


@public
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
    for node in (-(3**-0.5), 3**-0.5):
        x: Floats = middle + node * half
        total += float(np.sum(half * (network(x) - target(x)) ** 2))
    return 0.5 * total


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
