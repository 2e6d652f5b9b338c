"""Activations: leaky ReLU, and the piecewise-cubic step of the two-timescale paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shallowflow.arrays import Floats, positive, unit_interval


class Activation(Protocol):
    """A scalar function applied entry by entry, with its derivative."""

    def __call__(self, z: Floats) -> Floats:
        """Return σ(z)."""
        ...

    def derivative(self, z: Floats) -> Floats:
        """Return σ'(z), with the convention σ'(0) = `slope` at a kink."""
        ...


@dataclass(frozen=True)
class LeakyReLU:
    """σ(z) = max(z, slope·z) with 0 ≤ slope < 1; slope = 0 is ReLU, and ReLU'(0) = 0.

    Examples
    --------
    >>> import numpy as np
    >>> LeakyReLU(0.1)(np.array([-2.0, 3.0]))
    array([-0.2,  3. ])
    """

    slope: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", unit_interval(self.slope, "slope"))

    def __call__(self, z: Floats) -> Floats:
        """Return max(z, slope·z)."""
        return np.maximum(z, self.slope * z)

    def derivative(self, z: Floats) -> Floats:
        """Return 1 where z > 0 and `slope` elsewhere."""
        return np.where(z > 0, 1.0, self.slope)


@dataclass(frozen=True)
class CubicStep:
    """A smoothed step of width η = `sharpness`: σ_η(z) = σ(z/η), [two_timescale] App. C.

    σ(z) = 4(z+½)³ on [−½, 0], 1 − 4(½−z)³ on [0, ½], 0 and 1 outside; σ'(z) = 12(½−|z|)².
    It is C¹ (σ'' jumps at 0).

    Examples
    --------
    >>> import numpy as np
    >>> CubicStep(0.1)(np.array([-0.1, 0.0, 0.1]))
    array([0. , 0.5, 1. ])
    """

    sharpness: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sharpness", positive(self.sharpness, "sharpness"))

    def __call__(self, z: Floats) -> Floats:
        """Return σ(z/η)."""
        scaled = np.clip(z / self.sharpness, -0.5, 0.5)
        tail = 4.0 * (0.5 - np.abs(scaled)) ** 3
        return np.where(scaled < 0, tail, 1.0 - tail)

    def derivative(self, z: Floats) -> Floats:
        """Return σ'(z/η)/η."""
        inside = np.maximum(0.5 - np.abs(z / self.sharpness), 0.0)
        return 12.0 * inside**2 / self.sharpness
