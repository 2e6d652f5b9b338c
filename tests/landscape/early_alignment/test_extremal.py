"""Extremal vectors against dense sampling of the sphere, cases by hand, and the flow in small steps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize_scalar

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import stewart, three_points
from shallowflow.errors import InvalidInputError
from shallowflow.landscape import extremal_vectors
from shallowflow.landscape.early_alignment.extremal import ascend
from shallowflow.landscape.early_alignment.pulls import Pull, alignment_threshold, pull
from shallowflow.models import LogisticLoss, SquareLoss
from tests.rounding import assert_rounded

SADDLE = Dataset([[0.0, -2.0, 1.0], [-1.0, 2.0, 2.0], [-1.0, 0.0, 2.0], [-1.0, 2.0, 0.0]], [-1.0] * 4)
"""G has one saddle: D̃ = −(x₂ + x₃ + x₄)/4 = (3, −4, −4)/4 less 4/5 of x₁/4."""


def random_problem(seed: int, dimension: int) -> tuple[Dataset, LogisticLoss | SquareLoss, float]:
    rng = np.random.default_rng(1000 * dimension + seed)
    size = int(rng.integers(2, 7))
    logistic = seed % 3 == 2
    targets = rng.choice([-1.0, 1.0], size) if logistic else rng.standard_normal(size)
    loss = LogisticLoss() if logistic else SquareLoss()
    return Dataset(rng.standard_normal((size, dimension)), targets), loss, float(rng.choice([0.0, 0.3]))


def strengths_of(dataset: Dataset, loss: LogisticLoss | SquareLoss) -> Floats:
    """g_k(0) by hand: y_k/n for half the mean square, y_k/(2n) for the logistic loss."""
    return dataset.targets / dataset.size / (2.0 if isinstance(loss, LogisticLoss) else 1.0)


def value(w: Floats, inputs: Floats, g: Floats, slope: float) -> Floats:
    z = w @ inputs.T
    return np.asarray(np.maximum(z, slope * z) @ g)


def extrema_on_the_circle(inputs: Floats, g: Floats, slope: float) -> list[tuple[str, Floats]]:
    """Strict local extrema of G on a fine grid of angles, refined; flat pieces (G = 0) are no extrema."""
    grid = np.linspace(0.0, 2 * np.pi, 20_001)[:-1]

    def at(angle: float | Floats) -> Floats:
        return value(np.stack([np.cos(angle), np.sin(angle)], axis=-1), inputs, g, slope)

    heights, found = at(grid), []
    for kind, sign in (("maximum", 1.0), ("minimum", -1.0)):
        h = sign * heights
        peaks = (h > np.roll(h, 1)) & (h >= np.roll(h, -1)) & (np.abs(h) > 1e-12)
        for start in grid[peaks]:
            bounds = (start - 2 * grid[1], start + 2 * grid[1])
            options = {"bounds": bounds, "method": "bounded", "options": {"xatol": 1e-12}}
            best = (
                minimize_scalar(lambda t: float(at(t)), **options).x
                if sign < 0
                else minimize_scalar(lambda t: -float(at(t)), **options).x
            )
            found.append((kind, np.array([np.cos(best), np.sin(best)])))
    return found


@pytest.mark.parametrize("seed", range(50))
def test_in_the_plane_they_are_the_extrema_of_a_sampled_function(seed: int) -> None:
    dataset, loss, slope = random_problem(seed, 2)
    expected = extrema_on_the_circle(dataset.inputs, strengths_of(dataset, loss), slope)
    found = extremal_vectors(dataset, loss, slope)
    assert found.complete
    assert len(found) == len(expected)
    for kind, direction in expected:
        nearest = found[int(np.argmax([vector.direction @ direction for vector in found]))]
        assert nearest.kind == kind
        assert np.linalg.norm(nearest.direction - direction) < 1e-5


def sampled_patterns(inputs: Floats, rng: np.random.Generator) -> set[tuple[int, ...]]:
    """Patterns met on the sphere: everywhere, on each great circle ⟨w, x_k⟩ = 0, where two circles meet."""
    everywhere = rng.standard_normal((20_000, 3))
    found = {tuple(row) for row in np.unique(np.sign(everywhere @ inputs.T), axis=0).astype(int).tolist()}
    for k, normal in enumerate(inputs):
        basis = np.linalg.svd(normal[None])[2][1:]
        angles = np.linspace(0, 2 * np.pi, 2_001)
        signs = np.sign((np.cos(angles)[:, None] * basis[0] + np.sin(angles)[:, None] * basis[1]) @ inputs.T)
        signs[:, k] = 0
        found |= {tuple(row) for row in np.unique(signs, axis=0).astype(int).tolist()}
    for i, j in combinations(range(len(inputs)), 2):
        signs = np.sign(inputs @ np.cross(inputs[i], inputs[j])).astype(int)
        signs[[i, j]] = 0
        found |= {tuple(signs.tolist()), tuple((-signs).tolist())}
    return found


def brute_extremal(u: tuple[int, ...], inputs: Floats, g: Floats, slope: float) -> Floats | None:
    """Def. 1 with a general bounded least-squares solver; None if 𝔇_u holds no extremal vector."""
    signs = np.array(u)
    known = (np.where(signs > 0, 1.0, slope) * (signs != 0) * g) @ inputs
    on = signs == 0
    if on.any():
        parts = g[on, None] * inputs[on]
        gates = lsq_linear(parts.T, -known, bounds=(slope, 1.0), tol=1e-15, lsmr_tol="auto").x
        known = known + gates @ parts
    products = inputs @ known
    size = np.linalg.norm(known) * np.linalg.norm(inputs, axis=1)
    if np.linalg.norm(known) < 1e-10 or np.any(np.abs(products[on]) > 1e-6 * size[on]):
        return None
    own = np.sign(products) * ~on
    return known if np.array_equal(own, signs) or np.array_equal(own, -signs) else None


def brute_kind(w: Floats, inputs: Floats, g: Floats, slope: float, rng: np.random.Generator) -> str:
    """Compare G(w) with G at many points around w on the sphere, some of them exactly along hyperplanes."""
    along = np.cross(w, inputs)
    around = np.vstack([rng.standard_normal((5_000, 3)), along, -along])
    around -= np.outer(around @ w, w)
    around = around[np.linalg.norm(around, axis=1) > 1e-9]
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    radius = 1e-5
    change = value(np.cos(radius) * w + np.sin(radius) * around, inputs, g, slope) - value(
        w, inputs, g, slope
    )
    if np.all(change < 0):
        return "maximum"
    return "minimum" if np.all(change > 0) else "saddle"


@pytest.mark.parametrize("seed", range(50))
def test_in_space_they_are_those_of_a_sampled_sphere(seed: int) -> None:
    dataset, loss, slope = random_problem(seed, 3)
    inputs, g, rng = dataset.inputs, strengths_of(dataset, loss), np.random.default_rng(seed)
    expected = {
        u: known
        for u in sampled_patterns(inputs, rng)
        if (known := brute_extremal(u, inputs, g, slope)) is not None
    }
    found = {tuple(vector.pattern.tolist()): vector for vector in extremal_vectors(dataset, loss, slope)}
    assert set(found) == set(expected)
    for u, vector in found.items():
        np.testing.assert_allclose(vector.vector, expected[u], atol=1e-6 * vector.norm)
        np.testing.assert_array_equal(np.sign(inputs @ vector.direction) * (np.array(u) != 0), u)
        assert vector.kind == brute_kind(vector.direction, inputs, g, slope, rng)


def test_three_points_have_one_extremal_vector() -> None:
    data = three_points()
    (only,) = extremal_vectors(data)
    assert_rounded(only.vector, data.targets @ data.inputs / 3, 3 + 1)
    np.testing.assert_allclose(only.direction, only.vector / only.norm)
    assert only.kind == "maximum"
    assert only.pattern.tolist() == [1, 1, 1]
    assert only.value == pytest.approx(only.norm)


def test_a_saddle_is_found_and_classified() -> None:
    found = extremal_vectors(SADDLE)
    (saddle,) = found.of_kind("saddle")
    np.testing.assert_allclose(saddle.vector, np.array([3.0, -2.4, -4.8]) / 4, rtol=1e-13)
    assert saddle.pattern.tolist() == [0, 1, 1, 1]
    assert saddle.value == pytest.approx(-saddle.norm)
    assert [vector.kind for vector in found] == ["minimum", "minimum", "saddle"]
    assert [vector.norm for vector in found] == sorted((vector.norm for vector in found), reverse=True)


def test_points_on_one_hyperplane_are_taken_together() -> None:
    """x and −x with the same pull make one kink |⟨w, x⟩|; by hand, going round, there are five vectors."""
    data = Dataset([[1.0, 0.0], [-1.0, 0.0], [0.2, 1.0]], [1.0, 1.0, 1.0])
    expected = {
        (1, -1, 1): ("maximum", [1.2, 1.0]),
        (0, 0, 1): ("minimum", [0.0, 1.0]),
        (-1, 1, 1): ("maximum", [-0.8, 1.0]),
        (-1, 1, 0): ("minimum", [0.04 / 1.04 - 1.0, 0.2 / 1.04]),
        (-1, 1, -1): ("maximum", [-1.0, 0.0]),
    }
    found = {tuple(vector.pattern.tolist()): vector for vector in extremal_vectors(data)}
    assert set(found) == set(expected)
    for pattern, (kind, vector) in expected.items():
        assert found[pattern].kind == kind
        np.testing.assert_allclose(3 * found[pattern].vector, vector, atol=1e-14)


def test_where_kinks_cancel_the_definition_asks_for_less_than_a_critical_point() -> None:
    """g₁x₁ + g₂x₂ = 0: G has no kink there, but the gates of 𝔇_u are free; the module says so."""
    data = Dataset([[1.0, 0.0], [2.0, 0.0], [0.5, 1.0]], [2.0, -1.0, 1.0])
    first, second = extremal_vectors(data)
    np.testing.assert_allclose(first.vector, np.array([0.5, 1.0]) / 3, rtol=1e-14)
    assert first.kind == "maximum"
    np.testing.assert_allclose(second.vector, [0.0, 1 / 3], atol=1e-15)
    assert second.kind == "saddle"


def test_the_line_has_two_directions() -> None:
    found = extremal_vectors(Dataset([[1.0], [-2.0]], [1.0, -1.0]))
    assert [(vector.kind, vector.direction.tolist()) for vector in found] == [
        ("minimum", [-1.0]),
        ("maximum", [1.0]),
    ]


def test_the_search_finds_only_what_is_there_and_says_that_it_may_not_be_all() -> None:
    missed = total = 0
    for seed in range(10):
        dataset, loss, slope = random_problem(seed, 3)
        everything = {v.pattern.tobytes(): v for v in extremal_vectors(dataset, loss, slope)}
        found = extremal_vectors(dataset, loss, slope, starts=40)
        assert not found.complete
        assert "maybe not all" in repr(found)
        for vector in found:
            same = everything[vector.pattern.tobytes()]
            assert vector.kind == same.kind
            np.testing.assert_allclose(vector.vector, same.vector, rtol=1e-12, atol=1e-14)
        extrema = {pattern for pattern, vector in everything.items() if vector.kind != "saddle"}
        missed += len(extrema - {vector.pattern.tobytes() for vector in found})
        total += len(extrema)
    assert total > 20
    assert missed <= 0.1 * total


def test_the_search_works_where_the_cones_cannot_be_listed() -> None:
    rng = np.random.default_rng(0)
    data = Dataset(rng.standard_normal((60, 10)), rng.standard_normal(60))
    with pytest.raises(InvalidInputError, match="activation cones"):
        extremal_vectors(data)
    found = extremal_vectors(data, starts=6)
    assert len(found) >= 4
    for vector in found:
        around = rng.standard_normal((2_000, 10))
        around -= np.outer(around @ vector.direction, vector.direction)
        w = vector.direction + 1e-6 * around / np.linalg.norm(around, axis=1, keepdims=True)
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        change = value(w, data.inputs, data.targets / 60, 0.0) - vector.value
        assert np.all(change < 0) if vector.kind == "maximum" else np.all(change > 0)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="targets: must be"):
        extremal_vectors(stewart(5), LogisticLoss())
    with pytest.raises(InvalidInputError, match="slope"):
        extremal_vectors(three_points(), slope=1.5)
    with pytest.raises(InvalidInputError, match="starts"):
        extremal_vectors(three_points(), starts=-1)


def small_steps(found: Pull, w: Floats, sign: int, step: float, steps: int) -> Floats:
    """Normalised Euler steps along sign·D(w), with the gates of the side on which w lies."""
    for _ in range(steps):
        gates = np.where(found.inputs @ w > 0, 1.0, found.slope)
        w = w + step * sign * (gates * found.strengths) @ found.inputs
        w = w / np.linalg.norm(w)
    return w


@pytest.mark.parametrize("seed", range(12))
def test_both_end_in_the_same_place(seed: int) -> None:
    """Small steps bounce around the hyperplanes on which the exact path slides, within about one step."""
    rng = np.random.default_rng(seed)
    dimension, slope, sign = 2 + seed % 2, 0.25 * (seed % 3 == 0), 1 if seed % 4 < 2 else -1
    found = Pull(
        rng.standard_normal((5, dimension)), rng.choice([-1.0, 1.0], 5) * rng.uniform(0.5, 1, 5), slope
    )
    start = rng.standard_normal(dimension)
    end = small_steps(found, start / np.linalg.norm(start), sign, 1e-3, 40_000)
    pattern = ascend(found, start, sign)
    gates = np.where(found.inputs @ end > 0, 1.0, slope)
    if pattern is None:
        assert np.linalg.norm((gates * found.strengths) @ found.inputs) == 0
        return
    assert found.pattern(end, tolerance=5e-3).tolist() == pattern.tolist()
    gradient = found.minimal(pattern)[0]
    assert abs(end @ gradient) / np.linalg.norm(gradient) == pytest.approx(1.0, abs=1e-4)


def test_a_neuron_that_nothing_pulls_is_given_up() -> None:
    found = Pull(np.array([[1.0, 0.5], [0.2, 1.0]]), np.array([1.0, 1.0]), 0.0)
    assert ascend(found, np.array([-1.0, -1.0]), 1) is None
    assert ascend(found, np.array([1.0, 1.0]), -1) is None
    pattern = ascend(found, np.array([1.0, -1.0]), 1)
    assert pattern is not None
    assert pattern.tolist() == [1, 1]


@pytest.mark.parametrize("dimension", [2, 3])
def test_manifolds_stay_critical_and_stable_while_outputs_are_small(dimension: int) -> None:
    """Lemmas 11 and 12 at random outputs h with mean ‖h_k x_k‖ < δ₀ and |h_k| < |∂ℓ(0, y_k)|, drawn v ⊥ M."""
    rng, counts = np.random.default_rng(dimension), dict.fromkeys((1, -1, 0), 0)
    for seed in range(30):
        dataset, _, slope = random_problem(seed, dimension)
        loss = SquareLoss()
        at_zero = pull(dataset, loss, slope)
        room = alignment_threshold(dataset, loss, slope).delta_0
        h = rng.uniform(-1.0, 1.0, dataset.size)
        rooms = room / np.mean(np.abs(h) * at_zero.lengths), np.min(np.abs(dataset.targets) / np.abs(h))
        h *= 0.9 * min(map(float, rooms))
        later = Pull(dataset.inputs, at_zero.strengths - h / dataset.size, slope)
        for vector in extremal_vectors(dataset, loss, slope):
            moved = later.minimal(vector.pattern)[0]
            same = np.array_equal(later.pattern(moved), vector.pattern)
            assert same or np.array_equal(later.pattern(-moved), vector.pattern)
            on = vector.pattern == 0
            counts[vector.stability] += bool(on.any())
            for v in rng.standard_normal((50, int(on.sum()))) @ dataset.inputs[on]:
                around = np.where(on, np.sign(dataset.inputs @ v), vector.pattern).astype(np.int8)
                along = float(v @ later.minimal(around)[0])
                assert vector.stability * along <= 1e-9 * later.scale * float(np.linalg.norm(v))
    assert counts[1] > 10
    assert counts[-1] > 10


def test_a_saddle_across_which_pulls_point_both_ways_has_no_sign() -> None:
    """Two points on one manifold in three dimensions, one attracting, one repelling; and a case by hand."""
    signs = {
        vector.stability
        for seed in range(60)
        for vector in extremal_vectors(*random_problem(seed, 3)[:2], random_problem(seed, 3)[2])
        if vector.kind == "saddle"
    }
    assert 0 in signs
    (saddle,) = extremal_vectors(SADDLE).of_kind("saddle")
    # One data point lies on it, with a negative label: neurons are pulled to its hyperplane from both sides.
    assert saddle.stability == 1
