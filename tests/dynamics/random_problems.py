"""Seeded random problems: all networks, losses, slopes, ratios ε, output scales and sizes of the start."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.models import Loss, Network

Rng = np.random.Generator
SQUARES: tuple[Loss, ...] = (sf.SquareLoss(), sf.SquareLoss("sum"))
SMOOTH: tuple[Loss, ...] = (*SQUARES, sf.LogisticLoss())
ALL: tuple[Loss, ...] = (*SMOOTH, sf.NormLoss())
TARGET = sf.PiecewiseConstant([0.3, 0.6], [1.0, -1.0, 2.0])


class Problem(NamedTuple):
    """A network, its data and a loss."""

    network: Network
    dataset: sf.Dataset
    loss: Loss


Draw = Callable[[Rng], Problem]


def _size(rng: Rng) -> float:
    return float(10.0 ** rng.uniform(-3.0, 0.3))


def _with_loss(rng: Rng, network: Network, inputs: Floats, losses: tuple[Loss, ...]) -> Problem:
    loss, targets = losses[rng.integers(len(losses))], rng.normal(size=len(inputs))
    if isinstance(loss, sf.LogisticLoss):
        targets = np.where(targets > 0, 1.0, -1.0)
    return Problem(network, sf.Dataset(inputs, targets), loss)


def relu(
    rng: Rng, dimension: int = 0, losses: tuple[Loss, ...] = SMOOTH, inputs: Floats | None = None
) -> Problem:
    """A ReLU network, leaky or not, with any output scale, from a small start or a large one."""
    m, n, d = int(rng.integers(1, 10)), int(rng.integers(1, 9)), dimension or int(rng.integers(1, 6))
    inputs = rng.normal(size=(n, d)) if inputs is None else inputs
    size, ratio = _size(rng), 10.0 ** rng.uniform(-1.0, 1.0)
    slope, scale = float(rng.choice([0.0, 0.1, 0.6])), float(rng.choice([1.0, 1.0 / m, 3.0]))
    inner = size * rng.normal(size=(m, inputs.shape[1]))
    network = sf.ReLUNetwork(inner, size * ratio * rng.normal(size=m), slope, scale)
    return _with_loss(rng, network, inputs, losses)


def plane(rng: Rng) -> Problem:
    """A ReLU network on inputs of dimension 2."""
    return relu(rng, 2)


def orthogonal(rng: Rng) -> Problem:
    """A ReLU network on orthogonal inputs of several lengths."""
    d = int(rng.integers(1, 6))
    n = int(rng.integers(1, d + 1))
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0][:n]
    return relu(rng, inputs=np.ascontiguousarray(rng.uniform(0.5, 2.0, (n, 1)) * basis))


def knots(rng: Rng, losses: tuple[Loss, ...] = SQUARES) -> Problem:
    """A network of knots, some of them outside the data."""
    m, n = int(rng.integers(1, 10)), int(rng.integers(1, 9))
    network = sf.KnotNetwork(rng.uniform(-1.5, 1.5, m), _size(rng) * rng.normal(size=m))
    return _with_loss(rng, network, rng.uniform(-1.0, 1.0, (n, 1)), losses)


def steps(rng: Rng, losses: tuple[Loss, ...] = (*SQUARES, sf.NormLoss())) -> Problem:
    """A network of steps on the line, or an additive one."""
    m, n, d = int(rng.integers(1, 6)), int(rng.integers(1, 9)), int(rng.integers(0, 3))
    eta, size = float(rng.uniform(0.1, 0.8)), _size(rng)
    if d == 0:
        return _with_loss(rng, line_of_steps(rng), rng.random((n, 1)), losses)
    network = sf.AdditiveStepNetwork(rng.random((m, d)), size * rng.normal(size=(m, d)), 0.1, eta)
    return _with_loss(rng, network, rng.random((n, d)), losses)


def line_of_steps(rng: Rng) -> sf.StepNetwork:
    """A network of steps on the line."""
    m, eta = int(rng.integers(1, 9)), float(rng.uniform(0.02, 0.5))
    return sf.StepNetwork(rng.random(m), _size(rng) * rng.normal(size=m), float(rng.normal()), eta)


def log_scaled(rng: Rng) -> Problem:
    """A log-scaled network on orthonormal inputs, as small as e⁻²⁰⁰⁰."""
    n, m = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    d = n + int(rng.integers(0, 3))
    inputs = np.linalg.qr(rng.normal(size=(d, d)))[0][:n]
    scales = rng.choice([-2000.0, -30.0, -2.0]) + rng.normal(size=m)
    inner = rng.normal(size=(m, d))
    outer = rng.choice([-1.0, 1.0], m) * rng.uniform(0.6, 1.8, m)
    return _with_loss(rng, sf.LogScaledNetwork(inner, outer, scales), np.ascontiguousarray(inputs), SQUARES)


def dominated(rng: Rng) -> Problem:
    """A problem for leaps: orthogonal inputs, slope 0, |a_j| ≥ ‖w_j‖."""
    found = orthogonal(rng)
    assert isinstance(found.network, sf.ReLUNetwork)
    inner = found.network.inner
    signs = np.where(found.network.outer > 0, 1.0, -1.0)
    outer = signs * rng.uniform(1.0, 3.0, len(inner)) * np.linalg.norm(inner, axis=1)
    network = sf.ReLUNetwork(inner, outer, 0.0, found.network.scale)
    return _with_loss(rng, network, found.dataset.inputs, SQUARES)


def anything(rng: Rng) -> Problem:
    """Any network with any loss."""
    kind = int(rng.integers(6))
    if kind == 5:
        return log_scaled(rng)
    return (relu, relu, knots, steps, steps)[kind](rng, losses=ALL)


def plain(rng: Rng) -> Problem:
    """Any network but a log-scaled one, with any loss."""
    return (relu, knots, steps)[int(rng.integers(3))](rng, losses=ALL)


def curve(rng: Rng) -> Problem:
    """A few knots among more data."""
    m, n = int(rng.integers(1, 6)), int(rng.integers(6, 16))
    network = sf.KnotNetwork(rng.uniform(-1.2, 0.9, m), np.ones(m))
    return _with_loss(rng, network, rng.uniform(-1.0, 1.0, (n, 1)), SQUARES)


def any_relu(rng: Rng) -> Problem:
    """A ReLU network with any loss."""
    return relu(rng, losses=ALL)


def any_knots(rng: Rng) -> Problem:
    """A network of knots with any loss."""
    return knots(rng, losses=ALL)


def on_the_line(rng: Rng) -> Problem:
    """A network of steps on the line, to be trained on a target: its data are not used."""
    return Problem(line_of_steps(rng), sf.Dataset([[0.0]], [0.0]), sf.SquareLoss())
