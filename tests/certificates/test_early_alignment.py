"""Certificates of the early-alignment paper: verdicts worked out by hand, promises against runs."""

from __future__ import annotations

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import Certificate, Hypothesis, Promise, certify
from shallowflow.data import Dataset
from shallowflow.data.generators import three_points
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import alignment_threshold, least_squares

DATA = three_points()
FITTING = Dataset([[-0.95, 1.0], [0.0, 1.0], [0.95, 1.0]], [1.0, 0.05, 1.0])
SADDLE = Dataset([[0.0, -2.0, 1.0], [-1.0, 2.0, 2.0], [-1.0, 0.0, 2.0], [-1.0, 2.0, 0.0]], [-1.0] * 4)
SMALL = sf.initialize.dominated(24, 2, init_scale=1e-45, seed=1)


def hypothesis(certificate: Certificate, text: str) -> Hypothesis:
    (found,) = (entry for entry in certificate.hypotheses if text in entry.name)
    return found


def promise(certificate: Certificate, text: str) -> Promise:
    (found,) = (entry for entry in certificate.promises if text in entry.statement)
    return found


@pytest.fixture(scope="module")
def aligning() -> sf.Trajectory:
    """A start so small that τ comes after the time t₂ of the proof of Thm 3."""
    return sf.gradient_flow(SMALL, DATA, until=50.0, engine="walls")


def test_lemma_1_holds_along_a_flow_and_up_to_the_step_along_a_descent() -> None:
    network = sf.initialize.balanced(20, 2, init_scale=0.1, seed=0)
    flow = certify("early_alignment/lemma-1", network, DATA, sf.gradient_flow(network, DATA, until=20.0))
    assert flow.holds
    assert flow.kept
    descent = sf.gradient_descent(network, DATA, step=0.05, steps=400)
    coarse = certify("early_alignment/lemma-1", network, DATA, descent)
    assert promise(coarse, "a_j² − ‖w_j‖²").kept is False
    drift = promise(coarse, "a_j² − ‖w_j‖²").observed
    later = [descent(float(t)) for t in descent.path.times]
    change = max(float(np.max(np.abs(n.outer**2 - np.sum(n.inner**2, 1)))) for n in later)  # type: ignore[union-attr]
    size = max(float(np.max(n.outer**2 + np.sum(n.inner**2, 1))) for n in later)  # type: ignore[union-attr]
    assert drift == pytest.approx(change / size, rel=1e-6)
    assert certify("early_alignment/lemma-1", network, DATA).kept is None


def test_lemma_1_promises_no_signs_to_unbalanced_neurons() -> None:
    network = sf.initialize.gaussian(20, 2, init_scale=1e-3, seed=0)
    run = sf.gradient_flow(network, DATA, until=20.0)
    certificate = certify("early_alignment/lemma-1", network, DATA, run)
    assert [entry.statement for entry in certificate.promises if "sign" in entry.statement] == []
    assert certificate.kept
    assert np.any(run.final.outer * network.outer < 0)


def test_theorem_3_is_kept_where_its_bound_says_something(aligning: sf.Trajectory) -> None:
    certificate = certify("early_alignment/theorem-3", SMALL, DATA, aligning, epsilon=0.33)
    assert certificate.holds
    assert certificate.kept
    threshold = alignment_threshold(DATA, epsilon=0.33, alpha_0=1.0)
    assert threshold.arrival(positive=True) < threshold.time(1e-45)
    bound = promise(certificate, "aligned").bound
    assert bound is not None
    assert bound < 0.01
    assert promise(certificate, "not where").bound == 0
    chosen = hypothesis(certificate, "Condition 2.1")
    on = np.any(SMALL.inner @ DATA.inputs.T > 0, axis=1)
    assert chosen.value == np.sum(on & (SMALL.outer > 0))


