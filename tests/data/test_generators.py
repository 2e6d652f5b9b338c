"""Generators against independent formulas and the papers' numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from shallowflow.data.dataset import Dataset
from shallowflow.data.generators import (
    CURVES,
    GENERATORS,
    STEWART_TEACHER,
    curve,
    orthogonal,
    orthonormal,
    sphere,
    stewart,
    three_points,
)
from shallowflow.errors import InvalidInputError
from tests.rounding import assert_rounded

DOCUMENTED: dict[str, list[dict[str, Any]]] = {
    "three_points": [{}],
    "stewart": [{}, {"size": 7}],
    "orthonormal": [
        {"size": 4},
        *({"size": 4, "dimension": 6, "labels": w} for w in ("gaussian", "positive", "bounded")),
    ],
    "correlated": [
        {"size": 4},
        *(
            {"size": 4, "dimension": 6, "correlation": 0.3, "labels": w}
            for w in ("gaussian", "positive", "bounded")
        ),
    ],
    "orthogonal": [
        {"size": 4},
        *({"size": 4, "dimension": 6, "labels": w} for w in ("gaussian", "positive", "bounded")),
    ],
    "sphere": [{"size": 5, "dimension": 3, "labels": w} for w in ("gaussian", "positive", "bounded")],
    "curve": [
        {},
        *({"name": n, "size": 9, "sampling": s, "noise": 0.1} for n in CURVES for s in ("grid", "random")),
    ],
}


def test_correlated_inputs_are_unit_vectors_with_that_correlation() -> None:
    inputs = GENERATORS["correlated"](5, 8, correlation=0.2, seed=1).inputs
    gram = np.abs(inputs @ inputs.T)
    np.testing.assert_allclose(gram, np.where(np.eye(5) == 1, 1.0, 0.2), atol=1e-14)


def test_every_generator_is_documented_here() -> None:
    assert set(DOCUMENTED) == set(GENERATORS)


@pytest.mark.parametrize(
    ("name", "arguments"), [(name, case) for name, cases in DOCUMENTED.items() for case in cases]
)
def test_every_generator_builds_and_reproduces(name: str, arguments: dict[str, Any]) -> None:
    make = GENERATORS[name]
    dataset = make(**arguments)
    assert isinstance(dataset, Dataset)
    assert dataset.name
    if "size" in arguments:
        assert dataset.size == arguments["size"]
    if name == "three_points":
        assert dataset == make()
        return
    assert dataset == make(**arguments, seed=0)
    rng = np.random.default_rng(0)
    assert dataset == make(**arguments, seed=rng)
    assert dataset == make(**arguments, seed=np.random.SeedSequence(0))
    deterministic = (
        name == "curve" and arguments.get("sampling", "grid") == "grid" and "noise" not in arguments
    )
    assert (make(**arguments, seed=1) == dataset) is deterministic
    assert (make(**arguments, seed=None) == dataset) is deterministic
    if not deterministic:
        assert make(**arguments, seed=rng) != dataset
    with pytest.raises(InvalidInputError, match=r"^seed: must be >= 0, got -1$"):
        make(**arguments, seed=-1)


def test_a_mistyped_name_is_answered_with_what_was_meant() -> None:
    with pytest.raises(
        InvalidInputError, match=r"^generator: must be one of three_.*; did you mean three_points\?$"
    ):
        GENERATORS["tree_points"]
    with pytest.raises(InvalidInputError, match=r"^name: .*; got 'sin_5p'; did you mean sin_5pi\?$"):
        curve("sin_5p")


def test_three_points_are_those_of_the_paper() -> None:
    dataset = three_points()
    np.testing.assert_array_equal(dataset.inputs, [[-0.75, 1], [-0.5, 1], [0.125, 1]])
    np.testing.assert_array_equal(dataset.targets, [1.1, 0.1, 0.8])


TEACHER_NEURONS = [
    (-1.0, 7 / 3),
    (-0.7, -11 / 3),
    (-0.55, 14 / 3),
    (-0.4, -35 / 6),
    (0.0, 9 / 2),
    (0.5, -6.0),
    (0.6, 5.0),
    (0.7, -10 / 3),
]


def test_the_stewart_teacher_is_a_network_of_eight_neurons() -> None:
    grid = np.linspace(-1, 1, 1001)
    network = [math.fsum(c * max(x - b, 0.0) for b, c in TEACHER_NEURONS) for x in grid]
    slopes = sum(abs(c) for _, c in TEACHER_NEURONS)
    assert_rounded(STEWART_TEACHER(grid), network, 8, size=slopes)
    knots, heights = [-1, -0.7, -0.55, -0.4, 0, 0.5, 0.6, 0.7, 1], [0, 0.7, 0.5, 1, 0, 1, 0.6, 0.7, 0]
    assert_rounded(STEWART_TEACHER(grid), np.interp(grid, knots, heights), 8, size=slopes)


def test_stewart_samples_the_teacher_uniformly() -> None:
    dataset = stewart(500, seed=2)
    x = dataset.inputs[:, 0]
    np.testing.assert_array_equal(dataset.inputs[:, 1], np.ones(500))
    np.testing.assert_array_equal(dataset.targets, STEWART_TEACHER(x))
    assert stats.kstest(x, stats.uniform(-1, 2).cdf).pvalue > 0.01
    assert stewart().size == 40


@pytest.mark.parametrize(("size", "dimension"), [(1, None), (7, 7), (40, None), (40, 100)])
def test_orthonormal_and_orthogonal_inputs(size: int, dimension: int | None) -> None:
    inputs = orthonormal(size, dimension, seed=3).inputs
    assert inputs.shape == (size, dimension or size)
    np.testing.assert_allclose(inputs @ inputs.T, np.eye(size), rtol=0, atol=1e-12)
    inputs = orthogonal(size, dimension, seed=3).inputs
    gram = inputs @ inputs.T
    norms = np.sqrt(np.diag(gram))
    assert np.all((norms >= 1 - 1e-12) & (norms <= 2 + 1e-12))
    np.testing.assert_allclose(gram, np.diag(norms**2), rtol=0, atol=1e-12)


def test_orthonormal_bases_are_spread_evenly() -> None:
    firsts = np.array([orthonormal(3, seed=seed).inputs[0] for seed in range(400)])
    assert np.abs(firsts.mean(axis=0)).max() < 5 * np.sqrt(1 / 3 / 400)
    # One coordinate of a uniform direction in three dimensions is uniform on [-1, 1].
    assert stats.kstest(firsts.ravel(), stats.uniform(-1, 2).cdf).pvalue > 0.01


def test_norms_are_uniform_between_one_and_two() -> None:
    norms = np.linalg.norm(sphere(2000, 3, seed=4).inputs, axis=1)
    assert stats.kstest(norms, stats.uniform(1, 1).cdf).pvalue > 0.01
    norms = np.linalg.norm(orthogonal(200, seed=4).inputs, axis=1)
    assert stats.kstest(norms, stats.uniform(1, 1).cdf).pvalue > 0.01


def test_directions_on_the_sphere_are_uniform() -> None:
    inputs = sphere(2000, 3, seed=5).inputs
    directions = inputs / np.linalg.norm(inputs, axis=1, keepdims=True)
    for column in directions.T:
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > 0.01


def test_labels_follow_their_laws() -> None:
    gaussian = sphere(2000, 2, labels="gaussian", seed=6).targets
    assert stats.kstest(gaussian, stats.norm.cdf).pvalue > 0.01
    positive = sphere(2000, 2, labels="positive", seed=6).targets
    assert stats.kstest(positive, stats.halfnorm.cdf).pvalue > 0.01
    bounded = sphere(2000, 2, labels="bounded", seed=6).targets
    assert stats.kstest(np.abs(bounded), stats.uniform(1, 1).cdf).pvalue > 0.01
    assert abs(np.sign(bounded).sum()) < 4 * np.sqrt(2000)


CURVES_BY_HAND: dict[str, Callable[[float], float]] = {
    "sin_pi": lambda x: math.sin(math.pi * x),
    "sin_5pi": lambda x: math.sin(5 * math.pi * x),
    # [plateau] (5.2): the upper line holds for x > 0 only.
    "jump": lambda x: 1 + 0.5 * x * math.cos(15 * math.pi * x) if x > 0 else 0.5 * math.sin(5 * math.pi * x),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("sampling", ["grid", "random"])
def test_curves_are_the_papers(name: str, sampling: str) -> None:
    dataset = curve(name, 101, sampling=sampling, seed=7)
    x = dataset.inputs[:, 0]
    expected = [CURVES_BY_HAND[name](float(point)) for point in x]
    np.testing.assert_allclose(dataset.targets, expected, rtol=0, atol=1e-13)
    assert dataset.inputs.shape == (101, 1)
    assert np.all(np.diff(x) > 0)
    if sampling == "grid":
        np.testing.assert_allclose(x, [-1 + 0.02 * k for k in range(101)], rtol=0, atol=1e-14)
    else:
        assert stats.kstest(x, stats.uniform(-1, 2).cdf).pvalue > 0.01


def test_noise_is_gaussian_with_the_given_deviation() -> None:
    noise = curve("jump", 2000, noise=0.3, seed=8).targets - curve("jump", 2000).targets
    assert stats.kstest(noise, stats.norm(scale=0.3).cdf).pvalue > 0.01


NOT_A_NUMBER: Any = "a"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: stewart(0), r"^size: must be >= 1, got 0$"),
        (lambda: orthonormal(5, 3), r"^dimension: must be >= size = 5 for orthogonal inputs, got 3$"),
        (lambda: orthonormal(0), r"^size: must be >= 1, got 0$"),
        (lambda: orthogonal(2, 0), r"^dimension: must be >= 1, got 0$"),
        (lambda: orthogonal(2, labels="x"), r"^labels: must be one of gaussian, positive, bounded; got 'x'$"),
        (lambda: sphere(3, 0), r"^dimension: must be >= 1, got 0$"),
        (lambda: sphere(-3, 1), r"^size: must be >= 1, got -3$"),
        (lambda: curve("cos"), r"^name: must be one of sin_pi, sin_5pi, jump; got 'cos'$"),
        (lambda: curve(sampling="sobol"), r"^sampling: must be one of grid, random; got 'sobol'$"),
        (lambda: curve(size=0), r"^size: must be >= 1, got 0$"),
        (lambda: curve(noise=-0.1), r"^noise: must be >= 0, got -0\.1$"),
        (lambda: curve(noise=NOT_A_NUMBER), r"^noise: must be a number, got 'a'$"),
    ],
)
def test_borders(make: Callable[[], Dataset], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_correlated_inputs_have_one_inner_product_up_to_sign() -> None:
    inputs = GENERATORS["correlated"](7, 12, correlation=0.2, seed=3).inputs
    gram = inputs @ inputs.T
    np.testing.assert_allclose(np.diag(gram), 1.0, rtol=1e-13)
    off = gram[~np.eye(7, dtype=bool)]
    np.testing.assert_allclose(np.abs(off), 0.2, rtol=1e-12)
    assert {-1.0, 1.0} == set(np.sign(off))
