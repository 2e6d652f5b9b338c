"""How fast the layers of a network are: advice on ε, the step and the number of steps before a run.

For frozen inner parameters u the network is linear in its outer layer a: f = Φa, and with the weights W of
the samples the loss ½‖Φa − y‖²_W has the Hessian H = ΦᵀWΦ. The outer layer approaches its optimum a*(u) at
the eigenvalues of H, its **fast rates**, and descent needs a step below 2/λ_max(H). In the inner layer J =
∂f/∂u has the Gram matrix JᵀWJ; its eigenvalues at a = a*(u) are the **slow rates**, per unit of slow time τ
= εt, and descent with steps h (outer) and εh (inner) is stable below 2/(λ_max(H) + ε λ_max(JᵀWJ)), a bound
on the largest eigenvalue of the two together.

While u moves by u' = −∇_u L(a*(u), u), the optimum moves by da*/dτ and the outer layer lags behind it. In the
eigenvectors of H, with da*/dτ as it is now and a = a*(u) at first, after the slow time τ

    (a − a*)_i = −(ε/λ_i)(1 − e^{−λ_i τ/ε}) (da*/dτ)_i,   H (da*/dτ) = Φ'ᵀW(y − Φa*) − ΦᵀWΦ'a*,

Φ' the change of Φ along u'. The ε that is suggested lets this be 1 % of what the network says, in the
outputs: a direction that is too slow to follow counts by what it would have changed. Ours; [two_timescale]
App. B.6 has a time T_0 for the fast phase and App. C a step.

A target on [0, 1]^d is a weighted sample, too: Gauss's rule between all breakpoints is exact. For an additive
network rows of centred coordinates and one of means are: ‖Σ g_k‖² = (Σ E g_k)² + Σ Var g_k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, Ints, non_negative, positive, public, shown
from shallowflow.data.dataset import Additive, Dataset, PiecewiseAffine, PiecewiseConstant, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.two_timescale.population import (
    Target,
    check_resolved,
    knot_nodes,
    parts_of,
    population_loss,
    separation,
)
from shallowflow.landscape.two_timescale.step_classes import (
    checked_target,
    fast_time,
    step_class,
    times_by_neighbours,
)
from shallowflow.models.networks import AdditiveStepNetwork, KnotNetwork, Network, ReLUNetwork, StepNetwork

SHARE = 0.01
"""Part of itself by which the outer layer may lag behind, and to which the fast phase brings its error."""
SAFETY = 0.5
"""The step that is suggested, as a part of the largest stable one."""
SETTLED = 9.0 / 5.0
"""A step of weight s at its own jump has the curvature (9/5)s²/η in its position: ∫σ'² = 9/5."""


