"""How fast is gradient descent of a univariate ReLU network that never looks at the samples?

Peers, all making the same iterates: a compiled sweep over samples and neurons, O(samples + width) per step;
the loop one would write in NumPy, O(samples x width); the same with PyTorch autograd. One thread, one run,
processor time, best of several repeats, compilation apart. Ours counts the crossings of samples as it goes;
the peers do not.
"""

import importlib
import math
import time
from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from shallowflow.kernels.knots.descent import advance, prepare

FloatArray = NDArray[np.float64]
Iterate = tuple[FloatArray, FloatArray]
Descent = Callable[[int], Iterate]

RATE = 1e-3
console = Console()


class Task:
    """sin(frequency pi x) on equidistant samples; He initialisation; rate 10^-3 on the mean squared loss."""

    def __init__(self, width: int, samples: int, frequency: int) -> None:
        generator = np.random.default_rng(0)
        self.knots = generator.normal(0.0, math.sqrt(2.0), width)
        self.outer = generator.normal(0.0, math.sqrt(2.0 / width), width)
        self.x = np.linspace(-1.0, 1.0, samples)
        self.y = np.sin(frequency * np.pi * self.x)
        # Wider networks need smaller rates: 10^-3 is unstable beyond some hundred neurons.
        self.mean_rate = RATE * min(1.0, 100.0 / width)
        self.rate = 2.0 * self.mean_rate / samples
        self.samples = prepare(self.x, self.y)
        self.crossings = 0

    def ours(self, steps: int) -> Iterate:
        rates = self.rate, self.rate
        knots, outer, _, self.crossings = advance(self.knots, self.outer, self.samples, rates, steps)
        return knots, outer

    def sweep(self, steps: int) -> Iterate:
        return sweep_descent(self.knots, self.outer, self.x, self.y, self.rate, steps)

    def plain(self, steps: int) -> Iterate:
        return numpy_descent(self.knots, self.outer, self.x, self.y, self.rate, steps)

    def autograd(self, steps: int) -> Iterate:
        return torch_descent(self.knots, self.outer, self.x, self.y, self.mean_rate, steps)


@njit(cache=True)
def sweep_descent(
    knots: FloatArray, outer: FloatArray, x: FloatArray, y: FloatArray, rate: float, steps: int
) -> Iterate:
    """Sorted knots, one pass over the samples for the residuals, one back for the gradient."""
    order = np.argsort(knots)
    b, c = knots[order], outer[order]
    residual = np.empty(x.size)
    for _ in range(steps):
        slope, level, j = 0.0, 0.0, 0
        for k in range(x.size):
            while j < b.size and b[j] < x[k]:
                slope += c[j]
                level += c[j] * b[j]
                j += 1
            residual[k] = slope * x[k] - level - y[k]
        total, moment, k = 0.0, 0.0, x.size - 1
        for j in range(b.size - 1, -1, -1):
            while k >= 0 and x[k] > b[j]:
                total += residual[k]
                moment += residual[k] * x[k]
                k -= 1
            knot = b[j]
            b[j] += rate * c[j] * total
            c[j] -= rate * (moment - knot * total)
        for j in range(1, b.size):
            if b[j] < b[j - 1]:
                knot, weight, number, i = b[j], c[j], order[j], j
                while i > 0 and b[i - 1] > knot:
                    b[i], c[i], order[i] = b[i - 1], c[i - 1], order[i - 1]
                    i -= 1
                b[i], c[i], order[i] = knot, weight, number
    new_knots, new_outer = np.empty(b.size), np.empty(b.size)
    new_knots[order], new_outer[order] = b, c
    return new_knots, new_outer


def numpy_descent(
    knots: FloatArray, outer: FloatArray, x: FloatArray, y: FloatArray, rate: float, steps: int
) -> Iterate:
    """The fastest of four ways that we tried to write the step in NumPy."""
    for _ in range(steps):
        distance = x - knots[:, None]
        active = distance > 0.0
        hidden = np.where(active, distance, 0.0)
        residual = outer @ hidden - y
        knots, outer = knots + rate * outer * (active @ residual), outer - rate * (hidden @ residual)
    return knots, outer


