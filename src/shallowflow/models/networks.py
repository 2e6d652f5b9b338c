"""The networks of steps on the line and additive, the piecewise-cubic step, and the list of all networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, matrix, non_negative, numbers, positive, same_length, vector
from shallowflow.errors import InvalidInputError
from shallowflow.models.relu import (
    OUTER_LAYER,
    BaseNetwork,
    KnotNetwork,
    LogScaledNetwork,
    Parameters,
    ReLUNetwork,
    inputs_of,
)


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
        scaled = np.clip(np.asarray(z) / self.sharpness, -0.5, 0.5)
        tail = 4.0 * (0.5 - np.abs(scaled)) ** 3
        return np.where(scaled < 0, tail, 1.0 - tail)

    def derivative(self, z: Floats) -> Floats:
        """Return σ'(z/η)/η."""
        inside = np.maximum(0.5 - np.abs(np.asarray(z) / self.sharpness), 0.0)
        return 12.0 * inside**2 / self.sharpness


@dataclass(frozen=True, eq=False, init=False, repr=False)
class StepNetwork(BaseNetwork):
    """f(x) = offset + Σ_j outer_j σ_η(x − positions_j), η = sharpness, [two_timescale] (3).

    With sharpness = 0 every neuron is a Heaviside step (value ½ at its position); it can be evaluated,
    but has no gradient in the positions.

    Examples
    --------
    >>> StepNetwork([0.5], [2.0], offset=1.0, sharpness=0.1)([0.0, 0.5, 1.0])
    array([1., 2., 3.])
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("positions", "outer", "offset")
    dimension: ClassVar[int] = 1

    positions: Floats
    outer: Floats
    offset: Floats
    sharpness: float

    def __init__(
        self, positions: ArrayLike, outer: ArrayLike, offset: ArrayLike = 0.0, sharpness: float = 0.0
    ) -> None:
        fields = self.__dict__
        fields["positions"] = vector(positions, "positions")
        fields["outer"] = vector(outer, "outer")
        fields["offset"] = numbers(offset, "offset", 0)
        fields["sharpness"] = non_negative(sharpness, "sharpness")
        same_length(self.positions, self.outer, "positions, outer")

    @property
    def activation(self) -> CubicStep:
        """σ_η; needs sharpness > 0."""
        return CubicStep(self.sharpness)

    def predict(self, inputs: Floats) -> Floats:
        """Return f at checked inputs (k, 1)."""
        z = inputs - self.positions
        steps = np.heaviside(z, 0.5) if self.sharpness == 0 else self.activation(z)
        return self.offset + steps @ self.outer

    def preactivations(self, inputs: Floats) -> Floats:
        """Return x_k − positions_j as an (m, k) matrix."""
        return inputs[:, 0] - self.positions[:, None]

    def pullback(self, inputs: Floats, covector: Floats) -> Parameters:
        """Return Σ_k covector_k ∂f(x_k)/∂θ for every parameter array."""
        z = self.preactivations(inputs)
        sigma = self.activation
        return {
            "positions": -self.outer * (sigma.derivative(z) @ covector),
            "outer": sigma(z) @ covector,
            "offset": np.asarray(covector.sum()),
        }

    def tangent_kernel(self, inputs: Floats, epsilon: float = 1.0) -> Floats:
        """Return J Jᵀ (k, k), the inner columns of the Jacobian J weighted by √epsilon."""
        z = self.preactivations(inputs)
        features, tangents = self.activation(z), self.outer[:, None] * self.activation.derivative(z)
        return 1.0 + features.T @ features + epsilon * (tangents.T @ tangents)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class AdditiveStepNetwork(BaseNetwork):
    """f(x) = offset + Σ_j Σ_k outer_jk σ_η(x_k − positions_jk) on (k, d) inputs, [two_timescale] §6.

    positions, outer: (m, d); η = sharpness: one `StepNetwork` per coordinate, with a common offset; Heaviside
    steps for η = 0.

    Examples
    --------
    >>> AdditiveStepNetwork([[0.5, 0.5]], [[2.0, 3.0]], 1.0, 0.1)([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    array([1., 3., 6.])
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("positions", "outer", "offset")

    positions: Floats
    outer: Floats
    offset: Floats
    sharpness: float

    def __init__(
        self, positions: ArrayLike, outer: ArrayLike, offset: ArrayLike = 0.0, sharpness: float = 0.01
    ) -> None:
        fields = self.__dict__
        fields["positions"] = matrix(positions, "positions")
        fields["outer"] = matrix(outer, "outer")
        fields["offset"] = numbers(offset, "offset", 0)
        fields["sharpness"] = non_negative(sharpness, "sharpness")
        if self.positions.shape != self.outer.shape:
            raise InvalidInputError(
                f"positions, outer: must have equal shapes, got {self.positions.shape} and {self.outer.shape}"
            )

    @property
    def dimension(self) -> int:
        """The dimension d of the inputs."""
        return int(self.outer.shape[1])

    @property
    def activation(self) -> CubicStep:
        """σ_η; needs sharpness > 0."""
        return CubicStep(self.sharpness)

    def coordinate(self, k: int) -> StepNetwork:
        """Return Σ_j outer_jk σ_η(x − positions_jk), the part of coordinate k, without the offset."""
        return StepNetwork(self.positions[:, k], self.outer[:, k], 0.0, self.sharpness)

    def predict(self, inputs: Floats) -> Floats:
        """Return f at checked inputs (k, d)."""
        total = np.full(len(inputs), float(self.offset))
        for k in range(self.dimension):
            z = inputs[:, k] - self.positions[:, k, None]
            steps = np.heaviside(z, 0.5) if self.sharpness == 0 else self.activation(z)
            total += self.outer[:, k] @ steps
        return total

    def preactivations(self, inputs: Floats) -> Floats:
        """Return x_ik − positions_jk as an (m·d, n) matrix, the rows in the order of `positions`."""
        gaps = inputs.T[None, :, :] - self.positions[:, :, None]
        return gaps.reshape(-1, len(inputs))

    def pullback(self, inputs: Floats, covector: Floats) -> Parameters:
        """Return Σ_i covector_i ∂f(x_i)/∂θ for every parameter array."""
        sigma = self.activation
        positions, outer = np.empty_like(self.positions), np.empty_like(self.outer)
        for k in range(self.dimension):
            z = inputs[:, k] - self.positions[:, k, None]
            positions[:, k] = -self.outer[:, k] * (sigma.derivative(z) @ covector)
            outer[:, k] = sigma(z) @ covector
        return {"positions": positions, "outer": outer, "offset": np.asarray(covector.sum())}

    def tangent_kernel(self, inputs: Floats, epsilon: float = 1.0) -> Floats:
        """Return J Jᵀ (k, k), the inner columns of the Jacobian J weighted by √epsilon."""
        sigma, total = self.activation, np.ones((len(inputs), len(inputs)))
        for k in range(self.dimension):
            z = inputs[:, k] - self.positions[:, k, None]
            features, tangents = sigma(z), self.outer[:, k, None] * sigma.derivative(z)
            total += features.T @ features + epsilon * (tangents.T @ tangents)
        return total


Network = ReLUNetwork | KnotNetwork | StepNetwork | AdditiveStepNetwork | LogScaledNetwork
NETWORKS: tuple[type[Network], ...] = get_args(Network)

__all__ = [
    "NETWORKS",
    "OUTER_LAYER",
    "AdditiveStepNetwork",
    "BaseNetwork",
    "KnotNetwork",
    "LogScaledNetwork",
    "Network",
    "Parameters",
    "ReLUNetwork",
    "StepNetwork",
    "inputs_of",
]