@dataclass(frozen=True, eq=False, repr=False)
class Timescales(FrozenArrays):
    """Rates of both layers at a network, and what follows from them for a run.

    fast (r,), slow (s,): rates of the outer and of the inner layer, ascending, those that are not 0;
    outer_step: 2/λ_max of the outer layer; curvature: the largest one of the inner layer at the present
    outer weights, at the best ones, and for steps against a target once they have settled at its jumps;
    fast_time: T₀, after which the outer layer's error has fallen to 1 % in the outputs; proven_fast_time:
    T₀ of [two_timescale] App. B.6 for positions with this Δ(u), nan where the theorem is silent; slow_time:
    in τ, until steps have reached the jumps of their target, else L/‖∇_u L‖², in which the loss would be
    gone at its present pace (inf at rest); drifts (r,): how fast the optimum moves in the directions of
    `fast`, in the outputs, as a part of them per τ.
    """

    fast: Floats
    slow: Floats
    outer_step: float
    curvature: float
    fast_time: float
    proven_fast_time: float
    slow_time: float
    drifts: Floats

    def lag(self, epsilon: float) -> float:
        """Return how far the outer layer is off its optimum after the slow time, as a part of the outputs."""
        ratio = positive(epsilon, "epsilon")
        late = self.drifts > 0
        rest = ratio / self.fast[late]
        return float(np.linalg.norm(self.drifts[late] * rest * -np.expm1(-self.slow_time / rest)))

    def step_limit(self, epsilon: float) -> float:
        """Return the step below which descent of both layers is stable, 2/(λ_outer + ε λ_inner)."""
        ratio = non_negative(epsilon, "epsilon")
        both = (2.0 / self.outer_step if self.outer_step > 0 else np.inf) + ratio * self.curvature
        return float(2.0 / both) if both > 0 else np.inf

    @property
    def inner_step(self) -> float:
        """The largest stable step εh of the inner layer alone, 2/λ_max."""
        return float(2.0 / self.curvature) if self.curvature > 0 else np.inf

    @property
    def epsilon(self) -> float:
        """The largest ε, at most 1, at which the outer layer lags by 1 %."""
        if self.lag(1.0) <= SHARE:
            return 1.0
        low, high = -300.0, 0.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.lag(10.0**middle) <= SHARE else (low, middle)
        return float(10.0**low)

    @property
    def step(self) -> float:
        """Half the stable step at the suggested ε."""
        return SAFETY * self.step_limit(self.epsilon)

    @property
    def steps(self) -> float:
        """How many such steps the fast phase and the slow one take; inf at rest."""
        return float(np.ceil((self.fast_time + self.slow_time / self.epsilon) / self.step))

    def text(self) -> str:
        """Return a table of all numbers."""
        rows = [
            ("fast rates", f"{self.fast[0]:.3g} to {self.fast[-1]:.3g}" if self.fast.size else "none"),
            (
                "slow rates (per τ)",
                f"{self.slow[0]:.3g} to {self.slow[-1]:.3g}" if self.slow.size else "none",
            ),
            ("fast time T₀", f"{self.fast_time:.3g}"),
            ("slow time τ", f"{self.slow_time:.3g}"),
            ("step of the outer layer below", f"{self.outer_step:.3g}"),
            ("step of the inner layer below", f"{self.inner_step:.3g}"),
            ("suggested ε", f"{self.epsilon:.2g}"),
            ("suggested step", f"{self.step:.2g}"),
            ("number of steps", f"{self.steps:.2g}"),
        ]
        if np.isfinite(self.proven_fast_time):
            rows.insert(3, ("T₀ of the theorem", f"{self.proven_fast_time:.3g}"))
        return "\n".join(f"{name:<30} {value}" for name, value in rows)

    __str__ = text


@public
def timescales(network: Network, data_or_target: Dataset | Target) -> Timescales:
    """Return the rates of both layers of a network on a data set (loss ½·mean) or a target (½∫), and advice.

    Examples
    --------
    >>> net = StepNetwork([0.2, 0.55, 0.8], [0.0, 0.0, 0.0], 0.0, 0.02)
    >>> found = timescales(net, PiecewiseConstant([0.5], [0.0, 1.0]))
    >>> print(found.text())
    fast rates                     0.0726 to 2.03
    slow rates (per τ)             0.00357 to 67.7
    fast time T₀                   39.2
    T₀ of the theorem              2.34e+04
    slow time τ                    0.118
    step of the outer layer below  0.984
    step of the inner layer below  0.0222
    suggested ε                    0.0016
    suggested step                 0.46
    number of steps                2.4e+02
    """
    sample = _sampled(network, data_or_target)
    root = np.sqrt(sample.weights)[:, None]
    left, sizes, right = np.linalg.svd(root * sample.features, full_matrices=False)
    kept = sizes > max(sample.features.shape) * np.finfo(float).eps * np.max(sizes, initial=0.0)
    left, sizes, right = left[:, kept], sizes[kept], right[kept]
    inside = left.T @ (root[:, 0] * sample.targets)  # the outputs that the outer layer can reach
    best = right.T @ (inside / sizes)
    residual = sample.targets - sample.features @ best
    jacobian = root * sample.slopes * best[sample.owners]
    velocity = jacobian.T @ (root[:, 0] * residual)
    present = root * sample.slopes * sample.outer[sample.owners]
    slow = _rates(jacobian)
    largest = max(
        float(np.max(slow, initial=0.0)), float(np.max(_rates(present), initial=0.0)), sample.settled
    )
    outputs = left.T @ (root[:, 0] * (sample.features @ sample.outer)) - inside
    loss = 0.5 * float(np.sum(sample.weights * residual**2))
    return Timescales(
        fast=sizes[::-1] ** 2,
        slow=slow,
        outer_step=float(2.0 / sizes[0] ** 2) if sizes.size else np.inf,
        curvature=largest,
        fast_time=_fast_time(outputs**2, sizes**2),
        proven_fast_time=sample.proven,
        slow_time=_slow_time(sample.arrival, loss, float(velocity @ velocity), sample.targets),
        drifts=_drifts(sample, best, velocity, (sizes, right))[::-1],
    )


