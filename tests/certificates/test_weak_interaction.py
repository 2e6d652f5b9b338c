"""Certificates of [weak_interaction]: where they hold and are kept, where they fail, and by how much."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shallowflow as sf
from shallowflow.certificates import VERDICTS, Certificate, Question, certify
from shallowflow.certificates import weak_interaction as paper
from shallowflow.certificates.weak_interaction import verdict
from shallowflow.certificates.weak_interaction_rates import curvature_bounds
from shallowflow.data.generators import orthogonal, orthonormal, sphere
from shallowflow.dynamics.clock.trajectory import Setting
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import correctly_activated, gaussian_dimension, interaction
from shallowflow.landscape.weak_interaction.group_flow import GroupFlow


def failing(certificate: Certificate) -> list[str]:
    return [h.name for h in certificate.hypotheses if h.holds is False]


def weak_data(seed: int) -> sf.Dataset:
    """Return orthogonal inputs disturbed so little that Assumption 2 holds, but not orthogonal."""
    base = orthogonal(8, 12, seed=seed)
    noise = np.random.default_rng(seed).standard_normal((8, 12))
    return sf.Dataset(base.inputs + 0.01 * noise, base.targets)


def good_start(dataset: sf.Dataset, width: int, seed: int) -> sf.ReLUNetwork:
    """Return the first network in which every sample has a neuron of its sign."""
    for k in range(100):
        network = sf.initialize.asymmetric(width, dataset.dimension, seed=1000 * seed + k)
        if correctly_activated(network, dataset).all():
            return network
    raise AssertionError("no good start in 100 draws")


@pytest.mark.parametrize("seed", range(4))
def test_theorem_1_holds_and_its_rate_is_kept_on_weakly_interacting_data(seed: int) -> None:
    dataset = weak_data(seed)
    network = good_start(dataset, 24, seed)
    trajectory = sf.gradient_descent(network, dataset, step=24 * 0.2, steps=1500, record=sf.Record.every(10))
    certificate = certify("weak_interaction/theorem-1", network, dataset, trajectory)
    assert certificate.holds, str(certificate)
    assert certificate.kept, str(certificate)
    assert interaction(dataset).norm > 0.01
    rate = certificate.promises[2]
    assert rate.bound is not None
    constants = interaction(dataset)
    expected = (2 - 2**0.5) * constants.smallest_input**2 * constants.smallest_label
    assert rate.bound == pytest.approx(expected / 8 / constants.largest_input)


def test_a_rate_too_large_would_be_seen_as_broken() -> None:
    dataset = weak_data(0)
    network = good_start(dataset, 24, 0)
    trajectory = sf.gradient_descent(network, dataset, step=24 * 0.2, steps=300, record=sf.Record.every(10))
    kept = paper._rate_promises(trajectory, dataset, 1.0, 1.0)
    broken = paper._rate_promises(trajectory, dataset, 1e3, 1.0)
    assert kept[0].observed == pytest.approx(1e3 * (broken[0].observed or 0.0))
    assert broken[0].kept is False


def test_the_certificate_does_not_depend_on_the_units_of_the_network() -> None:
    """Output factor 1 with weights over √m, at any speed, is the paper's network."""
    dataset, width = weak_data(1), 24
    network = good_start(dataset, width, 1)
    factor = width**-0.5
    other = sf.ReLUNetwork(factor * network.inner, factor * network.outer)
    first = sf.gradient_flow(network, dataset, until=0.4, speed=width, tolerance=1e-9)
    second = sf.gradient_flow(other, dataset, until=0.2, speed=2.0, tolerance=1e-9)
    one = paper.theorem_1(network, dataset, first, speed=width)
    two = paper.theorem_1(other, dataset, second, speed=2.0)
    for a, b in zip(one.hypotheses, two.hypotheses, strict=True):
        assert a.value == pytest.approx(b.value)
    assert one.promises[2].observed == pytest.approx(two.promises[2].observed, rel=1e-4)


def test_correlated_data_fail_assumption_2_by_a_number() -> None:
    rng = np.random.default_rng(0)
    dataset = sf.Dataset(rng.standard_normal((10, 50)) + 2.0, rng.choice([-1.0, 1.0], 10))
    certificate = certify("weak_interaction/theorem-1", sf.initialize.asymmetric(40, 50), dataset)
    assert not certificate.holds
    assert any("Assumption 2" in name for name in failing(certificate))
    assert certificate.hypotheses[0].value == pytest.approx(interaction(dataset).norm)


