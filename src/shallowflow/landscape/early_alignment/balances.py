"""Balance of the two layers, and the nature of a stationary point: saddle or local minimum.

a_j² − ‖w_j‖² is conserved by the flow, [early_alignment] Lemma 1. Neurons with |a_j| ≥ ‖w_j‖ keep the sign
of a_j.

[early_alignment] §5 argues that the limit of Thm 4 is a saddle if it has zero neurons (balanced start), and a
local minimum if every neuron is dominated. For a loss that is convex and smooth in the predictions, and any
network, there is an exact criterion. With g_k = −∂L/∂h_k and G_θ(w) = Σ_k g_k σ(⟨w, x_k⟩), convexity gives

    L(θ + δ) − L(θ) ≥ −Σ_j [(a_j + δa_j) G_θ(w_j + δw_j) − a_j G_θ(w_j)],

with equality up to the square of the change of h; and G_θ(w_j + v) = G_θ(w_j) + G'_θ(w_j; v) exactly for
small v. So θ is a local minimum iff every neuron has G_θ(w_j) = 0 and

    a_j G'_θ(w_j; v) ≤ 0 for all v,   or, if a_j = 0,   G'_θ(w_j; v) = 0 for all v.

On the three points we saw no neuron of a balanced start tend to zero: before it does, a negative neuron
comes to rest among the dead or the fully active ones, so that these runs end in local minima too.

A zero neuron has G'_θ(0; v) = G_θ(v): it can lower the loss as soon as G_θ does not vanish identically.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, positive, public
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.early_alignment.extremal import steepest
from shallowflow.landscape.early_alignment.pulls import Pull, pull
from shallowflow.landscape.geometry.activity import Signs, check_relu, signs_of
from shallowflow.models.loss import Loss
from shallowflow.models.networks import ReLUNetwork

ROUNDING = 1e-12
"""Share of a_j² + ‖w_j‖² below which a difference of the two is rounding."""

BALANCES = ("balanced", "dominated", "unbalanced")


@dataclass(frozen=True, eq=False, repr=False)
class Balance(FrozenArrays):
    """values (m,): a_j² − ‖w_j‖²; signs (m,): 0 where that is rounding, else ±1."""

    values: Floats
    signs: Signs

    @property
    def kinds(self) -> tuple[str, ...]:
        """For each neuron "balanced" (|a| = ‖w‖), "dominated" (|a| > ‖w‖) or "unbalanced" (|a| < ‖w‖)."""
        return tuple(BALANCES[sign] for sign in self.signs)

    @property
    def kind(self) -> str:
        """The kind of all neurons: "unbalanced" if one is, "mixed" if some are balanced, some dominated."""
        if np.any(self.signs < 0):
            return "unbalanced"
        if np.all(self.signs == self.signs[0]):
            return BALANCES[self.signs[0]]
        return "mixed"

    @property
    def keeps_signs(self) -> bool:
        """Whether (4) holds, |a_j| ≥ ‖w_j‖ for all j, so that no outer weight changes its sign."""
        return not np.any(self.signs < 0)


@public
def balance(network: ReLUNetwork) -> Balance:
    """Return a_j² − ‖w_j‖² for every neuron, with its classification, [early_alignment] (4) and Lemma 1.

    Examples
    --------
    >>> balance(ReLUNetwork([[3.0, 4.0], [0.0, 1.0]], [-5.0, 2.0])).kinds
    ('balanced', 'dominated')
    """
    check_relu(network)
    outer, inner = network.outer**2, np.einsum("jd,jd->j", network.inner, network.inner)
    values = outer - inner
    return Balance(values, signs_of(values, outer + inner, ROUNDING))


def init_scale(network: ReLUNetwork) -> float:
    """Return λ = √(scale·Σ_j a_j²), the smallest scale of (3) for which (5) holds at this width.

    Examples
    --------
    >>> init_scale(ReLUNetwork([[0.1], [0.1]], [0.3, -0.4]))
    0.5
    """
    return float(np.sqrt(network.scale) * np.linalg.norm(network.outer))


@dataclass(frozen=True, eq=False, repr=False)
class Nature(FrozenArrays):
    """What a network is for its loss: kind "local minimum", "saddle" or "not stationary".

    gradient: the largest part of the (least-norm) gradient, max_j(‖a_j D_j‖, |⟨w_j, D_j⟩|); zero_neurons:
    how many neurons vanish. For a saddle, `neuron` moved along `direction` (d,) lowers the loss, at the
    rate `rate` per unit of |a_j| and of its movement (first order if a_j ≠ 0, second order if a_j = 0);
    else −1.
    """

    kind: str
    gradient: float
    zero_neurons: int
    neuron: int
    direction: Floats
    rate: float


@public
def nature(
    network: ReLUNetwork, dataset: Dataset, *, loss: Loss | None = None, tolerance: float = 1e-6
) -> Nature:
    """Return whether a stationary network is a saddle or a local minimum of the loss (see the module).

    tolerance: relative. A gradient this small beside U times the size of the largest neuron vanishes, U =
    Σ_k |∂₁ℓ(0, y_k)| ‖x_k‖; a rate of descent counts above this share of U; a neuron this close to a data
    hyperplane (in angle) lies on it. A neuron is zero below the rounding of the largest, 2.2·10⁻¹⁶ of it:
    one that started small and stayed is none.

    Examples
    --------
    >>> data = Dataset([[1.0], [-1.0]], [1.0, 1.0])
    >>> nature(ReLUNetwork([[1.0], [0.0]], [1.0, 0.0]), data).kind
    'saddle'
    >>> nature(ReLUNetwork([[1.0], [-1.0]], [1.0, 1.0]), data).kind
    'local minimum'
    """
    check_relu(network)
    tolerance = positive(tolerance, "tolerance")
    here = pull(dataset, loss, network.slope, network=network)
    unit = pull(dataset, loss, network.slope).scale
    sizes = np.hypot(np.linalg.norm(network.inner, axis=1), np.abs(network.outer))
    largest = float(sizes.max())
    vanishing = float(np.finfo(float).eps) * largest
    inner = np.where(sizes[:, None] <= vanishing, 0.0, network.inner)
    outer = np.where(np.abs(network.outer) <= vanishing, 0.0, network.outer)
    zeros = int(np.sum(sizes <= vanishing))
    patterns = np.array([here.pattern(w, tolerance) for w in inner])
    gradient = _gradient(here, inner, outer, patterns)
    found = (-1, np.zeros(dataset.dimension), 0.0)
    if gradient > tolerance * unit * largest:
        return Nature("not stationary", gradient, zeros, *found)
    neuron, direction, rate = _descent(here, outer, patterns)
    if rate <= tolerance * unit:
        return Nature("local minimum", gradient, zeros, *found)
    return Nature("saddle", gradient, zeros, neuron, direction, rate)


def _gradient(here: Pull, inner: Floats, outer: Floats, patterns: Signs) -> float:
    """Return the largest ‖a_j D_j‖ or |⟨w_j, D_j⟩|, D_j the minimal-norm subgradient of neuron j."""
    shortest = here.minimal_all(patterns)
    moves = np.abs(outer) * np.linalg.norm(shortest, axis=1)
    turns = np.abs(np.einsum("jd,jd->j", inner, shortest))
    return float(max(moves.max(), turns.max()))


def _descent(here: Pull, outer: Floats, patterns: Signs) -> tuple[int, Floats, float]:
    """Return the neuron, direction and rate by which the loss can be lowered (rate 0: not at all)."""
    best = (-1, np.zeros(here.inputs.shape[1]), 0.0)
    seen: set[tuple[bytes, float]] = set()
    for j, pattern in enumerate(patterns):
        key = (pattern.tobytes(), float(np.sign(outer[j])))
        if key in seen:
            continue
        seen.add(key)
        for sign in (1, -1) if outer[j] == 0 else (int(np.sign(outer[j])),):
            rate, direction = steepest(here, pattern, sign)
            if rate > best[2]:
                best = (j, direction, rate)
    return best
