"""Initialisations of the papers; every function takes a `seed` and returns a network.

Scales: `init_scale` λ multiplies 1/√m as in [early_alignment] (3). [incremental] writes α for the scale
of a single neuron: pass init_scale = α·√m.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Floats,
    Ints,
    Seed,
    count,
    generator,
    matrix,
    non_negative,
    numbers,
    one_of,
    positive,
    public,
    real,
    same_length,
    shown,
    vector,
)
from shallowflow.errors import InvalidInputError
from shallowflow.models.networks import (
    AdditiveStepNetwork,
    KnotNetwork,
    LogScaledNetwork,
    ReLUNetwork,
    StepNetwork,
)

__all__ = [
    "asymmetric",
    "balanced",
    "dominated",
    "gaussian",
    "grouped",
    "he_knots",
    "he_uniform",
    "log_scaled",
    "uniform_cuboids",
    "uniform_knots",
    "uniform_positions",
]
OFF = -1e-10
"""Preactivation of a grouped neuron off its group: below zero by more than rounding can move it."""
OFF_HOLDS_UP_TO = -OFF / 100
"""Inner products of grouped inputs may be wrong by so much, less than elsewhere: `OFF` must outweigh it."""


def __dir__() -> list[str]:
    """List the initialisations and nothing else."""
    return __all__


def _signs(rng: np.random.Generator, width: int) -> Floats:
    return rng.choice(np.array([-1.0, 1.0]), size=width)


def balanced(
    width: int, dimension: int, *, init_scale: float = 1e-3, slope: float = 0.0, seed: Seed = 0
) -> ReLUNetwork:
    """w_j ~ λ/√m · N(0, I_d), a_j = ±‖w_j‖ with fair signs, [early_alignment] App. B.1."""
    width, dimension = count(width, "width"), count(dimension, "dimension")
    rng = generator(seed)
    size = positive(init_scale, "init_scale") / np.sqrt(width)
    inner = rng.standard_normal((width, dimension))
    outer = _signs(rng, width) * np.linalg.norm(inner, axis=1)
    return ReLUNetwork(size * inner, size * outer, slope=slope)


def log_scaled(width: int, dimension: int, *, log_scale: float, seed: Seed = 0) -> LogScaledNetwork:
    """w_j = α·(uniform direction), a_j = ±α with fair signs, α = e^{log_scale}, [incremental] Assumption 3.

    The scale is given by its logarithm and may be as small as you like: −1000·ln 10 for α = 10⁻¹⁰⁰⁰.
    """
    width, dimension = count(width, "width"), count(dimension, "dimension")
    rng = generator(seed)
    directions = rng.standard_normal((width, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return LogScaledNetwork(directions, _signs(rng, width), np.full(width, real(log_scale, "log_scale")))


def dominated(
    width: int, dimension: int, *, init_scale: float = 1e-3, slope: float = 0.0, seed: Seed = 0
) -> ReLUNetwork:
    """a_j = ±λ/√m and w_j uniform in the ball of radius λ/√m, so that |a_j| ≥ ‖w_j‖, [early_alignment] §2.

    Almost surely |a_j| > ‖w_j‖ for every neuron: no neuron can vanish.
    """
    width, dimension = count(width, "width"), count(dimension, "dimension")
    rng = generator(seed)
    radius = positive(init_scale, "init_scale") / np.sqrt(width)
    directions = rng.standard_normal((width, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    inner = radius * rng.random((width, 1)) ** (1.0 / dimension) * directions
    return ReLUNetwork(inner, radius * _signs(rng, width), slope=slope)


def gaussian(
    width: int, dimension: int, *, init_scale: float = 1e-3, slope: float = 0.0, seed: Seed = 0
) -> ReLUNetwork:
    """w_j ~ λ/√m · N(0, I_d), a_j ~ λ/√m · N(0, 1): unbalanced, [early_alignment] App. B.2."""
    width, dimension = count(width, "width"), count(dimension, "dimension")
    rng = generator(seed)
    size = positive(init_scale, "init_scale") / np.sqrt(width)
    inner = size * rng.standard_normal((width, dimension))
    return ReLUNetwork(inner, size * rng.standard_normal(width), slope=slope)


def he_uniform(width: int, dimension: int, *, slope: float = 0.0, seed: Seed = 0) -> ReLUNetwork:
    """w_j ~ U[−1/√d, 1/√d]^d, a_j ~ U[−1/√m, 1/√m]: PyTorch's default, [incremental] App. A.2."""
    width, dimension = count(width, "width"), count(dimension, "dimension")
    rng = generator(seed)
    inner = rng.uniform(-1.0, 1.0, (width, dimension)) / np.sqrt(dimension)
    return ReLUNetwork(inner, rng.uniform(-1.0, 1.0, width) / np.sqrt(width), slope=slope)


@public
def asymmetric(
    width: int,
    dimension: int,
    *,
    excess: float = 1.0,
    slope: float = 0.0,
    seed: Seed = 0,
    entries: str = "normal",
) -> ReLUNetwork:
    """w_j ~ N(0, I/d), a_j = ±(‖w_j‖ + Exp(mean `excess`)), output factor 1/m, [weak_interaction] App. B.

    entries: "uniform" draws those of w_j from U(−1/√d, 1/√d), as the authors' programs do; with one seed the
    signs and the excesses are those of "normal".
    """
    width, dimension = count(width, "width"), count(dimension, "dimension")
    one_of(entries, "entries", ("normal", "uniform"))
    rng = generator(seed)
    inner = rng.standard_normal((width, dimension))
    more = non_negative(excess, "excess") * rng.standard_exponential(width)
    signs = _signs(rng, width)
    if entries == "uniform":
        inner = rng.uniform(-1.0, 1.0, (width, dimension))
    inner = inner / np.sqrt(dimension)
    outer = signs * (np.linalg.norm(inner, axis=1) + more)
    return ReLUNetwork(inner, outer, slope=slope, scale=1.0 / width)


