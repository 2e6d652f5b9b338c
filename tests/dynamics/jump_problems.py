"""Random problems of [incremental], and the flow beside its limit and beside what is predicted of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import shallowflow as sf
from shallowflow.arrays import Floats
from shallowflow.dynamics.jump_prediction import PredictedJumps, lone_widths


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


def any_norms(seed: int, digits: float) -> tuple[sf.LogScaledNetwork, sf.Dataset]:
    """n in 3..16 labels of both signs, norms in [½, 2], m in 1..12 neurons, in a random basis."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 17)), int(rng.integers(1, 13))
    d = n + int(rng.integers(0, 4))
    y = rng.standard_normal(n)
    y = np.sign(y) * (0.3 + np.abs(y))
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0][:n]
    inputs = rng.uniform(0.5, 2.0, (n, 1)) * basis
    return sf.initialize.log_scaled(m, d, log_scale=-digits * np.log(10.0), seed=seed), sf.Dataset(inputs, y)


def of_algorithm_1(limit: sf.SaddleToSaddle, times: Floats) -> PredictedJumps:
    """Return Algorithm 1 as a prediction: its jumps at these plain times, each as long as a lone one."""
    process, order = limit.process, np.argsort(times, kind="stable")
    rates = process.rates[np.arange(len(times)), process.neurons]
    squares, size = limit.dataset.targets**2, limit.dataset.size
    fallen = np.cumsum([0.0, *(float(squares[process.fitted[i]].sum()) for i in order)])
    spent = lone_widths(rates)
    return PredictedJumps(
        times[order],
        (times + spent[0])[order],
        (times + spent[1])[order],
        tuple(process.neurons[i : i + 1] for i in order),
        tuple(process.fitted[i] for i in order),
        (squares.sum() - fallen) / (2 * size),
        process.unfitted,
        limit.final,
    )


PREDICTORS = ("predict_jumps", "Algorithm 1", "Algorithm 1, corrected")


def within_one_percent(seed: int, digits: int) -> tuple[bool, ...]:
    """Return for every one of `PREDICTORS` whether its levels and its first jump time are those of the flow.

    One score for all: in the middle of every plateau that is predicted (that after the last jump: at the end
    of the run) the loss of the flow is its level, within 1 % of the first loss; and the first jump comes
    within 1 % of the time of the flow's. Where the flow has no jump none may be predicted.
    """
    network, data = any_norms(seed, digits)
    limit, scale = sf.saddle_to_saddle(network, data), network.acceleration
    foreseen = (
        sf.predict_jumps(network, data),
        of_algorithm_1(limit, limit.jump_times * scale),
        of_algorithm_1(limit, limit.predicted_times(scale) * scale),
    )
    latest = max(float(np.max(each.times, initial=scale)) for each in foreseen)
    until = 1.5 * latest + 600.0 * data.size
    flow = sf.gradient_flow(network, data, until=until)
    seen = sf.jumps(flow, data).times

    def agrees(predicted: PredictedJumps) -> bool:
        if not seen.size or not predicted.times.size:
            return seen.size == predicted.times.size
        begins, ends, levels = predicted.plateaus.T
        middles = np.where(np.isinf(ends), until, 0.5 * (begins + np.minimum(ends, until)))
        losses = [sf.SquareLoss().value(flow(t).predict(data.inputs), data.targets) for t in middles.tolist()]
        near = np.abs(np.subtract(losses, levels)) <= 0.01 * limit.losses[0]
        return bool(np.all(near)) and abs(predicted.times[0] / seen[0] - 1.0) <= 0.01

    return tuple(agrees(each) for each in foreseen)
