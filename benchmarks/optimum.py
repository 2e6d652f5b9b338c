"""Does the search find the best knots? 1,000 random problems against the exact optimum; and 10⁵, 10⁶ points.

Problems: n = 20, 40 or 60 random x, noise of 5, 20 or 60 % of the range, three kinks or none in the truth,
and K = 1 … 4 knots to fit; seeds 0 … 999. The optimum is that of `kernels.fitting.exact` begun from the
search's own loss. It is *regular* if no two of its knots lie between the same two data, every piece has two
data, and f does not leave their range by more than half of it: other optima are jumps and spikes, which the
search avoids on purpose.
"""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.table import Table

from shallowflow.arrays import Floats
from shallowflow.estimators import ANLSRegressor
from shallowflow.estimators.base import merged_points, values
from shallowflow.estimators.search import LARGEST_VALUE, _knots_of
from shallowflow.kernels.fitting.exact import prove

PROBLEMS = 1000
REACHED = 1e-7
SETTINGS: dict[str, dict[str, object]] = {
    "search alone": {"certify": False},
    "search alone, n_starts=5": {"certify": False, "n_starts": 5},
    "default (search and proof)": {},
}
KINKS = (0.2, 0.45, 0.75)


def problem(seed: int) -> tuple[Floats, Floats, int]:
    """Return x, y and the number of knots of one problem."""
    rng = np.random.default_rng(seed)
    size, noise, knots = (
        int(rng.choice([20, 40, 60])),
        float(rng.choice([0.05, 0.2, 0.6])),
        int(rng.integers(1, 5)),
    )
    x = np.sort(rng.uniform(0, 1, size))
    heights = rng.uniform(0, 1, 5) if rng.random() < 0.8 else np.zeros(5)
    return x, np.interp(x, [0, *KINKS, 1], heights) + noise * rng.standard_normal(size), knots


def optimum(x: Floats, y: Floats, knots: int, known: float) -> tuple[float, bool] | None:
    """Return the least Σ r² on the unit scale and whether it is regular; None if that was not decided."""
    points = merged_points(x, y, np.ones(len(x)))
    loss = 2 * known / points.unit
    proof = prove(points.x, points.y, points.w, knots, loss * (1 + 1e-6), budget=100_000_000)
    if not proof.complete or proof.pattern is None or proof.loss is None:
        return None
    best = _knots_of(points, proof.pattern.begins, proof.pattern.kinds)
    edges = np.concatenate([[0], np.searchsorted(points.x, best, side="right"), [len(points.x)]])
    heights = values(best, points.fit(best)[1], best)
    regular = np.diff(edges).min() >= 2 and np.abs(heights).max() <= LARGEST_VALUE and len(best) == knots
    return float(min(proof.loss, loss)), bool(regular)


def search() -> None:
    """Print how often, and how far, each setting misses."""
    ratios: dict[str, list[float]] = {name: [] for name in SETTINGS}
    seconds = dict.fromkeys(SETTINGS, 0.0)
    regulars, undecided = list[bool](), 0
    for seed in range(PROBLEMS):
        x, y, knots = problem(seed)
        losses = {}
        for name, options in SETTINGS.items():
            start = time.process_time()
            losses[name] = ANLSRegressor(knots, loss="squared", **options).fit(x, y).loss_history_[-1]  # type: ignore[arg-type]
            seconds[name] += time.process_time() - start
        found = optimum(x, y, knots, min(losses.values()))
        if found is None:
            undecided += 1
            continue
        unit = merged_points(x, y, np.ones(len(x))).unit
        regulars.append(found[1])
        for name, loss in losses.items():
            ratios[name].append(2 * loss / unit / found[0])
    regular = np.array(regulars)
    table = Table(
        title=f"{len(regular)} problems ({undecided} undecided), {int(regular.sum())} with a regular optimum"
    )
    for column in ("", "reached, regular", "within 1 %", "worst", "reached, all", "ms a fit"):
        table.add_column(column, justify="left" if not column else "right")
    for name, some in ratios.items():
        one = np.array(some)
        reached = one <= 1 + REACHED
        shares = 100 * reached[regular].mean(), 100 * np.mean(one[regular] <= 1.01), one[regular].max()
        cells = (
            f"{shares[0]:.1f} %",
            f"{shares[1]:.1f} %",
            f"{shares[2]:.4f}",
            f"{100 * reached.mean():.1f} %",
        )
        table.add_row(name, *cells, f"{1e3 * seconds[name] / PROBLEMS:.1f}")
    Console().print(table)


def many_points() -> None:
    """Print CPU seconds with 10⁵ and 10⁶ points, and losses beside a search on all 10⁵ points."""
    import shallowflow.estimators.anls as module
    import shallowflow.estimators.selection as selection

    table = Table(title="many points: CPU seconds; loss beside the search on all points, in %")
    for column in ("points", "knots", "seconds", "found", "loss above the slow search's"):
        table.add_column(column, justify="right")
    for size in (100_000, 1_000_000):
        rng = np.random.default_rng(size)
        x = rng.uniform(0, 1, size)
        places = np.sort(rng.uniform(0, 1, 12))
        y = np.interp(x, places, rng.uniform(0, 1, 12)) + 0.1 * rng.standard_normal(size)
        for knots in (2, 10, 50, "auto"):
            start = time.process_time()
            model = ANLSRegressor(knots).fit(x, y)
            spent, excess = time.process_time() - start, ""
            if size == 100_000 and knots != "auto":
                kept = module.LARGE, selection.MERGED
                module.LARGE = selection.MERGED = 10**9
                try:
                    slow = ANLSRegressor(knots).fit(x, y)
                finally:
                    module.LARGE, selection.MERGED = kept
                excess = f"{100 * (model.loss_history_[-1] / slow.loss_history_[-1] - 1):.5f}"
            table.add_row(f"{size:,}", str(knots), f"{spent:.2f}", str(model.n_knots_), excess)
    Console().print(table)


def main() -> None:
    search()
    many_points()


if __name__ == "__main__":
    main()