def test_theorem_1_at_the_same_start(aligning: sf.Trajectory) -> None:
    certificate = certify("early_alignment/theorem-1", SMALL, DATA, aligning, epsilon=0.33)
    assert certificate.holds
    assert hypothesis(certificate, "λ*").value == pytest.approx(1e-45)
    assert hypothesis(certificate, "λ*").bound == alignment_threshold(DATA, epsilon=0.33).scale
    factor = promise(certificate, "factor")
    assert factor.bound == pytest.approx(1e-45**-0.66)
    assert factor.kept
    # Its t₂ is far beyond τ: nothing is promised about the cones, though all neurons have arrived.
    assert promise(certificate, "not where").bound is None
    assert promise(certificate, "not where").observed == 0
    assert promise(certificate, "aligned").kept


def test_a_run_that_has_not_reached_tau_is_not_judged() -> None:
    short = sf.gradient_flow(SMALL, DATA, until=5.0)
    certificate = certify("early_alignment/theorem-3", SMALL, DATA, short, epsilon=0.33)
    assert certificate.holds
    assert certificate.kept is None
    assert promise(certificate, "factor").observed is None


def test_promises_are_broken_by_a_trajectory_that_does_not_follow_them(aligning: sf.Trajectory) -> None:
    """The flow's neurons turned by hand: the certificate must notice."""
    from dataclasses import replace

    from shallowflow.dynamics.clock.paths import Polynomials, lobatto_nodes

    path, nodes = aligning.path, lobatto_nodes(8)
    steps = zip(path.times[:-1], path.times[1:], strict=True)
    swapped = np.array([path.table(start + (end - start) * nodes) for start, end in steps])
    inner = swapped[..., : SMALL.inner.size].reshape(*swapped.shape[:2], *SMALL.inner.shape)
    inner[..., 0] *= -1.0
    wrong = replace(aligning, path=Polynomials(path.template, path.times, swapped))
    certificate = certify("early_alignment/theorem-3", SMALL, DATA, wrong, epsilon=0.33)
    assert certificate.kept is False
    assert promise(certificate, "aligned").kept is False
    faster = swapped.copy()
    faster[..., SMALL.inner.size :] *= 1e40
    wrong = replace(aligning, path=Polynomials(path.template, path.times, faster))
    certificate = certify("early_alignment/theorem-3", SMALL, DATA, wrong, epsilon=0.33)
    assert promise(certificate, "factor").kept is False


def test_a_large_or_unbalanced_start_fails_its_hypothesis() -> None:
    large = certify("early_alignment/theorem-1", sf.initialize.balanced(9, 2, init_scale=0.1, seed=0), DATA)
    assert hypothesis(large, "λ*").holds is False
    assert hypothesis(large, "(4)").holds is True
    unbalanced = certify(
        "early_alignment/theorem-1", sf.initialize.gaussian(9, 2, init_scale=1e-6, seed=0), DATA
    )
    assert hypothesis(unbalanced, "(4)").holds is False
    leaky = sf.initialize.dominated(9, 2, init_scale=1e-9, slope=0.1, seed=0)
    assert hypothesis(certify("early_alignment/theorem-1", leaky, DATA), "Condition 1.2").holds is None


def test_theorem_1_says_that_there_is_a_saddle() -> None:
    certificate = certify("early_alignment/theorem-1", None, SADDLE)
    assert not certificate.holds
    assert hypothesis(certificate, "saddle").holds is False
    assert hypothesis(certificate, "saddle").value == 1
    assert [entry.name for entry in certificate.hypotheses if not entry.holds] == [
        hypothesis(certificate, "saddle").name
    ]
    third = certify("early_alignment/theorem-3", None, SADDLE)
    assert hypothesis(third, "Condition 2.2").holds is None
    assert certify("early_alignment/theorem-1", None, DATA).holds


def test_degenerate_data_fail_general_position() -> None:
    twice = Dataset([[1.0, 0.5], [2.0, 1.0], [0.0, 1.0]], [1.0, 0.5, 1.0])
    assert hypothesis(certify("early_alignment/theorem-1", None, twice), "general position").holds is False


