"""The certificates on reference flows, on fully trained networks, and on what they must refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.certificates import Certificate, Promise, certify
from shallowflow.data.dataset import Dataset
from shallowflow.dynamics.clock.trajectory import Trajectory
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.plateau.levels import plateau_level, rate_bounds
from shallowflow.landscape.plateau.stationary import fully_trained
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork
from tests.landscape.frozen_flow import Piece, flow_pieces
from tests.landscape.geometry.test_blocks import problem
from tests.landscape.plateau.test_levels import random_problem
from tests.readings.test_stages import polynomials_of

SUM = SquareLoss("sum")


def flow(seed: int, until: float = 4.0) -> tuple[KnotNetwork, Dataset, Trajectory, list[Piece]]:
    network, dataset = random_problem(seed)
    pieces = flow_pieces(network, dataset, until=until, most=8)
    return network, dataset, polynomials_of(pieces, SUM), pieces


def promise(certificate: Certificate, words: str) -> Promise:
    [found] = [promise for promise in certificate.promises if words in promise.statement]
    return found


@pytest.mark.parametrize("seed", [1, 11, 12, 60])
def test_theorem_3_1_is_kept_by_flows(seed: int) -> None:
    network, dataset, trajectory, pieces = flow(seed)
    certificate = certify("plateau/theorem-3.1", network, dataset, trajectory, accuracy=1e-7)
    assert certificate.holds
    assert certificate.hypotheses[0].value == len(pieces)
    for words in ("upper bound", "lower bound"):
        assert promise(certificate, words).kept
    level = promise(certificate, "towards this level")
    assert level.bound == pytest.approx(plateau_level(network, dataset, SUM))


def test_theorem_3_1_is_broken_by_what_is_no_flow() -> None:
    network, dataset, trajectory, _ = flow(60)
    slow = certify("plateau/theorem-3.1", network, dataset, trajectory, speed=1e-4)
    assert promise(slow, "lower bound").kept is False
    assert promise(slow, "upper bound").kept is True
    fast = certify("plateau/theorem-3.1", network, dataset, trajectory, speed=1e4)
    assert promise(fast, "upper bound").kept is False
    assert promise(fast, "lower bound").kept is True
    assert fast.kept is False


def test_theorem_3_1_of_a_network_alone() -> None:
    network, dataset = random_problem(2)
    certificate = certify("plateau/theorem-3.1", network, dataset, speed=3.0)
    assert certificate.holds
    bounds = rate_bounds(network, dataset)
    assert promise(certificate, "at least at twice").bound == pytest.approx(3 * bounds.r_min)
    assert promise(certificate, "at most at twice").bound == pytest.approx(3 * bounds.r_max)
    assert promise(certificate, "is positive").kept
    on_point = KnotNetwork(dataset.inputs[:1, 0], [1.0])
    assert not certify("plateau/theorem-3.1", on_point, dataset).holds
    silent = KnotNetwork([-2.0, -1.5], [1.0, 0.0])
    statements = [p.statement for p in certify("plateau/theorem-3.1", silent, dataset).promises]
    assert not any("is positive" in statement for statement in statements)


def test_theorem_3_2_at_the_end_of_a_long_and_of_a_short_stage() -> None:
    outcomes = []
    for seed, chosen in ((1, (0, 4)), (12, (2, 3, 4))):
        network, dataset, trajectory, pieces = flow(seed, until=10.0)
        for stage in chosen:
            certificate = certify("plateau/theorem-3.2", network, dataset, trajectory, stage=stage)
            levels = [plateau_level(piece.middle, dataset, SUM) for piece in pieces[stage : stage + 2]]
            [lower] = certificate.promises
            assert (lower.bound, lower.observed) == pytest.approx(tuple(levels), abs=1e-9)
            assert lower.kept is (levels[1] < levels[0])
            assert lower.kept or not certificate.holds
            left, threshold = certificate.hypotheses[1].value, certificate.hypotheses[1].bound
            assert left == pytest.approx(np.exp(-pieces[stage].decays[0][-1]), rel=1e-4)
            assert threshold is not None
            outcomes.append(certificate.holds)
    assert set(outcomes) == {True, False}


def test_theorem_3_2_without_an_end() -> None:
    network, dataset, trajectory, pieces = flow(60)
    for given_ in ((), (trajectory,)):
        certificate = certify("plateau/theorem-3.2", network, dataset, *given_, **_last(given_, pieces))
        assert not certificate.holds
        assert certificate.hypotheses[0].holds is None
    with pytest.raises(
        InvalidInputError, match=f"stage: the trajectory has stages 0 to {len(pieces) - 1}, got 99"
    ):
        certify("plateau/theorem-3.2", network, dataset, trajectory, stage=99)


def _last(given_: tuple[Trajectory, ...], pieces: list[Piece]) -> dict[str, int]:
    return {"stage": len(pieces) - 1} if given_ else {}


def test_theorem_3_3_where_the_flow_is_trapped_and_where_it_may_not_be() -> None:
    network, dataset, trajectory, pieces = flow(11, until=10.0)
    assert certify("plateau/theorem-3.3", network, dataset).hypotheses[0].holds is None
    certificate = certify("plateau/theorem-3.3", network, dataset, trajectory)
    assert certificate.holds
    assert promise(certificate, "stationary point").kept is None  # on its way, not there yet
    inside = pieces[-1].network(6.0)
    [rest] = flow_pieces(inside, dataset, until=50.0)
    later = certify("plateau/theorem-3.3", inside, dataset, polynomials_of([rest], SUM))
    assert later.holds
    moves = promise(later, "move at most")
    assert moves.kept
    assert moves.observed is not None
    assert moves.observed > 0
    assert later.kept


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 10_000))
def test_lemma_3_4_constants_hold_for_every_network(seed: int) -> None:
    network, dataset = problem(seed)
    certificate = certify("plateau/lemma-3.4", network, dataset, tolerance=1e-12)
    assert certificate.kept
    residual = network.predict(dataset.inputs) - dataset.targets
    gradient = np.concatenate(list(network.pullback(dataset.inputs, residual).values()))
    assert certificate.promises[0].observed == pytest.approx(np.linalg.norm(gradient), rel=1e-9, abs=1e-12)
    assert certificate.hypotheses[1].holds is (certificate.promises[0].bound == 0)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.integers(0, 10_000))
def test_lemma_3_4_and_theorem_3_5_of_fully_trained_networks(seed: int) -> None:
    network, dataset = problem(seed)
    trained = fully_trained(network.knots, dataset)
    for name in ("plateau/lemma-3.4", "plateau/theorem-3.5"):
        certificate = certify(name, trained, dataset)
        assert certificate.kept
        if np.all(trained.outer != 0):
            assert certificate.holds


def test_theorem_3_5_of_a_network_in_training() -> None:
    network, dataset = random_problem(3)
    certificate = certify("plateau/theorem-3.5", network, dataset)
    assert not certificate.holds
    assert certificate.hypotheses[0].holds is False
    assert certificate.kept  # the bound ‖∇L‖/√r_min on the lines' difference holds anywhere


def test_a_zero_coefficient_is_reported() -> None:
    dataset = Dataset([[1.0], [2.0]], [2.0, -1.0])
    for name in ("plateau/lemma-3.4", "plateau/theorem-3.5"):
        certificate = certify(name, KnotNetwork([0.0], [0.0]), dataset)
        [zero] = [h for h in certificate.hypotheses if "coefficient" in h.name]
        assert zero.holds is False
