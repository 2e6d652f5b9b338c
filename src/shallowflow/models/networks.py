"""The networks that the papers train, as frozen dataclasses with read-only arrays.

What an engine needs of a network is small: call it, pull a covector back to the parameters
(`pullback`), and make a moved copy (`moved`). Parameters travel as a dictionary name → array, in the
order of `PARAMETERS`; all names but "outer" and "offset" belong to the inner layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Floats,
    matrix,
    non_negative,
    numbers,
    positive,
    same_length,
    unit_interval,
    vector,
)
from shallowflow.errors import InvalidInputError
from shallowflow.models.activation import CubicStep, LeakyReLU
from shallowflow.models.base import OUTER_LAYER, BaseNetwork, Parameters, inputs_of
from shallowflow.models.log_scaled import LogScaledNetwork


@dataclass(frozen=True, eq=False, init=False, repr=False)
class ReLUNetwork(BaseNetwork):
    """h(x) = scale · Σ_j outer_j σ(⟨inner_j, x⟩), σ the (leaky) ReLU with the given slope.

    inner: (m, d); outer: (m,). [early_alignment] (1), [weak_interaction] (1) with scale = 1/m.

    Examples
    --------
    >>> ReLUNetwork([[1.0, 0.0]], [2.0])([[3.0, 5.0]])
    array([6.])
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("inner", "outer")

    inner: Floats
    outer: Floats
    slope: float = 0.0
    scale: float = 1.0

    def __init__(self, inner: ArrayLike, outer: ArrayLike, slope: float = 0.0, scale: float = 1.0) -> None:
        fields = self.__dict__
        fields["inner"] = matrix(inner, "inner")
        fields["outer"] = vector(outer, "outer")
        fields["slope"] = unit_interval(slope, "slope")
        fields["scale"] = positive(scale, "scale")
        same_length(self.inner, self.outer, "inner, outer")

    @property
    def width(self) -> int:
        """The number of neurons m."""
        return len(self.outer)

    @property
    def dimension(self) -> int:
        """The dimension d of the inputs."""
        return int(self.inner.shape[1])

    @property
    def activation(self) -> LeakyReLU:
        """σ."""
        return LeakyReLU(self.slope)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return h at the rows of x, (k, d) → (k,)."""
        return self.predict(inputs_of(x, self.dimension))

    def predict(self, inputs: Floats) -> Floats:
        """Return h at checked inputs (k, d)."""
        z = inputs @ self.inner.T
        return self.scale * (np.maximum(z, self.slope * z) @ self.outer)

    def preactivations(self, inputs: Floats) -> Floats:
        """Return ⟨inner_j, x_k⟩ as an (m, k) matrix."""
        return self.inner @ inputs.T

    def pullback(self, inputs: Floats, covector: Floats, gates: Floats | None = None) -> Parameters:
        """Return Σ_k covector_k ∂h(x_k)/∂θ for every parameter array.

        `gates` (m, k) replaces σ'(⟨inner_j, x_k⟩): an element of the subgradient, chosen by a flow.
        """
        z = self.preactivations(inputs)
        if gates is None:
            gates = np.where(z > 0, 1.0, self.slope)
        weighted = gates * (self.scale * covector)
        return {
            "inner": self.outer[:, None] * (weighted @ inputs),
            "outer": np.einsum("jk,jk->j", weighted, z),
        }

    def tangent_kernel(self, inputs: Floats, epsilon: float = 1.0) -> Floats:
        """Return J Jᵀ (k, k), the inner columns of the Jacobian J weighted by √epsilon."""
        z = self.preactivations(inputs)
        gates = np.where(z > 0, 1.0, self.slope)
        features, tangents = gates * z, self.outer[:, None] * gates
        inner = (tangents.T @ tangents) * (inputs @ inputs.T)
        return self.scale**2 * (features.T @ features + epsilon * inner)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class KnotNetwork(BaseNetwork):
    """f(x) = Σ_j outer_j relu(x − knots_j) on the line, [plateau] (2.2) reduced by Prop. 2.1.

    Examples
    --------
    >>> KnotNetwork([0.0, 1.0], [1.0, -1.0])([0.5, 3.0])
    array([0.5, 1. ])
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("knots", "outer")
    dimension: ClassVar[int] = 1

    knots: Floats
    outer: Floats

    def __init__(self, knots: ArrayLike, outer: ArrayLike) -> None:
        self.__dict__["knots"] = vector(knots, "knots")
        self.__dict__["outer"] = vector(outer, "outer")
        same_length(self.knots, self.outer, "knots, outer")

    @property
    def width(self) -> int:
        """The number of neurons m."""
        return len(self.outer)

    slope: ClassVar[float] = 0.0

    def __call__(self, x: ArrayLike) -> Floats:
        """Return f at the points x, (k,) or (k, 1) → (k,)."""
        return self.predict(inputs_of(x, 1))

    def predict(self, inputs: Floats) -> Floats:
        """Return f at checked inputs (k, 1), piece by piece in O((m + k) log m).

        Right of the sorted knot b_l, f(x) = f(b_l) + (c_1 + … + c_l)(x − b_l).
        """
        order = np.argsort(self.knots)
        knots, slopes = self.knots[order], np.cumsum(self.outer[order])
        heights = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(knots))])
        x = inputs[:, 0]
        piece = np.searchsorted(knots, x) - 1
        return np.where(piece < 0, 0.0, heights[piece] + slopes[piece] * (x - knots[piece]))

    def preactivations(self, inputs: Floats) -> Floats:
        """Return x_k − knots_j as an (m, k) matrix."""
        return inputs[:, 0] - self.knots[:, None]

    def pullback(self, inputs: Floats, covector: Floats, gates: Floats | None = None) -> Parameters:
        """Return Σ_k covector_k ∂f(x_k)/∂θ; `gates` as in `ReLUNetwork.pullback`."""
        z = self.preactivations(inputs)
        if gates is None:
            gates = (z > 0).astype(np.float64)
        weighted = gates * covector
        return {
            "knots": -self.outer * weighted.sum(axis=1),
            "outer": np.einsum("jk,jk->j", weighted, z),
        }

    def tangent_kernel(self, inputs: Floats, epsilon: float = 1.0) -> Floats:
        """Return J Jᵀ (k, k), the inner columns of the Jacobian J weighted by √epsilon."""
        z = self.preactivations(inputs)
        features, tangents = np.maximum(z, 0.0), self.outer[:, None] * (z > 0)
        return features.T @ features + epsilon * (tangents.T @ tangents)


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
    def width(self) -> int:
        """The number of neurons m."""
        return len(self.outer)

    @property
    def activation(self) -> CubicStep:
        """σ_η; needs sharpness > 0."""
        return CubicStep(self.sharpness)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return f at the points x, (k,) or (k, 1) → (k,)."""
        return self.predict(inputs_of(x, 1))

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

    positions, outer: (m, d); η = sharpness > 0: one `StepNetwork` per coordinate, with a common offset.

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
        fields["sharpness"] = positive(sharpness, "sharpness")
        if self.positions.shape != self.outer.shape:
            raise InvalidInputError(
                f"positions, outer: must have equal shapes, got {self.positions.shape} and {self.outer.shape}"
            )

    @property
    def width(self) -> int:
        """The number of neurons m."""
        return len(self.outer)

    @property
    def dimension(self) -> int:
        """The dimension d of the inputs."""
        return int(self.outer.shape[1])

    @property
    def activation(self) -> CubicStep:
        """σ_η."""
        return CubicStep(self.sharpness)

    def coordinate(self, k: int) -> StepNetwork:
        """Return Σ_j outer_jk σ_η(x − positions_jk), the part of coordinate k, without the offset."""
        return StepNetwork(self.positions[:, k], self.outer[:, k], 0.0, self.sharpness)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return f at the rows of x, (k, d) → (k,)."""
        return self.predict(inputs_of(x, self.dimension))

    def predict(self, inputs: Floats) -> Floats:
        """Return f at checked inputs (k, d)."""
        sigma, total = self.activation, np.full(len(inputs), float(self.offset))
        for k in range(self.dimension):
            total += self.outer[:, k] @ sigma(inputs[:, k] - self.positions[:, k, None])
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

NETWORKS: tuple[type[Network], ...] = (
    ReLUNetwork,
    KnotNetwork,
    StepNetwork,
    AdditiveStepNetwork,
    LogScaledNetwork,
)

__all__ = [
    "NETWORKS",
    "OUTER_LAYER",
    "AdditiveStepNetwork",
    "KnotNetwork",
    "LogScaledNetwork",
    "Network",
    "Parameters",
    "ReLUNetwork",
    "StepNetwork",
    "inputs_of",
]
