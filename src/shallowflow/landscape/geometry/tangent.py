"""The tangent kernel K = J Jᵀ of a network on data, where neurons rest too, and the flow that it foretells.

A resting neuron slides: it moves only where all data points that it lies on stay on its hyperplane.

**Forecast** of the loss from one state: the tangent kernel of now, frozen, and renewed after every 1 %.

With (K/n) u_i = λ_i u_i and c_i = ⟨u_i, r⟩ the linearised flow has L(t) = 1/(2n) Σ c_i² e^{−2λ_i t}, descent
with step η (1 − ηλ_i)^{2k} in place of the exponential. K is never formed: a Lanczos recursion from r with
full reorthogonalisation gives L(t) = L Σ_i s_i² e^{−2θ_i t}, θ_i its Ritz values and s_i the first entries of
their vectors. The same recursion says where the parameters are then, θ − Jᵀ∫r/n: when the loss has fallen by
1 % they are moved there, and the kernel is that of the new place (the exponential Euler method).

It is given until the loss has fallen by 20 %: what neurons do later does not follow from where they are now.
`reach` is where it stops, and no time beyond is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shallowflow.arrays import Floats, Ints
from shallowflow.data.dataset import Dataset
from shallowflow.landscape.geometry.activity import Neurons, neurons_of
from shallowflow.models.loss import Loss, SquareLoss
from shallowflow.models.networks import KnotNetwork, LogScaledNetwork, Network, ReLUNetwork

RANK = 1e-10
"""Columns of length 1 whose new part is smaller than this are dependent."""
PRODUCTS = 50
ROUNDING = 1e-13
TRUSTED = 0.2
"""The share by which the loss may fall in a forecast."""
RENEWED = 0.01
"""The kernel is renewed after every fall of the loss by this share …"""
STAGES = 100
"""… so many times at most."""


def free_directions(held: Floats) -> Floats:
    """Return an orthonormal basis (d, c) of the directions orthogonal to the rows of held (k, d)."""
    if not len(held):
        return np.eye(held.shape[1])
    units = held / np.linalg.norm(held, axis=1)[:, None]
    _, sizes, rows = np.linalg.svd(units)
    rank = int(np.sum(sizes > RANK * sizes[0]))
    return np.asarray(rows[rank:].T)


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
        pulled = (self._outer**2)[:, None] * self._pulled(vector)
        inner = np.einsum("jk,jk->k", self._gates, pulled @ self._inputs.T)
        return np.asarray(self._features @ (self._features.T @ vector) + inner)

    def moved(self, network: Network, vector: Floats) -> Network:
        """Return the network at θ − Jᵀ·vector, for the network that the products are of."""
        parts, pulled = network.parameters, self._pulled(vector)
        if isinstance(network, KnotNetwork):
            knots = parts["knots"] + parts["outer"] * pulled[:, 1]
            return network.moved({"knots": knots, "outer": parts["outer"] - self._features.T @ vector})
        # Tiny neurons carry their size apart: in these units the factors e^s of both layers cancel.
        scale = network.scale if isinstance(network, ReLUNetwork) else 1.0
        inner = parts["inner"] - scale * parts["outer"][:, None] * pulled
        features = self._gates * (parts["inner"] @ self._inputs.T)
        return network.moved({"inner": inner, "outer": parts["outer"] - scale * (features @ vector)})

    def _pulled(self, vector: Floats) -> Floats:
        """Return Σ_k vector_k gate_jk x_k as far as each neuron may follow it, (m, d)."""
        pulled = (self._gates * vector) @ self._inputs
        if self._knots:
            # Only the knot moves, not the slope.
            pulled[:, 0] = 0.0
        for neuron, free in self._held.items():
            pulled[neuron] = 0.0 if self._knots else free @ (free.T @ pulled[neuron])
        return np.asarray(pulled)


class Stage(NamedTuple):
    """From a start on L(t) = loss · Σ_i weights_i e^{−2 rates_i (t − start)}, or by steps of descent.

    modes: (k, n) what each of the rates carries of the residual.
    """

    start: float
    loss: float
    rates: Floats
    weights: Floats
    modes: Floats

    def value(self, time: float, step: float | None) -> float:
        """Return the loss so long after the start."""
        with np.errstate(over="ignore"):
            return self.loss * float(self.weights @ self._factors(time, step) ** 2)

    def _factors(self, time: float, step: float | None) -> Floats:
        if step is None:
            return np.asarray(np.exp(-self.rates * time))
        return np.asarray(np.abs(1.0 - step * self.rates) ** (time / step))

    def integral(self, time: float, step: float | None) -> Floats:
        """Return ∫ r over so long a time, (n,)."""
        moving = self.rates > 0.0
        rates = np.where(moving, self.rates, 1.0)
        spans = np.where(moving, (1.0 - self._factors(time, step)) / rates, time)
        return np.asarray(spans @ self.modes)

    def time_to(self, goal: float, step: float | None) -> float:
        """Return how long after the start the loss has fallen to a goal; inf: with this kernel it never
        does."""
        largest = float(np.max(self.rates, initial=0.0))
        if self.loss <= goal:
            return 0.0
        if largest <= 0.0:
            return np.inf
        high = 1e-3 / largest
        for _ in range(120):
            if self.value(high, step) <= goal:
                break
            high *= 2.0
        else:
            return np.inf
        from scipy.optimize import brentq

        return float(brentq(lambda time: self.value(time, step) - goal, 0.0, high, xtol=1e-12 * high))


@dataclass(frozen=True)
class Forecast:
    """The loss to come, stage by stage; given until it has fallen by 20 %.

    step: of descent, None for the flow, whose gradient has the factor speed; complete: False where the stages
    ran out before 20 % (`reach` is then where the last one begins).
    """

    stages: tuple[Stage, ...]
    step: float | None
    speed: float = 1.0
    complete: bool = True

    @property
    def loss(self) -> float:
        """The loss now."""
        return self.stages[0].loss

    def __call__(self, time: float) -> float:
        """Return the forecast at a time from now (of descent: step × number of steps)."""
        inner = self.speed * time
        stage = [one for one in self.stages if one.start <= inner][-1]
        return stage.value(inner - stage.start, self.step)

    def time_of(self, fall: float) -> float:
        """Return when the loss has fallen by a share of at most 20 %; inf: not within the forecast."""
        goal = (1.0 - min(fall, TRUSTED)) * self.loss
        if self.loss <= 0.0:
            return np.inf
        for stage, after in zip(self.stages, [*self.stages[1:], None], strict=True):
            if after is None and not self.complete:
                break
            time = stage.start + stage.time_to(goal, self.step)
            if after is None or time <= after.start:
                return time / self.speed
        return np.inf

    @property
    def reach(self) -> float:
        """How far it is given: until 20 %, or until it was given up; inf if the loss never falls so far."""
        return self.time_of(TRUSTED) if self.complete else self.stages[-1].start / self.speed


def forecast(
    network: Network,
    neurons: Neurons,
    dataset: Dataset,
    loss: SquareLoss,
    step: float | None = None,
    *,
    speed: float = 1.0,
    most: int = STAGES,
) -> Forecast:
    """Return the forecast from one state, for the square loss; most: stages (1: the kernel stays frozen)."""
    held = _held(neurons)
    stages: list[Stage] = []
    time, goal = 0.0, 0.0
    while True:
        product = Tangent(network, neurons)
        residual = network.predict(dataset.inputs) - dataset.targets
        stages.append(_stage(time, product, residual, loss.weight(dataset.size)))
        now = stages[-1]
        goal = goal if len(stages) > 1 else (1.0 - TRUSTED) * now.loss
        next_goal = max((1.0 - RENEWED) * now.loss, goal)
        length = now.time_to(next_goal, step)
        if now.loss <= goal or not np.isfinite(length) or next_goal == goal or most == 1:
            return Forecast(tuple(stages), step, speed)
        if len(stages) > most:
            return Forecast(tuple(stages), step, speed, complete=False)
        time += length
        network = product.moved(network, loss.weight(dataset.size) * now.integral(length, step))
        neurons = neurons_of(network, dataset, held)


def _held(neurons: Neurons) -> tuple[Ints, Ints]:
    """Return the pairs (neurons, points) that rest: they do so throughout."""
    held = np.nonzero((neurons.signs == 0) & neurons.filled)
    return held[0], held[1]


def _stage(start: float, product: Tangent, residual: Floats, weight: float) -> Stage:
    """Return what the frozen kernel says from a residual (n,) on, by Lanczos."""
    size = float(np.linalg.norm(residual))
    if size == 0.0:
        return Stage(start, 0.0, np.zeros(1), np.ones(1), np.zeros((1, len(residual))))
    basis = [residual / size]
    diagonal, beside = [], []
    for _ in range(min(PRODUCTS, len(residual))):
        vector = weight * product(basis[-1])
        diagonal.append(float(basis[-1] @ vector))
        for _ in range(2):
            vector = vector - np.asarray(basis).T @ (np.asarray(basis) @ vector)
        rest = float(np.linalg.norm(vector))
        if rest <= ROUNDING * max(np.abs(diagonal)):
            break
        beside.append(rest)
        basis.append(vector / rest)
    from scipy.linalg import eigh_tridiagonal

    rates, vectors = eigh_tridiagonal(diagonal, beside[: len(diagonal) - 1])
    # Ritz values at rounding level are zeros: what they carry never falls.
    rates[rates <= ROUNDING * rates.max()] = 0.0
    modes = size * vectors[0][:, None] * (vectors.T @ np.asarray(basis[: len(diagonal)]))
    return Stage(start, 0.5 * weight * size**2, rates, vectors[0] ** 2, modes)


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
