"""Networks of steps by their windows: exact integrals against a target, descent on samples.

The step is the piecewise cubic of [two_timescale] App. C,

    σ(z) = 4(z+½)³ on [−½, 0],  1 − 4(½−z)³ on [0, ½],  0 and 1 outside;    σ'(z) = 12(½−|z|)².

With w = ½ − z on [0, ½], the integrals from −∞ are

    S(z) = ∫σ  = (z+½)⁴        on [−½, 0],   z + w⁴                            on [0, ½],   z beyond;
    Q(z) = ∫σ² = (16/7)(z+½)⁷  on [−½, 0],   z − ½ + 23/56 + … (below)         on [0, ½],   z − 5/56 beyond.

**Loss and gradients** of f(x) = a_0 + Σ_j a_j σ((x − u_j)/η) and a piecewise constant target f*. Between two
neighbours of {0, 1, jumps of f*, u_j, u_j ± η/2} the residual r = f − f* is a cubic, so four-point
Gauss–Legendre quadrature is exact for everything below [two_timescale, §2, App. A]:

    L = ½∫r²,   ∂L/∂a_j = ∫ r σ_j,   ∂L/∂u_j = −a_j ∫ r σ'_j.

`sweep` goes through these pieces from left to right. Where no neuron is inside its window |x − u_j| < η/2 the
residual is constant; a neuron that is fully on collects ∫r by a suffix sum at the end. So the cost is
O(m + n) plus what windows overlap. With a = 0 the gradient in a is −b_η(u).

**Best weights.** If windows do not overlap (gaps ≥ η), ∫σ_iσ_j = h_max(i,j) with h_j = ∫σ_j over [0, 1], and
H = (h_max(i,j)) + diag(d), d_0 = 0, d_j = ∫σ_j² − h_j (−5η/56 for a window inside [0, 1]). In the plateau
values c_k = a_0 + … + a_k, with h_0 = 1 and h_{m+1} = d_{m+1} = 0, differences of the rows of H a = b read

    −d_i c_{i−1} + (h_i − h_{i+1} + d_i + d_{i+1}) c_i − d_{i+1} c_{i+1} = b_i − b_{i+1},

a symmetric tridiagonal system. Overlapping windows need the dense H of `gram`.

**Descent on samples**, full-batch, of f(x) = a_0 + Σ_k Σ_j a_jk σ((x_k − u_jk)/η), O(d(n + m) + windows) per
step. The samples are sorted once along every coordinate. Going through them in that order, a neuron is off,
then inside its window, then fully on; only samples inside windows need σ. With weights s_i = ∂L/∂f(x_i),

    ∂L/∂a_jk = Σ_{fully on} s_i + Σ_{window} s_i σ_jk(x_i),
    ∂L/∂u_jk = −(a_jk/η) Σ_{window} s_i σ'_jk(x_i),

where the first sum is the total minus a running sum. [two_timescale] §6, loss weight·½Σr² or ‖r‖/n.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.arrays import Floats, Ints
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN
from shallowflow.kernels.shared.vectors import sort_order


@njit(cache=True, **LEAN)
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


@njit(cache=True, **LEAN)
def step_inside(z: float) -> float:
    """σ(z) for |z| ≤ ½, without a branch that a random z would make the processor guess wrong."""
    w = 0.5 - abs(z)
    tail = 4.0 * w * w * w
    return tail if z < 0.0 else 1.0 - tail


@njit(cache=True, **LEAN)
def slope(z: float) -> float:
    """σ'(z)."""
    w = 0.5 - abs(z)
    return 12.0 * w * w if w > 0.0 else 0.0


@njit(cache=True, **LEAN)
def integral(z: float) -> float:
    """S(z), the integral of σ up to z."""
    if z <= -0.5:
        return 0.0
    if z >= 0.5:
        return z
    if z < 0.0:
        return (z + 0.5) ** 4
    return z + (0.5 - z) ** 4


