"""The verdict of [weak_interaction] on a data set: do its inputs interact weakly enough to be fitted?"""

from __future__ import annotations

import numpy as np

from shallowflow.certificates import weak_interaction
from shallowflow.certificates.verdict import Question, Verdict


def verdict(question: Question) -> Verdict:
    """Return whether Theorem 1 applies, with its margin, or which hypothesis fails and by how much."""
    try:
        with np.errstate(divide="raise", over="raise"):
            found = weak_interaction.verdict(question.dataset, width=question.width, seed=question.seed)
    except ArithmeticError:
        words = "Theorem 1 does not apply: the labels differ by so much that no number can say what it needs."
        return Verdict("weak_interaction", False, (words,))
    return Verdict("weak_interaction", found.applies, (found.sentence,), certificates=(found.certificate,))
