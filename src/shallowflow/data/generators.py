"""The data sets of the papers, by name: `GENERATORS` lists them all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Choices,
    Floats,
    Seed,
    count,
    generator,
    non_negative,
    numbers,
    one_of,
    public,
    unit_interval,
)
from shallowflow.data.dataset import Dataset, PiecewiseAffine
from shallowflow.errors import InvalidInputError


def three_points() -> Dataset:
    """Three points that small networks fail to fit, bias coordinate appended, [early_alignment] App. B.1."""
    return Dataset([[-0.75], [-0.5], [0.125]], [1.1, 0.1, 0.8], name="three points").with_bias()


STEWART_TEACHER = PiecewiseAffine(
    [-1.0, -0.7, -0.55, -0.4, 0.0, 0.5, 0.6, 0.7, 1.0], [0.0, 0.7, 0.5, 1.0, 0.0, 1.0, 0.6, 0.7, 0.0]
)


def stewart(size: int = 40, *, seed: Seed = 0) -> Dataset:
    """x ~ U[−1, 1], y from an eight-neuron teacher, bias coordinate appended, [early_alignment] App. B.2."""
    x = generator(seed).uniform(-1.0, 1.0, count(size, "size"))
    return Dataset(x[:, None], STEWART_TEACHER(x), name="Stewart").with_bias()


def orthonormal(
    size: int, dimension: int | None = None, *, labels: str = "gaussian", seed: Seed = 0
) -> Dataset:
    """Orthonormal inputs in a random basis (d ≥ n), [incremental] §2.

    labels: "gaussian" N(0, 1), "positive" |N(0, 1)|, "bounded" U([−2, −1] ∪ [1, 2]).
    """
    size = count(size, "size")
    rng = generator(seed)
    inputs = _orthonormal_rows(rng, size, _dimension(size, dimension))
    return Dataset(inputs, _labels(rng, size, labels), name="orthonormal")


def correlated(
    size: int,
    dimension: int | None = None,
    *,
    correlation: float = 0.01,
    labels: str = "gaussian",
    seed: Seed = 0,
) -> Dataset:
    """Unit inputs with ⟨x_i, x_k⟩ = ±correlation for all pairs (d > n): nearly orthonormal if it is small.

    x_i = √(1 − c)·q_i ± √c·q_0 with q orthonormal and random signs; labels and basis as in `orthonormal`.
    """
    size, share = count(size, "size"), unit_interval(correlation, "correlation")
    chosen = size + 1 if dimension is None else count(dimension, "dimension")
    rng = generator(seed)
    basis = _orthonormal_rows(rng, size + 1, _dimension(size + 1, chosen))
    values = _labels(rng, size, labels)
    signs = rng.choice(np.array([-1.0, 1.0]), (size, 1))
    inputs = np.sqrt(1.0 - share) * basis[:size] + np.sqrt(share) * signs * basis[size]
    return Dataset(inputs, values, name="correlated")


def orthogonal(
    size: int, dimension: int | None = None, *, labels: str = "bounded", seed: Seed = 0
) -> Dataset:
    """Orthogonal inputs (d ≥ n) with norms U[1, 2], [weak_interaction] App. B, experiment 2.

    labels: as in `orthonormal`.
    """
    size = count(size, "size")
    rng = generator(seed)
    norms = rng.uniform(1.0, 2.0, (size, 1))
    inputs = norms * _orthonormal_rows(rng, size, _dimension(size, dimension))
    return Dataset(inputs, _labels(rng, size, labels), name="orthogonal")


def sphere(size: int, dimension: int, *, labels: str = "bounded", seed: Seed = 0) -> Dataset:
    """Uniform directions with norms U[1, 2], [weak_interaction] App. B, experiment 1.

    labels: as in `orthonormal`.
    """
    size, dimension = count(size, "size"), count(dimension, "dimension")
    rng = generator(seed)
    inputs = rng.standard_normal((size, dimension))
    inputs *= rng.uniform(1.0, 2.0, (size, 1)) / np.linalg.norm(inputs, axis=1, keepdims=True)
    return Dataset(inputs, _labels(rng, size, labels), name="sphere")


PERIOD = 2.0
"""Of sin πx and of its multiples; the remainder is exact, and x itself on [−1, 1]."""


def _sin_pi(x: ArrayLike) -> Floats:
    return np.sin(np.pi * np.fmod(numbers(x, "x", None), PERIOD))


def _sin_5pi(x: ArrayLike) -> Floats:
    return np.sin(5 * np.pi * np.fmod(numbers(x, "x", None), PERIOD))


def _jump(x: ArrayLike) -> Floats:
    z = numbers(x, "x", None)
    phase = np.pi * np.fmod(z, PERIOD)
    return np.where(z > 0, 1.0 + 0.5 * z * np.cos(15 * phase), 0.5 * np.sin(5 * phase))


CURVES: dict[str, Callable[[ArrayLike], Floats]] = Choices(
    "curve", {"sin_pi": _sin_pi, "sin_5pi": _sin_5pi, "jump": _jump}
)
"""f₁ = sin πx (5.1), sin 5πx (Fig. 1) and the discontinuous f₂ (5.2) of [plateau], all on [−1, 1]."""


@public
def curve(
    name: str = "sin_pi", size: int = 100, *, sampling: str = "grid", noise: float = 0.0, seed: Seed = 0
) -> Dataset:
    """Samples of a curve of [plateau] on [−1, 1]: equidistant ("grid") or uniform random ("random").

    `noise` is the standard deviation of Gaussian noise added to the targets.
    """
    function = CURVES[one_of(name, "name", CURVES)]
    size, noise = count(size, "size"), non_negative(noise, "noise")
    rng = generator(seed)
    random = one_of(sampling, "sampling", ("grid", "random")) == "random"
    x = np.sort(rng.uniform(-1.0, 1.0, size)) if random else np.linspace(-1.0, 1.0, size)
    return Dataset(x[:, None], function(x) + noise * rng.standard_normal(size), name=name)


GENERATORS: dict[str, Callable[..., Dataset]] = Choices(
    "generator",
    {
        "three_points": three_points,
        "stewart": stewart,
        "orthonormal": orthonormal,
        "correlated": correlated,
        "orthogonal": orthogonal,
        "sphere": sphere,
        "curve": curve,
    },
)


def _dimension(size: int, dimension: int | None) -> int:
    chosen = size if dimension is None else count(dimension, "dimension")
    if chosen < size:
        raise InvalidInputError(f"dimension: must be >= size = {size} for orthogonal inputs, got {chosen}")
    return chosen


def _orthonormal_rows(rng: np.random.Generator, size: int, dimension: int) -> Floats:
    basis, triangular = np.linalg.qr(rng.standard_normal((dimension, size)))
    rows: Floats = (basis * np.sign(np.diag(triangular))).T
    return rows


def _labels(rng: np.random.Generator, size: int, labels: str) -> Floats:
    one_of(labels, "labels", ("gaussian", "positive", "bounded"))
    if labels == "bounded":
        return rng.choice(np.array([-1.0, 1.0]), size) * rng.uniform(1.0, 2.0, size)
    values = rng.standard_normal(size)
    return np.abs(values) if labels == "positive" else values
