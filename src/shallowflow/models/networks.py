"""The networks: what every network is; with kinks, in d dimensions, at any scale, on the line; of steps.

An engine asks little of a network: predict, pull a covector back to the parameters (`pullback`), and make
a copy with other parameters (`moved`). Parameters travel as a dictionary name → array, in the order of
`PARAMETERS`; all names but those of `OUTER_LAYER` belong to the inner layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import (
    Floats,
    FrozenArrays,
    frozen,
    matrix,
    non_negative,
    numbers,
    positive,
    same_length,
    unit_interval,
    vector,
)
from shallowflow.errors import InvalidInputError

Parameters = dict[str, Floats]
OUTER_LAYER = ("outer", "offset")


class BaseNetwork(FrozenArrays, ABC):
    """A two-layer network f with m neurons on inputs of dimension d; frozen, its arrays read-only."""

    PARAMETERS: ClassVar[tuple[str, ...]]
    outer: Floats

    @property
    def width(self) -> int:
        """The number of neurons m."""
        return len(self.outer)

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The dimension d of the inputs."""

    @property
    def parameters(self) -> Parameters:
        """The trained arrays, by name."""
        return {name: np.asarray(getattr(self, name)) for name in self.PARAMETERS}

    def moved(self, parameters: Mapping[str, Floats]) -> Self:
        """Return a copy with these parameters: same shapes, trusted, neither copied nor checked again."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update({name: frozen(values) for name, values in parameters.items()})
        return copy

    def __call__(self, x: ArrayLike) -> Floats:
        """Return f at the rows of x, (k, d) → (k,); a vector of points is taken for d = 1."""
        return self.predict(inputs_of(x, self.dimension))

    @abstractmethod
    def predict(self, inputs: Floats) -> Floats:
        """Return f at checked inputs, (k, d) → (k,)."""

    @abstractmethod
    def preactivations(self, inputs: Floats) -> Floats:
        """Return the arguments of the activation, one row per neuron, one column per input."""

    @abstractmethod
    def pullback(self, inputs: Floats, covector: Floats) -> Parameters:
        """Return Σ_k covector_k ∂f(x_k)/∂θ for every parameter array θ."""

    @abstractmethod
    def tangent_kernel(self, inputs: Floats, epsilon: float = 1.0) -> Floats:
        """Return J Jᵀ (k, k), the inner columns of the Jacobian J weighted by √epsilon."""


def inputs_of(x: ArrayLike, dimension: int) -> Floats:
    """Return x as a checked (k, dimension) matrix; a vector of points is taken for dimension 1."""
    inputs = numbers(x, "x", None, allow_empty=True)
    if dimension == 1 and inputs.ndim == 1:
        inputs = inputs[:, None]
    if inputs.ndim != 2 or inputs.shape[1] != dimension:
        raise InvalidInputError(f"x: must have shape (k, {dimension}), got {inputs.shape}")
    return inputs


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
        return np.maximum(z, self.slope * np.asarray(z))

    def derivative(self, z: Floats) -> Floats:
        """Return 1 where z > 0 and `slope` elsewhere."""
        return np.where(np.asarray(z) > 0, 1.0, self.slope)


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
    def dimension(self) -> int:
        """The dimension d of the inputs."""
        return int(self.inner.shape[1])

    @property
    def activation(self) -> LeakyReLU:
        """σ."""
        return LeakyReLU(self.slope)

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
        # Of NumPy: the square of a Python float raises where it overflows.
        return np.float64(self.scale) ** 2 * (features.T @ features + epsilon * inner)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LogScaledNetwork(BaseNetwork):
    """h(x) = Σ_j e^{2ℓ_j} outer_j relu(⟨inner_j, x⟩): a ReLU network whose neurons carry a log-scale each.

    Neuron j is w_j = e^{ℓ_j} inner_j, a_j = e^{ℓ_j} outer_j, so that a scale of 10⁻¹⁰⁰⁰ is no trouble,
    [incremental] App. A.1. inner: (m, d); outer, log_scales: (m,).

    Examples
    --------
    >>> tiny = LogScaledNetwork([[0.6, 0.8]], [1.0], [-2302.6])
    >>> tiny([[1.0, 1.0]]), tiny.log_norms
    (array([0.]), array([-2302.6]))
    """

    PARAMETERS: ClassVar[tuple[str, ...]] = ("inner", "outer", "log_scales")
    slope: ClassVar[float] = 0.0

    inner: Floats
    outer: Floats
    log_scales: Floats

    def __init__(self, inner: ArrayLike, outer: ArrayLike, log_scales: ArrayLike) -> None:
        fields = self.__dict__
        fields["inner"] = matrix(inner, "inner")
        fields["outer"] = vector(outer, "outer")
        fields["log_scales"] = vector(log_scales, "log_scales")
        same_length(self.inner, self.outer, "inner, outer")
        same_length(self.outer, self.log_scales, "outer, log_scales")

    @property
    def dimension(self) -> int:
        """The dimension d of the inputs."""
        return int(self.inner.shape[1])

    @property
    def log_norms(self) -> Floats:
        """ln ‖w_j‖, (m,); −∞ for a neuron without inner weights."""
        with np.errstate(divide="ignore"):
            norms: Floats = self.log_scales + np.log(np.linalg.norm(self.inner, axis=1))
        return norms

    @property
    def acceleration(self) -> float:
        """ln(1/α), α the largest |a_j|: accelerated time is time divided by it, [incremental] §2."""
        with np.errstate(divide="ignore"):
            return float(-np.max(self.log_scales + np.log(np.abs(self.outer))))

    def to_relu(self) -> ReLUNetwork:
        """Return the plain network; weights below the range of floating point numbers become 0."""
        factors = np.exp(self.log_scales)
        return ReLUNetwork(factors[:, None] * self.inner, factors * self.outer)

    def predict(self, inputs: Floats) -> Floats:
        """Return h at checked inputs (k, d)."""
        return np.maximum(inputs @ self.inner.T, 0.0) @ (np.exp(2.0 * self.log_scales) * self.outer)

    def preactivations(self, inputs: Floats) -> Floats:
        """Return ⟨inner_j, x_k⟩ as an (m, k) matrix: those of w_j, up to its scale."""
        return self.inner @ inputs.T

    def pullback(self, inputs: Floats, covector: Floats) -> Parameters:
        """Return Σ_k covector_k ∂h(x_k)/∂(w, a) divided by the scale of each neuron; log_scales stay.

        θ − step·pullback(…) is then a step of plain descent in (w, a), whatever the scales.
        """
        z = self.preactivations(inputs)
        weighted = (z > 0) * covector
        return {
            "inner": self.outer[:, None] * (weighted @ inputs),
            "outer": np.einsum("jk,jk->j", weighted, z),
            "log_scales": np.zeros(self.width),
        }

    def rescaled(self) -> LogScaledNetwork:
        """Return the same network, the scale of every neuron with |outer_j| outside [½, 2] taken anew."""
        size = np.abs(self.outer)
        factor = np.where(((size < 0.5) | (size > 2.0)) & (size > 0), size, 1.0)
        if np.all(factor == 1.0):
            return self
        return self.moved(
            {
                "inner": self.inner / factor[:, None],
                "outer": self.outer / factor,
                "log_scales": self.log_scales + np.log(factor),
            }
        )

    def tangent_kernel(self, inputs: Floats, epsilon: float = 1.0) -> Floats:
        """Return J Jᵀ (k, k) of h in (w, a), the inner columns of the Jacobian J weighted by √epsilon."""
        return self.to_relu().tangent_kernel(inputs, epsilon)


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
    slope: ClassVar[float] = 0.0

    knots: Floats
    outer: Floats

    def __init__(self, knots: ArrayLike, outer: ArrayLike) -> None:
        self.__dict__["knots"] = vector(knots, "knots")
        self.__dict__["outer"] = vector(outer, "outer")
        same_length(self.knots, self.outer, "knots, outer")

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
        return {"knots": -self.outer * weighted.sum(axis=1), "outer": np.einsum("jk,jk->j", weighted, z)}

    def tangent_kernel(self, inputs: Floats, epsilon: float = 1.0) -> Floats:
        """Return J Jᵀ (k, k), the inner columns of the Jacobian J weighted by √epsilon."""
        z = self.preactivations(inputs)
        features, tangents = np.maximum(z, 0.0), self.outer[:, None] * (z > 0)
        return features.T @ features + epsilon * (tangents.T @ tangents)


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
