"""Target functions: piecewise constant, piecewise affine, and additive in d dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, FrozenArrays, increasing, members, numbers, same_length, vector
from shallowflow.errors import InvalidInputError


@dataclass(frozen=True, eq=False, init=False, repr=False)
class PiecewiseConstant(FrozenArrays):
    """values_i on [breakpoints_{i−1}, breakpoints_i): one more value than breakpoints.

    [two_timescale] §2: the jumps v_1 < … < v_{n−1} inside (0, 1) are the breakpoints.

    Examples
    --------
    >>> PiecewiseConstant([0.5], [1.0, 4.0])([0.0, 0.5, 1.0])
    array([1., 4., 4.])
    """

    breakpoints: Floats
    values: Floats

    def __init__(self, breakpoints: ArrayLike, values: ArrayLike) -> None:
        self.__dict__["breakpoints"] = increasing(breakpoints, "breakpoints", allow_empty=True)
        self.__dict__["values"] = vector(values, "values")
        if len(self.values) != len(self.breakpoints) + 1:
            raise InvalidInputError(
                f"values: must be one more than the breakpoints ({len(self.breakpoints)}), "
                f"got {len(self.values)}"
            )

    @property
    def jumps(self) -> Floats:
        """The jump sizes values_i − values_{i−1}."""
        return np.diff(self.values)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return the target at points of any shape."""
        points = numbers(x, "x", None, allow_empty=True)
        return self.values[np.searchsorted(self.breakpoints, points, side="right")]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class PiecewiseAffine(FrozenArrays):
    """The continuous function through (breakpoints_i, values_i), the end pieces extended.

    Examples
    --------
    >>> PiecewiseAffine([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])([0.5, 3.0])
    array([ 0.5, -1. ])
    """

    breakpoints: Floats
    values: Floats

    def __init__(self, breakpoints: ArrayLike, values: ArrayLike) -> None:
        self.__dict__["breakpoints"] = increasing(breakpoints, "breakpoints")
        self.__dict__["values"] = vector(values, "values")
        same_length(self.breakpoints, self.values, "breakpoints, values")
        if len(self.values) < 2:
            raise InvalidInputError(f"breakpoints: must be at least 2, got {len(self.values)}")
        with np.errstate(over="ignore"):
            steep = ~np.isfinite(self.slopes)
        if steep.any():
            gap = float(np.diff(self.breakpoints)[steep][0])
            raise InvalidInputError(
                f"breakpoints: must be far enough apart for slopes below 1.8e308, got a gap of {gap:g}"
            )

    @property
    def slopes(self) -> Floats:
        """The slope of every piece."""
        return np.diff(self.values) / np.diff(self.breakpoints)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return the target at points of any shape."""
        points = numbers(x, "x", None, allow_empty=True)
        piece = np.clip(np.searchsorted(self.breakpoints, points, side="right") - 1, 0, len(self.values) - 2)
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.values[piece] + self.slopes[piece] * (points - self.breakpoints[piece])
        if not np.isfinite(found).all():
            far = float(points[~np.isfinite(found)][0])
            raise InvalidInputError(f"x: the target there must be below 1.8e308, got {far:g}")
        return found


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Additive(FrozenArrays):
    """f(x) = Σ_i components_i(x_i) on (k, d) inputs, [two_timescale] §5.

    Examples
    --------
    >>> step = PiecewiseConstant([0.5], [0.0, 1.0])
    >>> Additive([step, step])([[0.2, 0.7], [0.7, 0.7]])
    array([1., 2.])
    """

    components: tuple[PiecewiseConstant | PiecewiseAffine, ...]

    def __init__(self, components: Iterable[PiecewiseConstant | PiecewiseAffine]) -> None:
        kinds: tuple[Any, ...] = (PiecewiseConstant, PiecewiseAffine)
        parts = members(components, "components", "one-dimensional targets", *kinds)
        if not parts:
            raise InvalidInputError("components: must not be empty, got ()")
        self.__dict__["components"] = parts

    @property
    def dimension(self) -> int:
        """The number d of coordinates."""
        return len(self.components)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return the target at the rows of x, (k, d) → (k,)."""
        inputs = numbers(x, "x", 2, allow_empty=True)
        if inputs.shape[1] != self.dimension:
            raise InvalidInputError(f"x: must have shape (k, {self.dimension}), got {inputs.shape}")
        total = np.zeros(len(inputs))
        for component, column in zip(self.components, inputs.T, strict=True):
            total += component(column)
        return total


Target = PiecewiseConstant | PiecewiseAffine | Additive