def test_theorem_1_names_a_bad_start() -> None:
    dataset = weak_data(0)
    small = sf.ReLUNetwork(np.ones((2, 12)), [0.1, 0.1], scale=0.5)
    names = " ".join(failing(certify("weak_interaction/theorem-1", small, dataset)))
    assert "Assumption 1" in names
    assert "event" in names
    huge = good_start(dataset, 24, 0)
    huge = sf.ReLUNetwork(30 * huge.inner, 30 * huge.outer, scale=huge.scale)
    assert any("(26)" in name for name in failing(certify("weak_interaction/theorem-1", huge, dataset)))


def test_antipodal_data_need_the_variant() -> None:
    rows = np.array(orthogonal(5, 5, seed=1).inputs)
    dataset = sf.Dataset(np.concatenate([rows, -rows]), np.linspace(1.0, 2.0, 10))
    network = good_start(dataset, 30, 0)
    assert not certify("weak_interaction/theorem-1", network, dataset).holds
    trajectory = sf.gradient_descent(network, dataset, step=30 * 0.2, steps=1500)
    certificate = certify("weak_interaction/theorem-1", network, dataset, trajectory, antipodal=True)
    assert certificate.holds
    assert certificate.kept


def test_the_verdict_on_data_alone() -> None:
    dimension = gaussian_dimension(6, 2.0, 0.05)
    rng = np.random.default_rng(1)
    labels = np.linspace(1.0, 2.0, 6) * rng.choice([-1.0, 1.0], 6)
    white = verdict(Question(sf.Dataset(rng.standard_normal((6, dimension)), labels), width=20))
    assert white.applies
    assert white.words[0].startswith("Theorem 1 applies, margin")
    assert "20 neurons (Lemma 5 asks for 20)" in white.words[0]
    assert white.certificates[0].holds
    assert white.words[0].endswith("The start drawn here meets what a start must meet, (26) too.")
    correlated = sf.Dataset(rng.standard_normal((6, 30)) + 1.0, labels)
    mixed, found = verdict(Question(correlated)), interaction(correlated)
    assert not mixed.applies
    assert "Assumption 2 fails" in mixed.words[0]
    assert (
        f"strength {found.norm:.4g}, {found.share:.3g} times the {found.bound:.4g} allowed" in mixed.words[0]
    )
    assert mixed.numbers["ν"] == pytest.approx(found.norm)
    assert mixed.numbers["ν allowed"] == pytest.approx(found.bound)
    large = verdict(Question(weak_data(0), width=24, seed=3))
    assert large.applies
    assert large.certificates[0].holds == ("does not" not in large.words[0])
    narrow = verdict(Question(orthonormal(20, labels="bounded"), width=5))
    assert not narrow.applies
    assert "5 neurons are fewer" in narrow.words[0]
    (words,) = verdict(Question(sf.Dataset(np.eye(2), [0.0, 1.0]))).words
    assert "an input or a label is zero" in words
    assert "(26)" not in words


def test_the_verdict_hangs_on_the_residuals_of_the_start_too() -> None:
    """The probability is Lemma 5's; large inputs make the outputs of a start, and (26), too large."""
    rng = np.random.default_rng(0)
    inputs, labels = rng.standard_normal((10, 1500)) / np.sqrt(1500), rng.choice([-1.0, 1.0], 10)
    asked = [verdict(Question(sf.Dataset(factor * inputs, labels), width=22)) for factor in (1.0, 1000.0)]
    assert "if its residuals are as small as (26) asks" in asked[0].words[0]
    assert [found.applies for found in asked] == [True, False]


def test_corollary_1_compares_the_dimension_with_a_number() -> None:
    rng = np.random.default_rng(2)
    dimension = gaussian_dimension(5, 1.0, 0.025)
    dataset = sf.Dataset(rng.standard_normal((5, dimension)) / np.sqrt(dimension), rng.choice([-1.0, 1.0], 5))
    network = good_start(dataset, 40, 0)
    certificate = certify("weak_interaction/corollary-1", network, dataset)
    assert failing(certificate) == []
    assert certificate.promises[0].kept
    assert certificate.promises[1].kept
    low = certify("weak_interaction/corollary-1", sf.initialize.asymmetric(10, 20), sphere(15, 20))
    assert any("dimension" in name for name in failing(low))
    assert any("8 ln" in name for name in failing(low))


