"""Gradient flow from a tiny start on orthonormal data: does the cost grow with ln(1/α)? Beside descent.

n = 64, m = 6, positive labels ([incremental] Fig. 1). Peers: the paper's descent with rate 0.01 in log-scaled
weights, in NumPy (in the coordinates of the data) and compiled, to the end of the last jump at α = 10⁻³⁰⁰.
The NumPy descent is timed on a part of its epochs, whose cost does not change.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from tests.dynamics.jump_problems import PREDICTORS, within_one_percent

from benchmarks.ticks import advance
from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.data.generators import orthonormal
from shallowflow.dynamics.clock.problem import Task
from shallowflow.dynamics.engines.logs import LogDescent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.dynamics.saddle_to_saddle import saddle_to_saddle
from shallowflow.landscape.geometry.orthonormal import mask_of
from shallowflow.landscape.incremental import jump_process
from shallowflow.models import LogScaledNetwork, SquareLoss, initialize

RATE = 0.01
REPEATS = 3
NUMPY_EPOCHS = 20_000


def cpu_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def problem(digits: int) -> tuple[LogScaledNetwork, Dataset, float]:
    """Network, data, and a time well after the last jump."""
    data = orthonormal(64, labels="positive", seed=0)
    network = initialize.log_scaled(6, 64, log_scale=-digits * np.log(10.0), seed=413)
    limit = saddle_to_saddle(network, data)
    scale = network.acceleration
    slowest = limit.process.rates[-2][limit.neurons[-1]]
    return network, data, float(scale * limit.predicted_times(scale)[-1] + 20.0 / slowest)


def numpy_descent(
    z: Floats, outer: Floats, log_scales: Floats, targets: Floats, rate: float, epochs: int
) -> tuple[Floats, Floats, Floats]:
    """The same steps as `kernels.orthogonal.descent`, written in NumPy."""
    for _ in range(epochs):
        positive = np.maximum(z, 0.0)
        residual = targets - (np.exp(2.0 * log_scales) * outer) @ positive
        pull = positive @ residual
        z = z + rate * outer[:, None] * ((z > 0) * residual)
        outer = outer + rate * pull
        size = np.abs(outer)
        off = (size < 0.5) | (size > 2.0)
        if off.any():
            factor = np.where(off, size, 1.0)
            z, outer, log_scales = z / factor[:, None], outer / factor, log_scales + np.log(factor)
    return z, outer, log_scales


def scales() -> None:
    print("flow, n = 64, m = 6 (CPU, best of three, path and losses included)")
    first = None
    for digits in (30, 300, 3000, 10000):
        network, data, until = problem(digits)
        gradient_flow(network, data, until=until)
        seconds = cpu_seconds(lambda n=network, d=data, u=until: gradient_flow(n, d, until=u))
        run = gradient_flow(network, data, until=until)
        first = first or seconds
        steps = f"{run.statistics['steps']} steps, {run.statistics['leaps']} leaps"
        cost = f"{1e3 * seconds:7.1f} ms  ({seconds / first:.2f} ×)"
        print(f"  α = 10^-{digits:<6d} {cost}  {steps}, loss {run.losses[-1]:.1e}")


def peers() -> None:
    network, data, until = problem(300)
    flow = cpu_seconds(lambda: gradient_flow(network, data, until=until))
    epochs = round(until / RATE)
    task = Task(network, data, SquareLoss(), RATE)
    advance(LogDescent(task), 10)
    compiled = cpu_seconds(lambda: advance(LogDescent(task), epochs), 1)
    start = network.preactivations(data.inputs), network.outer, network.log_scales
    part = cpu_seconds(lambda: numpy_descent(*start, data.targets, RATE / data.size, NUMPY_EPOCHS), 2)
    plain = part * epochs / NUMPY_EPOCHS
    print(f"α = 10^-300, to t = {until:.0f} ({epochs} epochs at rate {RATE})")
    print(f"  flow              {flow:9.4f} s")
    print(f"  compiled descent  {compiled:9.2f} s   {compiled / flow:8.0f} ×")
    print(f"  NumPy descent     {plain:9.1f} s   {plain / flow:8.0f} ×  (from {NUMPY_EPOCHS} epochs)")


def algorithm() -> None:
    print("Algorithm 1 (CPU)")
    for size in (1_000, 10_000, 100_000):
        rng = np.random.default_rng(0)
        width = int(np.ceil(4 * np.log(size / 0.01)))
        targets, signs = rng.standard_normal(size), rng.choice([-1.0, 1.0], width)
        mask = mask_of(rng.standard_normal((width, size)), signs, targets)
        seconds = cpu_seconds(lambda m=mask, y=targets: jump_process(m, y))
        jumps = len(jump_process(mask, targets).neurons)
        print(f"  n = {size:<7d} m = {width:<3d} {1e3 * seconds:8.1f} ms, {jumps} jumps")


def predictor(problems: int = 200) -> None:
    print(f"levels and first jump time within 1 % of the flow's, of {problems} random problems")
    print(f"  {'α':>10s}" + "".join(f"{name:>26s}" for name in PREDICTORS))
    for digits in (8, 16, 30, 100):
        verdicts = np.array([within_one_percent(seed, digits) for seed in range(problems)])
        missed = np.flatnonzero(~verdicts[:, 0]).tolist()
        print(
            f"  {f'10^-{digits}':>10s}"
            + "".join(f"{n:26d}" for n in verdicts.sum(axis=0))
            + f"  not: {missed}"
        )


def main() -> None:
    scales()
    peers()
    algorithm()
    predictor()


if __name__ == "__main__":
    main()
