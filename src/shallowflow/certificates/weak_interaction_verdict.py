"""The verdict of [weak_interaction] on a data set: do its inputs interact weakly enough to be fitted?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shallowflow.certificates import weak_interaction
from shallowflow.certificates.certificate import Certificate, Hypothesis
from shallowflow.certificates.verdict import Question, Verdict
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.first_activation import lemma_5_widths
from shallowflow.landscape.interaction import dimension_needed, ratio_of
from shallowflow.models.initialize import asymmetric

EPSILON = 0.05
"""Probability with which a start may fail to have a neuron for every sample (Lemma 5), or the inputs to
interact too much (Lemma 3)."""


def verdict(question: Question) -> Verdict:
    """Return whether Thm 1 applies, with its margin, or which hypothesis fails and by how much.

    A network of the width in mind is drawn as in App. B, and the certificate is about it; whether it meets
    what a start must meet is said too. Antipodal inputs are left out of the interaction (App. C.2).

    Examples
    --------
    >>> from shallowflow.data.generators import orthonormal
    >>> verdict(Question(orthonormal(5, labels="bounded"))).applies
    True
    """
    dataset, width = question.dataset, question.width
    start = asymmetric(width, dataset.dimension, seed=question.seed)
    certificate = weak_interaction.theorem_1(start, dataset, antipodal=True)
    named = {hypothesis.name: hypothesis for hypothesis in certificate.hypotheses}
    weak, needed = named[weak_interaction.WEAK], lemma_5_widths(dataset.size, EPSILON)[1]
    assert weak.value is not None
    assert weak.bound is not None
    fails = _failures(named, dataset)
    if width < needed:
        fails.append(f"{width} neurons are fewer than the 4 ln(n/ε) = {needed:.1f} of Lemma 5")
    if fails:
        words = f"Theorem 1 does not apply: {'; '.join(fails)}."
    else:
        words = (
            f"Theorem 1 applies, margin {weak.bound - weak.value:.4g}: the inputs interact with strength "
            f"{weak.value:.4g} of at most {weak.bound:.4g}; a network of {width} neurons (Lemma 5 asks for "
            f"{np.ceil(needed):.0f}) with |a_j| ≥ ‖w_j‖ fits the data with probability at least "
            f"{1 - EPSILON:g}. {_start_sentence(certificate)}"
        )
    numbers = {"ν": weak.value, "ν allowed": weak.bound, "neurons asked for": needed}
    return Verdict("weak_interaction", not fails, (words,), numbers, certificates=(certificate,))


def _failures(named: Mapping[str, Hypothesis], dataset: Dataset) -> list[str]:
    """Say what the data fail, and by how much."""
    weak, small = named[weak_interaction.WEAK], named[weak_interaction.SMALL_START]
    fails = []
    if not named[weak_interaction.NONZERO].holds:
        fails.append("an input or a label is zero, where both must be nonzero")
    elif not weak.holds and weak.value is not None and weak.bound is not None:
        fails.append(
            f"Assumption 2 fails: the inputs interact with strength {weak.value:.4g}, "
            f"{ratio_of(weak.bound, weak.value):.3g} times the {weak.bound:.4g} allowed "
            f"({_dimension_words(dataset)})"
        )
    if small.holds is False:
        fails.append(
            f"(26) fails: the residuals of the start drawn here are too large (ν‖r(0)‖ = {small.value:.4g}, "
            f"allowed {small.bound:.4g})"
        )
    return fails


def _dimension_words(dataset: Dataset) -> str:
    """Say in which dimension as many Gaussian inputs would do."""
    labels = np.abs(dataset.targets)
    ratio = ratio_of(float(labels.min()), float(labels.max()))
    dimension = dimension_needed(dataset.size, ratio, EPSILON)
    if dimension is None:
        return "the labels differ by so much that no dimension would do"
    told = str(dimension) if dimension < 10**9 else f"about 10^{len(str(dimension)) - 1}"
    return f"Gaussian inputs of this number need dimension {told}"


def _start_sentence(certificate: Certificate) -> str:
    """Say whether the drawn start meets its hypotheses."""
    missed = [str(hypothesis) for hypothesis in certificate.hypotheses if not hypothesis.holds]
    if missed:
        return f"The start drawn here does not: {'; '.join(missed)}."
    return "The start drawn here meets what a start must meet."