def test_data_with_too_many_cones_leave_the_question_open() -> None:
    rng = np.random.default_rng(0)
    data = Dataset(rng.standard_normal((40, 5)), rng.standard_normal(40))
    certificate = certify("early_alignment/theorem-1", None, data)
    assert not certificate.holds
    assert hypothesis(certificate, "saddle").holds is None
    assert hypothesis(certificate, "general position").holds is None


def test_theorem_2_does_not_apply_to_the_three_points_of_the_experiment() -> None:
    """y₃ = 0.8 < 1 and Assumption 5 fails at x₃: 0.8125 < √1.86·√(0.9375² + 0.90625²) = 1.7783."""
    certificate = certify("early_alignment/theorem-2", None, DATA)
    failed = {entry.name.split(":")[0] for entry in certificate.hypotheses if entry.holds is False}
    assert failed == {"Assumption 3 holds with η < 1/6", "Assumption 5"}
    assert hypothesis(certificate, "Assumption 5").value == pytest.approx(0.8125 - 1.7783, abs=1e-4)


def test_the_promise_of_theorem_2_is_kept_on_the_three_points_all_the_same() -> None:
    network = sf.initialize.balanced(30, 2, init_scale=1e-4, seed=0)
    run = sf.gradient_descent(network, DATA, step=0.2, steps=4_000)
    certificate = certify("early_alignment/theorem-2", network, DATA, run)
    assert not certificate.holds
    assert certificate.kept
    assert promise(certificate, "loss").bound == pytest.approx(0.0875213675, abs=1e-10)
    short = sf.gradient_descent(network, DATA, step=0.2, steps=100)
    assert certify("early_alignment/theorem-2", network, DATA, short).kept is None


def test_theorems_2_and_4_apply_to_points_of_assumption_3_and_are_kept() -> None:
    for theorem in ("theorem-2", "theorem-4"):
        assert certify(f"early_alignment/{theorem}", None, FITTING).holds
    network = sf.initialize.dominated(30, 2, init_scale=1e-5, seed=0)
    run = sf.gradient_descent(network, FITTING, step=0.2, steps=4_000)
    certificate = certify("early_alignment/theorem-4", network, FITTING, run)
    assert certificate.kept
    assert promise(certificate, "loss").observed == pytest.approx(least_squares(FITTING).loss, rel=1e-9)
    assert {entry.holds for entry in certificate.hypotheses} == {True, None}
    assert hypothesis(certificate, "λ̃").holds is None


def test_a_network_that_fits_better_than_the_line_breaks_the_promise() -> None:
    fit = sf.ReLUNetwork([[-4.4, -2.2], [1.12, 0.66]], [1.0, 1.0])
    run = sf.gradient_flow(fit, DATA, until=0.1)
    certificate = certify("early_alignment/theorem-4", fit, DATA, run)
    assert promise(certificate, "loss").kept is False
    assert hypothesis(certificate, "(4)").holds is False
    leaky = sf.ReLUNetwork(fit.inner, fit.outer, slope=0.1)
    assert hypothesis(certify("early_alignment/theorem-4", leaky, DATA), "ReLU").holds is False


@pytest.mark.parametrize("theorem", ["lemma-1", "theorem-1", "theorem-2", "theorem-3", "theorem-4"])
def test_other_networks_and_dimensions_are_refused(theorem: str) -> None:
    with pytest.raises(InvalidInputError, match="must be a ReLUNetwork"):
        certify(f"early_alignment/{theorem}", sf.KnotNetwork([0.0], [1.0]), DATA)
    with pytest.raises(InvalidInputError, match="network's dimension 3, got 2"):
        certify(f"early_alignment/{theorem}", sf.initialize.balanced(3, 3, seed=0), DATA)


def test_bad_constants_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="epsilon"):
        certify("early_alignment/theorem-1", None, DATA, epsilon=0.5)
    with pytest.raises(InvalidInputError, match="alpha_0"):
        certify("early_alignment/theorem-1", None, DATA, alpha_0=0.0)
