"""What every network shares: parameters in, parameters out; inputs checked at the border."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, FrozenArrays, frozen, numbers
from shallowflow.errors import InvalidInputError

Parameters = dict[str, Floats]
OUTER_LAYER = ("outer", "offset")


@dataclass(frozen=True, eq=False, repr=False)
class BaseNetwork(FrozenArrays):
    """What the networks share: parameters in, parameters out."""

    PARAMETERS: ClassVar[tuple[str, ...]]

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


def inputs_of(x: ArrayLike, dimension: int) -> Floats:
    """Return x as a checked (k, dimension) matrix; a vector of points is taken for dimension 1."""
    inputs = numbers(x, "x", None, allow_empty=True)
    if dimension == 1 and inputs.ndim == 1:
        inputs = inputs[:, None]
    if inputs.ndim != 2 or inputs.shape[1] != dimension:
        raise InvalidInputError(f"x: must have shape (k, {dimension}), got {inputs.shape}")
    return inputs
