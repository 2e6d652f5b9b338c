"""Every network as one plain formula, its descent step by step, and what rounding may do to that descent.

h_i = Σ_j s_j a_j φ(z_ji) + o, z_ji = ⟨w_j, x_i⟩ + c_ji. ReLU networks: c = 0; knots: w_j = b_j, x = −1,
c = x_i; steps the same, divided by the sharpness, an additive one with one neuron per coordinate.

Two runs that make the same steps, each rounded in its own way, differ after step k + 1 by at most
e_{k+1} = ‖I − DH_k‖ e_k + N ε (‖D G_k‖ + 2‖θ_k‖): D the steps of the layers, H_k the derivative of the
gradient (by complex steps, so exactly), G_k the gradient with every term and every factor replaced by its
size, N the operations on the longest way to an entry. This holds while both take the same gates: a z_ji
nearer to its kink than e_k and its own rounding is a tie, and what follows is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.protocol import flatten
from shallowflow.models import Loss, Network
from tests.rounding import EPSILON

Numbers = NDArray[Any]
TINY = 1e-30
"""The complex step: its square is lost in rounding."""
CURVED = 12.0
"""Largest |σ''| of the cubic step on [−½, ½]."""
OTHERS = 30
"""Roundings on the way to an entry besides its three sums: products, the activation, the loss, the step."""
SHARP = 1e-7
"""A bound beyond this part of ‖θ‖ says little: runs are compared up to there."""
FAR = 1e20
"""A descent that has come to this ‖θ‖ is about to overflow."""
TIED, GROWN = "a gate within rounding of its kink", f"rounding may grow beyond {SHARP:g}"
DIVERGES = "the descent diverges"


class Sample(NamedTuple):
    """What one step sees: inputs (n, d), targets (n,), and the factor of the step."""

    inputs: Floats
    targets: Floats
    factor: float = 1.0


class Seen(NamedTuple):
    """Inputs as a twin takes them: x (n, p), c (m, n)."""

    x: Floats
    shift: Floats


@dataclass(frozen=True)
class Twin:
    """A network in the plain formula; θ is w (m, p), a (m,) and the offset, if there is one.

    box: σ' of a step is the indicator of its window; gates (m, n): those of a ReLU, whatever the signs of z.
    """

    network: Network
    loss: Loss
    box: bool = False
    gates: Floats | None = None

    @property
    def steps(self) -> bool:
        """Whether the neurons are steps."""
        return isinstance(self.network, sf.StepNetwork | sf.AdditiveStepNetwork)

    @property
    def shape(self) -> tuple[int, int]:
        """Neurons, and numbers of each in the inner layer."""
        if isinstance(self.network, sf.ReLUNetwork | sf.LogScaledNetwork):
            return self.network.width, self.network.dimension
        return self.network.outer.size, 1

    def theta(self, network: Network) -> Floats:
        """Return the parameters of a network of this kind; a log-scaled one in the log-scales of this one."""
        if isinstance(network, sf.LogScaledNetwork):
            assert isinstance(self.network, sf.LogScaledNetwork)
            factor = np.exp(network.log_scales - self.network.log_scales)
            return np.concatenate([(factor[:, None] * network.inner).ravel(), factor * network.outer])
        return flatten(network)

    def seen(self, inputs: Floats) -> Seen:
        """Return the inputs as x and c."""
        m = self.shape[0]
        if isinstance(self.network, sf.ReLUNetwork | sf.LogScaledNetwork):
            return Seen(inputs, np.zeros((m, len(inputs))))
        eta = self.network.sharpness if self.steps else 1.0  # type: ignore[union-attr]
        columns = np.tile(inputs.T, (m // self.network.dimension, 1))
        return Seen(np.full((len(inputs), 1), -1.0 / eta), columns / eta)

    def scales(self) -> tuple[Any, float]:
        """Return s_j as it enters h, and as it enters the gradient."""
        if isinstance(self.network, sf.LogScaledNetwork):
            return np.exp(2.0 * self.network.log_scales), 1.0
        scale = getattr(self.network, "scale", 1.0)
        return scale, scale

    def parts(self, theta: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return w (k, m, p), a (k, m), o (k, 1) of parameters (k, P)."""
        m, p = self.shape
        offset = theta[:, m * p + m :] if self.steps else np.zeros((len(theta), 1))
        return theta[:, : m * p].reshape(-1, m, p), theta[:, m * p : m * p + m], offset

    def open_gates(self, z: Numbers) -> Floats:
        """Return σ'(z) of a ReLU."""
        return np.where(z.real > 0, 1.0, getattr(self.network, "slope", 0.0))

    def activation(self, z: Numbers) -> tuple[Numbers, Numbers]:
        """Return φ and φ' (complex z: by the real part)."""
        if not self.steps:
            gates = self.open_gates(z) if self.gates is None else self.gates
            return gates * z, gates + 0.0 * z
        size = np.where(z.real < 0, -z, z)
        inside = np.abs(z.real) < 0.5
        tail = np.where(inside, 4.0 * (0.5 - size) ** 3, 0.0)
        slope = np.where(inside, 12.0 * (0.5 - size) ** 2, 0.0)
        window = np.where(np.abs(z.real) <= 0.5, 1.0, 0.0) + 0.0 * z if self.box else slope
        return np.where(z.real < 0, tail, 1.0 - tail), window

    def slopes(self, h: Numbers, targets: Floats) -> Numbers:
        """Return ∂L/∂h (k, n), also for complex h."""
        n, r = len(targets), h - targets
        if isinstance(self.loss, sf.SquareLoss):
            return r / n if self.loss.reduction == "mean" else r
        if isinstance(self.loss, sf.LogisticLoss):
            margin = h * targets
            decayed = np.exp(np.where(margin.real > 0, -margin, margin))
            return -targets * np.where(margin.real > 0, decayed, 1.0) / (1.0 + decayed) / n
        norm = np.sqrt((r * r).sum(axis=1, keepdims=True))
        return np.asarray(r / (n * np.where(norm.real > 0, norm, 1.0)))

    def gradient(self, theta: Numbers, sample: Sample) -> Numbers:
        """Return ∇L at parameters (k, P), (k, P)."""
        (w, a, offset), (x, shift) = self.parts(theta), self.seen(sample.inputs)
        into, back = self.scales()
        value, slope = self.activation(w @ x.T + shift)
        covector = self.slopes(((into * a)[:, :, None] * value).sum(axis=1) + offset, sample.targets)
        return self._pulled(a, (back * value, back * slope), covector, x)

    def _pulled(self, a: Numbers, features: tuple[Numbers, Numbers], covector: Numbers, x: Floats) -> Numbers:
        inner = a[:, :, None] * ((features[1] * covector[:, None, :]) @ x)
        outer = (features[0] * covector[:, None, :]).sum(axis=2)
        parts = [inner.reshape(len(a), -1), outer]
        return np.concatenate([*parts, covector.sum(axis=1, keepdims=True)] if self.steps else parts, axis=1)

    def linearised(self, theta: Floats, sample: Sample) -> tuple[Floats, Floats]:
        """Return ∇L (P,) and its derivative (P, P)."""
        found = self.gradient(theta + 1j * TINY * np.eye(len(theta)), sample)
        return found[0].real, found.imag.T / TINY

    def sizes(self, theta: Floats, sample: Sample) -> Floats:
        """Return Σ|terms| of the gradient (P,), every factor with its own rounding."""
        (w, a, offset), (x, shift) = self.parts(theta[None]), self.seen(sample.inputs)
        into, back = self.scales()
        value, slope = self.activation(w @ x.T + shift)
        now = self.predictions(theta, sample)[None]
        z = np.abs(w) @ np.abs(x.T) + np.abs(shift)
        if self.steps:
            inside = slope > 0
            value, slope = value + np.abs(slope) * z, slope + (0.0 if self.box else CURVED) * inside * z
        else:
            value = np.abs(slope) * z
        h = ((into * np.abs(a))[:, :, None] * value).sum(axis=1) + np.abs(offset) + np.abs(sample.targets)
        covector = np.abs(self.slopes(now, sample.targets)) + self.loss.curvatures(now[0], sample.targets) * h
        found: Floats = self._pulled(np.abs(a), (back * value, back * slope), covector, np.abs(x))[0]
        return found

    def predictions(self, theta: Floats, sample: Sample) -> Floats:
        """Return h (n,) at θ (P,)."""
        (w, a, offset), (x, shift) = self.parts(theta[None]), self.seen(sample.inputs)
        value, _ = self.activation(w @ x.T + shift)
        return np.asarray(np.asarray(((self.scales()[0] * a)[:, :, None] * value).sum(axis=1) + offset)[0])

    def tied(self, theta: Floats, sample: Sample, error: float, roundings: float) -> bool:
        """Whether a gate that matters could be another one at a distance `error` from θ."""
        if self.steps and not self.box:
            return False
        (w, _, _), (x, shift) = self.parts(theta[None]), self.seen(sample.inputs)
        z, size = (w @ x.T + shift)[0], np.abs(w[0]) @ np.abs(x.T) + np.abs(shift)
        gap = np.abs(np.abs(z) - 0.5) if self.steps else np.abs(z)
        reach = error * np.linalg.norm(x, axis=1) + roundings * EPSILON * size
        return bool(np.any((gap <= reach) & (reach > 0)))

    def rates(self, step: float, epsilon: float) -> Floats:
        """Return the step of every parameter."""
        m, p = self.shape
        total = m * p + m + self.steps
        return np.where(np.arange(total) < m * p, step * epsilon, step)

    def operations(self, size: int) -> int:
        """Return N for n samples."""
        m, p = self.shape
        return size + m + p + OTHERS


