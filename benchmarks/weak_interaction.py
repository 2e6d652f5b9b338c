"""How fast is full-batch descent of a ReLU network on many samples: fused, by the Gram matrix, decoupled?

Peers, all making the same iterates: the loop one would write in NumPy; the same with PyTorch autograd. One
thread, one run, processor time, best of several repeats, compilation apart. Single precision, as in
[weak_interaction]; a last table shows double precision and the growth with n, d and m.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from shallowflow.data import Dataset
from shallowflow.data.generators import sphere
from shallowflow.dynamics.choice import ENGINES
from shallowflow.dynamics.clock.problem import Task
from shallowflow.models import ReLUNetwork, SquareLoss, initialize

Array = NDArray[Any]
Training = Callable[[int], tuple[Array, Array]]
console = Console()


SWEEPS = {row.name: row for row in ENGINES if row.single}
"""Engines that work in single precision, too."""


def numpy_training(network: ReLUNetwork, dataset: Dataset, kind: type[Any]) -> Training:
    """Return plain descent at rate 1 in the paper's time."""
    x, y = dataset.inputs.astype(kind), dataset.targets.astype(kind)
    n, m = kind(dataset.size), kind(network.width)

    def train(steps: int) -> tuple[Array, Array]:
        w, a = network.inner.astype(kind), network.outer.astype(kind)
        for _ in range(steps):
            z = x @ w.T
            active = np.maximum(z, 0)
            residual = (y - active @ a / m) / n
            pull = (z > 0) * residual[:, None]
            w, a = w + a[:, None] * (pull.T @ x), a + active.T @ residual
        return w, a

    return train


def torch_training(network: ReLUNetwork, dataset: Dataset) -> Training:
    """Return the loop of a PyTorch user: linear layers, autograd, SGD, float32."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    x, y = torch.tensor(dataset.inputs).float(), torch.tensor(dataset.targets).float()

    def train(steps: int) -> tuple[Array, Array]:
        first = torch.nn.Linear(network.dimension, network.width, bias=False)
        second = torch.nn.Linear(network.width, 1, bias=False)
        with torch.no_grad():
            first.weight.copy_(torch.tensor(network.inner).float())
            second.weight.copy_(torch.tensor(network.outer[None, :]).float())
        model = torch.nn.Sequential(first, torch.nn.ReLU(inplace=True), second)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for _ in range(steps):
            residual = y - model(x).squeeze() / network.width
            loss = network.width * torch.mean(residual**2) / 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return first.weight.detach().numpy(), second.weight.detach().numpy()[0]

    return train


def ours(name: str, network: ReLUNetwork, dataset: Dataset, precision: str) -> Training:
    """Return one of the package's engines, its preparations included."""

    def train(steps: int) -> tuple[Array, Array]:
        task = Task(network, dataset, SquareLoss(), float(network.width), precision=precision)
        engine = SWEEPS[name].engine()(task)
        engine.advance(steps * task.step, rows=False)
        end = engine.network()
        assert isinstance(end, ReLUNetwork)
        return end.inner, end.outer

    return train


def per_step(train: Training, steps: int, repeats: int = 8) -> float:
    """Return processor seconds per step: the best long run less the best short one, which prepares only."""
    train(2)
    short, long = np.inf, np.inf
    for _ in range(repeats):
        start = time.process_time()
        train(2)
        middle = time.process_time()
        train(2 + steps)
        short, long = min(short, middle - start), min(long, time.process_time() - middle)
    return float((long - short) / steps)