@njit(cache=True, **LEAN)
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


NODES = np.array([0.06943184420297371, 0.33000947820757187, 0.6699905217924281, 0.9305681557970262])
WEIGHTS = np.array([0.17392742256872692, 0.32607257743127307, 0.32607257743127307, 0.17392742256872692])
"""Four-point Gauss–Legendre quadrature on [0, 1]: exact for polynomials of degree 7."""


def sweep(
    u: Floats, a: Floats, eta: float, breaks: Floats, values: Floats, grad_a: Floats, grad_u: Floats
) -> float:
    """Return L and write its gradients; u (m,) sorted, a (m + 1,) with the offset first.

    breaks: the jumps of f*, increasing, values: one more; grad_a (m + 1,), grad_u (m,). With eta = 0 there
    are no windows and grad_u is zero.
    """
    grad_a.fill(0.0)
    grad_u.fill(0.0)
    gradients = grad_a, grad_u, np.zeros(u.size + 1)
    return float(_sweep(u, a, eta, breaks, values, gradients))


def population_loss(u: Floats, a: Floats, eta: float, breaks: Floats, values: Floats) -> float:
    """Return L for u (m,) in any order and a (m + 1,), the offset first; otherwise as `sweep`."""
    order = np.argsort(u, kind="stable")
    a = np.concatenate([a[:1], a[1:][order]])
    return sweep(u[order], a, eta, breaks, values, np.empty(a.size), np.empty(u.size))


@njit(cache=True, **LEAN)
def _sweep(
    u: Floats,
    a: Floats,
    eta: float,
    breaks: Floats,
    values: Floats,
    gradients: tuple[Floats, Floats, Floats],
) -> float:
    grad_a, grad_u, inside = gradients
    m, half = u.size, 0.5 * eta
    on = mid = off = jump = 0
    x, plateau, total = 0.0, a[0], 0.0
    while x < 1.0:
        while on < m and u[on] - half <= x:
            on += 1
        while mid < m and u[mid] <= x:
            mid += 1
        while off < m and u[off] + half <= x:
            plateau += a[off + 1]
            off += 1
        while jump < breaks.size and breaks[jump] <= x:
            jump += 1
        end = min(1.0, u[on] - half) if on < m else 1.0
        end = min(end, u[mid]) if mid < m else end
        end = min(end, u[off] + half) if off < m else end
        end = min(end, breaks[jump]) if jump < breaks.size else end
        width = end - x
        if on == off:
            r = plateau - values[jump]
            total += r * r * width
            grad_a[off] += r * width
        else:
            for q in range(4):
                at, weight = x + NODES[q] * width, WEIGHTS[q] * width
                r = plateau - values[jump]
                for j in range(off, on):
                    r += a[j + 1] * step((at - u[j]) / eta)
                total += weight * r * r
                grad_a[off] += weight * r
                for j in range(off, on):
                    z = (at - u[j]) / eta
                    inside[j + 1] += weight * r * step(z)
                    grad_u[j] -= weight * r * slope(z) * a[j + 1] / eta
        x = end
    for j in range(m - 1, -1, -1):
        grad_a[j] += grad_a[j + 1]
    for j in range(1, m + 1):
        grad_a[j] += inside[j]
    return 0.5 * total


@njit(cache=True)
def feature_integrals(u: Floats, eta: float) -> tuple[Floats, Floats]:
    """h_j = ∫σ_j and ∫σ_j² over [0, 1], (m + 1,) each, the constant feature first; eta may be 0."""
    m = u.size
    first, second = np.ones(m + 1), np.ones(m + 1)
    for j in range(m):
        if eta > 0.0:
            low, high = -u[j] / eta, (1.0 - u[j]) / eta
            first[j + 1] = eta * (integral(high) - integral(low))
            second[j + 1] = eta * (square_integral(high) - square_integral(low))
        else:
            first[j + 1] = second[j + 1] = 1.0 - min(max(u[j], 0.0), 1.0)
    return first, second


