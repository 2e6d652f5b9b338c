"""The piecewise-cubic step of [two_timescale] App. C, its slope and its integrals, for one number.

    σ(z) = 4(z+½)³ on [−½, 0],  1 − 4(½−z)³ on [0, ½],  0 and 1 outside;    σ'(z) = 12(½−|z|)².

With w = ½ − z on [0, ½], the integrals from −∞ are

    S(z) = ∫σ  = (z+½)⁴        on [−½, 0],   z + w⁴                            on [0, ½],   z beyond;
    Q(z) = ∫σ² = (16/7)(z+½)⁷  on [−½, 0],   z − ½ + 23/56 + … (below)         on [0, ½],   z − 5/56 beyond.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def step(z: float) -> float:
    """σ(z)."""
    if z <= -0.5:
        return 0.0
    if z >= 0.5:
        return 1.0
    if z < 0.0:
        return 4.0 * (z + 0.5) * (z + 0.5) * (z + 0.5)
    w = 0.5 - z
    return 1.0 - 4.0 * w * w * w


@njit(cache=True)
def step_inside(z: float) -> float:
    """σ(z) for |z| ≤ ½, without a branch that a random z would make the processor guess wrong."""
    w = 0.5 - abs(z)
    tail = 4.0 * w * w * w
    return tail if z < 0.0 else 1.0 - tail


@njit(cache=True)
def slope(z: float) -> float:
    """σ'(z)."""
    w = 0.5 - abs(z)
    return 12.0 * w * w if w > 0.0 else 0.0


@njit(cache=True)
def integral(z: float) -> float:
    """S(z), the integral of σ up to z."""
    if z <= -0.5:
        return 0.0
    if z >= 0.5:
        return z
    if z < 0.0:
        return (z + 0.5) ** 4
    return z + (0.5 - z) ** 4


@njit(cache=True)
def square_integral(z: float) -> float:
    """Q(z), the integral of σ² up to z; on [0, ½] it is 23/56 − w + 2w⁴ − (16/7)w⁷."""
    if z <= -0.5:
        return 0.0
    if z >= 0.5:
        return z - 5.0 / 56.0
    if z < 0.0:
        return 16.0 / 7.0 * (z + 0.5) ** 7
    w = 0.5 - z
    return 23.0 / 56.0 - w + 2.0 * w**4 - 16.0 / 7.0 * w**7
