"""Runs of the SGD kernels on one random stream, and one in plain Python."""

from __future__ import annotations

import numpy as np

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.clock.problem import SampledTask, Sampling
from shallowflow.dynamics.engines.steps import HatSteps, PlainSteps, PlateauSteps
from shallowflow.kernels.steps import sgd
from shallowflow.kernels.steps.sgd import Stream, seeded
from shallowflow.models.networks import StepNetwork
from tests.dynamics.ticks import steps_made
from tests.kernels.entry import entry

TARGET = sf.PiecewiseConstant([0.2, 0.35, 0.5, 0.65, 0.8], [1.0, 5.0, 1.0, 3.0, 1.0, 5.0])
uniform = entry(sgd.uniform)
ENGINES: dict[str, type[PlainSteps] | type[PlateauSteps] | type[HatSteps]] = {
    "plain": PlainSteps,
    "plateaus": PlateauSteps,
    "hats": HatSteps,
}


def sampling(epsilon: float, *, step: float = 1e-5, noise: float = 1.0, box: bool = False) -> Sampling:
    return Sampling(step, epsilon * step, noise, 1, np.random.SeedSequence(7), box)


def task(network: StepNetwork, chosen: Sampling) -> SampledTask:
    return SampledTask(network, TARGET, None, chosen, 0)


def trained(name: str, network: StepNetwork, chosen: Sampling, steps: int) -> StepNetwork:
    """Return the network after that many steps of an engine, made in two goes."""
    engine = ENGINES[name](task(network, chosen))
    assert steps_made(engine, steps // 3) == steps // 3
    assert steps_made(engine, steps - steps // 3) == steps - steps // 3
    found = engine.network()
    assert isinstance(found, StepNetwork)
    return found


def draw_number(state: Stream) -> tuple[float, Stream]:
    """Return the next number of the stream; outside a kernel the words come back as plain integers."""
    number, words = uniform(state)
    return number, Stream(*(np.uint64(word) for word in words))


def python_twin(network: StepNetwork, chosen: Sampling, steps: int) -> tuple[Floats, Floats, float]:
    """Return positions, outer weights and offset after formula (9), in NumPy."""
    now = Stream(*seeded(chosen.seed))
    u, a, offset = network.positions.copy(), network.outer.copy(), float(network.offset)
    eta = network.sharpness
    for _ in range(steps):
        x, now = draw_number(now)
        y = float(TARGET(np.array(x)))
        if chosen.noise:
            draw, now = draw_number(now)
            y += chosen.noise * (2 * draw - 1)
        sigma = sf.CubicStep(eta)
        features, slopes = sigma(x - u), sigma.derivative(x - u)
        if chosen.box:
            slopes = (np.abs(x - u) <= eta / 2) / eta
        r = float(offset + a @ features - y)
        u, a, offset = (
            u + chosen.slow * r * a * slopes,
            a - chosen.step * r * features,
            offset - chosen.step * r,
        )
    return u, a, offset
