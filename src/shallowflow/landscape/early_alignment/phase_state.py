"""Where a small network stands on its way to the least-squares line: the quantities of Lemmas 4 to 7.

[early_alignment] §4.1, with θ⁰ the start, D* = (1/n)Σ y_k x_k and β* the least-squares estimator:

    𝓘: neurons with a_i⁰ > 0 that some data point activates at the start; 𝓝: those with a_i⁰ < 0; the rest
    never moves.

In phase 3 all of 𝓘 is active on all points and acts as β = Σ_𝓘 a_i w_i. Where nothing else moves,

    dβ/dt = M (1/n) Xᵀ(y − Xβ),   M = Σ_𝓘 (a_i² I + w_i w_iᵀ),

so that L − L(β*) falls like exp(−2ρt) in the end, ρ the least eigenvalue of M XᵀX/n. Lemma 21's constant, for
all of phase 3, takes a part of M only: Σ_𝓘 a_i² ≥ ‖β*‖ up to what is small. Phase 1 ends at −ε ln λ/D_max
(`largest_pull`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats, public
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.early_alignment.pulls import ZERO, Pull, pull
from shallowflow.landscape.early_alignment.spurious import least_squares
from shallowflow.landscape.geometry.activity import activity, check_relu_problem
from shallowflow.landscape.geometry.cones import LIMIT, cones, span_of
from shallowflow.models.loss import Loss
from shallowflow.models.networks import ReLUNetwork

DIRECTIONS, KEPT, ROUNDS = 4000, 60, 5
"""Random starts of the search for D_max, how many directions go on, and how often they follow their pull."""
BEYOND = 1e-6
"""A direction is mirrored at a hyperplane so much further than onto it, relatively."""


@dataclass(frozen=True)
class PhaseState:
    """A network beside its start; ∞, −∞ or 0 where a set of neurons is empty.

    aligned: the least ⟨D*, w_i/a_i⟩/‖D*‖ over 𝓘 (Lemma 4.1); growth: the largest a_i/a_i⁰ over 𝓘; shrinkage:
    the largest a_i/a_i⁰ over 𝓝 (Lemmas 4.2, 5.4, 6); moved: the largest change of a parameter of the rest
    (Lemma 4.3); spread: 1 − the least cosine between two neurons of 𝓘 and their sum, weighted by a_i (Lemma
    5.3); correlation: the least ⟨w_i/a_i, x_k⟩ over 𝓘 and all points (Lemmas 5.2, 6); size: Σ_𝓘 a_i² (Lemma
    5.1); distance: ‖β* − Σ_𝓘 a_i w_i‖/‖β*‖ (Lemmas 6, 7).
    """

    aligned: float
    growth: float
    shrinkage: float
    moved: float
    spread: float
    correlation: float
    size: float
    distance: float


@public
def phase_state(network: ReLUNetwork, start: ReLUNetwork, dataset: Dataset) -> PhaseState:
    """Return how far a network has come from its start, in the quantities of Lemmas 4 to 7.

    Examples
    --------
    >>> data = Dataset([[-0.5, 1.0], [0.5, 1.0]], [1.0, 1.0])
    >>> start = ReLUNetwork([[0.0, 0.1], [0.1, 0.0]], [0.1, -0.1])
    >>> state = phase_state(ReLUNetwork([[0.0, 1.0], [0.05, 0.0]], [1.0, -0.05]), start, data)
    >>> round(state.distance, 6), round(state.shrinkage, 6)
    (0.0, 0.5)
    """
    check_relu_problem(network, dataset)
    check_relu_problem(start, dataset)
    if network.width != start.width:
        raise InvalidInputError(f"start: must have width {network.width}, got {start.width}")
    seen = np.any(activity(start, dataset.inputs) > 0, axis=1)
    positive, negative = seen & (start.outer > 0), seen & (start.outer < 0)
    rest = ~(positive | negative)
    pull = dataset.targets @ dataset.inputs / dataset.size
    inner, outer = network.inner[positive], network.outer[positive]
    with np.errstate(divide="ignore", invalid="ignore"):
        units = inner / outer[:, None]
    lengths = np.linalg.norm(inner, axis=1)
    total = outer @ inner
    cosines = inner @ total / np.maximum(lengths * np.linalg.norm(total), np.finfo(float).tiny)
    line = least_squares(dataset).coefficients
    moves = (np.abs(network.inner - start.inner)[rest], np.abs(network.outer - start.outer)[rest])
    return PhaseState(
        aligned=float(np.min(units @ pull, initial=np.inf)) / float(np.linalg.norm(pull)),
        growth=float(np.max(outer / start.outer[positive], initial=-np.inf)),
        shrinkage=float(np.max(network.outer[negative] / start.outer[negative], initial=-np.inf)),
        moved=max(float(np.max(one, initial=0.0)) for one in moves),
        spread=1.0 - float(np.min(cosines, initial=1.0)),
        correlation=float(np.min(units @ dataset.inputs.T, initial=np.inf)),
        size=network.scale * float(outer @ outer),
        distance=float(np.linalg.norm(line - network.scale * total) / np.linalg.norm(line)),
    )


@public
def pl_constant(dataset: Dataset) -> float:
    """Return σ_min(H)‖β*‖, H = XᵀX/n: in phase 3 ‖∇L‖² is at least this times L − L(β*), for small λ.

    So L − L(β*) falls at this rate at least, [early_alignment] Lemma 21 (L: ½·mean).

    Examples
    --------
    >>> pl_constant(Dataset([[1.0, 0.0], [0.0, 1.0]], [3.0, 4.0]))
    2.5
    """
    sizes = np.linalg.svd(dataset.inputs, compute_uv=False)
    least = float(sizes[-1]) ** 2 / dataset.size if dataset.size >= dataset.dimension else 0.0
    return least * float(np.linalg.norm(least_squares(dataset).coefficients))


@public
def local_rate(network: ReLUNetwork, dataset: Dataset) -> float:
    """Return 2ρ, the rate at which L (½·mean) falls to the line's loss near it; see the module.

    Counted are the neurons that are active on all data points.

    Examples
    --------
    >>> data = Dataset([[1.0, 0.0], [0.0, 1.0]], [2.0, 2.0])
    >>> local_rate(ReLUNetwork([[1.0, 1.0]], [1.0]), data)  # M = I + 1 1ᵀ, XᵀX/n = I/2
    1.0
    """
    check_relu_problem(network, dataset)
    whole = np.all(activity(network, dataset.inputs) > 0, axis=1)
    inner, outer = network.inner[whole], network.outer[whole]
    metric = network.scale * (float(outer @ outer) * np.eye(dataset.dimension) + inner.T @ inner)
    # M^½ (XᵀX/n) M^½ has the eigenvalues of M XᵀX/n: those of the squares of singular values of X M^½.
    root = np.linalg.cholesky(metric) if whole.any() else np.zeros_like(metric)
    sizes = np.linalg.svd(dataset.inputs @ root, compute_uv=False)
    return 2.0 * float(sizes[-1]) ** 2 / dataset.size if dataset.size >= dataset.dimension else 0.0


class LargestPull(NamedTuple):
    """D_max, the largest ‖D_u‖ over all activation cones; complete: False where a search found it (D_max may
    be larger)."""

    value: float
    complete: bool


@public
def largest_pull(
    dataset: Dataset, loss: Loss | None = None, slope: float = 0.0, *, limit: int = LIMIT
) -> LargestPull:
    """Return D_max = max_w ‖D(w, 0)‖ of Thm 1: by listing the cones, or by a search where they are too many.

    The search begins at random directions, at the inputs and their opposites, follows w → ±D(w), and crosses
    from the best cones found into those beyond a data hyperplane while ‖D‖ grows.

    Examples
    --------
    >>> from shallowflow.data.generators import three_points
    >>> found = largest_pull(three_points())
    >>> round(found.value, 4), found.complete
    (0.715, True)
    """
    space = span_of(dataset).dataset
    found = pull(space, loss, slope)
    try:
        shortest = found.minimal_all(cones(space, limit=limit).patterns)
    except InvalidInputError:
        return LargestPull(_searched(found), False)
    origin = np.linalg.norm(found.minimal(np.zeros(space.size, np.int8))[0])
    return LargestPull(float(max(np.linalg.norm(shortest, axis=1).max(initial=0.0), origin)), True)


def _searched(found: Pull) -> float:
    """Return the largest ‖D‖ found without listing cones."""
    dimension = found.inputs.shape[1]
    filled = found.inputs[found.lengths > 0]
    starts = np.random.default_rng(0).standard_normal((DIRECTIONS, dimension))
    directions = np.vstack([starts, filled, -filled])
    best = _pulled(found, directions)
    for _ in range(ROUNDS):
        ahead = _pulled(found, np.vstack([best.pulls, -best.pulls]))
        best = _larger(best, ahead)
    while True:
        z = best.directions @ filled.T / np.sum(filled**2, axis=1)
        beyond = best.directions[:, None] - (1.0 + BEYOND) * z[:, :, None] * filled[None]
        tried = _larger(best, _pulled(found, beyond.reshape(-1, dimension)))
        if not tried.norms[0] > best.norms[0] * (1.0 + ZERO):
            return float(best.norms[0])
        best = tried


class _Pulled(NamedTuple):
    """Directions (k, d), D(w) at them (k, d) and ‖D‖ (k,), the largest first."""

    directions: Floats
    pulls: Floats
    norms: Floats


def _pulled(found: Pull, directions: Floats) -> _Pulled:
    """Return the pulls at the best `KEPT` of some directions."""
    gates = np.where(directions @ found.inputs.T > 0, 1.0, found.slope)
    pulls = (gates * found.strengths) @ found.inputs
    norms = np.linalg.norm(pulls, axis=1)
    order = np.argsort(-norms, kind="stable")[:KEPT]
    return _Pulled(directions[order], pulls[order], norms[order])


def _larger(one: _Pulled, other: _Pulled) -> _Pulled:
    """Return the best `KEPT` of both."""
    parts = [np.concatenate(pair) for pair in zip(one, other, strict=True)]
    order = np.argsort(-parts[2], kind="stable")[:KEPT]
    return _Pulled(*(part[order] for part in parts))
