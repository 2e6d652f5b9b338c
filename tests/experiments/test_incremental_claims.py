"""Every claim of [incremental], fed with numbers that must make it hold, fail, or stay open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from shallowflow.experiments.experiment import Claim
from shallowflow.experiments.incremental.norms import (
    Crossing,
    Norms,
    Widths,
    crossing_claim,
    he_claims,
    norm_claims,
    slope_claims,
    small_claims,
)
from shallowflow.experiments.incremental.staircase import (
    Durations,
    Staircase,
    direction_claim,
    phase_claims,
    staircase_claims,
)
from shallowflow.experiments.incremental.staircase import slope_claims as log_norm_claims
from shallowflow.experiments.incremental.starts import Start, Turned, follow_claims, saddle_claims
from shallowflow.experiments.incremental.theorems import (
    Distances,
    Halving,
    Sized,
    bound_claims,
    halving_claim,
    near_claims,
    theorem2_claims,
)


def ends(claims: tuple[Claim, ...]) -> list[bool | None]:
    return [claim.holds for claim in claims]


GOOD = Staircase(4, 4, 690.0, 1e-12, 1.0, 1e-3, 1e-10, 1e-3, 1e-3)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, None),
        ({"jumps": 3}, 0),
        ({"level": 0.1}, 0),
        ({"points": 0.99}, 1),
        ({"gap": 0.05}, 2),
        ({"first_order": 1e-3}, 3),
        ({"lag": 0.05}, 4),
        ({"lag": np.inf}, 4),
        ({"shift": 0.5}, 5),
    ],
)
def test_figure_1(change: dict[str, Any], failing: int | None) -> None:
    assert ends(staircase_claims(GOOD._replace(**change))) == [i != failing for i in range(6)]


def test_figures_3_and_4() -> None:
    assert ends(log_norm_claims(1e-5, -0.1)) == [True, True]
    assert ends(log_norm_claims(0.1, 0.1)) == [False, False]
    assert direction_claim(1e-9).holds
    assert direction_claim(0.1).holds is False


def norms_of(power: float, climb: float = 0.0, loss: float = 1e-11, noise: float = 0.0) -> Norms:
    """Norms n^power of three starts, at a ratio to the minimum √n that climbs."""
    sizes = np.array([32.0, 256.0, 2048.0, 16384.0])
    starts = 1.0 + noise * np.array([-1.0, 0.0, 1.0]) * np.log(sizes)[:, None]
    descents = 1.4 * sizes[:, None] ** (power + climb) * starts
    limits = 2.4142 * sizes[:, None] ** power * starts
    return Norms(sizes, (2,), np.sqrt(sizes), limits, descents[None, :3], np.array([loss]), 1e-10)


@pytest.mark.parametrize(
    ("norms", "slopes", "others"),
    [
        (norms_of(0.5), [True, True, True], [True, True, True]),
        (norms_of(0.6), [False, False, False], [False, True, False]),
        (norms_of(0.5, climb=0.1), [False, True, True], [False, True, True]),
        (norms_of(0.5, loss=1e-3), [False, True, True], [False, True, True]),
        (norms_of(0.5, noise=0.03), [None, None, None], [None, False, None]),
    ],
    ids=["as published", "steeper", "ratio climbs", "not trained", "scattered"],
)
def test_figure_5(norms: Norms, slopes: list[bool | None], others: list[bool | None]) -> None:
    assert ends(slope_claims(norms)) == slopes
    assert ends(norm_claims(norms)) == others


def test_figure_5_norms_below_the_minimum_prove_nothing() -> None:
    norms = norms_of(0.5)
    below = norms._replace(descents=0.6 * norms.descents)
    assert slope_claims(below)[0].holds is False
    assert norm_claims(below)[0].holds is False


def test_the_crossover_grows_like_the_root_of_n() -> None:
    scales, way = np.array([5.0, 50.0, 500.0]), np.array([0.0, 0.5, 1.0])
    assert crossing_claim([Crossing(64, scales, way), Crossing(256, 2 * scales, way)]).holds
    assert crossing_claim([Crossing(64, scales, way), Crossing(1024, scales, way)]).holds is False
    assert crossing_claim([Crossing(64, scales, 0.9 * way), Crossing(256, 2 * scales, way)]).holds is False


def widths_of(
    power: float, he: float, *, noise: float = 0.0, losses: tuple[float, float] = (0.0, 0.0)
) -> Widths:
    """Ratios 1 + m^power from small starts, 1 + he·ln m from He's."""
    widths = np.array([32.0, 128.0, 512.0, 2048.0])
    starts = np.array([-1.0, 0.0, 1.0, -0.5, 0.0, 0.5])
    small = 1.0 + widths[:, None] ** (power + noise * starts)
    big = 3.0 + he * np.log(widths)[:, None] * (1.0 + 12 * noise * starts)
    return Widths(widths, (2,), small[None], small, big, losses, 1e-10)


@pytest.mark.parametrize(
    ("found", "small", "he"),
    [
        (widths_of(-0.5, 1.0), [True, True], [True, True]),
        (widths_of(0.1, -0.1), [False, False], [False, True]),
        (widths_of(-0.05, 1.0, noise=0.1), [None, None], [None, False]),
        (widths_of(-0.5, 1.0, losses=(1.0, 1.0)), [False, True], [False, True]),
    ],
    ids=["as published", "the other way", "scattered", "not trained"],
)
def test_figure_6(found: Widths, small: list[bool | None], he: list[bool | None]) -> None:
    assert ends(small_claims(found)) == small
    assert ends(he_claims(found)) == he


