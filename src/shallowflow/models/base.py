"""What every network is: parameters in, parameters out, inputs checked at the border.

An engine asks little of a network: predict, pull a covector back to the parameters (`pullback`), and make
a copy with other parameters (`moved`). Parameters travel as a dictionary name → array, in the order of
`PARAMETERS`; all names but those of `OUTER_LAYER` belong to the inner layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, FrozenArrays, frozen, numbers
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
