"""What a theorem promises, checked: `certify(theorem, …)`, one file per paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shallowflow.certificates import (
    early_alignment,
    incremental,
    plateau,
    two_timescale,
    weak_interaction,
    weak_interaction_collapse,
    weak_interaction_groups,
)
from shallowflow.certificates.certificate import Certificate, Hypothesis, Promise
from shallowflow.errors import InvalidInputError

CERTIFICATES: dict[str, Callable[..., Certificate]] = {
    "plateau/theorem-3.1": plateau.theorem_3_1,
    "plateau/theorem-3.2": plateau.theorem_3_2,
    "plateau/theorem-3.3": plateau.theorem_3_3,
    "plateau/lemma-3.4": plateau.lemma_3_4,
    "plateau/theorem-3.5": plateau.theorem_3_5,
    "early_alignment/lemma-1": early_alignment.lemma_1,
    "early_alignment/theorem-1": early_alignment.theorem_1,
    "early_alignment/theorem-2": early_alignment.theorem_2,
    "early_alignment/theorem-3": early_alignment.theorem_3,
    "early_alignment/theorem-4": early_alignment.theorem_4,
    "weak_interaction/theorem-1": weak_interaction.theorem_1,
    "weak_interaction/corollary-1": weak_interaction.corollary_1,
    "weak_interaction/prop-1": weak_interaction.proposition_1,
    "weak_interaction/prop-2": weak_interaction_groups.proposition_2,
    "weak_interaction/theorem-2": weak_interaction_groups.theorem_2,
    "weak_interaction/prop-3": weak_interaction_collapse.proposition_3,
    "incremental/theorem-2": incremental.theorem_2,
    "incremental/theorem-3": incremental.theorem_3,
    "two_timescale/definition-2": two_timescale.definition_2,
    "two_timescale/lemma-10": two_timescale.lemma_10,
    "two_timescale/prop-1": two_timescale.prop_1,
    "two_timescale/prop-3": two_timescale.prop_3,
    "two_timescale/prop-4": two_timescale.prop_4,
    "two_timescale/theorem-1": two_timescale.theorem_1,
    "two_timescale/theorem-2": two_timescale.theorem_2,
}


def certify(theorem: str, *args: Any, **kwargs: Any) -> Certificate:
    """Return the certificate of a theorem, by its name in `CERTIFICATES`, for what that theorem is about.

    Examples
    --------
    >>> from shallowflow.data import Dataset
    >>> from shallowflow.models import KnotNetwork
    >>> data = Dataset([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
    >>> certify("plateau/lemma-3.4", KnotNetwork([0.0], [1.0]), data).holds
    True
    """
    if theorem not in CERTIFICATES:
        raise InvalidInputError(f"theorem: must be one of {', '.join(CERTIFICATES)}; got {theorem!r}")
    return CERTIFICATES[theorem](*args, **kwargs)


__all__ = ["CERTIFICATES", "Certificate", "Hypothesis", "Promise", "certify"]
