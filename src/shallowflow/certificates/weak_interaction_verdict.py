"""The verdict of [weak_interaction] on a data set: do its inputs interact weakly enough to be fitted?"""

from __future__ import annotations

from shallowflow.certificates import weak_interaction
from shallowflow.certificates.verdict import Question, Verdict


def verdict(question: Question) -> Verdict:
    """Return whether Theorem 1 applies, with its margin, or which hypothesis fails and by how much."""
    found = weak_interaction.verdict(question.dataset, width=question.width, seed=question.seed)
    return Verdict("weak_interaction", found.applies, (found.sentence,), certificates=(found.certificate,))
