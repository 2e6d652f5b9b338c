"""Descent of a wide ReLU network in the plane: does the time per step grow with the width? Beside PyTorch.

Three points of [early_alignment] App. B.1, step 1e-3 on ½ mean r², and Stewart's data of App. B.2.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable

import numpy as np

from shallowflow.data import Dataset
from shallowflow.data.generators import stewart, three_points
from shallowflow.dynamics.engines.cone_descent import ConeDescent
from shallowflow.models import ReLUNetwork, SquareLoss, initialize

STEP = 1e-3
ALIGNMENT = 100_000
REPEATS = 3


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def engine(network: ReLUNetwork, dataset: Dataset) -> ConeDescent:
    return ConeDescent(network, dataset, SquareLoss(), STEP, 1.0)


def per_step_after_alignment(width: int, steps: int = 200_000) -> float:
    descent = engine(initialize.balanced(width, 2, init_scale=1e-3), three_points())
    descent.advance(ALIGNMENT)
    return min(cpu_seconds(lambda: descent.advance(steps)) for _ in range(REPEATS)) / steps


def paper_run(width: int, steps: int = 2_000_000) -> tuple[float, float]:
    """CPU seconds of the paper's run on the three points, set-up included, and the loss at its end."""
    dataset, network = three_points(), initialize.balanced(width, 2, init_scale=1e-3)
    start = time.process_time()
    descent = engine(network, dataset)
    descent.advance(steps)
    seconds = time.process_time() - start
    return seconds, SquareLoss().value(descent.network().predict(dataset.inputs), dataset.targets)


def torch_seconds_per_step(network: ReLUNetwork, dataset: Dataset, steps: int = 20) -> float | None:
    """The fastest of a few steps of the usual training loop in float32, or None without PyTorch."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    inputs, targets = (
        torch.tensor(np.array(v), dtype=torch.float32) for v in (dataset.inputs, dataset.targets)
    )
    inner, outer = (
        torch.tensor(np.array(v), dtype=torch.float32, requires_grad=True)
        for v in (network.inner, network.outer)
    )
    optimizer = torch.optim.SGD([inner, outer], lr=STEP)

    def train() -> None:
        optimizer.zero_grad()
        residual = torch.relu(inputs @ inner.T) @ outer - targets
        (0.5 * torch.mean(residual**2)).backward()
        optimizer.step()

    train()
    return min(cpu_seconds(train) for _ in range(steps))


def main() -> None:
    per_step_after_alignment(100, 1000)
    print("three points, time per step after alignment")
    base = None
    for width in (10**3, 10**4, 10**5, 10**6):
        seconds = per_step_after_alignment(width)
        base = base or seconds
        print(f"  width {width:>9,}: {1e6 * seconds:6.3f} µs   {seconds / base:5.2f} × width 1,000")
    for width in (2_000, 200_000):
        seconds, loss = paper_run(width)
        print(f"three points, width {width:,}, 2,000,000 steps: {seconds:.2f} s, loss {loss:.10f}")
        slow = torch_seconds_per_step(initialize.balanced(width, 2, init_scale=1e-3), three_points())
        if slow is not None:
            print(f"  PyTorch: {1e3 * slow:.3f} ms per step, {2e6 * slow / seconds:,.0f} × slower")
    descent = engine(initialize.gaussian(2_000, 2, init_scale=1e-3), stewart())
    seconds = cpu_seconds(lambda: descent.advance(2_000_000))
    print(f"Stewart, width 2,000, 2,000,000 steps: {seconds:.2f} s, {descent.statistics()}")


if __name__ == "__main__":
    main()
