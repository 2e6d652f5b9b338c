"""How much the inputs of a data set interact, and the curvature μ that follows, [weak_interaction].

Assumption 2 (4): ν = ‖XᵀX − D_X‖ < C_x^−² C_y^− / (√n C_y^+), with C_x^∓ the smallest and largest ‖x_i‖,
C_y^∓ of |y_i|. Two antipodal inputs are never active together (slope 0), so that their inner product may be
left out of ν: the variant of App. C.2, by which 2d points in dimension d do not interact.

`gaussian_dimension` gives Lemma 3's C a number for Gaussian inputs x ~ N(0, λ²/d·I). With probability
1 − ε all singular values of √d X/λ lie within √n + √(2 ln(2/ε)) of √d, so that u = ‖XᵀX/λ² − I‖ ≤ 2δ + δ²,
δ = (√n + √(2 ln(2/ε)))/√d. Then ν ≤ 2uλ² (the diagonal is off by u at most) and C_x^−² ≥ (1 − u)λ², and
Assumption 2 follows from u ≤ C_y^−/(C_y^− + 2√n C_y^+). (The print of (37) has no 2 and λ for λ², that of
(38) has the label ratio upside down.)

The local Polyak–Łojasiewicz curvature is μ = −L'/L for the loss ½·mean of squares. Along dθ/dt = −speed·∇L,
μ = speed·‖∇L‖²/L and L(t) = L(0) exp(−t⟨μ⟩). The paper takes the output factor 1/m and speed = m. For any
factor s and any speed v Lemma 6 reads, with 1_ji = 1 where neuron j is active on x_i (`activity`),

    (2vs²/n)(C_x^−² − ν) min_i Σ_j a_j² 1_ji  ≤  μ  ≤  (2vs²/n)(C_x^+² + ν) max_i Σ_j (a_j² + ‖w_j‖²) 1_ji.

(The print of (15) lacks the squares on C_x^∓, (21) and (22) have them; (22) drops ‖w_j‖² in its first line.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Floats,
    Ints,
    count,
    flag,
    increasing,
    positive,
    probability,
    public,
    real,
    same_length,
    vector,
)
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Resting, activity, check_relu_problem
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import ReLUNetwork

SMALL = 800
"""Samples up to which all eigenvalues are computed; beyond, the largest one by Lanczos."""
ANTIPODAL = 1e-14
"""Two inputs are antipodal if their directions add up to a vector no longer than this: rounding, not an
angle."""
NEARLY = 1e-12
"""Cosines this near to −1 are looked at: a cosine alone cannot tell angles below 1e-8 from 0."""
ROWS = 512
WHOLE = 2.0**53
"""Floats beyond this are whole numbers."""
LARGEST_RATIO = 1e300
"""Labels that differ by more are not compared: their quotient may be beyond a float."""


@dataclass(frozen=True)
class Interaction:
    """ν (`norm`), the `bound` of Assumption 2, and the constants C_x^−, C_x^+, C_y^−, C_y^+.

    pairs: how many antipodal pairs were left out of ν.
    """

    norm: float
    bound: float
    smallest_input: float
    largest_input: float
    smallest_label: float
    largest_label: float
    pairs: int = 0

    @property
    def holds(self) -> bool:
        """Whether Assumption 2 holds: ν < bound (and no label is zero)."""
        return self.norm < self.bound

    @property
    def margin(self) -> float:
        """bound − ν: positive if Assumption 2 holds."""
        return self.bound - self.norm

    @property
    def label_ratio(self) -> float:
        """C_y^+/C_y^−: infinite if a label is zero, or beyond what a float can hold."""
        return ratio_of(self.smallest_label, self.largest_label)

    @property
    def share(self) -> float:
        """ν/bound: below 1 if Assumption 2 holds; infinite if a label or an input is zero."""
        return self.norm / self.bound if self.bound > 0 else float("inf")


def ratio_of(low: float, high: float) -> float:
    """Return high/low for 0 ≤ low ≤ high: infinite if low is zero, or the quotient beyond a float."""
    return high / low if low > high / LARGEST_RATIO else float("inf")


@public
def interaction(dataset: Dataset, *, antipodal: bool = False) -> Interaction:
    """Return ν and the bound of Assumption 2, [weak_interaction] (4), or of (86) if `antipodal`.

    Examples
    --------
    >>> from shallowflow.data.generators import orthonormal
    >>> found = interaction(orthonormal(4, 6, labels="bounded"))
    >>> found.holds, round(found.norm, 9)
    (True, 0.0)
    """
    antipodal = flag(antipodal, "antipodal")
    lengths, labels = np.linalg.norm(dataset.inputs, axis=1), np.abs(dataset.targets)
    least, most = float(lengths.min()), float(lengths.max())
    low, high = float(labels.min()), float(labels.max())
    bound = least**2 * low / (np.sqrt(dataset.size) * high) if high > 0 else 0.0
    pairs = _antipodal_pairs(dataset.inputs, lengths) if antipodal else np.zeros((0, 2), np.int64)
    norm = _coupling_norm(dataset.inputs, pairs)
    return Interaction(norm, float(bound), least, most, low, high, len(pairs))


def _coupling_norm(inputs: Floats, pairs: Ints) -> float:
    """Return ‖XᵀX − D_X‖ without the entries of the pairs."""
    if len(inputs) == 1:
        return 0.0
    products = np.einsum("id,id->i", inputs[pairs[:, 0]], inputs[pairs[:, 1]])
    if len(inputs) <= SMALL:
        gram = inputs @ inputs.T
        np.fill_diagonal(gram, 0.0)
        gram[pairs[:, 0], pairs[:, 1]] = 0.0
        gram[pairs[:, 1], pairs[:, 0]] = 0.0
        return float(np.max(np.abs(np.linalg.eigvalsh(gram))))
    from scipy.sparse.linalg import LinearOperator, eigsh

    squares = np.einsum("id,id->i", inputs, inputs)

    def product(vector: Floats) -> Floats:
        v = vector.ravel()
        image: Floats = inputs @ (inputs.T @ v) - squares * v
        np.subtract.at(image, pairs[:, 0], products * v[pairs[:, 1]])
        np.subtract.at(image, pairs[:, 1], products * v[pairs[:, 0]])
        return image

    operator = LinearOperator((len(inputs), len(inputs)), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(inputs))
    return float(np.abs(eigsh(operator, 1, which="LM", v0=start, tol=1e-9, return_eigenvectors=False)[0]))


def _antipodal_pairs(inputs: Floats, lengths: Floats) -> Ints:
    """Return the pairs i < k with x_k = −c x_i, c > 0, as rows (i, k)."""
    unit = inputs / np.where(lengths > 0, lengths, 1.0)[:, None]
    found = []
    for first in range(0, len(unit), ROWS):
        rows, columns = np.nonzero(unit[first : first + ROWS] @ unit.T <= -1.0 + NEARLY)
        rows += first
        opposite = np.linalg.norm(unit[rows] + unit[columns], axis=1) <= ANTIPODAL
        found.append(np.column_stack([rows[opposite], columns[opposite]]))
    pairs = np.concatenate(found).astype(np.int64)
    ordered: Ints = pairs[pairs[:, 0] < pairs[:, 1]]
    return ordered


@public
def gaussian_dimension(size: int, label_ratio: float = 1.0, epsilon: float = 0.05) -> int:
    """Return the dimension from which n Gaussian inputs satisfy Assumption 2 with probability 1 − ε.

    label_ratio: C_y^+/C_y^− ≥ 1. Lemma 3 says d ≥ C(n² + n ln(1/ε)); here C has its number for Gaussians.

    Examples
    --------
    >>> gaussian_dimension(10) < gaussian_dimension(20) < 5 * gaussian_dimension(10)
    True
    """
    size, ratio = count(size, "size"), real(label_ratio, "label_ratio")
    if not 1 <= ratio <= LARGEST_RATIO:
        raise InvalidInputError(f"label_ratio: must lie in [1, {LARGEST_RATIO:g}], got {ratio:g}")
    epsilon = probability(epsilon, "epsilon")
    allowed = 1.0 / (1.0 + 2.0 * np.sqrt(size) * ratio)
    # √(1 + u) − 1, written so that it does not cancel for a tiny u.
    nearness = allowed / (np.sqrt(1.0 + allowed) + 1.0)
    root = float((np.sqrt(size) + np.sqrt(2 * np.log(2 / epsilon))) / nearness)
    # Beyond the digits of a float the square is one of integers, which do not overflow.
    return ceil(root**2) if root < WHOLE else ceil(root) ** 2


def dimension_needed(size: int, label_ratio: float, epsilon: float) -> int | None:
    """Return `gaussian_dimension`, None for labels so different that no dimension would do."""
    return gaussian_dimension(size, label_ratio, epsilon) if np.isfinite(label_ratio) else None


@public
def local_pl(
    network: ReLUNetwork, dataset: Dataset, *, speed: float | None = None, resting: Resting | None = None
) -> float:
    """Return μ = speed·‖∇L‖²/L; speed is the width unless given, as in [weak_interaction] (3), (5).

    resting: as for `activity`.

    Examples
    --------
    >>> from shallowflow.data import Dataset
    >>> net = ReLUNetwork([[1.0]], [1.0])
    >>> local_pl(net, Dataset([[1.0]], [3.0]))
    4.0
    """
    check_relu_problem(network, dataset)
    pace = checked_speed(network, speed)
    predictions, loss = network.predict(dataset.inputs), SquareLoss()
    value = loss.value(predictions, dataset.targets)
    if value == 0:
        raise InvalidInputError("network: must not fit the data exactly: the curvature is 0/0, got loss 0")
    gates = np.where(activity(network, dataset.inputs, resting=resting) > 0, 1.0, network.slope)
    gradient = network.pullback(dataset.inputs, loss.slopes(predictions, dataset.targets), gates)
    square = sum(float(np.sum(part * part)) for part in gradient.values())
    return pace * square / value


@dataclass(frozen=True)
class PLBounds:
    """Lemma 6: lower ≤ μ ≤ upper."""

    lower: float
    upper: float


@public
def pl_bounds(
    network: ReLUNetwork,
    dataset: Dataset,
    *,
    speed: float | None = None,
    known: Interaction | None = None,
    resting: Resting | None = None,
) -> PLBounds:
    """Return the bounds of Lemma 6 on μ, [weak_interaction] (21), (22); ReLU only.

    known: what `interaction(dataset)` returned, to save its cost along a trajectory; resting: as for
    `activity`. The lower bound may be negative if the data interact strongly.
    """
    check_relu_problem(network, dataset)
    if network.slope:
        raise InvalidInputError(f"network: Lemma 6 is about the ReLU, got slope {network.slope:g}")
    found = known or interaction(dataset)
    active = activity(network, dataset.inputs, resting=resting) > 0
    squares = network.outer**2
    inner = np.einsum("jd,jd->j", network.inner, network.inner)
    factor = 2.0 * checked_speed(network, speed) * network.scale**2 / dataset.size
    least = float(np.min(squares @ active))
    most = float(np.max((squares + inner) @ active))
    low, high = found.smallest_input**2 - found.norm, found.largest_input**2 + found.norm
    return PLBounds(factor * low * least, factor * high * most)


@public
def energies(network: ReLUNetwork, dataset: Dataset, *, resting: Resting | None = None) -> Floats:
    """Return (1/m) Σ_j a_j² 1_ji for every sample i, the measure behind μ_low and μ_upp of Figure 5."""
    check_relu_problem(network, dataset)
    active = activity(network, dataset.inputs, resting=resting) > 0
    shares: Floats = (network.outer**2 @ active) / network.width
    return shares


class CurvatureMeasures(NamedTuple):
    """The four measures of the local PL curvature μ of [weak_interaction] Figure 5."""

    last: float
    mean: float
    low: float
    high: float


def curvature_measures(
    final: ReLUNetwork, dataset: Dataset, losses: ArrayLike, epochs: float
) -> CurvatureMeasures:
    """Return μ(t_∞), ⟨μ⟩, μ_low and μ_upp of a training at rate 1, [weak_interaction] App. B.

    losses: the first one, L_0, … , and those of the last two epochs, L_{T−1} and L_T; epochs: T.

        μ(t_∞) = ln(L_{T−1}/L_T),  ⟨μ⟩ = ln(L_0/L_T)/T,
        μ_low = (2/n) min_i E_i,  μ_upp = (16/n) max_i E_i,  E_i = (1/m) Σ_j a_j² 1_ji (`energies`).
    """
    values, shares = vector(losses, "losses"), energies(final, dataset)
    return CurvatureMeasures(
        float(np.log(values[-2] / values[-1])),
        float(np.log(values[0] / values[-1]) / positive(epochs, "epochs")),
        float(2 / dataset.size * shares.min()),
        float(16 / dataset.size * shares.max()),
    )


@public
def average_pl(times: ArrayLike, losses: ArrayLike) -> Floats:
    """Return ⟨μ⟩(t) = ln(L(0)/L(t))/t at the times after the first, [weak_interaction] Lemma 2.

    times: from 0, in the clock of the flow (a descent with step m·η makes η per step at speed m).
    """
    moments, values = increasing(times, "times"), vector(losses, "losses")
    same_length(moments, values, "times, losses")
    if len(moments) < 2 or moments[0] != 0:
        raise InvalidInputError(f"times: must begin with 0 and go on, got {moments[:2]}")
    if np.any(values <= 0):
        raise InvalidInputError(f"losses: must be > 0, got {values.min():g}")
    rates: Floats = np.log(values[0] / values[1:]) / moments[1:]
    return rates


def checked_speed(network: ReLUNetwork, speed: float | None) -> float:
    """Return the speed of the flow: the width unless given."""
    return float(network.width) if speed is None else positive(speed, "speed")
