"""One-pass stochastic gradient descent (9) of [two_timescale]: samples and the plain loop.

A sample is x ~ U[0, 1), y = f*(x) + noise·U[−1, 1); with r = f(x) − y and all values taken before the step,

    a_j ← a_j − h r σ_j,      u_j ← u_j + ε h r a_j σ'_j,      σ_j = σ((x − u_j)/η).

A batch averages these over its samples. `box` replaces σ' by the indicator of the window, as the published
script does. The plain loop is formula (9) as it is written, O(m) per sample: the reference. `cells`
makes the same steps on the same samples, faster.

**Random numbers**: xoshiro256++ [Blackman & Vigna 2021], two nanoseconds each, one for x and, with noise, one
more for the noise. The state, four 64-bit words, is seeded by NumPy's `SeedSequence`, and travels as four
scalars so that it stays in registers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.arrays import Floats
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN
from shallowflow.kernels.steps.windows import slope, step

Words = NDArray[np.uint64]
UNIT = 2.0**-53
OVERFLOW = 1e100
"""A residual beyond this ends the run: squares of it still are finite."""


class Target(NamedTuple):
    """A piecewise constant f*: its breaks, increasing, and one value more."""

    breaks: Floats
    values: Floats


class Rules(NamedTuple):
    """Steps h and εh, half the width of the noise, the sharpness η, and whether σ' is the box."""

    h: float
    slow: float
    noise: float
    eta: float
    box: bool


class Stream(NamedTuple):
    """The state of the random numbers."""

    s0: Any
    s1: Any
    s2: Any
    s3: Any


def seeded(seed: np.random.SeedSequence) -> Words:
    """Return a state (4,)."""
    return np.asarray(seed.generate_state(4, np.uint64), dtype=np.uint64)


@njit(cache=True, **INTERNAL)
def uniform(stream: Stream) -> tuple[float, Stream]:
    """A number of [0, 1) with 53 random bits, and the next state."""
    s0, s1, s2, s3 = stream
    total = s0 + s3
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return np.float64(word >> np.uint64(11)) * UNIT, Stream(s0, s1, s2, s3)


@njit(cache=True, **INTERNAL)
def drawn(stream: Stream, noise: float) -> tuple[float, float, Stream]:
    """A sample: x, the noise of y, and the next state."""
    x, stream = uniform(stream)
    if noise > 0.0:
        draw, stream = uniform(stream)
        return x, noise * (2.0 * draw - 1.0), stream
    return x, 0.0, stream


@njit(cache=True, **INTERNAL)
def load_stream(state: Words) -> Stream:
    """The state as scalars."""
    return Stream(state[0], state[1], state[2], state[3])


@njit(cache=True, **INTERNAL)
def store_stream(state: Words, stream: Stream) -> None:
    """Keep the state for the next call."""
    state[0], state[1], state[2], state[3] = stream.s0, stream.s1, stream.s2, stream.s3


@njit(cache=True, **INTERNAL)
def window_slope(z: float, box: bool) -> float:
    """σ'(z), or the indicator of |z| ≤ ½."""
    if box:
        return 1.0 if abs(z) <= 0.5 else 0.0
    return float(slope(z))


@njit(cache=True, **INTERNAL)
def target_at(x: float, target: Target) -> float:
    """f*(x): the value after the breaks ≤ x."""
    piece = 0
    for i in range(target.breaks.size):
        if target.breaks[i] <= x:
            piece += 1
    return float(target.values[piece])


@njit(cache=True, **INTERNAL)
def _residual(x: float, y: float, u: Floats, a: Floats, eta: float, features: Floats) -> float:
    """f(x) − y; σ_j goes into `features` (m,)."""
    f = a[0]
    for j in range(u.size):
        features[j] = step((x - u[j]) / eta)
        f += a[j + 1] * features[j]
    return float(f - y)


@njit(cache=True, **LEAN)
def advance_plain(
    u: Floats, a: Floats, target: Target, rules: Rules, steps: int, state: Words, features: Floats
) -> int:
    """Make up to `steps` steps of batch 1 in place; u (m,), a (m + 1,), the offset first; features: scratch.

    Returns the number of steps after which all residuals were still finite.
    """
    h, slow, noise, eta, box = rules
    stream = load_stream(state)
    for done in range(steps):
        x, extra, stream = drawn(stream, noise)
        r = _residual(x, target_at(x, target) + extra, u, a, eta, features)
        if not abs(r) < OVERFLOW:
            return done
        a[0] -= h * r
        for j in range(u.size):
            u[j] += slow * r * a[j + 1] * window_slope((x - u[j]) / eta, box) / eta
            a[j + 1] -= h * r * features[j]
    store_stream(state, stream)
    return steps


@njit(cache=True, **LEAN)
def advance_batches(
    u: Floats, a: Floats, target: Target, rules: Rules, shape: tuple[int, int], state: Words, scratch: Floats
) -> int:
    """Make up to shape[0] steps of batch shape[1] in place; scratch (3, m + 1); as `advance_plain`."""
    h, slow, noise, eta, box = rules
    stream = load_stream(state)
    steps, batch = shape
    m, features, grad_u, grad_a = u.size, scratch[0], scratch[1], scratch[2]
    for done in range(steps):
        for j in range(m + 1):
            grad_u[j] = grad_a[j] = 0.0
        for _ in range(batch):
            x, extra, stream = drawn(stream, noise)
            r = _residual(x, target_at(x, target) + extra, u, a, eta, features)
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
    store_stream(state, stream)
    return steps
