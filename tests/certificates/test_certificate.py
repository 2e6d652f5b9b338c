from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import CERTIFICATES, Certificate, Hypothesis, Promise, certify
from shallowflow.data.generators import three_points
from shallowflow.errors import InvalidInputError


@pytest.mark.parametrize(
    ("answers", "holds", "verdict"),
    [
        ((), True, "applies"),
        ((True, True), True, "applies"),
        ((True, None), False, "cannot be decided"),
        ((None, False), False, "does not apply"),
        ((np.True_, np.False_), False, "does not apply"),
    ],
)
def test_a_certificate_holds_if_all_hypotheses_do(
    answers: tuple[bool | None, ...], holds: bool, verdict: str
) -> None:
    certificate = Certificate("x/y", tuple(Hypothesis("h", answer) for answer in answers), ())
    assert certificate.holds is holds
    assert verdict in str(certificate)


@pytest.mark.parametrize(
    ("answers", "kept"),
    [((), True), ((True,), True), ((True, None), None), ((None, False), False), ((np.False_,), False)],
)
def test_promises_are_kept_unless_one_is_broken(answers: tuple[bool | None, ...], kept: bool | None) -> None:
    assert Certificate("x/y", (), tuple(Promise("p", kept=answer) for answer in answers)).kept is kept


def test_a_certificate_reads_as_plain_words() -> None:
    certificate = Certificate(
        "paper/theorem-7",
        (Hypothesis("the data are distinct", True), Hypothesis("the step is small", False, 0.25, 0.1)),
        (Promise("the loss falls below", 1e-3, 2e-3, False), Promise("it converges")),
    )
    assert str(certificate) == (
        "paper/theorem-7: does not apply.\n"
        "  Hypotheses\n"
        "    [holds] the data are distinct\n"
        "    [fails] the step is small (found 0.25, needed 0.1)\n"
        "  Promises\n"
        "    [broken] the loss falls below (promised 0.001, observed 0.002)\n"
        "    [not observed] it converges"
    )


def test_certificates_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Hypothesis("h", True).holds = False  # type: ignore[misc]


def test_unknown_theorems_are_answered_with_the_list() -> None:
    with pytest.raises(
        InvalidInputError, match=r"must be one of plateau/theorem-3.1, .* got 'plateau/9'"
    ) as error:
        certify("plateau/9")
    assert all(name in str(error.value) for name in CERTIFICATES)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("plateau/theorme-3.1", "plateau/theorem-3.1"),
        ("Plateau/Lemma-3.4", "plateau/lemma-3.4"),
        ("corolary-1", "weak_interaction/corollary-1"),
    ],
)
def test_a_mistyped_theorem_is_answered_with_what_was_meant(typed: str, meant: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"; got '{typed}'; did you mean {meant}\?$"):
        certify(typed)


def test_a_theorem_without_its_paper_is_answered_with_those_of_every_paper() -> None:
    with pytest.raises(InvalidInputError) as error:
        certify("theorme2")
    named = " or ".join(name for name in CERTIFICATES if name.endswith("/theorem-2"))
    assert str(error.value).endswith(f"; got 'theorme2'; did you mean {named}?")


def test_missing_and_wrong_arguments_are_named() -> None:
    data, network = three_points(), sf.initialize.balanced(3, 2, seed=0)
    with pytest.raises(InvalidInputError, match=r"theorem-1: .*'dataset'; it takes \(network, data"):
        certify("early_alignment/theorem-1", network)
    with pytest.raises(InvalidInputError, match=r"plateau/lemma-3\.4: .*'wrong'"):
        certify("plateau/lemma-3.4", network, data, wrong=1)
    with pytest.raises(InvalidInputError, match="dataset: must be a Dataset, got None"):
        certify("early_alignment/theorem-4", network, None)
    with pytest.raises(InvalidInputError, match="trajectory: must be a Trajectory, got 3"):
        certify("early_alignment/theorem-4", network, data, 3)
    with pytest.raises(InvalidInputError, match="theorem: must be one of"):
        certify(3)  # type: ignore[arg-type]
