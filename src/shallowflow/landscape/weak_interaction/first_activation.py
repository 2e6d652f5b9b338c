"""The event 𝓘 of [weak_interaction] Lemma 5, that every sample has a neuron of its own sign, and extinction.

𝓘: for each i there is a j with ⟨w_j, x_i⟩ > 0 and a_j y_i > 0. For orthogonal inputs and rotation-invariant
weights with fair signs all events are independent given k, the number of positive neurons, so that

    P(𝓘) = E_k[(1 − 2^{−k})^{n₊} (1 − 2^{−(m−k)})^{n₋}],  k ~ Bin(m, ½),

for n₊ positive and n₋ negative labels; with fair label signs, P(𝓘) = E_k[(1 − (2^{−k} + 2^{−(m−k)})/2)^n].
Correlated inputs share neurons, hence `sampled_probability`. The union bound 1 − n(3/4)^m ≤ P(𝓘) holds for
any inputs and gives Lemma 5's first rule m ≥ 4 ln(n/ε). Its second rule, that m ≤ 3 ln(n/ε) − 2 makes
P(𝓘) ≤ 1 − ε, is false: (14) uses (ε/n)^{3 ln 2} ≥ ε/n, but 3 ln 2 > 1. For n = 1000 labels of one sign,
ε = 0.6 and m = 20, P(𝓘) = 0.404.

The curvature μ before anything has moved: [weak_interaction] Lemma 4, corrected, and footnote 1.

With output factor 1/m, speed m, residuals R = Y − (1/m) Σ_j h_j, h_j = a_j ⟨w_j, X⟩₊, and M_j the matrix of
the form R ↦ ⟨w_j, X P_j R⟩² + a_j² ‖X P_j R‖² (P_j: the samples on which neuron j is active),

    (n/2) μ(0) = (1/m) Σ_j Rᵀ M_j R / ‖R‖² .

As m → ∞ R tends to Ỹ = Y − E h, and (n/2) μ(0) to β₀ = Ỹᵀ E[M] Ỹ/‖Ỹ‖². To first order each neuron adds

    φ_j = (Ỹᵀ M_j Ỹ − 2 Ỹᵀ E[M] (h_j − E h) + 2β₀ Ỹᵀ (h_j − E h)) / ‖Ỹ‖² − β₀ ,

so that √m ((n/2) μ(0) − β₀) → N(0, γ₀²), γ₀² = Var φ. (The print has 2/n for n/2; (61) lacks 1/‖R‖², (66)
besides the terms that this brings, and all covariances.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Bools, Floats, Seed, count, generator, probability, public
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import Resting, activity, check_relu_problem
from shallowflow.landscape.weak_interaction.interactions import checked_speed, interaction
from shallowflow.models.networks import ReLUNetwork

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