def compare(
    title: str, dataset: Dataset, width: int, steps: int, names: tuple[str, ...], torch: bool
) -> None:
    """Print our engines beside NumPy and PyTorch on one problem in single precision."""
    network = initialize.asymmetric(width, dataset.dimension)
    trainings = {name: ours(name, network, dataset, "single") for name in names}
    trainings["NumPy"] = numpy_training(network, dataset, np.float32)
    if torch:
        trainings["PyTorch autograd"] = torch_training(network, dataset)
    exact = numpy_training(network, dataset, np.float64)(10)
    table = Table("method", "ms per epoch", f"relative to {names[0]}", "error after 10 epochs", title=title)
    times = {}
    for name, train in trainings.items():
        fast = 20 if name == "decoupled" else 1
        times[name] = per_step(train, fast * steps)
        error = max(float(np.abs(a - b).max()) for a, b in zip(train(10), exact, strict=True))
        table.add_row(
            name, f"{1e3 * times[name]:.4f}", f"{times[name] / times[names[0]]:.2f}", f"{error:.0e}"
        )
    console.print(table)
    if "decoupled" in names:
        x = dataset.inputs.astype(np.float32)
        w = network.inner.astype(np.float32)
        z = x @ w.T

        def products(repeats: int) -> tuple[Array, Array]:
            for _ in range(repeats):
                np.dot(x, w.T)
                np.dot(z.T, x)
            return x, w

        ratio = per_step(products, steps) / times["decoupled"]
        console.print(f"The two matrix products alone take {ratio:.0f} times as long as a decoupled epoch.")


def axes(size: int, dimension: int) -> Dataset:
    """Return orthogonal inputs of norms in [1, 2]."""
    rng = np.random.default_rng(0)
    inputs = np.zeros((size, dimension))
    inputs[np.arange(size), np.arange(size)] = rng.uniform(1.0, 2.0, size)
    return Dataset(inputs, rng.choice([-1.0, 1.0], size))


def growth() -> None:
    """Print the time per epoch of the engines as n, d and m grow, in both precisions."""
    table = Table("engine", "n", "d", "m", "single, ms", "double, ms", "NumPy double, ms", title="Growth")
    cases = [("fused", n, 100, 39) for n in (750, 1500, 3000, 6000)]
    cases += [("fused", 3000, d, 39) for d in (25, 50, 200)]
    cases += [("fused", 3000, 100, m) for m in (16, 80, 160)]
    cases += [("auto", n, 1000, 39) for n in (250, 500, 1000)]  # in the span of the inputs
    cases += [("decoupled", n, 2000, 39) for n in (500, 1000, 2000)]
    cases += [("decoupled", 2000, 2000, m) for m in (16, 80)]
    for name, n, d, m in cases:
        dataset = axes(n, d) if name == "decoupled" else sphere(n, d)
        network = initialize.asymmetric(m, d)
        steps = 400 if name == "decoupled" else max(3, int(2e9 / (n * d * m) / 4))
        single, double = (
            per_step(ours(name, network, dataset, precision), steps, 3) for precision in ("single", "double")
        )
        peer = per_step(numpy_training(network, dataset, np.float64), max(2, int(1e9 / (n * d * m) / 4)), 2)
        row = (name, n, d, m, f"{1e3 * single:.4f}", f"{1e3 * double:.4f}", f"{1e3 * peer:.4f}")
        table.add_row(*map(str, row))
    console.print(table)


def main() -> None:
    """Print the tables."""
    start = time.process_time()
    for name in SWEEPS:
        ours(name, initialize.asymmetric(3, 4), axes(3, 4), "single")(1)
    console.print(f"Compilation, or loading what was compiled before: {time.process_time() - start:.1f} s")
    torch = importlib.util.find_spec("torch") is not None
    if not torch:
        console.print("PyTorch is not installed: its row is left out.")
    compare("d = 100, n = 3000, m = 39", sphere(3000, 100), 39, 100, ("fused",), torch)
    compare("d = 2000, n = 1000, m = 36", sphere(1000, 2000), 36, 20, ("auto", "fused"), torch)
    compare("orthogonal, d = n = 2000, m = 37", axes(2000, 2000), 37, 5, ("decoupled", "fused"), torch)
    growth()


if __name__ == "__main__":
    main()