@dataclass(frozen=True, eq=False)
class _Sample:
    """f = features @ outer at N points, and what a change of inner parameter i does to the feature owners[i].

    weights, targets (N,); features (N, p); slopes (N, q); owners (q,); outer (p,), the present one;
    settled: the curvature of a settled inner parameter; arrival: slow time until jumps are reached; proven:
    T₀ of App. B.6.
    """

    weights: Floats
    targets: Floats
    features: Floats
    slopes: Floats
    owners: Ints
    outer: Floats
    settled: float = 0.0
    arrival: float = np.nan
    proven: float = np.nan


def _rates(jacobian: Floats) -> Floats:
    """Return the eigenvalues of JᵀJ that are not 0, ascending."""
    values = np.linalg.svd(jacobian, compute_uv=False)[::-1] ** 2
    bound = (max(jacobian.shape) * np.finfo(float).eps) ** 2 * np.max(values, initial=0.0)
    rates: Floats = values[values > bound]
    return rates


def _fast_time(squares: Floats, rates: Floats) -> float:
    """Return when Σ squares·e^{−2·rates·t} has fallen to `SHARE`² of itself; 0 if there is nothing."""
    whole = float(squares.sum())
    if whole <= 1e-300:
        return 0.0
    low, high = 0.0, -np.log(SHARE) / float(rates.min())
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = float(squares @ np.exp(-2.0 * rates * middle)) <= SHARE**2 * whole
        low, high = (low, middle) if below else (middle, high)
    return float(high)


def _slow_time(arrival: float, loss: float, square: float, targets: Floats) -> float:
    """Return the arrival at jumps, or L/‖∇_u L‖²; where the loss is rounding, 0."""
    if np.isfinite(arrival):
        return arrival
    if loss <= 1e-25 * float(np.mean(targets**2)) or loss == 0.0:
        return 0.0
    return loss / square if square > 0 else np.inf


def _drifts(sample: _Sample, best: Floats, velocity: Floats, factors: tuple[Floats, Floats]) -> Floats:
    """Return √λ_i |da*/dτ|_i/‖Φa*‖, in the order of the singular values."""
    values, right = factors
    size = float(np.linalg.norm(values * (right @ best)))
    if size == 0.0:
        return np.zeros(len(values))
    change = np.zeros_like(sample.features)
    np.add.at(change.T, sample.owners, (sample.slopes * velocity).T)
    weighted = sample.weights * (sample.targets - sample.features @ best)
    force = change.T @ weighted - sample.features.T @ (sample.weights * (change @ best))
    drifts: Floats = np.abs(right @ force) / values / size
    return drifts


def _sampled(network: Network, where: Dataset | Target) -> _Sample:
    """Return the network on its data or target as a weighted sample; refuse what does not fit."""
    if isinstance(network, StepNetwork | AdditiveStepNetwork):
        if network.sharpness == 0:
            raise InvalidInputError("network: sharpness must be > 0 to be trained by gradients, got 0")
        check_resolved(network.sharpness)
    if not isinstance(network, StepNetwork | AdditiveStepNetwork | KnotNetwork | ReLUNetwork):
        raise InvalidInputError(f"network: must not be log-scaled for timescales, got {shown(network)}")
    if isinstance(where, Dataset):
        data = checked_dataset(where)
        if data.dimension != network.dimension:
            raise InvalidInputError(
                f"data: must have the network's dimension {network.dimension}, got {data.dimension}"
            )
        return _at(network, data.inputs, np.full(data.size, 1.0 / data.size), data.targets)
    population_loss(network, where)  # refuses what does not fit
    if isinstance(network, AdditiveStepNetwork) and isinstance(where, Additive):
        return _additive(network, where)
    if isinstance(network, KnotNetwork) and isinstance(where, PiecewiseAffine):
        x, weights = knot_nodes(network, where)
        return _at(network, x[:, None], weights, where(x))
    assert isinstance(network, StepNetwork)
    assert isinstance(where, PiecewiseConstant)
    return _steps(network, where)


