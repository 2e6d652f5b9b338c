"""Data on which small networks end in the least-squares line: [early_alignment] Assumptions 3 to 6.

K is the set of extreme points, those that some w ≠ 0 with ⟨w, x_k'⟩ ≥ 0 for all k' has on its border; β* the
least-squares estimator, r_k = (y_k − ⟨β*, x_k⟩)/n and G*(w) = Σ_k r_k relu(⟨w, x_k⟩).

Assumption 6 made finite. A pattern is mixed if it has both signs (then it has them on K already). δ_u may
be as small as we like, so (1) is about those k ∈ K with u_k ≠ 0 whose hyperplane the closure of the cone
touches:

    (1)  u_k ⟨D̃_u, x_k⟩ + Σ_{l: u_l = 0} min(0, u_k r_l ⟨x_l, x_k⟩) > 0;
    (2)  G*(w) > 0 for every w with a mixed pattern,

where by linearity one w inside each mixed face will do, as on rays with one sign G* = ±⟨Σ r_k x_k, w⟩ = 0.

Lemma 8 says that Assumption 3 with η < 1/6 implies Assumptions 4, 5 and 6. Its proof of 5 takes y_1² + y_2²
+ y_3² for at most η² + (1 + η)² (it is at most η² + 2(1 + η)²) and squares the lower bound of y_k‖x_k‖²;
Assumption 5 does fail for some such data, for instance x = (−0.84, 1), (−0.16, 1.16), (0.84, 1.16), y = 1,
0.16, 1.16. So all of them are checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, Ints, public
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.early_alignment.pulls import ZERO, Pull
from shallowflow.landscape.geometry.cones import LIMIT, SAME, Cones, cones, span_of


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """β* = (XᵀX)⁻¹Xᵀy (d,) and its loss ½·mean (⟨β*, x_k⟩ − y_k)²."""

    coefficients: Floats
    loss: float


@public
def least_squares(dataset: Dataset) -> LeastSquares:
    """Return the linear least-squares fit (of minimal norm if the inputs do not determine it).

    Examples
    --------
    >>> from shallowflow.data.generators import three_points
    >>> round(least_squares(three_points()).loss, 7)
    0.0875214
    """
    coefficients: Floats = np.linalg.lstsq(dataset.inputs, dataset.targets)[0].astype(np.float64)
    residual = dataset.inputs @ coefficients - dataset.targets
    return LeastSquares(coefficients, 0.5 * float(np.mean(residual**2)))


@dataclass(frozen=True)
class SpuriousConditions:
    """The margins of Assumptions 3 to 6: each assumption holds iff its margins are positive.

    eta: the smallest η of Assumption 3 (∞ if none; Thm 2 needs η < 1/6); extreme: K. Assumption 4:
    correlation, the smallest ⟨x_k, x_k'⟩; target, the smallest y_k; general, whether n ≥ d points are in
    general position. Assumption 5: dominance, the smallest y_k‖x_k‖² − ‖y‖ √Σ_{k'≠k}⟨x_k', x_k⟩² over K.
    Assumption 6: above, the smallest y_k − ⟨β*, x_k⟩ over K; inward, the smallest left side of (1); worse,
    the smallest G*(w)/‖w‖ of (2) (at one w inside each cone). Rounding counts as zero; ∞ where there is
    nothing to check.
    """

    eta: float
    extreme: tuple[int, ...]
    correlation: float
    target: float
    general: bool
    dominance: float
    above: float
    inward: float
    worse: float

    @property
    def assumption_3(self) -> bool:
        """Whether Assumption 3 holds with η < 1/6."""
        return self.eta < 1 / 6

    @property
    def assumption_4(self) -> bool:
        """Whether Assumption 4 holds."""
        return self.correlation > 0 and self.target > 0 and self.general

    @property
    def assumption_5(self) -> bool:
        """Whether Assumption 5 holds."""
        return self.dominance > 0

    @property
    def assumption_6(self) -> bool:
        """Whether Assumption 6 holds."""
        return min(self.above, self.inward, self.worse) > 0


@public
def spurious_conditions(dataset: Dataset, *, limit: int = LIMIT) -> SpuriousConditions:
    """Return the margins of Assumptions 3 to 6; limit: on the number of activation cones.

    Examples
    --------
    >>> from shallowflow.data.generators import three_points
    >>> found = spurious_conditions(three_points())
    >>> found.extreme, found.assumption_4, found.assumption_5, found.assumption_6
    ((0, 2), True, False, True)
    """
    dataset = span_of(dataset).dataset
    arrangement = cones(dataset, limit=limit)
    inputs, targets = dataset.inputs, dataset.targets
    products = inputs @ inputs.T
    correlation, target = positivity(dataset)
    extreme = _extreme_points(arrangement)
    residuals = (targets - inputs @ least_squares(dataset).coefficients) / dataset.size
    size = float(np.abs(targets) @ np.linalg.norm(inputs, axis=1)) / dataset.size
    rounding = np.abs(residuals) * dataset.size <= ZERO * float(np.max(np.abs(targets)))
    found = Pull(inputs, np.where(rounding, 0.0, residuals), 0.0)
    mixed = np.flatnonzero(
        np.any(arrangement.patterns > 0, axis=1) & np.any(arrangement.patterns < 0, axis=1)
    )
    others = np.sqrt(np.maximum(np.sum(products**2, axis=1) - np.diag(products) ** 2, 0.0))
    dominance = targets * np.diag(products) - np.linalg.norm(targets) * others
    return SpuriousConditions(
        eta=smallest_eta(dataset),
        extreme=tuple(int(k) for k in extreme),
        correlation=correlation,
        target=target,
        general=arrangement.general and dataset.size >= dataset.dimension,
        dominance=float(np.min(dominance[extreme], initial=np.inf)),
        above=dataset.size * float(np.min(found.strengths[extreme], initial=np.inf)),
        inward=_inward(found, arrangement, mixed, extreme),
        worse=_positive_part([found.value(arrangement.directions[face]) for face in mixed], ZERO * size),
    )


def positivity(dataset: Dataset) -> tuple[float, float]:
    """Return the smallest ⟨x_k, x_k'⟩ and the smallest y_k: Assumption 4 needs both to be positive."""
    return float(np.min(dataset.inputs @ dataset.inputs.T)), float(np.min(dataset.targets))


def _positive_part(values: list[float], rounding: float) -> float:
    """Return the smallest value, 0 if it is rounding, ∞ if there is none."""
    smallest = min(values, default=np.inf)
    return 0.0 if abs(smallest) <= rounding else smallest


def _extreme_points(arrangement: Cones) -> Ints:
    """Return K: the zeros of the patterns that are ≥ 0 and not identically zero (a zero w is excluded)."""
    patterns = arrangement.patterns[np.all(arrangement.patterns >= 0, axis=1)]
    return np.asarray(np.flatnonzero(np.any(patterns == 0, axis=0)))


def _inward(found: Pull, arrangement: Cones, mixed: Ints, extreme: Ints) -> float:
    """Return the smallest left side of (1) over mixed cones u and the k ∈ K whose hyperplane they touch."""
    products = found.inputs @ found.inputs.T
    on_rays = np.abs(arrangement.rays @ found.inputs.T) <= SAME * np.linalg.norm(found.inputs, axis=1)
    values: list[float] = []
    for face in mixed:
        pattern = arrangement.patterns[face].astype(np.float64)
        members = arrangement.members[arrangement.starts[face] : arrangement.starts[face + 1]]
        touched = extreme[(pattern[extreme] != 0) & np.any(on_rays[members][:, extreme], axis=0)]
        weighted = pattern[touched, None] * products[touched] * found.strengths
        free = np.minimum(weighted[:, pattern == 0], 0.0).sum(axis=1)
        values += (weighted[:, pattern > 0].sum(axis=1) + free).tolist()
    return _positive_part(values, ZERO * found.scale * float(np.max(np.diag(products), initial=0.0)))


def smallest_eta(dataset: Dataset) -> float:
    """Return the smallest η with which three points satisfy Assumption 3, in any order; ∞ if there is none.

    Examples
    --------
    >>> round(smallest_eta(Dataset([[-0.9, 1.0], [0.05, 1.0], [0.95, 1.0]], [1.0, 0.1, 1.02])), 12)
    0.1
    """
    if dataset.inputs.shape != (3, 2):
        return np.inf
    order = np.argsort(dataset.inputs[:, 0])
    (first, left), (second, middle), (third, right) = dataset.inputs[order]
    y_1, y_2, y_3 = dataset.targets[order]
    if not (first > -1 and third < 1 and y_2 > 0 and min(left, right, y_1, y_3) >= 1):
        return np.inf
    sides = (first + 1, left - 1, y_1 - 1, 1 - third, right - 1, y_3 - 1)
    return float(max(*sides, abs(second), abs(middle - 1), y_2))
