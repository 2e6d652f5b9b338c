"""Random problems of [incremental], and the flow beside its limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import shallowflow as sf


@dataclass(frozen=True)
class Comparison:
    """A flow from α = e^{−acceleration} beside Algorithm 1: errors in accelerated time and in parameters.

    same_jumps: the neurons and points of Algorithm 1, in the order of the times predicted to first order: two
    jumps that share no point may change places until ln(1/α) × their distance exceeds what their C differ by.
    """

    acceleration: float
    gap: float
    settling: float
    same_jumps: bool
    time_error: float
    corrected_error: float
    parameter_error: float


def problem(seed: int, log_scale: float) -> tuple[sf.LogScaledNetwork, sf.Dataset]:
    """n in 4..64 labels of both signs, m in 4..30 neurons; data and start are drawn independently."""
    rng = np.random.default_rng(1000 + seed)
    size, width = int(rng.integers(4, 65)), int(rng.integers(4, 31))
    data = sf.data.GENERATORS["orthonormal"](size, seed=2000 + seed)
    return sf.initialize.log_scaled(width, size, log_scale=log_scale, seed=seed), data


def compare(seed: int, digits: int) -> Comparison:
    """Run the flow from α = 10^−digits to the end of its last jump."""
    acceleration = digits * np.log(10.0)
    network, data = problem(seed, -acceleration)
    limit = sf.saddle_to_saddle(network, data)
    process = limit.process
    slowest = process.rates[np.arange(len(process.neurons)), process.neurons].min()
    until = float(limit.predicted_times(acceleration).max() * acceleration + 60.0 / slowest)
    flow = sf.gradient_flow(network, data, until=until, tolerance=1e-10)
    assert flow.outcome.ok
    found = sf.jumps(flow, data)
    neurons = process.groups[found.neurons]
    order = np.argsort(limit.predicted_times(acceleration), kind="stable")
    same = np.array_equal(neurons, limit.neurons[order]) and all(
        np.array_equal(points, process.fitted[i]) for points, i in zip(found.fitted, order, strict=True)
    )
    error = corrected = np.nan
    if set(neurons) == set(limit.neurons) and len(neurons) == len(limit.neurons):
        when = dict(zip(neurons.tolist(), found.times / acceleration, strict=True))
        times = np.array([when[int(j)] for j in limit.neurons])
        error = float(np.abs(times - limit.jump_times).max())
        corrected = float(np.abs(times - limit.predicted_times(acceleration)).max())
    final = flow.final
    assert isinstance(final, sf.LogScaledNetwork)
    plain = final.to_relu()
    apart = max(
        float(np.abs(plain.inner - limit.final.inner).max()),
        float(np.abs(plain.outer - limit.final.outer).max()),
    )
    return Comparison(
        acceleration, float(process.gaps.min()), float(process.settling.min()), same, error, corrected, apart
    )
