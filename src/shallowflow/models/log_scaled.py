"""A ReLU network whose neurons may be smaller than any floating point number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shallowflow.arrays import Floats, matrix, same_length, vector
from shallowflow.models.base import BaseNetwork, Parameters, inputs_of

if TYPE_CHECKING:
    from shallowflow.models.networks import ReLUNetwork


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
    def width(self) -> int:
        """The number of neurons m."""
        return len(self.outer)

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
        from shallowflow.models.networks import ReLUNetwork  # that module lists this one

        factors = np.exp(self.log_scales)
        return ReLUNetwork(factors[:, None] * self.inner, factors * self.outer)

    def __call__(self, x: ArrayLike) -> Floats:
        """Return h at the rows of x, (k, d) → (k,)."""
        return self.predict(inputs_of(x, self.dimension))

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
