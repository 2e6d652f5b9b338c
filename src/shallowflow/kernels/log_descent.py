"""Gradient descent of a ReLU network on orthonormal data in log-scaled weights, [incremental] App. A.1.

Neuron j is w_j = e^{ℓ_j} u_j, a_j = e^{ℓ_j} c_j with z_jk = ⟨u_j, x_k⟩. A step of plain descent on the square
loss is

    r_k = y_k − Σ_j e^{2ℓ_j} c_j relu(z_jk),
    z_jk += inner·c_j r_k  and  c_j += outer·Σ_k z_jk r_k ,      both over z_jk > 0 and with the old c_j,
    z_jk,

inner and outer being the step times the weight of the loss. A neuron whose |c_j| leaves [½, 2] is divided by
|c_j|, and ln|c_j| added to ℓ_j.
"""

import numpy as np
from numba import njit

from shallowflow.kernels.log_leap import FloatArray


@njit(cache=True)
def descend(
    z: FloatArray,
    outer: FloatArray,
    log_scales: FloatArray,
    targets: FloatArray,
    inner_rate: float,
    outer_rate: float,
    steps: int,
) -> int:
    """Make up to `steps` steps in place; return how many left everything finite."""
    m, n = z.shape
    residual = np.empty(n)
    for done in range(steps):
        residual[:] = targets
        for j in range(m):
            weight = np.exp(2.0 * log_scales[j]) * outer[j]
            if weight != 0.0:
                for k in range(n):
                    if z[j, k] > 0.0:
                        residual[k] -= weight * z[j, k]
        for j in range(m):
            pull, push = 0.0, inner_rate * outer[j]
            for k in range(n):
                if z[j, k] > 0.0:
                    pull += z[j, k] * residual[k]
                    z[j, k] += push * residual[k]
            outer[j] += outer_rate * pull
            size = abs(outer[j])
            if not np.isfinite(size):
                return done
            if size > 0.0 and (size < 0.5 or size > 2.0):
                log_scales[j] += np.log(size)
                outer[j] /= size
                for k in range(n):
                    z[j, k] /= size
    return steps