class Followed(NamedTuple):
    """A run of the twin: its end, how far another run may be from it, the steps made, and why no more.

    The run ends early where gates are tied, where rounding may have grown beyond `SHARP`, or beyond `FAR`.
    """

    theta: Floats
    error: float
    made: int
    cut: str = ""


def _stopped(twin: Twin, theta: Floats, sample: Sample, error: float) -> str:
    """Return why a run can be compared up to here only."""
    if error > SHARP * np.linalg.norm(theta):
        return GROWN
    return TIED if twin.tied(theta, sample, error, twin.operations(len(sample.targets))) else ""


def descended(twin: Twin, samples: Sequence[Sample], rates: Floats) -> Followed:
    """Make plain steps, one per sample; return the end and e."""
    theta, error = twin.theta(twin.network), 0.0
    logs = np.abs(getattr(twin.network, "log_scales", np.zeros(1))).max()
    for made, sample in enumerate(samples):
        if why := _stopped(twin, theta, sample, error):
            return Followed(theta, error, made, why)
        gradient, curvature = twin.linearised(theta, sample)
        rate, size = sample.factor * rates, float(np.linalg.norm(theta))
        rounding = np.linalg.norm(rate * twin.sizes(theta, sample)) + 2.0 * size
        # A neuron is known to the rounding of its log-scale, which is taken anew at most once per step.
        local = EPSILON * (twin.operations(len(sample.targets)) * rounding + logs * size)
        after = theta - rate * gradient
        if not np.linalg.norm(after) <= FAR:
            return Followed(theta, error, made, DIVERGES)
        growth = np.linalg.norm(np.eye(len(theta)) - rate[:, None] * curvature, 2)
        error, theta = float(growth * error + local), after
    return Followed(theta, error, len(samples))


def adapted(twin: Twin, sample: Sample, step: float, count: int) -> Followed:
    """Make plain steps of Adam; the error of m̂ and of √v̂ is at most the largest of the gradients so far."""
    theta, operations = twin.theta(twin.network), twin.operations(len(sample.targets))
    mean, square, off, largest = (np.zeros_like(theta) for _ in range(4))
    for k in range(1, count + 1):
        error = float(np.linalg.norm(off))
        if why := _stopped(twin, theta, sample, error):
            return Followed(theta, error, k - 1, why)
        gradient, curvature = twin.linearised(theta, sample)
        rounding = operations * EPSILON * twin.sizes(theta, sample)
        largest = np.maximum(largest, np.abs(curvature) @ off + rounding)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        root = np.sqrt(square / (1.0 - 0.999**k)) + 1e-8
        move = step * mean / (1.0 - 0.9**k) / root
        moments = 8.0 * k * EPSILON * np.abs(gradient).max()
        off = (
            off + (largest + moments * (root > 1e-8)) / root * (step + np.abs(move)) + EPSILON * np.abs(theta)
        )
        theta = theta - move
    return Followed(theta, float(np.linalg.norm(off)), count)
