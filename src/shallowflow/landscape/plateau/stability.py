"""Linear stability of a stationary point: which small changes die out, which stay, which grow.

The flow (3.1) linearised at (b, c) is −H, H the Hessian of ½Σ with the pattern held,

    H = JᵀJ + Σ_k r_k ∇²f(x_k),   ∂²f(x)/∂b_j∂c_j = −1[x > b_j],   all other second derivatives 0.

At a stationary point with c_j ≠ 0 for all living j the pulls Σ_{x_k > b_j} r_k vanish, so that H = JᵀJ and no
eigenvalue of −H is positive, as [plateau] §3.2 says; rank JᵀJ = dim V leaves 2n − dim V zeros, the centre
directions. With c_j = 0 the sentence is false: the off-diagonal entry −Σ_{x_k > b_j} r_k alone makes a
saddle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays, positive
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.geometry.blocks import blocks
from shallowflow.models.loss import SquareLoss
from shallowflow.models.networks import KnotNetwork


@dataclass(frozen=True, eq=False, repr=False)
class Stability(FrozenArrays):
    """Eigenvalues (2n,) of the linearised flow, largest first; how many are growing, centre, decaying."""

    eigenvalues: Floats
    growing: int
    centre: int
    decaying: int

    @property
    def stable(self) -> bool:
        """Whether no small change grows (to first order)."""
        return self.growing == 0

    def __repr__(self) -> str:
        return f"Stability({self.growing} growing, {self.centre} centre, {self.decaying} decaying directions)"


def stability(
    network: KnotNetwork, dataset: Dataset, loss: SquareLoss | None = None, *, tolerance: float = 1e-9
) -> Stability:
    """Return the linear stability of a stationary network, its pattern held ([plateau] §3.2); O(n² (n + m)).

    loss: ½·mean by default; tolerance: eigenvalues below this share of the largest count as zero.

    Examples
    --------
    >>> data = Dataset([[1.0], [2.0]], [2.0, -1.0])
    >>> stability(KnotNetwork([0.0], [0.0]), data)  # at rest, with c = 0: a saddle
    Stability(1 growing, 0 centre, 1 decaying directions)
    """
    square = SquareLoss() if loss is None else loss
    found, n = blocks(network, dataset), network.width
    x = found.inputs[:, None]
    gates = (np.arange(len(found.inputs))[:, None] >= found.borders[1:-1]).astype(np.float64)
    jacobian = np.hstack([-gates * found.outer, gates * (x - found.knots)])
    hessian = jacobian.T @ jacobian
    pulls = gates.T @ found.residuals
    hessian[np.arange(n), n + np.arange(n)] -= pulls
    hessian[n + np.arange(n), np.arange(n)] -= pulls
    values = np.linalg.eigvalsh(-square.weight(dataset.size) * hessian)[::-1]
    zero = positive(tolerance, "tolerance") * float(np.max(np.abs(values), initial=0.0))
    growing, decaying = int(np.sum(values > zero)), int(np.sum(values < -zero))
    return Stability(values.astype(np.float64), growing, 2 * n - growing - decaying, decaying)
