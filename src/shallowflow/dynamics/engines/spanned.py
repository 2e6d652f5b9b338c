"""Few samples in many dimensions: a descent of a `ReLUNetwork` in the span of its inputs.

No gradient leaves that span. With Xᵀ = QR, Q (d, n), the weights u = WQ (m, n) on the inputs Rᵀ (n, n) make
the same steps as W on X, whatever the loss, and W = W(0) + (u − u(0)) Qᵀ. Rᵀ is triangular:
`kernels.dense.fused` skips its zeros. The turn rounds: a preactivation that is exactly 0 may count on either
side. So this is not for orthogonal inputs, on which what is frozen must stay frozen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.models.networks import ReLUNetwork


@dataclass(frozen=True, eq=False)
class Spanned:
    """A problem in n dimensions, `network` and `dataset`, for one in d > n that starts at `start`."""

    network: ReLUNetwork
    dataset: Dataset
    start: ReLUNetwork
    basis: Floats

    def lifted(self, network: ReLUNetwork) -> ReLUNetwork:
        """Return a later network of the small problem in the dimensions of the given one."""
        inner = self.start.inner + (network.inner - self.network.inner) @ self.basis.T
        return self.start.moved({"inner": inner, "outer": network.outer})


def spanned(network: ReLUNetwork, dataset: Dataset) -> Spanned:
    """Return the problem in the span of n < d inputs."""
    basis, corner = np.linalg.qr(dataset.inputs.T)
    small = ReLUNetwork(network.inner @ basis, network.outer, slope=network.slope, scale=network.scale)
    return Spanned(small, Dataset(corner.T, dataset.targets, dataset.name), network, basis)
