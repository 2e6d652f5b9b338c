"""One-pass stochastic gradient descent (9) of [two_timescale], as it is written: the reference.

A sample is x ~ U[0, 1), y = f*(x) + noise·U[−1, 1); with r = f(x) − y and all values taken before the step,

    a_j ← a_j − h r σ_j,      u_j ← u_j + ε h r a_j σ'_j,      σ_j = σ((x − u_j)/η).

A batch averages these over its samples. The random stream is one number for x and, with noise, one more for
the noise. `box` replaces σ' by the indicator of the window, as the published script does. O(m) per sample.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from shallowflow.arrays import Floats
from shallowflow.kernels.step_activation import slope, step
from shallowflow.kernels.xoshiro import Words, uniform

OVERFLOW = 1e100
"""A residual beyond this ends the run: squares of it still are finite."""


@njit(cache=True)
def window_slope(z: float, box: bool) -> float:
    """σ'(z), or the indicator of |z| ≤ ½."""
    if box:
        return 1.0 if abs(z) <= 0.5 else 0.0
    return slope(z)


@njit(cache=True)
def target_piece(x: float, breaks: Floats) -> int:
    """The number of breaks ≤ x."""
    piece = 0
    for i in range(breaks.size):
        if breaks[i] <= x:
            piece += 1
    return piece


@njit(cache=True)
def advance_plain(
    u: Floats,
    a: Floats,
    eta: float,
    target: tuple[Floats, Floats],
    rates: tuple[float, float, float],
    box: bool,
    steps: int,
    state: Words,
) -> int:
    """Make up to `steps` steps of batch 1 in place; u (m,), a (m + 1,), rates (h, εh, noise).

    Returns the number of steps after which all residuals were still finite.
    """
    breaks, values = target
    h, slow, noise = rates
    s0, s1, s2, s3 = state
    m = u.size
    features = np.empty(m)
    for done in range(steps):
        x, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
        y = values[target_piece(x, breaks)]
        if noise > 0.0:
            draw, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
            y += noise * (2.0 * draw - 1.0)
        f = a[0]
        for j in range(m):
            features[j] = step((x - u[j]) / eta)
            f += a[j + 1] * features[j]
        r = f - y
        if not abs(r) < OVERFLOW:
            return done
        a[0] -= h * r
        for j in range(m):
            u[j] += slow * r * a[j + 1] * window_slope((x - u[j]) / eta, box) / eta
            a[j + 1] -= h * r * features[j]
    state[:] = np.array([s0, s1, s2, s3])
    return steps


@njit(cache=True)
def advance_batches(
    u: Floats,
    a: Floats,
    eta: float,
    target: tuple[Floats, Floats],
    rates: tuple[float, float, float],
    box: bool,
    shape: tuple[int, int],
    state: Words,
) -> int:
    """Make up to shape[0] steps of batch shape[1] in place; otherwise as `advance_plain`."""
    breaks, values = target
    h, slow, noise = rates
    s0, s1, s2, s3 = state
    steps, batch = shape
    m = u.size
    features, grad_u, grad_a = np.empty(m), np.empty(m), np.empty(m + 1)
    for done in range(steps):
        grad_u[:] = 0.0
        grad_a[:] = 0.0
        for _ in range(batch):
            x, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
            y = values[target_piece(x, breaks)]
            if noise > 0.0:
                draw, s0, s1, s2, s3 = uniform(s0, s1, s2, s3)
                y += noise * (2.0 * draw - 1.0)
            f = a[0]
            for j in range(m):
                features[j] = step((x - u[j]) / eta)
                f += a[j + 1] * features[j]
            r = f - y
            if not abs(r) < OVERFLOW:
                return done
            grad_a[0] += r
            for j in range(m):
                grad_u[j] += r * a[j + 1] * window_slope((x - u[j]) / eta, box) / eta
                grad_a[j + 1] += r * features[j]
        for j in range(m):
            u[j] += slow * grad_u[j] / batch
        for j in range(m + 1):
            a[j] -= h * grad_a[j] / batch
    state[:] = np.array([s0, s1, s2, s3])
    return steps
