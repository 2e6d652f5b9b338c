"""The event 𝓘 of [weak_interaction] Lemma 5, that every sample has a neuron of its own sign, and extinction.

𝓘: for each i there is a j with ⟨w_j, x_i⟩ > 0 and a_j y_i > 0. For orthogonal inputs and rotation-invariant
weights with fair signs all events are independent given k, the number of positive neurons, so that

    P(𝓘) = E_k[(1 − 2^{−k})^{n₊} (1 − 2^{−(m−k)})^{n₋}],  k ~ Bin(m, ½),

for n₊ positive and n₋ negative labels; with fair label signs, P(𝓘) = E_k[(1 − (2^{−k} + 2^{−(m−k)})/2)^n].
Correlated inputs share neurons, hence `sampled_probability`. The union bound 1 − n(3/4)^m ≤ P(𝓘) holds for
any inputs and gives Lemma 5's first rule m ≥ 4 ln(n/ε). Its second rule, that m ≤ 3 ln(n/ε) − 2 makes
P(𝓘) ≤ 1 − ε, is false: (14) uses (ε/n)^{3 ln 2} ≥ ε/n, but 3 ln 2 > 1. For n = 1000 labels of one sign,
ε = 0.6 and m = 20, P(𝓘) = 0.404.
"""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Bools, Floats, Seed, count, generator, probability
from shallowflow.data.dataset import Dataset, checked_dataset
from shallowflow.landscape.geometry.activity import Resting, activity, check_relu_problem
from shallowflow.landscape.weak_interaction.interactions import checked_speed
from shallowflow.models.networks import ReLUNetwork

BATCH = 200
"""Networks drawn at once by `sampled_probability`."""


def correctly_activated(network: ReLUNetwork, dataset: Dataset, *, resting: Resting | None = None) -> Bools:
    """Return for every sample whether some neuron is active on it and has the sign of its label."""
    check_relu_problem(network, dataset)
    active = activity(network, dataset.inputs, resting=resting) > 0
    agrees = network.outer[:, None] * dataset.targets > 0
    return np.asarray(np.any(active & agrees, axis=0))


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


def fair_activation_probability(width: int, size: int) -> float:
    """Return P(𝓘) for n orthogonal inputs whose labels have fair signs."""
    width, size = count(width, "width"), count(size, "size")
    k = np.arange(width + 1.0)
    miss = (2.0**-k + 2.0 ** -(width - k)) / 2
    with np.errstate(divide="ignore"):
        return _mean_over_signs(size * np.log1p(-miss))


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


def sufficient_width(size: int, epsilon: float = 0.05) -> int:
    """Return the smallest m with n(3/4)^m ≤ ε, which makes P(𝓘) ≥ 1 − ε for any inputs.

    App. B takes ⌊ln(n/ε)/ln(4/3)⌋ + 1, the same number unless ln(n/ε)/ln(4/3) is an integer. Lemma 5's
    4 ln(n/ε) is a little more (1/ln(4/3) = 3.476).
    """
    size = count(size, "size")
    return int(np.ceil(np.log(size / probability(epsilon, "epsilon")) / np.log(4 / 3)))


def lemma_5_widths(size: int, epsilon: float = 0.05) -> tuple[float, float]:
    """Return [3 ln(n/ε) − 2, 4 ln(n/ε)], the widths between which P(𝓘) = 1 − ε lies by Lemma 5."""
    logarithm = float(np.log(count(size, "size") / probability(epsilon, "epsilon")))
    return 3 * logarithm - 2, 4 * logarithm


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
