"""A forecast of the loss from one state: the tangent kernel of now, frozen.

With (K/n) u_i = λ_i u_i and c_i = ⟨u_i, r⟩ the linearised flow has L(t) = 1/(2n) Σ c_i² e^{−2λ_i t}, descent
with step η (1 − ηλ_i)^{2k} in place of the exponential. K is never formed: a Lanczos recursion from r with
full reorthogonalisation gives L(t) = L Σ_i s_i² e^{−2θ_i t}, θ_i its Ritz values and s_i the first entries of
their vectors.

How far it can be trusted is read off the forecast itself: until it has fallen by 20 % it is right to a few
per cent, beyond a half it is worthless. `reach` is where it stops, and no time beyond is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Floats, FrozenArrays
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.geometry.census import Neurons
from shallowflow.landscape.geometry.floors import free_directions
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork

PRODUCTS = 50
ROUNDING = 1e-13
TRUSTED = 0.2
"""The share by which the loss may fall in a forecast."""


class Tangent:
    """Products with K = J Jᵀ of a network on data: resting pairs give nothing, resting neurons slide."""

    def __init__(self, network: Network, neurons: Neurons) -> None:
        if isinstance(network, LogScaledNetwork):
            scales = np.exp(network.log_scales)
            self._features, self._outer = neurons.features * scales, scales * network.outer
        else:
            factor = network.scale if isinstance(network, ReLUNetwork) else 1.0
            self._features, self._outer = factor * neurons.features, neurons.outer
        self._gates, self._inputs = neurons.gates, neurons.inputs
        held = (neurons.signs == 0) & neurons.filled
        self._knots = isinstance(network, KnotNetwork)
        self._held = {
            int(j): free_directions(neurons.inputs[held[j]]) for j in np.flatnonzero(held.any(axis=1))
        }

    def __call__(self, vector: Floats) -> Floats:
        """Return K·vector, (n,)."""
        pulled = (self._gates * vector) @ self._inputs
        if self._knots:
            # Only the knot moves, not the slope.
            pulled[:, 0] = 0.0
        for neuron, free in self._held.items():
            pulled[neuron] = 0.0 if self._knots else free @ (free.T @ pulled[neuron])
        pulled *= (self._outer**2)[:, None]
        inner = np.einsum("jk,jk->k", self._gates, pulled @ self._inputs.T)
        return np.asarray(self._features @ (self._features.T @ vector) + inner)


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(FrozenArrays):
    """L(t) = loss · Σ_i weights_i e^{−2 rates_i t}, or by steps; trusted until it has fallen by 20 %.

    step: of descent, None for the flow; reach: the time at which it has fallen by 20 %, inf if it never does.
    """

    loss: float
    rates: Floats
    weights: Floats
    step: float | None

    def __call__(self, time: float) -> float:
        """Return the forecast at a time from now (of descent: step × number of steps)."""
        if self.step is None:
            return self.loss * float(self.weights @ np.exp(-2.0 * self.rates * time))
        factors = np.abs(1.0 - self.step * self.rates)
        with np.errstate(over="ignore"):
            return self.loss * float(self.weights @ factors ** (2.0 * time / self.step))

    def time_of(self, fall: float) -> float:
        """Return when the loss has fallen by a share of at most 20 %; inf: the frozen kernel never gets
        there."""
        goal = (1.0 - min(fall, TRUSTED)) * self.loss
        largest = float(np.max(self.rates, initial=0.0))
        if largest <= 0.0 or self.loss <= 0.0:
            return np.inf
        high = 1e-3 / largest
        for _ in range(120):
            if self(high) <= goal:
                break
            high *= 2.0
        else:
            return np.inf
        from scipy.optimize import brentq

        return float(brentq(lambda time: self(time) - goal, 0.0, high, xtol=1e-12 * high))

    @property
    def reach(self) -> float:
        """How far it is trusted."""
        return self.time_of(TRUSTED)


def forecast(
    network: Network, neurons: Neurons, dataset: Dataset, loss: SquareLoss, step: float | None = None
) -> Forecast:
    """Return the forecast from one state, for the square loss."""
    residual = network.predict(dataset.inputs) - dataset.targets
    value, weight = 0.5 * loss.weight(dataset.size) * float(residual @ residual), loss.weight(dataset.size)
    if value == 0.0:
        return Forecast(0.0, np.zeros(1), np.ones(1), step)
    product = Tangent(network, neurons)
    basis = [residual / np.linalg.norm(residual)]
    diagonal, beside = [], []
    for _ in range(min(PRODUCTS, dataset.size)):
        vector = weight * product(basis[-1])
        diagonal.append(float(basis[-1] @ vector))
        for _ in range(2):
            vector = vector - np.asarray(basis).T @ (np.asarray(basis) @ vector)
        size = float(np.linalg.norm(vector))
        if size <= 1e-13 * max(np.abs(diagonal)):
            break
        beside.append(size)
        basis.append(vector / size)
    from scipy.linalg import eigh_tridiagonal

    rates, vectors = eigh_tridiagonal(diagonal, beside[: len(diagonal) - 1])
    # Ritz values at rounding level are zeros: what they carry never falls.
    rates[rates <= ROUNDING * rates.max()] = 0.0
    return Forecast(value, rates, vectors[0] ** 2, step)


def sharpness(network: Network, neurons: Neurons, dataset: Dataset, loss: Loss) -> float:
    """Return λ_max of the Gauss–Newton matrix: a descent is stable while step × λ_max < 2."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    root = np.sqrt(loss.curvatures(network.predict(dataset.inputs), dataset.targets))
    product, size = Tangent(network, neurons), dataset.size
    if size <= 2:
        matrix = np.array([root * product(root * unit) for unit in np.eye(size)])
        return float(np.linalg.eigvalsh(matrix)[-1])
    operator = LinearOperator((size, size), matvec=lambda v: root * product(root * np.ravel(v)), dtype=float)
    start = np.random.default_rng(0).standard_normal(size)
    if not product(start).any():
        return 0.0
    return float(eigsh(operator, 1, which="LA", v0=start, tol=1e-8, return_eigenvectors=False)[0])
