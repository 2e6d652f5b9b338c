"""Initialisations: the laws they are drawn from, exact relations between the layers, seeds, borders."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from shallowflow.arrays import Floats
from shallowflow.data.generators import orthonormal
from shallowflow.errors import InvalidInputError
from shallowflow.models import initialize
from shallowflow.models.networks import Network

WIDTH = 40_000

Initialize = Callable[..., Network]

RANDOM: dict[str, tuple[Initialize, tuple[Any, ...]]] = {
    "balanced": (initialize.balanced, (7, 3)),
    "dominated": (initialize.dominated, (7, 3)),
    "gaussian": (initialize.gaussian, (7, 3)),
    "asymmetric": (initialize.asymmetric, (7, 3)),
    "grouped": (initialize.grouped, (np.eye(6), [1, 2, 3, -1, -2, -3], 2)),
    "he_knots": (initialize.he_knots, (7,)),
    "uniform_positions": (
        lambda width, seed=0: initialize.uniform_positions(width, sharpness=0.1, seed=seed),
        (7,),
    ),
}
every_initialisation = pytest.mark.parametrize(("make", "arguments"), RANDOM.values(), ids=RANDOM.keys())


def follows(sample: Floats, law: Any) -> bool:
    """Whether mean, variance and a Kolmogorov–Smirnov test cannot tell the sample from the law."""
    sample, size = sample.ravel(), sample.size
    mean, variance, kurtosis = (float(moment) for moment in law.stats(moments="mvk"))
    mean_off = abs(sample.mean() - mean) / np.sqrt(variance / size)
    variance_off = abs(((sample - mean) ** 2).mean() / variance - 1) / np.sqrt((kurtosis + 2) / size)
    return bool(max(mean_off, variance_off) < 4 and stats.kstest(sample, law.cdf).pvalue > 0.01)


def fair(signs: Floats) -> bool:
    """Whether the numbers of +1 and −1 differ by less than four standard deviations."""
    assert set(np.unique(signs)) == {-1.0, 1.0}
    return bool(abs(signs.sum()) < 4 * np.sqrt(len(signs)))


def directions_are_uniform(inner: Floats) -> bool:
    """Whether the mean direction and the second moments are those of the sphere, to five deviations."""
    u = inner / np.linalg.norm(inner, axis=1, keepdims=True)
    size, dimension = u.shape
    moment = u.T @ u / size - np.eye(dimension) / dimension
    return bool(np.abs(u.mean(axis=0)).max() < 5 / np.sqrt(size) and np.abs(moment).max() < 5 / np.sqrt(size))


@pytest.mark.parametrize("init_scale", [1e-3, 2.0])
def test_balanced(init_scale: float) -> None:
    network = initialize.balanced(WIDTH, 2, init_scale=init_scale, slope=0.1, seed=3)
    size = init_scale / np.sqrt(WIDTH)
    assert follows(network.inner, stats.norm(scale=size))
    assert follows((network.outer / size) ** 2, stats.chi2(2))
    assert fair(np.sign(network.outer))
    assert (network.slope, network.scale) == (0.1, 1.0)


@pytest.mark.parametrize("init_scale", [1e-3, 1.0, 1e-200])
def test_balanced_layers_are_equal_to_rounding(init_scale: float) -> None:
    network = initialize.balanced(50, 3, init_scale=init_scale, seed=1)
    for w, a in zip(network.inner, network.outer, strict=True):
        square = sum(Fraction(float(entry)) ** 2 for entry in w)
        assert abs(Fraction(float(a)) ** 2 / square - 1) < 1e-15


@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_dominated(dimension: int) -> None:
    network = initialize.dominated(WIDTH, dimension, init_scale=0.5, seed=4)
    radius = 0.5 / np.sqrt(WIDTH)
    np.testing.assert_array_equal(np.abs(network.outer), np.full(WIDTH, radius))
    norms = np.linalg.norm(network.inner, axis=1)
    assert np.all(np.abs(network.outer) > norms)
    assert follows((norms / radius) ** dimension, stats.uniform())
    assert directions_are_uniform(network.inner)
    assert fair(np.sign(network.outer))


def test_gaussian() -> None:
    network = initialize.gaussian(WIDTH, 3, init_scale=0.5, seed=5)
    law = stats.norm(scale=0.5 / np.sqrt(WIDTH))
    assert follows(network.inner, law)
    assert follows(network.outer, law)
    assert abs(np.corrcoef(network.inner[:, 0], network.outer)[0, 1]) < 5 / np.sqrt(WIDTH)


@pytest.mark.parametrize("excess", [1.0, 0.2, 0.0])
def test_asymmetric(excess: float) -> None:
    network = initialize.asymmetric(WIDTH, 5, excess=excess, seed=6)
    norms = np.linalg.norm(network.inner, axis=1)
    assert follows(network.inner, stats.norm(scale=np.sqrt(1 / 5)))
    gaps = np.abs(network.outer) - norms
    assert np.all(gaps >= 0)
    assert np.all(gaps == 0) if excess == 0 else follows(gaps, stats.expon(scale=excess))
    assert fair(np.sign(network.outer))
    assert network.scale == 1 / WIDTH


def test_asymmetric_with_uniform_entries() -> None:
    """The signs and the excesses are those of normal entries."""
    normal, uniform = (initialize.asymmetric(WIDTH, 5, entries=e, seed=6) for e in ("normal", "uniform"))
    assert follows(uniform.inner, stats.uniform(-1 / np.sqrt(5), 2 / np.sqrt(5)))
    first, second = (np.abs(one.outer) - np.linalg.norm(one.inner, axis=1) for one in (normal, uniform))
    np.testing.assert_allclose(first, second, atol=1e-14)
    np.testing.assert_array_equal(np.sign(uniform.outer), np.sign(normal.outer))


@pytest.mark.parametrize(("size", "width"), [(6, 3), (60, 1), (60, 4), (60, 60)])
@pytest.mark.parametrize("seed", range(3))
def test_grouped_neurons_are_active_on_their_own_group_only(size: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = orthonormal(size, size + 5, seed=seed).inputs
    signs = rng.choice([-1.0, 1.0], width)
    targets = np.repeat(signs, size // width) * rng.uniform(1, 2, size)
    network = initialize.grouped(inputs, targets, width, norm=2.0, seed=seed)
    own = np.repeat(np.eye(width, dtype=bool), size // width, axis=1)
    z = network.preactivations(inputs)
    np.testing.assert_array_equal(z > 0, own)
    assert np.abs(z[~own]).max(initial=0.0) < 1e-9
    np.testing.assert_allclose(
        np.sqrt((np.where(own, z, 0) ** 2).sum(axis=1)), np.full(width, 2.0), rtol=1e-13
    )
    np.testing.assert_array_equal(network.outer, 2.0 * signs)
    np.testing.assert_allclose(np.linalg.norm(network.inner, axis=1), np.full(width, 2.0), rtol=1e-13)
    assert network.scale == 1 / width
    # A step of the flow moves every neuron inside the span of its own group.
    gradient = network.pullback(inputs, rng.standard_normal(size))["inner"]
    assert np.abs((gradient @ inputs.T)[~own]).max(initial=0.0) < 1e-14 * size


def test_he_knots() -> None:
    network = initialize.he_knots(WIDTH, seed=7)
    assert follows(network.knots, stats.norm(scale=np.sqrt(2)))
    assert follows(network.outer, stats.norm(scale=np.sqrt(2 / WIDTH)))


def test_uniform_positions() -> None:
    network = initialize.uniform_positions(WIDTH, sharpness=0.01, seed=8)
    assert follows(network.positions, stats.uniform())
    assert np.all(np.diff(network.positions) > 0)
    np.testing.assert_array_equal(network.outer, np.zeros(WIDTH))
    assert (float(network.offset), network.sharpness) == (0.0, 0.01)
    given = initialize.uniform_positions(3, sharpness=0.0, outer=[1, 2, 3])
    np.testing.assert_array_equal(given.outer, [1.0, 2.0, 3.0])


@every_initialisation
def test_seeds_reproduce_and_generators_advance(make: Initialize, arguments: tuple[Any, ...]) -> None:
    assert make(*arguments, seed=11) == make(*arguments, seed=11)
    assert make(*arguments, seed=11) != make(*arguments, seed=12)
    rng = np.random.default_rng(11)
    assert make(*arguments, seed=rng) == make(*arguments, seed=11)
    assert make(*arguments, seed=rng) != make(*arguments, seed=11)


@every_initialisation
@pytest.mark.parametrize("seed", [-1, True, 1.5, "a", [1, 2], np.random.RandomState(0)])
def test_seeds_are_checked(make: Initialize, arguments: tuple[Any, ...], seed: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^seed: must be "):
        make(*arguments, seed=seed)


MIXED = [1, 2, -3, 4]
HALF: Any = 2.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: initialize.balanced(0, 2), r"^width: must be >= 1, got 0$"),
        (lambda: initialize.balanced(2, 0), r"^dimension: must be >= 1, got 0$"),
        (lambda: initialize.balanced(2, 2, init_scale=-1), r"^init_scale: must be > 0, got -1$"),
        (lambda: initialize.balanced(2, 2, slope=-0.2), r"^slope: must lie in \[0, 1\), got -0\.2$"),
        (lambda: initialize.dominated(HALF, 2), r"^width: must be an integer, got 2\.5$"),
        (lambda: initialize.dominated(2, 2, init_scale=0), r"^init_scale: must be > 0, got 0$"),
        (lambda: initialize.gaussian(2, 2, init_scale=np.nan), r"^init_scale: must be finite, got nan$"),
        (lambda: initialize.gaussian(0, 2), r"^width: must be >= 1, got 0$"),
        (lambda: initialize.asymmetric(0, 2), r"^width: must be >= 1, got 0$"),
        (lambda: initialize.asymmetric(2, 2, excess=-1), r"^excess: must be >= 0, got -1$"),
        (lambda: initialize.he_knots(0), r"^width: must be >= 1, got 0$"),
        (lambda: initialize.uniform_positions(0, sharpness=0.1), r"^width: must be >= 1, got 0$"),
        (lambda: initialize.uniform_positions(2, sharpness=-1), r"^sharpness: must be >= 0, got -1$"),
        (
            lambda: initialize.uniform_positions(2, sharpness=1, outer=[1]),
            r"outer: must have equal lengths, got 2 and 1$",
        ),
        (lambda: initialize.grouped(np.eye(4), [1, 1, 1, 1], 0), r"^width: must be >= 1, got 0$"),
        (
            lambda: initialize.grouped(np.eye(4), [1, 1, 1, 1], 3),
            r"^width: must divide the number of samples 4, got 3$",
        ),
        (
            lambda: initialize.grouped(np.eye(4), MIXED, 2),
            r"^targets: labels of one group must share one sign",
        ),
        (
            lambda: initialize.grouped(np.eye(4), [1, 1, 0, 1], 4),
            r"^targets: labels of one group must share one sign",
        ),
        (
            lambda: initialize.grouped(np.eye(4), [1, 1], 2),
            r"^inputs, targets: must have equal lengths, got 4 and 2$",
        ),
        (
            lambda: initialize.grouped(np.eye(4), [1, 1, 1, np.inf], 2),
            r"^targets: entries must be finite, got inf",
        ),
        (lambda: initialize.grouped([1, 2], [1, 1], 2), r"^inputs: must have 2 axes, got shape \(2,\)"),
        (
            lambda: initialize.grouped(2 * np.eye(2), [1, 1], 2),
            r"^inputs: must be orthonormal, .* wrong by 3$",
        ),
        (lambda: initialize.grouped(np.eye(2), [1, 1], 2, norm=-1), r"^norm: must be > 0, got -1$"),
        (
            lambda: initialize.grouped(np.eye(3), [1, 1, 1], 2, sizes=[1, 1]),
            r"^sizes: must be 2 numbers that add up to 3, got \[1, 1\]$",
        ),
    ],
)
def test_borders(make: Callable[[], Network], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_he_uniform_has_the_ranges_of_a_linear_layer() -> None:
    network = initialize.he_uniform(4000, 25, seed=0)
    assert np.abs(network.inner).max() <= 0.2
    assert np.abs(network.outer).max() <= 1 / np.sqrt(4000)
    assert network.inner.var() == pytest.approx(0.04 / 3, rel=0.02)
    assert network.outer.var() == pytest.approx(1 / 12000, rel=0.05)


def test_groups_may_have_sizes_of_their_own() -> None:
    targets = np.array([1.0, 2.0, 3.0, 4.0, 5.0, -1.0, -2.0])
    network = initialize.grouped(np.eye(7), targets, 2, norm=0.5, seed=3, sizes=[5, 2])
    active = network.inner > 0
    np.testing.assert_array_equal(active, [[1, 1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1]])
    np.testing.assert_allclose(np.linalg.norm(network.inner * active, axis=1), 0.5)
    np.testing.assert_array_equal(network.outer, [0.5, -0.5])
