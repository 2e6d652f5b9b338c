"""Descent of wide ReLU networks: does the time per step grow with the width? Beside PyTorch, and by engine.

Three points of [early_alignment] App. B.1 and Stewart's data of App. B.2, step 1e-3 on ½ mean r²; other data
for the growth with the number of samples and the dimension. CPU seconds; PyTorch is measured if installed.
`python -m benchmarks.cone_descent alignment paper` runs some parts only.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.ticks import advance
from shallowflow.data import Dataset
from shallowflow.data.generators import sphere, stewart, three_points
from shallowflow.dynamics.choice import ENGINES, chosen_engine
from shallowflow.dynamics.clock.problem import Record, Task
from shallowflow.dynamics.engines.cones import ConeDescent, PatternDescent
from shallowflow.dynamics.engines.sweeps import DenseDescent
from shallowflow.dynamics.flow import gradient_flow
from shallowflow.landscape.early_alignment.ends import least_squares
from shallowflow.models import ReLUNetwork, SquareLoss, initialize

STEP = 1e-3
ALIGNMENT = 100_000
PAPER = 2_000_000
REPEATS = 3
Engine = ConeDescent | PatternDescent | DenseDescent


def taken(task: Task) -> str:
    """Return what "auto" takes."""
    made = chosen_engine("gradient_descent", "auto", task).func
    return next(row.name for row in ENGINES if row.engine() is made)


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def engine(network: ReLUNetwork, dataset: Dataset, kind: type[Engine] = ConeDescent) -> Engine:
    return kind(Task(network, dataset, SquareLoss(), STEP))


def loss(descent: Engine, dataset: Dataset) -> float:
    return SquareLoss().value(descent.network().predict(dataset.inputs), dataset.targets)


def seconds_per_step(descent: Engine, steps: int) -> float:
    return min(cpu_seconds(lambda: advance(descent, steps)) for _ in range(REPEATS)) / steps


def alignment() -> None:
    """Time per step after alignment, by width."""
    print("three points, CPU time per step after alignment")
    base = None
    for width in (10**3, 10**4, 10**5, 10**6):
        descent = engine(initialize.balanced(width, 2, init_scale=1e-3), three_points())
        advance(descent, ALIGNMENT)
        seconds = seconds_per_step(descent, 200_000)
        base = base or seconds
        print(f"  width {width:>9,}: {1e6 * seconds:6.3f} µs   {seconds / base:5.2f} × width 1,000")


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


def paper_run(width: int) -> float:
    """CPU seconds of the paper's run on the three points, set-up included; prints how it ended."""
    dataset, network = three_points(), initialize.balanced(width, 2, init_scale=1e-3)
    start = time.process_time()
    descent = engine(network, dataset)
    advance(descent, PAPER)
    seconds = time.process_time() - start
    line = dataset.inputs @ least_squares(dataset).coefficients
    off = np.abs(descent.network().predict(dataset.inputs) - line).max()
    print(
        f"three points, width {width:,}, {PAPER:,} steps: {seconds:.2f} s, "
        f"loss {loss(descent, dataset):.10f}, {off:.1e} from least squares, "
        f"{descent.statistics()['crossings']:,} crossings"
    )
    return seconds


def paper() -> None:
    """The paper's run beside a PyTorch loop."""
    for width in (2_000, 200_000):
        seconds = paper_run(width)
        slow = torch_seconds_per_step(initialize.balanced(width, 2, init_scale=1e-3), three_points())
        if slow is None:
            print("  PyTorch is not installed")
        else:
            print(
                f"  PyTorch: {1e3 * slow:.3f} ms per step ({1 / slow:,.0f} steps/s), "
                f"{PAPER * slow / seconds:,.0f} × slower"
            )


def huge() -> None:
    """Ten million neurons."""
    paper_run(10_000_000)
    print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


def samples() -> None:
    """Time per step by number of samples, 20,000 neurons, after 20,000 steps with few crossings."""
    print("line of n samples with positive targets, width 20,000, CPU time per step")
    for size in (5, 10, 20, 40, 80, 160):
        x = np.linspace(-1.0, 1.0, size)
        dataset = Dataset(x[:, None], 1.0 + 0.2 * x).with_bias()
        descent = engine(initialize.balanced(20_000, 2, init_scale=1e-3), dataset)
        advance(descent, 20_000)
        print(f"  n = {size:>4}: {1e6 * seconds_per_step(descent, 5_000):8.3f} µs")


def dimensions() -> None:
    """Time per step of the engines for any dimension, at the start, and which one is taken."""
    print("random data, CPU time per step in µs: patterns, dense; patterns that occur; taken")
    for dimension, size, width in (
        (3, 8, 2_000),
        (3, 8, 200_000),
        (3, 40, 20_000),
        (5, 12, 20_000),
        (10, 40, 2_000),
    ):
        dataset = sphere(size, dimension)
        network = initialize.gaussian(width, dimension, init_scale=1e-3)
        times = []
        for kind in (PatternDescent, DenseDescent):
            descent = engine(network, dataset, kind)
            advance(descent, 10)
            times.append(1e6 * seconds_per_step(descent, 20))
        occurring = len(np.unique(network.inner @ dataset.inputs.T > 0, axis=0))
        figures = " ".join(f"{value:10.1f}" for value in times)
        print(
            f"  d = {dimension:>2}, n = {size}, width {width:>7,}: {figures} {occurring:>7,} "
            f"{taken(Task(network, dataset, SquareLoss(), STEP, 1.0, PAPER))}"
        )


def sliding() -> None:
    """Stewart's data, where neurons chatter: descent beside the flow, in which they slide."""
    for width in (2_000, 200_000):
        dataset, network = stewart(), initialize.gaussian(width, 2, init_scale=1e-3)
        until, ends = PAPER * STEP, Record.geometric(2)
        flow = partial(gradient_flow, network, dataset, until=until, engine="cones", record=ends)
        print(f"Stewart, width {width:,}, to t = {until:,.0f}: flow {cpu_seconds(flow):.1f} s")
        if width <= 2_000:
            seconds = cpu_seconds(partial(advance, engine(network, dataset), PAPER))
            print(f"  descent, {PAPER:,} steps: {seconds:.1f} s")


PARTS = {part.__name__: part for part in (alignment, paper, samples, dimensions, sliding, huge)}


def main(names: list[str] | None = None) -> None:
    for kind in (ConeDescent, PatternDescent):  # compile or load before anything is timed
        descent = engine(initialize.balanced(100, 2, init_scale=1e-3), three_points(), kind)
        advance(descent, 1000)
        descent.network()
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
