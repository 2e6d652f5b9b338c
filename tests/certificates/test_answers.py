"""`certify_all`: every theorem answers for whatever is at hand, and raises nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import CERTIFICATES, certify

RNG = np.random.default_rng(0)
NETWORKS: dict[str, Any] = {
    "knots": sf.KnotNetwork([-0.5, 0.3], [1.0, 2.0]),
    "plane": sf.ReLUNetwork(RNG.normal(size=(4, 2)), RNG.normal(size=4)),
    "zero": sf.ReLUNetwork(np.zeros((4, 2)), np.zeros(4)),
    "orthogonal": sf.ReLUNetwork(RNG.normal(size=(4, 6)), RNG.normal(size=4)),
    "tiny": sf.initialize.log_scaled(6, 6, log_scale=-50.0, seed=0),
    "steps": sf.initialize.uniform_positions(20, sharpness=4e-3, seed=0),
    "cuboids": sf.initialize.uniform_cuboids(5, 2, sharpness=0.01, seed=0),
}
DATA: dict[str, Any] = {
    "curve": sf.data.GENERATORS["curve"]("sin_pi", size=12),
    "three": sf.data.GENERATORS["three_points"](),
    "orthonormal": sf.data.GENERATORS["orthonormal"](6, seed=0),
    "steps": sf.PiecewiseConstant([0.2, 0.5], [1.0, 4.0, 1.0]),
    "no jump": sf.PiecewiseConstant([0.5], [1.0, 1.0]),
    "affine": sf.PiecewiseAffine((0.0, 0.5, 1.0), (0.0, 1.0, 0.0)),
}


@pytest.mark.parametrize("network", [*NETWORKS, None])
@pytest.mark.parametrize("data", [*DATA, None])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_every_theorem_answers_for_any_network_and_data(network: str | None, data: str | None) -> None:
    given = [*([NETWORKS[network]] if network else []), *([DATA[data]] if data else [])]
    answers = sf.certify_all(*given)
    assert list(answers) == list(CERTIFICATES)
    for theorem, certificate in answers.items():
        assert certificate.theorem == theorem
        assert bool(certificate.reason) != bool(certificate.hypotheses)
        assert not (certificate.reason and (certificate.holds or certificate.kept))
    assert len(str(answers).splitlines()) == len(CERTIFICATES)


def test_a_run_gives_its_network_and_its_data() -> None:
    network, data = NETWORKS["knots"], DATA["curve"]
    flow = sf.gradient_flow(network, data, until=0.01)
    answers = sf.certify_all(flow)
    for theorem in (name for name in CERTIFICATES if name.startswith("plateau")):
        run = () if theorem.endswith(("3.4", "3.5")) else (flow,)
        assert answers[theorem] == certify(theorem, network, data, *run)
    assert answers == sf.certify_all(data, flow, network)
    assert str(answers["two_timescale/prop-1"]) == (
        "two_timescale/prop-1: does not apply because it is about a StepNetwork, not about a KnotNetwork."
    )


def test_steps_are_certified_with_their_run() -> None:
    flow = sf.population_flow(NETWORKS["steps"], DATA["steps"], until=0.1, epsilon=0.1)
    answers = sf.certify_all(flow, papers=["two_timescale"])
    assert list(answers) == [name for name in CERTIFICATES if name.startswith("two_timescale")]
    expected = certify("two_timescale/prop-4", NETWORKS["steps"], DATA["steps"], flow)
    assert answers["two_timescale/prop-4"] == expected
    assert "ε is small enough" in str(answers)


def test_a_limit_of_tiny_starts_is_read_by_its_paper() -> None:
    limit = sf.saddle_to_saddle(NETWORKS["tiny"], DATA["orthonormal"])
    answers = sf.certify_all(NETWORKS["tiny"], limit)
    expected = certify("incremental/theorem-3", NETWORKS["tiny"], DATA["orthonormal"], limit=limit)
    assert answers["incremental/theorem-3"] == expected
    assert "limit of tiny starts" in answers["early_alignment/theorem-1"].reason


def test_what_contradicts_itself_is_refused() -> None:
    flow = sf.gradient_flow(NETWORKS["knots"], DATA["curve"], until=0.01)
    for given, words in (
        ((flow, NETWORKS["plane"]), "the network must be that of the run"),
        ((flow, DATA["steps"]), "the data must be those of the run"),
        ((flow, flow), "one trajectory at most"),
        ((1.0,), "must be a network, a data set or target, and a trajectory, got 1"),
    ):
        with pytest.raises(sf.InvalidInputError, match=words):
            sf.certify_all(*given)
    with pytest.raises(sf.InvalidInputError, match="papers"):
        sf.certify_all(flow, papers=["nope"])