@pytest.mark.parametrize("seed", range(3))
def test_prop_1_bounds_the_curvature_after_extinction(seed: int) -> None:
    dataset = orthogonal(12, 30, seed=seed)
    drawn = good_start(dataset, 16, seed)
    network = sf.ReLUNetwork(0.1 * drawn.inner, np.sign(drawn.outer), scale=1 / 16)
    trajectory = sf.gradient_descent(network, dataset, step=16 * 0.05, steps=6000, record=sf.Record.every(30))
    certificate = certify("weak_interaction/prop-1", network, dataset, trajectory)
    assert certificate.holds, str(certificate)
    # The extinction time itself is a number without an observation.
    assert [promise.kept for promise in certificate.promises] == [None, True, True, True]
    observed = certificate.promises[2].observed
    assert observed is not None
    assert 0.01 < observed <= 1
    assert "orthogonal" in failing(certify("weak_interaction/prop-1", network, sphere(9, 30)))[0]


@pytest.mark.parametrize("seed", range(3))
def test_prop_1_is_kept_on_flows_too_which_hold_neurons_on_hyperplanes(seed: int) -> None:
    dataset = orthogonal(6, 12, seed=seed)
    drawn = good_start(dataset, 24, seed)
    network = sf.ReLUNetwork(0.02 * drawn.inner, drawn.outer, scale=drawn.scale)
    trajectory = sf.gradient_flow(network, dataset, until=6.0, speed=24.0)
    certificate = certify("weak_interaction/prop-1", network, dataset, trajectory, speed=24.0)
    assert failing(certificate) == []
    assert certificate.promises[1].observed == 0, str(certificate)
    assert not any(promise.kept is False for promise in certificate.promises), str(certificate)


def test_prop_2_and_theorem_2_on_a_group_start() -> None:
    dataset = orthonormal(12, 14, labels="positive", seed=2)
    network = sf.initialize.grouped(dataset.inputs, dataset.targets, 3, norm=0.5, seed=1)
    trajectory = sf.gradient_flow(network, dataset, until=80.0, speed=3.0)
    second = certify("weak_interaction/prop-2", network, dataset, trajectory, speed=3.0)
    assert second.holds
    assert [promise.kept for promise in second.promises] == [None, True, True]
    theorem = certify("weak_interaction/theorem-2", network, dataset, trajectory, speed=3.0)
    assert theorem.holds
    assert theorem.promises[-1].kept
    with pytest.raises(InvalidInputError, match=r"speed: the trajectory was made with 3\.0, got 2"):
        certify("weak_interaction/theorem-2", network, dataset, trajectory, speed=2.0)
    unknown = replace(trajectory, setting=Setting())  # of a file of version 1 the argument counts
    wrong_clock = certify("weak_interaction/theorem-2", network, dataset, unknown, speed=2.0)
    assert wrong_clock.promises[-1].kept is False
    other = certify("weak_interaction/theorem-2", sf.initialize.asymmetric(3, 14), dataset)
    assert "one neuron" in failing(other)[0]