def _at(network: Network, inputs: Floats, weights: Floats, targets: Floats) -> _Sample:
    """Return a network at given points."""
    numbers = np.arange(network.width)
    if isinstance(network, AdditiveStepNetwork):
        z = (inputs[:, None, :] - network.positions).reshape(len(inputs), -1)
        features = np.column_stack([network.activation(z), np.ones(len(z))])
        outer = np.append(network.outer.ravel(), network.offset)
        owners = np.arange(z.shape[1])
        return _Sample(weights, targets, features, -network.activation.derivative(z), owners, outer)
    z = network.preactivations(inputs).T
    if isinstance(network, StepNetwork):
        features = np.column_stack([network.activation(z), np.ones(len(z))])
        outer = np.append(network.outer, network.offset)
        return _Sample(weights, targets, features, -network.activation.derivative(z), numbers, outer)
    if isinstance(network, KnotNetwork):
        return _Sample(
            weights, targets, np.maximum(z, 0.0), -(z > 0).astype(np.float64), numbers, network.outer
        )
    assert isinstance(network, ReLUNetwork)
    gates = network.scale * network.activation.derivative(z)
    slopes = (gates[:, :, None] * inputs[:, None, :]).reshape(len(inputs), -1)
    owners = np.repeat(numbers, network.dimension)
    return _Sample(weights, targets, network.scale * network.activation(z), slopes, owners, network.outer)


def _steps(network: StepNetwork, target: PiecewiseConstant) -> _Sample:
    """Return steps against a target, at the nodes of a rule that is exact for products of cubic pieces."""
    half = 0.5 * network.sharpness
    places = np.concatenate(
        [network.positions - half, network.positions, network.positions + half, target.breakpoints]
    )
    edges = np.unique(np.concatenate([[0.0, 1.0], places[(places > 0) & (places < 1)]]))
    nodes, weights = np.polynomial.legendre.leggauss(4)
    middle, reach = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    x = (middle[:, None] + reach[:, None] * nodes).ravel()
    found = _at(network, x[:, None], (reach[:, None] * weights).ravel(), target(x))
    jumps = np.abs(checked_target(target).jumps)
    arrivals = times_by_neighbours(network.positions, target)
    seen = arrivals[np.isfinite(arrivals)]
    return _Sample(
        found.weights,
        found.targets,
        found.features,
        found.slopes,
        found.owners,
        found.outer,
        SETTLED * float(np.max(jumps, initial=0.0)) ** 2 / network.sharpness,
        float(seen.max()) if seen.size else np.nan,
        _proven(network, target),
    )


def _proven(network: StepNetwork, target: PiecewiseConstant) -> float:
    """Return T₀ of App. B.6 for the δ with which these positions are D-good, D = δ/(6(m + 1)²) ≤ Δ(u)."""
    distance = separation(network)
    if distance <= 0 or not target.jumps.size or np.any(target.jumps == 0):
        return np.nan
    delta = min(1.0, 6.0 * (network.width + 1) ** 2 * distance)
    return fast_time(network.width, step_class(target), delta)


def _additive(network: AdditiveStepNetwork, target: Additive) -> _Sample:
    """Return additive steps against an additive target: centred coordinates, and a row of means."""
    parts = [_steps(part, component) for part, component in parts_of(network, target)]
    m, d = network.outer.shape
    rows = sum(len(part.weights) for part in parts) + 1
    features, slopes = np.zeros((rows, m * d + 1)), np.zeros((rows, m * d))
    weights, targets, first = np.ones(rows), np.zeros(rows), 0
    features[-1, -1] = 1.0
    for k, part in enumerate(parts):
        here, own = slice(first, first + len(part.weights)), np.arange(m) * d + k
        for whole, values in ((features, part.features[:, :-1]), (slopes, part.slopes)):
            means = part.weights @ values
            whole[here, own], whole[-1, own] = values - means, means
        mean = float(part.weights @ part.targets)
        weights[here], targets[here] = part.weights, part.targets - mean
        targets[-1] += mean
        first = here.stop
    outer = np.append(network.outer.ravel(), network.offset)
    arrivals = [part.arrival for part in parts if np.isfinite(part.arrival)]
    return _Sample(
        weights,
        targets,
        features,
        slopes,
        np.arange(m * d),
        outer,
        max(part.settled for part in parts),
        max(arrivals, default=np.nan),
    )
