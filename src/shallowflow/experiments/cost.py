"""What an experiment costs on this machine: its measured CPU time, scaled by a short test of speed.

An experiment's `cost` was measured on one machine, on which the test of speed took `REFERENCE` seconds.
`python -m benchmarks.experiment_costs` measures them anew.
"""

from __future__ import annotations

import time

import numpy as np

from shallowflow.experiments.experiment import Experiment

REFERENCE = 0.073
"""CPU seconds of `speed_test` on the machine on which the costs were measured."""


def speed_test(repeats: int = 5) -> float:
    """Return the CPU seconds of a fixed piece of work, like training: small arrays, many steps."""
    best = np.inf
    inputs = np.linspace(-1.0, 1.0, 200)
    for _ in range(repeats):
        start = time.process_time()
        knots = np.linspace(-1.0, 1.0, 20)
        for _ in range(3_000):
            active = np.maximum(inputs[:, None] - knots, 0.0)
            knots = knots - 1e-9 * (active.T @ np.tanh(active.sum(axis=1)))
        best = min(best, time.process_time() - start)
    return float(best)


def estimate(experiment: Experiment, scale: str, slowness: float = 1.0) -> float | None:
    """Return the CPU seconds an experiment takes where work takes `slowness` times as long; None: unknown."""
    seconds = experiment.cost.get(scale)
    return None if seconds is None else slowness * seconds