def grouped(
    inputs: ArrayLike,
    targets: ArrayLike,
    width: int,
    *,
    norm: float = 1.0,
    seed: Seed = 0,
    sizes: ArrayLike | None = None,
) -> ReLUNetwork:
    """One neuron per group of consecutive orthonormal inputs, [weak_interaction] (9).

    Neuron j has ⟨w_j, x_i⟩ = norm·e_i > 0 on its own group (e a random positive unit vector) and
    norm·`OFF` ≈ 0 on the others, a_j = s_j·norm with s_j the common label sign of the group, output
    factor 1/m. Groups have n/m samples, or `sizes` (m,) of them.
    """
    inputs, targets = matrix(inputs, "inputs"), vector(targets, "targets")
    same_length(inputs, targets, "inputs, targets")
    width, norm = count(width, "width"), positive(norm, "norm")
    group = np.repeat(np.arange(width), _group_sizes(len(targets), width, sizes))
    error = np.abs(inputs @ inputs.T - np.eye(len(targets))).max()
    if error > OFF_HOLDS_UP_TO:
        raise InvalidInputError(f"inputs: must be orthonormal, got inner products wrong by {error:.2g}")
    first = np.searchsorted(group, np.arange(width))
    signs = np.sign(targets)
    if np.any(signs != signs[first][group]) or np.any(signs == 0):
        raise InvalidInputError("targets: labels of one group must share one sign, got mixed or zero labels")
    drawn = np.abs(generator(seed).standard_normal(len(targets)))
    weights = np.zeros((width, len(targets)))
    weights[group, np.arange(len(targets))] = drawn
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    inner = np.where(weights > 0, weights, OFF) @ inputs
    return ReLUNetwork(norm * inner, norm * signs[first], scale=1.0 / width)


def _group_sizes(size: int, width: int, sizes: ArrayLike | None) -> Ints:
    """Return how many samples each group has, (m,)."""
    if sizes is None:
        if size % width:
            raise InvalidInputError(f"width: must divide the number of samples {size}, got {width}")
        return np.full(width, size // width)
    numbers(sizes, "sizes", 1)
    chosen = [count(each, "sizes") for each in np.asarray(sizes).tolist()]
    if len(chosen) != width or sum(chosen) != size:
        raise InvalidInputError(f"sizes: must be {width} numbers that add up to {size}, got {shown(chosen)}")
    return np.array(chosen, dtype=np.int64)


def he_knots(width: int, *, seed: Seed = 0) -> KnotNetwork:
    """b_j ~ N(0, 2), c_j ~ N(0, 2/m) (variances), [plateau] §5."""
    width = count(width, "width")
    rng = generator(seed)
    knots = np.sqrt(2.0) * rng.standard_normal(width)
    return KnotNetwork(knots, np.sqrt(2.0 / width) * rng.standard_normal(width))


def uniform_positions(
    width: int, *, sharpness: float, outer: ArrayLike | None = None, seed: Seed = 0
) -> StepNetwork:
    """u_j ~ U[0, 1] sorted, outer weights zero unless given, offset zero, [two_timescale] §4."""
    width = count(width, "width")
    positions = np.sort(generator(seed).random(width))
    weights = np.zeros(width) if outer is None else vector(outer, "outer")
    return StepNetwork(positions, weights, 0.0, sharpness)


def uniform_cuboids(
    width: int,
    dimension: int,
    *,
    sharpness: float,
    outer_range: tuple[float, float] = (0.0, 3.0),
    seed: Seed = 0,
) -> AdditiveStepNetwork:
    """u_jk ~ U[0, 1], a_jk ~ U(outer_range), offset zero, [two_timescale] App. C."""
    width, dimension = count(width, "width"), count(dimension, "dimension")
    low, high = _range(outer_range, "outer_range")
    rng = generator(seed)
    positions = rng.random((width, dimension))
    return AdditiveStepNetwork(positions, rng.uniform(low, high, (width, dimension)), 0.0, sharpness)


def uniform_knots(
    width: int, *, outer_range: tuple[float, float] = (0.0, 3.0), seed: Seed = 0
) -> KnotNetwork:
    """b_j ~ U[0, 1], c_j ~ U(outer_range), [two_timescale] App. C (ReLU networks)."""
    width = count(width, "width")
    low, high = _range(outer_range, "outer_range")
    rng = generator(seed)
    knots = rng.random(width)
    return KnotNetwork(knots, rng.uniform(low, high, width))


def _range(value: ArrayLike, name: str) -> tuple[float, float]:
    """Return the ends of an interval whose length is finite."""
    ends = vector(value, name)
    if len(ends) != 2 or not ends[0] <= ends[1]:
        raise InvalidInputError(f"{name}: must be (low, high) with low <= high, got {shown(value)}")
    if max(abs(ends)) > 1e300:
        raise InvalidInputError(f"{name}: must be at most 1e300 in size, got {shown(value)}")
    return float(ends[0]), float(ends[1])