def test_the_bounds_of_prop_2_hold_for_the_closed_form() -> None:
    """Random groups: 2 min ρ²/(nm) and 4 max ρ²/(nm) bound μ, and K₁, K₂ bound them from their time on."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        groups = int(rng.integers(1, 5))
        flow = GroupFlow(
            float(rng.integers(10, 10_000)),
            rng.uniform(0.3, 3.0, groups),
            rng.uniform(0.0, 1.0, groups),
            rng.uniform(0.05, 3.0, groups),
        )
        lower, upper, after = curvature_bounds(flow)
        times = after * np.linspace(1.0, 3.0, 40)
        squares = flow.square_norms(times) / (flow.size * flow.width)
        assert np.min(2 * squares) >= lower * (1 - 1e-12)
        assert np.max(4 * squares) <= upper * (1 + 1e-12)


def test_prop_3_sees_the_collapse() -> None:
    dataset = sf.Dataset(np.eye(2), [30.0, -15.0])
    network = sf.ReLUNetwork([[0.5, 0.45], [0.48, 0.5]], [0.01, -0.01], scale=0.5)
    trajectory = sf.gradient_descent(network, dataset, step=2 * 2e-3, steps=3000)
    certificate = certify("weak_interaction/prop-3", network, dataset, trajectory)
    assert failing(certificate) == []
    assert certificate.promises[0].kept
    assert trajectory.losses[-1] >= 15.0**2 / 4 * (1 - 1e-9)
    dominant = sf.ReLUNetwork(network.inner, [2.0, -2.0], scale=0.5)
    fitted = sf.gradient_descent(dominant, dataset, step=2 * 2e-3, steps=3000)
    assert certify("weak_interaction/prop-3", dominant, dataset, fitted).promises[0].kept is False
    same = sf.Dataset(np.eye(2), [30.0, 15.0])
    assert "y₁y₂ < 0" in failing(certify("weak_interaction/prop-3", network, same))


@pytest.mark.parametrize("angle", [0.0, 0.3, 1.1, 2.0])
def test_prop_3_does_not_depend_on_the_basis(angle: float) -> None:
    """A sample that no neuron is active on: ⟨w, x⟩ = 0 along the axes, ±4e-15 in other bases."""
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    inner = np.array([[0.5, 0.45], [0.48, 0.5]])
    dataset, network = (
        sf.Dataset(turn, [100.0, -30.0]),
        sf.ReLUNetwork(inner @ turn, [0.01, -0.01], scale=0.5),
    )
    trajectory = sf.gradient_flow(network, dataset, until=3.0)
    assert certify("weak_interaction/prop-3", network, dataset, trajectory).promises[0].kept


def test_residuals_that_are_too_large_are_no_application() -> None:
    """Small labels beside the outputs of the start: Assumption 2 holds, (26) does not."""
    dataset = sf.Dataset([[1.0, 0.0], [0.5, np.sqrt(0.75)]], [0.01, -0.01])
    assert interaction(dataset).holds
    found = verdict(Question(dataset, width=15))
    assert not found.certificates[0].holds
    assert not found.applies
    assert "(26)" in found.words[0]


def test_the_verdict_does_not_hang_on_the_order_of_hypotheses(monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question(sf.Dataset([[1.0, 0.0], [0.5, np.sqrt(0.75)]], [0.01, -0.01]), width=15)
    words = verdict(question).words
    plain = paper.theorem_1

    def turned_round(*arguments: Any, **options: Any) -> Certificate:
        certificate = plain(*arguments, **options)
        return replace(certificate, hypotheses=certificate.hypotheses[::-1])

    monkeypatch.setattr(paper, "theorem_1", turned_round)
    assert verdict(question).words == words


def test_the_verdict_draws_the_start_of_the_seed_asked_for() -> None:
    dataset = weak_data(0)
    for seed in (0, 3):
        found = VERDICTS["weak_interaction"](Question(dataset, width=24, seed=seed)).certificates[0]
        start = sf.initialize.asymmetric(24, dataset.dimension, seed=seed)
        expected = paper.theorem_1(start, dataset, antipodal=True)
        assert [h.value for h in found.hypotheses] == [h.value for h in expected.hypotheses]
    assert found != VERDICTS["weak_interaction"](Question(dataset, width=24, seed=0)).certificates[0]


def test_a_label_of_zero_leaves_the_upper_bound_open() -> None:
    dataset = sf.Dataset(np.eye(3), [1.0, 0.0, -1.0])
    network = sf.ReLUNetwork(0.1 * np.eye(3), [1.0, 1.0, -1.0], scale=1 / 3)
    trajectory = sf.gradient_descent(network, dataset, step=0.3, steps=20)
    with np.errstate(all="raise"):
        certificate = certify("weak_interaction/prop-1", network, dataset, trajectory)
    assert certificate.promises[2].observed is None
    assert certificate.promises[2].kept is None


@pytest.mark.parametrize("theorem", ["prop-2", "prop-3", "theorem-2"])
def test_what_is_about_a_start_needs_one(theorem: str) -> None:
    with pytest.raises(sf.InvalidInputError, match="network: must be a ReLUNetwork, got None"):
        certify(f"weak_interaction/{theorem}", None, sf.Dataset(np.eye(2), [1.0, -1.0]))


@pytest.mark.parametrize(
    ("theorem", "options", "message"),
    [
        ("corollary-1", {"epsilon": 0}, r"epsilon: must lie in \(0, 1\), got 0"),
        ("corollary-1", {"epsilon": 1.5}, r"epsilon: must lie in \(0, 1\), got 1.5"),
        ("corollary-1", {"epsilon": "a"}, "epsilon: must be a number, got 'a'"),
        ("theorem-1", {"epsilon": 0}, r"epsilon: must lie in \(0, 1\)"),
        ("theorem-1", {"speed": -1}, "speed: must be > 0, got -1"),
        ("theorem-1", {"width": "a"}, "width: must be an integer, got 'a'"),
    ],
)
def test_wrong_options_are_named(theorem: str, options: dict[str, object], message: str) -> None:
    dataset = sf.Dataset(np.eye(2), [0.0, 1.0])
    with pytest.raises(sf.InvalidInputError, match=message):
        certify(f"weak_interaction/{theorem}", sf.initialize.asymmetric(4, 2), dataset, **options)
