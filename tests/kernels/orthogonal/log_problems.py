"""Random problems on orthonormal data, and the flow by brute force: plain weights, SciPy, no events."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import shallowflow as sf
from shallowflow.arrays import Floats


def random_problem(
    size: int, width: int, seed: int, *, log_scale: float, extra: int = 3, labels: str = "gaussian"
) -> tuple[sf.LogScaledNetwork, sf.Dataset]:
    """A network of that scale, and orthonormal data in `extra` more dimensions than samples."""
    data = sf.data.GENERATORS["orthonormal"](size, size + extra, labels=labels, seed=seed)
    return sf.initialize.log_scaled(width, size + extra, log_scale=log_scale, seed=seed), data


def plain_flow(network: sf.ReLUNetwork, dataset: sf.Dataset, times: Floats) -> tuple[Floats, Floats]:
    """Integrate (4) in z_jk = ⟨w_j, x_k⟩ and a_j; return w (T, m, d) and a (T, m) at the times.

    In these coordinates what has reached zero stays there (Assumption 2); rounding would revive it in w.
    """
    inputs, targets = dataset.inputs, dataset.targets
    z_start = network.preactivations(inputs)
    m, n = z_start.shape

    def velocity(_: float, theta: Floats) -> Floats:
        z, outer = theta[: m * n].reshape(m, n), theta[m * n :]
        pull = (z > 0) * (targets - outer @ np.maximum(z, 0.0)) / n
        return np.concatenate([(outer[:, None] * pull).ravel(), np.sum(z * pull, axis=1)])

    start = np.concatenate([z_start.ravel(), network.outer])
    run: Any = solve_ivp(
        velocity, (0.0, times[-1]), start, method="DOP853", rtol=1e-13, atol=1e-22, t_eval=times
    )
    z = run.y[: m * n].T.reshape(-1, m, n)
    return network.inner + (z - z_start) @ inputs, run.y[m * n :].T
