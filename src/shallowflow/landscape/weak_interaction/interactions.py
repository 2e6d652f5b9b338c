"""How much the inputs of a data set interact, the curvature μ that follows, and first activations.

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

**The event 𝓘** of [weak_interaction] Lemma 5, that every sample has a neuron of its own sign: for each i
there is a j with ⟨w_j, x_i⟩ > 0 and a_j y_i > 0. For orthogonal inputs and rotation-invariant weights with
fair signs all events are independent given k, the number of positive neurons, so that

    P(𝓘) = E_k[(1 − 2^{−k})^{n₊} (1 − 2^{−(m−k)})^{n₋}],  k ~ Bin(m, ½),

for n₊ positive and n₋ negative labels; with fair label signs, P(𝓘) = E_k[(1 − (2^{−k} + 2^{−(m−k)})/2)^n].
Correlated inputs share neurons, hence `sampled_probability`. The union bound 1 − n(3/4)^m ≤ P(𝓘) holds for
any inputs and gives Lemma 5's first rule m ≥ 4 ln(n/ε). Its second rule, that m ≤ 3 ln(n/ε) − 2 makes
P(𝓘) ≤ 1 − ε, is false: (14) uses (ε/n)^{3 ln 2} ≥ ε/n, but 3 ln 2 > 1. For n = 1000 labels of one sign,
ε = 0.6 and m = 20, P(𝓘) = 0.404.

**The curvature μ before anything has moved**: [weak_interaction] Lemma 4, corrected, and footnote 1.

With output factor 1/m, speed m, residuals R = Y − (1/m) Σ_j h_j, h_j = a_j ⟨w_j, X⟩₊, and M_j the matrix of
the form R ↦ ⟨w_j, X P_j R⟩² + a_j² ‖X P_j R‖² (P_j: the samples on which neuron j is active),

    (n/2) μ(0) = (1/m) Σ_j Rᵀ M_j R / ‖R‖² .

As m → ∞ R tends to Ỹ = Y − E h, and (n/2) μ(0) to β₀ = Ỹᵀ E[M] Ỹ/‖Ỹ‖². To first order each neuron adds

    φ_j = (Ỹᵀ M_j Ỹ − 2 Ỹᵀ E[M] (h_j − E h) + 2β₀ Ỹᵀ (h_j − E h)) / ‖Ỹ‖² − β₀ ,

so that √m ((n/2) μ(0) − β₀) → N(0, γ₀²), γ₀² = Var φ. (The print has 2/n for n/2; (61) lacks 1/‖R‖², (66)
besides the terms that this brings, and all covariances.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Bools,
    Floats,
    Ints,
    Seed,
    count,
    flag,
    generator,
    increasing,
    positive,
    probability,
    public,
    real,
    same_length,
    vector,
)
from shallowflow.data.dataset import Dataset, checked_dataset
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


BATCH = 200
"""Networks drawn at once by `sampled_probability`."""


@public
def correctly_activated(network: ReLUNetwork, dataset: Dataset, *, resting: Resting | None = None) -> Bools:
    """Return for every sample whether some neuron is active on it and has the sign of its label."""
    check_relu_problem(network, dataset)
    active = activity(network, dataset.inputs, resting=resting) > 0
    agrees = network.outer[:, None] * dataset.targets > 0
    return np.asarray(np.any(active & agrees, axis=0))


@public
def activation_probability(width: int, positive_labels: int, negative_labels: int) -> float:
    """Return P(𝓘) for orthogonal inputs with these numbers of positive and negative labels.

    Examples
    --------
    >>> activation_probability(2, 1, 0)
    0.4375
    """
    width = count(width, "width")
    plus = count(positive_labels, "positive_labels", at_least=0)
    minus = count(negative_labels, "negative_labels", at_least=0)
    k = np.arange(width + 1.0)
    with np.errstate(divide="ignore"):
        hit, other = np.log1p(-(2.0**-k)), np.log1p(-(2.0 ** -(width - k)))
    exponent = (plus * hit if plus else 0.0) + (minus * other if minus else 0.0)
    return _mean_over_signs(exponent * np.ones(width + 1))


@public
def fair_activation_probability(width: int, size: int) -> float:
    """Return P(𝓘) for n orthogonal inputs whose labels have fair signs."""
    width, size = count(width, "width"), count(size, "size")
    k = np.arange(width + 1.0)
    miss = (2.0**-k + 2.0 ** -(width - k)) / 2
    with np.errstate(divide="ignore"):
        return _mean_over_signs(size * np.log1p(-miss))


@public
def sampled_probability(
    dataset: Dataset, width: int, *, draws: int = 2000, seed: Seed = 0
) -> tuple[float, float]:
    """Return P(𝓘) on these data by Monte Carlo over Gaussian w_j and fair signs, and its standard error."""
    checked_dataset(dataset)
    width, draws, rng = count(width, "width"), count(draws, "draws"), generator(seed)
    hits = 0
    for first in range(0, draws, BATCH):
        shape = min(BATCH, draws - first), width
        active = rng.standard_normal((*shape, dataset.dimension)) @ dataset.inputs.T > 0
        signs = rng.choice(np.array([-1.0, 1.0]), shape)
        agrees = signs[:, :, None] * dataset.targets > 0
        hits += int(np.sum(np.all(np.any(active & agrees, axis=1), axis=1)))
    share = hits / draws
    return share, float(np.sqrt(share * (1 - share) / draws))


@public
def sufficient_width(size: int, epsilon: float = 0.05) -> int:
    """Return the smallest m with n(3/4)^m ≤ ε, which makes P(𝓘) ≥ 1 − ε for any inputs.

    App. B takes ⌊ln(n/ε)/ln(4/3)⌋ + 1, the same number unless ln(n/ε)/ln(4/3) is an integer. Lemma 5's
    4 ln(n/ε) is a little more (1/ln(4/3) = 3.476).
    """
    size = count(size, "size")
    return int(np.ceil(np.log(size / probability(epsilon, "epsilon")) / np.log(4 / 3)))


@public
def lemma_5_widths(size: int, epsilon: float = 0.05) -> tuple[float, float]:
    """Return [3 ln(n/ε) − 2, 4 ln(n/ε)], the widths between which P(𝓘) = 1 − ε lies by Lemma 5."""
    logarithm = float(np.log(count(size, "size") / probability(epsilon, "epsilon")))
    return 3 * logarithm - 2, 4 * logarithm


@public
def extinction_time(
    network: ReLUNetwork, dataset: Dataset, *, speed: float | None = None, resting: Resting | None = None
) -> float:
    """Return the time by which wrongly active neurons are off, [weak_interaction] Lemma 7, corrected.

    For orthogonal inputs and while |h(x_i)| ≤ |y_i|/2: ⟨w_j, x_i⟩ of a neuron with a_j y_i < 0 falls at least
    as fast as vs c_j |y_i| ‖x_i‖²/(2n), c_j = √(a_j² − ‖w_j‖²), s the output factor and v the flow's speed
    (the width unless given, so that vs = 1 in the paper), and

        t = 2n/(vs) max ⟨w_j, x_i⟩₊ / (|y_i| ‖x_i‖² c_j) over the pairs with a_j y_i < 0

    (the print has c_j² for c_j; (41) has c_j). Infinite if such a neuron has |a_j| ≤ ‖w_j‖.
    """
    check_relu_problem(network, dataset)
    pace = network.scale * checked_speed(network, speed)
    z = network.preactivations(dataset.inputs)
    active = activity(network, dataset.inputs, resting=resting) > 0
    wrong = active & (network.outer[:, None] * dataset.targets < 0)
    if not wrong.any():
        return 0.0
    excess = network.outer**2 - np.einsum("jd,jd->j", network.inner, network.inner)
    root = np.sqrt(np.maximum(excess, 0.0))
    fall = root[:, None] * (np.abs(dataset.targets) * np.einsum("id,id->i", dataset.inputs, dataset.inputs))
    if np.any(fall[wrong] == 0):
        return float("inf")
    return float(2 * dataset.size / pace * np.max(z[wrong] / fall[wrong]))


def _mean_over_signs(logarithms: Floats) -> float:
    """Return E_k[exp(logarithms_k)], k ~ Bin(m, ½), of (m + 1,) logarithms of probabilities."""
    from scipy.special import gammaln

    width = len(logarithms) - 1
    k = np.arange(width + 1.0)
    weights = gammaln(width + 1) - gammaln(k + 1) - gammaln(width - k + 1) - width * np.log(2)
    return min(1.0, float(np.exp(weights) @ np.exp(logarithms)))


class StartCurvature(NamedTuple):
    """(n/2) μ(0) of a wide start: its limit β₀, and γ₀, the spread of √m ((n/2) μ(0) − β₀)."""

    mean: float
    spread: float


def start_curvature(neurons: ReLUNetwork, dataset: Dataset) -> StartCurvature:
    """Return β₀ and γ₀ of [weak_interaction] Lemma 4 for starts whose neurons are drawn like these.

    neurons: a network so wide that its neurons stand for their distribution, say 10,000 of
    `initialize.asymmetric`; expectations are means over them.
    """
    check_relu_problem(neurons, dataset)
    if neurons.slope:
        raise InvalidInputError(f"neurons: Lemma 4 is about the ReLU, got slope {neurons.slope:g}")
    active = activity(neurons, dataset.inputs) > 0
    z = np.where(active, neurons.preactivations(dataset.inputs), 0.0)
    outputs = neurons.outer[:, None] * z
    moved = outputs - outputs.mean(axis=0)
    residual = dataset.targets - outputs.mean(axis=0)
    square = float(residual @ residual)
    if square == 0:
        raise InvalidInputError("dataset: the mean start must not fit the labels, got residuals of zero")
    first = z @ residual
    pulls = (active * residual) @ dataset.inputs
    # M_j Ỹ for every neuron; its mean and Ỹᵀ M_j Ỹ are what is needed.
    images = first[:, None] * z + (neurons.outer**2)[:, None] * active * (pulls @ dataset.inputs.T)
    quadratic = images @ residual / square
    mean = float(quadratic.mean())
    shifts = moved @ (mean * residual - images.mean(axis=0))
    return StartCurvature(mean, float(np.std(quadratic + 2.0 * shifts / square)))


def largest_bias(dataset: Dataset) -> float:
    """Return a constant coordinate b that may be added to all inputs under Assumption 2, footnote 1.

    With b the interaction is at most ν + (n − 1) b², and the bound becomes (C_x^−² + b²) C_y^−/(√n C_y^+):
    every smaller constant leaves Assumption 2 intact. On orthogonal inputs no larger one does. 0 where
    Assumption 2 fails without it, ∞ for a single sample.

    Examples
    --------
    >>> round(largest_bias(Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0])), 3)
    1.554
    """
    found = interaction(dataset)
    if not found.holds:
        return 0.0
    growth = dataset.size - 1 - found.bound / found.smallest_input**2
    return float(np.sqrt((found.bound - found.norm) / growth)) if growth > 0 else float("inf")