def torch_descent(
    knots: FloatArray, outer: FloatArray, x: FloatArray, y: FloatArray, mean_rate: float, steps: int
) -> Iterate:
    """Mean squared loss, backward, and the update in place."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    b = torch.tensor(knots, requires_grad=True)
    c = torch.tensor(outer, requires_grad=True)
    inputs, targets = torch.tensor(x), torch.tensor(y)
    for _ in range(steps):
        loss = ((torch.relu(inputs[:, None] - b) @ c - targets) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            b -= mean_rate * b.grad
            c -= mean_rate * c.grad
        b.grad = None
        c.grad = None
    return b.detach().numpy(), c.detach().numpy()


def seconds_per_step(descents: dict[str, tuple[Descent, int]], repeats: int) -> dict[str, float]:
    """Best processor time per step of each peer; the peers take turns, so that all see the same machine."""
    best = dict.fromkeys(descents, math.inf)
    for _ in range(repeats):
        for name, (descent, steps) in descents.items():
            start = time.process_time()
            descent(steps)
            best[name] = min(best[name], (time.process_time() - start) / steps)
    return best


def compare_peers(with_torch: bool) -> None:
    """The two problems of the paper's introduction."""
    table = Table("width", "samples", "peer", "steps/s", "ours is faster by", "difference at step 200")
    for width, samples, frequency, ours, sweep, plain in (
        (10, 100, 1, 1_000_000, 200_000, 5_000),
        (100, 500, 5, 1_000_000, 100_000, 1_000),
    ):
        task = Task(width, samples, frequency)
        descents: dict[str, tuple[Descent, int]] = {
            "ours": (task.ours, ours),
            "compiled sweep": (task.sweep, sweep),
            "NumPy": (task.plain, plain),
        }
        if with_torch:
            descents["PyTorch autograd"] = (task.autograd, 500)
        reference = task.plain(200)
        times = seconds_per_step(descents, repeats=4)
        for name, (descent, _) in descents.items():
            error = max(float(np.abs(a - b).max()) for a, b in zip(descent(200), reference, strict=True))
            ratio = times[name] / times["ours"]
            table.add_row(
                str(width), str(samples), name, f"{1 / times[name]:,.0f}", f"{ratio:,.1f}", f"{error:.0e}"
            )
    console.print(table)


def vary(title: str, cases: list[tuple[int, int, int]]) -> None:
    """Ours beside the compiled sweep for (width, samples, steps)."""
    table = Table("width", "samples", "steps", "ours, steps/s", "crossings/step", "sweep, steps/s", "ratio")
    for width, samples, steps in cases:
        task = Task(width, samples, frequency=1 if width <= 10 else 5)
        sweep_steps = max(5, 20_000_000 // (samples + width) // 10)
        times = seconds_per_step({"ours": (task.ours, steps), "sweep": (task.sweep, sweep_steps)}, repeats=3)
        table.add_row(
            str(width),
            f"{samples:,}",
            f"{steps:,}",
            f"{1 / times['ours']:,.0f}",
            f"{task.crossings / steps:.2f}",
            f"{1 / times['sweep']:,.0f}",
            f"{times['sweep'] / times['ours']:,.1f}",
        )
    console.print(title, table)


def compare_with_sweep() -> None:
    """Ours beside the compiled sweep on a grid of widths and samples, few samples included."""
    widths, counts = (3, 10, 100, 300, 1_000), (2, 5, 10, 100, 500, 1_000, 10_000)
    table = Table("width \\ samples", *(f"{samples:,}" for samples in counts))
    for width in widths:
        row = []
        for samples in counts:
            task = Task(width, samples, frequency=1 if width <= 10 else 5)
            steps = max(300, 1_000_000 // (samples + width))
            times = seconds_per_step({"ours": (task.ours, steps), "sweep": (task.sweep, steps)}, repeats=9)
            row.append(f"{times['sweep'] / times['ours']:.2f}")
        table.add_row(f"{width:,}", *row)
    console.print("Ours is faster than the compiled sweep by", table)


def main() -> None:
    """Print the tables."""
    start = time.process_time()
    task = Task(10, 100, 1)
    task.ours(1)
    task.sweep(1)
    console.print(f"Compilation, or loading what was compiled before: {time.process_time() - start:.1f} s")
    try:
        task.autograd(1)
        with_torch = True
    except ImportError:
        console.print("PyTorch is not installed: its row is left out.")
        with_torch = False
    compare_peers(with_torch)
    counts = (1_000, 10_000, 100_000, 1_000_000)
    vary("More samples, width 10", [(10, samples, 2_000_000) for samples in counts])
    vary("More samples, width 100", [(100, samples, 200_000) for samples in counts])
    widths = (10, 30, 100, 300, 1_000, 3_000, 10_000)
    vary("More neurons", [(width, 1_000, max(1_000, 2_000_000 // width)) for width in widths])
    compare_with_sweep()
    start = time.process_time()
    task.ours(100_000_000)
    console.print(f"10^8 steps of width 10, 100 samples: {time.process_time() - start:.1f} s")


if __name__ == "__main__":
    main()