@njit(cache=True, **LEAN)
def overlap(left: float, right: float, eta: float) -> float:
    """∫σ((x − left)/η) σ((x − right)/η) over [0, 1], left ≤ right."""
    half = 0.5 * eta
    begin = max(0.0, right - half)
    whole = min(max(left + half, begin), 1.0)
    total = 0.0
    if whole < 1.0:
        total += eta * (integral((1.0 - right) / eta) - integral((whole - right) / eta))
    x = begin
    while x < whole:
        end = whole
        if x < left < end:
            end = left
        if x < right < end:
            end = right
        for q in range(4):
            at = x + NODES[q] * (end - x)
            total += WEIGHTS[q] * (end - x) * step((at - left) / eta) * step((at - right) / eta)
        x = end
    return total


@njit(cache=True)
def gram(u: Floats, eta: float) -> Floats:
    """H (m + 1, m + 1) for u sorted, with overlapping windows and windows cut by 0 or 1."""
    m = u.size
    first, second = feature_integrals(u, eta)
    H = np.empty((m + 1, m + 1))
    for i in range(m + 1):
        H[i, i] = second[i]
        for j in range(i + 1, m + 1):
            if i == 0 or u[j - 1] - u[i - 1] >= eta:
                H[i, j] = first[j]
            else:
                H[i, j] = overlap(u[i - 1], u[j - 1], eta)
            H[j, i] = H[i, j]
    return H


@njit(cache=True)
def best_plateaus(u: Floats, eta: float, b: Floats, c: Floats) -> bool:
    """Solve the tridiagonal system for c (m + 1,), given b_η(u); False if a pivot vanishes.

    u sorted with gaps ≥ eta. Elimination from left to right without pivoting: the matrix is diagonally
    dominant while every window lies inside [0, 1].
    """
    m = u.size
    first, second = feature_integrals(u, eta)
    upper = np.empty(m + 1)
    previous, ahead = 0.0, 0.0
    for i in range(m + 1):
        d = second[i] - first[i] if i > 0 else 0.0
        after = second[i + 1] - first[i + 1] if i < m else 0.0
        length = first[i] - (first[i + 1] if i < m else 0.0)
        right = b[i] - (b[i + 1] if i < m else 0.0)
        pivot = length + d + after + (d * previous if i > 0 else 0.0)
        if not pivot > 1e-14:
            return False
        upper[i] = -after / pivot
        ahead = (right + d * ahead) / pivot
        c[i] = ahead
        previous = upper[i]
    for i in range(m - 1, -1, -1):
        c[i] -= upper[i] * c[i + 1]
    return True


class Samples(NamedTuple):
    """Inputs sorted along every coordinate (d, n), which samples these are (d, n), the targets (n,)."""

    x: Floats
    order: Ints
    y: Floats


class Neurons(NamedTuple):
    """Positions and weights (d, m), the offset (1,), the sharpness, and working memory.

    slots (d, m): their order along each coordinate; values (n,); grad_u, grad_a (d, m).
    """

    u: Floats
    a: Floats
    offset: Floats
    eta: float
    slots: Ints
    values: Floats
    grad_u: Floats
    grad_a: Floats


class Rules(NamedTuple):
    """Steps of the outer and of the inner layer; the loss: is it the norm? Otherwise its weight."""

    fast: float
    slow: float
    norm: bool
    weight: float


def new_neurons(u: Floats, a: Floats, offset: float, eta: float, samples: int) -> Neurons:
    """Return the neurons of u, a (d, m), which `advance_windows` changes in place."""
    slots = np.tile(np.arange(u.shape[1]), (u.shape[0], 1))
    gradients = np.empty(u.shape), np.empty(u.shape)
    return Neurons(u, a, np.array([float(offset)]), eta, slots, np.empty(samples), *gradients)


