"""The curvature μ before anything has moved: [weak_interaction] Lemma 4, corrected, and footnote 1.

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

from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.geometry.activity import activity, check_relu_problem
from shallowflow.landscape.weak_interaction.interactions import interaction
from shallowflow.models.networks import ReLUNetwork


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
