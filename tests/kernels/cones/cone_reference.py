"""Plain gradient descent of a (leaky) ReLU network, as one would write it in NumPy and as a compiled loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from shallowflow.arrays import Bools, Floats
from shallowflow.kernels.cones import descent as cone_descent
from shallowflow.kernels.cones.geometry import LOGISTIC, SQUARE, Samples, Walls, arrange
from shallowflow.kernels.cones.groups import State


@dataclass(frozen=True)
class Problem:
    """Data, an initial network and a step; the loss is a mean."""

    inputs: Floats
    targets: Floats
    theta: Floats
    step: float
    slope: float = 0.0
    logistic: bool = False
    scale: float = 1.0

    def kernel(self) -> tuple[Walls, Samples, float, tuple[int, float, float]]:
        """The problem as the kernel takes it."""
        walls, samples = arrange(self.inputs, self.targets)
        rate = self.step * self.scale / len(self.targets)
        return walls, samples, self.slope, (LOGISTIC if self.logistic else SQUARE, self.scale, rate)

    def begin(self) -> State:
        """The kernel's state at the start."""
        return cone_descent.begin(self.theta[:, :2], self.theta[:, 2], *self.kernel())

    def patterns(self, theta: Floats) -> Bools:
        """Which points are active for which neurons, (m, n)."""
        active: Bools = theta[:, :-1] @ self.inputs.T > 0
        return active

    def tied(self, theta: Floats) -> bool:
        """Whether a neuron is on a point's border up to rounding, so that rounding decides what it does."""
        sizes = np.linalg.norm(theta[:, :-1], axis=1)[:, None] * np.linalg.norm(self.inputs, axis=1)
        return bool(np.any((np.abs(theta[:, :-1] @ self.inputs.T) < 1e-13 * sizes) & (sizes > 0)))

    def plain(self, theta: Floats) -> Floats:
        """One step of plain descent."""
        inner, outer = theta[:, :-1], theta[:, -1]
        z = inner @ self.inputs.T
        gates = np.where(z > 0, 1.0, self.slope)
        prediction = self.scale * (outer @ (gates * z))
        pull = self.targets - prediction
        if self.logistic:
            pull = self.targets / (1.0 + np.exp(prediction * self.targets))
        weighted = gates * (self.scale * pull / len(self.targets))
        force = weighted @ self.inputs
        moved = np.empty_like(theta)
        moved[:, :-1] = inner + self.step * outer[:, None] * force
        moved[:, -1] = outer + self.step * np.sum(inner * force, axis=1)
        return moved


def random_problem(seed: int) -> Problem:
    """Random data of many kinds (collinear, antipodal and zero inputs too) and a random network."""
    rng = np.random.default_rng(seed)
    size, width = int(rng.integers(1, 13)), int(rng.integers(1, 301))
    inputs = rng.standard_normal((size, 2))
    kind = int(rng.integers(5))
    if kind == 1:
        inputs[:, 1] = 1.0
    elif kind == 2:
        inputs[size // 2 :] = -2.0 * inputs[: size - size // 2]
    elif kind == 3:
        inputs = np.outer(rng.standard_normal(size), inputs[0])
    elif kind == 4:
        inputs[size // 2 :] = 0.5 * inputs[: size - size // 2]
        inputs[-1] = 0.0
    logistic = bool(rng.integers(2))
    targets = rng.choice([-1.0, 1.0], size) if logistic else rng.standard_normal(size)
    theta = rng.standard_normal((width, 3))
    balance = int(rng.integers(3))
    if balance < 2:
        excess = rng.exponential(size=width) if balance else 0.0
        theta[:, 2] = np.sign(theta[:, 2]) * (np.linalg.norm(theta[:, :2], axis=1) + excess)
    theta *= rng.choice([1e-4, 1e-2, 0.5]) / np.sqrt(width)
    scale, slope = float(rng.choice([1.0, 1.0, 0.5])), float(rng.choice([0.0, 0.0, 0.1, 0.7]))
    step = float(rng.choice([2e-3, 1e-2, 3e-2])) / max(1.0, float(np.mean(inputs**2)))
    return Problem(inputs, targets, theta, step, slope, logistic, scale)


@njit(cache=False)
def plain_loop(theta: Floats, inputs: Floats, targets: Floats, step: float, steps: int) -> int:
    """Plain descent on ½ mean r², slope 0, in place; returns how often a neuron's pattern changed."""
    width, size = theta.shape[0], inputs.shape[0]
    active = np.empty((width, size), np.bool_)
    for j in range(width):
        for k in range(size):
            active[j, k] = theta[j, 0] * inputs[k, 0] + theta[j, 1] * inputs[k, 1] > 0.0
    crossings = 0
    for _ in range(steps):
        pull = targets.copy()
        for j in range(width):
            for k in range(size):
                if active[j, k]:
                    pull[k] -= theta[j, 2] * (theta[j, 0] * inputs[k, 0] + theta[j, 1] * inputs[k, 1])
        for j in range(width):
            d0, d1 = 0.0, 0.0
            for k in range(size):
                if active[j, k]:
                    d0 += step * pull[k] / size * inputs[k, 0]
                    d1 += step * pull[k] / size * inputs[k, 1]
            w0, w1, a = theta[j, 0], theta[j, 1], theta[j, 2]
            theta[j, 0], theta[j, 1], theta[j, 2] = w0 + a * d0, w1 + a * d1, a + (w0 * d0 + w1 * d1)
            changed = False
            for k in range(size):
                now = theta[j, 0] * inputs[k, 0] + theta[j, 1] * inputs[k, 1] > 0.0
                changed |= now != active[j, k]
                active[j, k] = now
            crossings += changed
    return int(crossings)


@njit(cache=False)
def bucketed_loop(theta: Floats, inputs: Floats, targets: Floats, step: float, steps: int) -> int:
    """The same for a few points, with one sum of a w and one force for each of the 2^n patterns."""
    width, size = theta.shape[0], inputs.shape[0]
    codes = np.full(width, -1)
    crossings = -width
    for now in range(steps + 1):
        moments = np.zeros((2**size, 2))
        for j in range(width):
            w0, w1, a = theta[j, 0], theta[j, 1], theta[j, 2]
            code = 0
            for k in range(size):
                code += int(w0 * inputs[k, 0] + w1 * inputs[k, 1] > 0.0) << k
            crossings += int(code != codes[j])
            codes[j] = code
            moments[code, 0] += a * w0
            moments[code, 1] += a * w1
        if now == steps:
            break
        forces = np.zeros((2**size, 2))
        for k in range(size):
            prediction = 0.0
            for code in range(2**size):
                if code & 1 << k:
                    prediction += moments[code, 0] * inputs[k, 0] + moments[code, 1] * inputs[k, 1]
            for code in range(2**size):
                if code & 1 << k:
                    forces[code, 0] += step * (targets[k] - prediction) / size * inputs[k, 0]
                    forces[code, 1] += step * (targets[k] - prediction) / size * inputs[k, 1]
        for j in range(width):
            w0, w1, a = theta[j, 0], theta[j, 1], theta[j, 2]
            d0, d1 = forces[codes[j], 0], forces[codes[j], 1]
            theta[j, 0], theta[j, 1], theta[j, 2] = w0 + a * d0, w1 + a * d1, a + (w0 * d0 + w1 * d1)
    return int(crossings)