@njit(cache=True, **INTERNAL)
def _add_coordinate(neurons: Neurons, samples: Samples, k: int) -> None:
    """Add Σ_j a_jk σ((x_ik − u_jk)/η) to the values."""
    u, a, slots, eta = neurons.u[k], neurons.a[k], neurons.slots[k], neurons.eta
    x, order = samples.x[k], samples.order[k]
    half, on, entered, plateau = 0.5 * eta, 0, 0, 0.0
    for i in range(x.size):
        while entered < slots.size and u[slots[entered]] - half < x[i]:
            entered += 1
        while on < entered and u[slots[on]] + half <= x[i]:
            plateau += a[slots[on]]
            on += 1
        value = plateau
        for p in range(on, entered):
            value += a[slots[p]] * step((x[i] - u[slots[p]]) / eta)
        neurons.values[order[i]] += value


@njit(cache=True, **INTERNAL)
def _pull_coordinate(neurons: Neurons, samples: Samples, total: float, k: int) -> None:
    """Write the gradients (m,) of one coordinate; the values are the s_i, total = Σ s_i."""
    u, a, slots, eta = neurons.u[k], neurons.a[k], neurons.slots[k], neurons.eta
    x, order, grad_u, grad_a = samples.x[k], samples.order[k], neurons.grad_u[k], neurons.grad_a[k]
    for j in range(u.size):
        grad_u[j] = grad_a[j] = 0.0
    half, on, entered, passed = 0.5 * eta, 0, 0, 0.0
    for i in range(x.size):
        while entered < slots.size and u[slots[entered]] - half < x[i]:
            entered += 1
        while on < entered and u[slots[on]] + half <= x[i]:
            grad_a[slots[on]] += total - passed
            on += 1
        s = neurons.values[order[i]]
        for p in range(on, entered):
            j = slots[p]
            z = (x[i] - u[j]) / eta
            grad_a[j] += s * step(z)
            grad_u[j] -= s * slope(z) * a[j] / eta
        passed += s


@njit(cache=True, **LEAN)
def residuals(neurons: Neurons, samples: Samples) -> float:
    """Write f(x_i) − y_i into the values of `neurons`; return the sum of their squares."""
    values = neurons.values
    for i in range(values.size):
        values[i] = neurons.offset[0]
    for k in range(neurons.u.shape[0]):
        sort_order(neurons.u[k], neurons.slots[k])
        _add_coordinate(neurons, samples, k)
    squares = 0.0
    for i in range(values.size):
        values[i] -= samples.y[i]
        squares += values[i] * values[i]
    return squares


def loss(neurons: Neurons, samples: Samples, rules: Rules) -> float:
    """Return weight·½Σr² or ‖r‖/n of the present neurons."""
    squares = float(residuals(neurons, samples))
    return sqrt(squares) / samples.y.size if rules.norm else 0.5 * rules.weight * squares


@njit(cache=True, **LEAN)
def advance_windows(neurons: Neurons, samples: Samples, rules: Rules, steps: int) -> int:
    """Make up to `steps` steps in place; return how many left all parameters finite."""
    u, a, offset, values = neurons.u, neurons.a, neurons.offset, neurons.values
    d, m = u.shape
    n = values.size
    for done in range(steps):
        squares = residuals(neurons, samples)
        if not squares < np.inf:
            return done
        factor = rules.weight
        if rules.norm:
            factor = 1.0 / (n * sqrt(squares)) if squares > 0.0 else 0.0
        total = 0.0
        for i in range(n):
            values[i] *= factor
            total += values[i]
        offset[0] -= rules.fast * total
        for k in range(d):
            _pull_coordinate(neurons, samples, total, k)
            for j in range(m):
                u[k, j] -= rules.slow * neurons.grad_u[k, j]
                a[k, j] -= rules.fast * neurons.grad_a[k, j]
    return steps
