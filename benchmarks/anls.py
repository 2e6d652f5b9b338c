"""One iteration of active neuron least squares: chain elimination beside least squares and the decomposition.

The task is [plateau]'s f₂: 300 knots, 1,000 random points. CPU time, one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

import shallowflow as sf
from shallowflow.dynamics.baselines import distinct_points
from shallowflow.kernels.fitting import anls
from shallowflow.landscape.plateau.moves import best_loss, candidates, moved


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the best CPU time of some repetitions."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    dataset = sf.data.GENERATORS["curve"]("jump", 1000, sampling="random")
    knots = np.sort(sf.initialize.he_knots(300).knots)
    points = distinct_points(dataset)
    x, y, w = points.x.copy(), points.y.copy(), points.weights.copy()

    def windowed() -> int:
        return int(anls.run_windowed(knots, x, y, w, 0, 1e-8, 10**6, 0).made)

    def per_candidate() -> list[float]:
        return [best_loss(moved(knots, move), x, y) for move in candidates(knots, x)]

    moves = windowed()
    whole = seconds(windowed, 5)
    rows = {
        "windowed chain": whole / moves,
        "full chain": seconds(lambda: anls.run_windowed(knots, x, y, w, 0, 1e-8, 1, 0), 5),
        "decomposition, as printed": seconds(lambda: moves.losses_of_candidates(knots, x, y), 1),
        "decomposition, stable": seconds(lambda: moves.stable_losses_of_candidates(knots, x, y), 1),
        "least squares per candidate": seconds(per_candidate, 1),
    }
    table = Table(title="one ANLS iteration on f₂ (300 knots, 1,000 points)")
    for column in ("engine", "seconds", "× windowed chain"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    for name, value in rows.items():
        table.add_row(name, f"{value:.2e}", f"{value / rows['windowed chain']:,.0f}")
    Console().print(table, f"to termination: {moves} moves in {whole:.4f} s")
    _growth()


def _growth() -> None:
    table = Table(title="growth: the first 2,000 moves of the windowed chain")
    for column in ("points", "knots", "µs per move"):
        table.add_column(column, justify="right")
    for size, width in ((1_000, 100), (10_000, 100), (100_000, 100), (100_000, 1_000), (100_000, 10_000)):
        x = np.sort(np.random.default_rng(0).uniform(-1, 1, size))
        y, w = sf.data.CURVES["jump"](x), np.ones(size)
        knots = np.sort(sf.initialize.he_knots(width).knots)

        def empty(
            knots: np.ndarray = knots, x: np.ndarray = x, y: np.ndarray = y, w: np.ndarray = w
        ) -> object:
            return anls.run_windowed(knots, x, y, w, 0, 1e-8, 0, 0)

        def moved(
            knots: np.ndarray = knots, x: np.ndarray = x, y: np.ndarray = y, w: np.ndarray = w
        ) -> object:
            return anls.run_windowed(knots, x, y, w, 0, 1e-8, 2_000, 0)

        made = int(anls.run_windowed(knots, x, y, w, 0, 1e-8, 2_000, 0).made)
        cost = (seconds(moved, 3) - seconds(empty, 3)) / made
        table.add_row(f"{size:,}", f"{width:,}", f"{1e6 * cost:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
