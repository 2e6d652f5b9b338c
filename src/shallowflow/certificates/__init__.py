"""What a theorem promises, checked: `certify(theorem, …)`, `certify_all(…)`, one file per paper."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from shallowflow.arrays import Choices, members, one_of, shown
from shallowflow.certificates import (
    alignment_phase,
    early_alignment,
    incremental,
    plateau,
    two_timescale,
    weak_interaction,
    weak_interaction_rates,
)
from shallowflow.certificates.certificate import (
    Answers,
    Certificate,
    Hypothesis,
    Promise,
    Question,
    Table,
    Verdict,
    answer,
    sort_out,
)
from shallowflow.certificates.weak_interaction_rates import Along, along
from shallowflow.data.dataset import checked_dataset
from shallowflow.dynamics.clock.trajectory import checked_trajectory
from shallowflow.errors import InvalidInputError

CERTIFICATES: dict[str, Callable[..., Certificate]] = Choices(
    "theorem",
    {
        "plateau/theorem-3.1": plateau.theorem_3_1,
        "plateau/theorem-3.2": plateau.theorem_3_2,
        "plateau/theorem-3.3": plateau.theorem_3_3,
        "plateau/lemma-3.4": plateau.lemma_3_4,
        "plateau/theorem-3.5": plateau.theorem_3_5,
        "early_alignment/lemma-1": early_alignment.lemma_1,
        "early_alignment/theorem-1": alignment_phase.theorem_1,
        "early_alignment/theorem-2": early_alignment.theorem_2,
        "early_alignment/theorem-3": alignment_phase.theorem_3,
        "early_alignment/theorem-4": early_alignment.theorem_4,
        "weak_interaction/theorem-1": weak_interaction.theorem_1,
        "weak_interaction/corollary-1": weak_interaction.corollary_1,
        "weak_interaction/prop-1": weak_interaction_rates.prop_1,
        "weak_interaction/prop-2": weak_interaction_rates.prop_2,
        "weak_interaction/theorem-2": weak_interaction_rates.theorem_2,
        "weak_interaction/prop-3": weak_interaction_rates.prop_3,
        "weak_interaction/from-now": weak_interaction_rates.from_now,
        "incremental/theorem-2": incremental.theorem_2,
        "incremental/theorem-3": incremental.theorem_3,
        "two_timescale/definition-2": two_timescale.definition_2,
        "two_timescale/lemma-10": two_timescale.lemma_10,
        "two_timescale/prop-1": two_timescale.prop_1,
        "two_timescale/prop-3": two_timescale.prop_3,
        "two_timescale/prop-4": two_timescale.prop_4,
        "two_timescale/theorem-1": two_timescale.theorem_1,
        "two_timescale/theorem-2": two_timescale.theorem_2,
        "two_timescale/appendix-a": two_timescale.appendix_a,
    },
)

VERDICTS: dict[str, Callable[[Question], Verdict]] = Choices(
    "paper",
    {
        "two_timescale": two_timescale.verdict,
        "early_alignment": early_alignment.verdict,
        "incremental": incremental.verdict,
        "weak_interaction": weak_interaction.verdict,
        "plateau": plateau.verdict,
    },
)
"""What the papers say about a data set, by the paper's word."""


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
    check = CERTIFICATES[one_of(theorem, "theorem", CERTIFICATES)]
    _check_arguments(theorem, check, args, kwargs)
    return check(*args, **kwargs)


def certify_all(*given: object, papers: Sequence[str] | None = None) -> Answers:
    """Return what every theorem says about a network, a data set or target, and a run, in any order.

    Any of the three may be left out; a run gives its network at the start and its data unless they are given.
    A theorem about something else does not apply, because …: nothing raises. papers: their words, all by
    default.

    Examples
    --------
    >>> from shallowflow.data import Dataset
    >>> from shallowflow.models import KnotNetwork
    >>> data = Dataset([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
    >>> answers = certify_all(KnotNetwork([0.0], [1.0]), data)
    >>> print(answers["plateau/lemma-3.4"].holds)
    True
    >>> print(answers["two_timescale/prop-1"])
    two_timescale/prop-1: does not apply because it is about a StepNetwork, not about a KnotNetwork.
    """
    asked = sort_out(given)
    words = (
        VERDICTS
        if papers is None
        else [
            one_of(paper, "papers", VERDICTS) for paper in members(papers, "papers", "words of papers", str)
        ]
    )
    return Answers(
        {
            theorem: answer(theorem, check, asked)
            for theorem, check in CERTIFICATES.items()
            if theorem.partition("/")[0] in words
        }
    )


def _check_arguments(
    theorem: str, check: Callable[..., Certificate], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Refuse arguments that a theorem does not take, or without those it needs."""
    signature = inspect.signature(check)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        taken = ", ".join(
            name if one.default is one.empty else f"{name}={shown(one.default)}"
            for name, one in signature.parameters.items()
        )
        raise InvalidInputError(f"{theorem}: {error}; it takes ({taken})") from error
    if "dataset" in signature.parameters:
        checked_dataset(given.get("dataset"))
    if given.get("trajectory") is not None:
        checked_trajectory(given["trajectory"])


__all__ = [
    "CERTIFICATES",
    "VERDICTS",
    "Along",
    "Answers",
    "Certificate",
    "Hypothesis",
    "Promise",
    "Question",
    "Table",
    "Verdict",
    "along",
    "certify",
    "certify_all",
]
