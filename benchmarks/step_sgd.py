"""One-pass SGD of a network of steps: a step's cost by the plateau kernel, the hat kernel and plain
loops.

[two_timescale]'s target, noise and η = 0.08/m. Peers: the straightforward loop compiled by Numba (the same
steps from the same random numbers), and the same in NumPy. Best processor time of several repeats,
compilation apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

import shallowflow as sf
from benchmarks.ticks import advance
from shallowflow.dynamics.clock.problem import Sampling
from shallowflow.dynamics.engines.steps import HatSteps, PlainSteps, PlateauSteps

TARGET = sf.PiecewiseConstant([0.2, 0.35, 0.5, 0.65, 0.8], [1.0, 4.0, 1.0, 2.0, 1.0, 4.0])
STEP, REPEATS = 1e-5, 9
LONG = 180_000_000
console = Console(width=100)


def sampling(width: int) -> Sampling:
    return Sampling(STEP, 2e-5 * STEP * 20 / width, 1.0, 1, np.random.SeedSequence(0))


def best(descend: Callable[[int], object], steps: int) -> float:
    """Return nanoseconds per step."""
    descend(max(steps // 100, 1))
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        descend(steps)
        times.append(time.process_time() - start)
    return min(times) / steps * 1e9


def numpy_loop(network: sf.StepNetwork) -> Callable[[int], object]:
    """Return formula (9) in NumPy, one step at a time."""
    rng, eta = np.random.default_rng(0), network.sharpness
    u, a, offset = network.positions.copy(), network.outer.copy(), 0.0
    breaks, values = TARGET.breakpoints, TARGET.values
    slow = 2e-5 * STEP

    def descend(steps: int) -> None:
        nonlocal offset
        for _ in range(steps):
            x = rng.random()
            y = values[np.searchsorted(breaks, x, side="right")] + rng.uniform(-1.0, 1.0)
            z = np.clip((x - u) / eta, -0.5, 0.5)
            tail = 4.0 * (0.5 - np.abs(z)) ** 3
            features = np.where(z < 0, tail, 1.0 - tail)
            r = offset + a @ features - y
            u[:] += slow * r * a * 12.0 * (0.5 - np.abs(z)) ** 2 / eta
            a[:] -= STEP * r * features
            offset -= STEP * r

    return descend


def main() -> None:
    table = Table(title="SGD of a network of steps, nanoseconds per step")
    for column in ("m", "plateaus", "hats", "plain loop", "NumPy", "plain / ours", "NumPy / ours"):
        table.add_column(column, justify="right")
    hats: dict[int, float] = {}
    ours: dict[int, float] = {}
    for width in (20, 200, 2_000, 20_000):
        network = sf.initialize.uniform_positions(width, sharpness=0.08 / width, seed=1)
        hats[width] = best(partial(advance, HatSteps(network, TARGET, sampling(width))), 300_000)
        plain = best(partial(advance, PlainSteps(network, TARGET, sampling(width))), 6_000_000 // width)
        plateaus = np.inf
        if width <= 200:
            plateaus = best(partial(advance, PlateauSteps(network, TARGET, sampling(width))), 300_000)
        interpreted = best(numpy_loop(network), 300)
        ours[width] = min(plateaus, hats[width])
        table.add_row(
            f"{width:,}",
            f"{plateaus:.1f}" if np.isfinite(plateaus) else "–",
            f"{hats[width]:.1f}",
            f"{plain:,.0f}",
            f"{interpreted:,.0f}",
            f"{plain / ours[width]:.1f}",
            f"{interpreted / ours[width]:,.0f}",
        )
    console.print(table)
    console.print(
        f"m = 20 → 20,000: a step of the hat kernel costs {hats[20_000] / hats[20]:.1f} times as "
        f"much, the faster kernel's {ours[20_000] / ours[20]:.1f} times"
    )
    network = sf.initialize.uniform_positions(20, sharpness=4e-3, seed=6)
    start = time.process_time()
    run = sf.stochastic_descent(network, TARGET, step=STEP, steps=LONG, epsilon=2e-5, noise=1.0)
    console.print(f"{LONG:,} steps of figure 3: {time.process_time() - start:.1f} s ({run.outcome})")


if __name__ == "__main__":
    main()