def distances(exponent: float = 0.003, power: float = -1.0, **changes: Any) -> Distances:
    scales = np.array([20.0, 700.0, 2000.0, 3500.0, 20000.0])
    far = np.maximum(np.exp(-0.003 * scales), 1e-12)
    found = Distances(scales, scales**power, 1e-9 * scales**power, far, np.zeros(5), exponent)
    return found._replace(**changes)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (distances(), [True] * 5),
        (distances(missing=np.array([0.0, 0, 0, 0, 1])), [False, True, True, True, True]),
        (distances(distances=np.ones(5)), [True, False, None, True, True]),
        (distances(exponent=0.0162), [True, True, False, True, True]),  # α^gap instead of α^(γ·margin)
        (distances(power=-0.5), [True, True, True, False, True]),
        (distances(corrected=np.ones(5)), [True, True, True, True, False]),
    ],
    ids=["good", "a jump missing", "far", "another exponent", "another rate", "no correction"],
)
def test_theorem_2(found: Distances, expected: list[bool | None]) -> None:
    assert ends(theorem2_claims(found)) == expected


def test_the_reach_of_near_orthogonality_ends_at_the_first_failure() -> None:
    """Agreement that comes back at a larger correlation is luck, and that of level 0 is with itself."""
    levels = np.array([0.0, 1e-6, 1e-4, 1e-2])

    def judged(*tables: tuple[float, ...]) -> list[bool | None]:
        means = np.array([[[0.01, share, share] for share in table] for table in tables])
        return ends(near_claims(levels, (3, 6), means))

    assert judged((1, 1, 1, 0.5), (1, 1, 0.5, 0.5)) == [True, True]
    assert judged((1, 1, 1, 0.5), (1, 0.5, 0.5, 1)) == [False, True]
    assert judged((1, 1, 0.5, 1), (1, 1, 1, 0.5)) == [True, False]


def some(count: int, follows: int, separation: float = 20.0, **changes: Any) -> list[Start]:
    whole = Start(separation, True, (0, 1, 2), 0)
    return [whole._replace(follows=i < follows, **changes) for i in range(count)]


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        (some(200, 200), [True, True]),
        (some(200, 120), [False, False]),
        (some(8, 8), [None, None]),
        (some(200, 200, separation=1.0), [True, None]),
    ],
    ids=["all", "few", "not enough", "none apart"],
)
def test_the_share_that_follows(starts: list[Start], expected: list[bool | None]) -> None:
    assert ends(follow_claims({300: some(10, 0, separation=1.0), 3000: starts})) == expected


def test_saddles() -> None:
    fine = Turned(1e-15, (2,) * 40, (1.0,) * 40)
    assert ends(saddle_claims({300: some(5, 5)}, fine)) == [True] * 4
    assert ends(saddle_claims({300: some(5, 5)}, Turned(1e-3, (3,) * 40, (1.0,) * 40)))[2:] == [False, False]
    assert saddle_claims({300: some(5, 5)}, fine._replace(ratios=(1.5,) * 40))[2].holds is False
    assert saddle_claims({300: some(5, 5)}, Turned(0.0, (2,) * 4, (1.0,) * 4))[2].holds is None
    assert ends(saddle_claims({300: some(5, 5, ranks=(0, 1, 1), ties=1)}, fine))[:2] == [False, False]


def durations(**changes: Any) -> Durations:
    scales = np.array([100.0, 1000.0, 10000.0])
    return Durations(scales, np.full(3, 50.0), np.full(3, 80.0), 1e-6, 0.01)._replace(**changes)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [True] * 5),
        ({"fitting": np.array([1.0, 10.0, 100.0])}, [False, True, True, True, True]),
        ({"turning": np.array([np.inf, 80.0, 80.0])}, [True] * 5),
        ({"turning": np.array([np.inf, np.inf, 80.0])}, [True, None, True, True, True]),
        ({"turning": np.array([1.0, 30.0, 900.0])}, [True, False, True, True, True]),
        ({"stays": 0.5}, [True, True, False, True, True]),
        ({"error": 0.1}, [True, True, True, True, False]),
    ],
)
def test_phases(change: dict[str, Any], expected: list[bool | None]) -> None:
    assert ends(phase_claims(durations(**change), [True] * 60)) == expected


def test_phases_of_unselected_starts() -> None:
    assert phase_claims(durations(), [True] * 5)[3].holds is None
    assert phase_claims(durations(), [False] * 40 + [True] * 20)[3].holds is False


def test_halving() -> None:
    left = np.tile([1000, 500, 250], (100, 1))
    low, high = np.array([1000, 450, 200]), np.array([1000, 550, 300])
    good = Halving(left, np.full(200, 0.5), low, high)
    assert halving_claim(good).holds
    assert halving_claim(good._replace(shares=np.full(200, 0.7))).holds is False
    assert halving_claim(good._replace(shares=np.array([0.3, 0.7, 0.6]))).holds is None
    kept = Sized(np.full(200, 2.0), 4.0, 200)
    assert ends(bound_claims(good, {100: kept})) == [True, True, True]
    many = good._replace(left=np.tile([1000, 900, 800], (100, 1)))
    assert ends(bound_claims(many, {100: Sized(np.full(200, 5.0), 4.0, 100)})) == [False, False, False]
    few = good._replace(left=left[:5])
    assert ends(bound_claims(few, {100: Sized(np.full(5, 2.0), 4.0, 5)})) == [None, None, None]
