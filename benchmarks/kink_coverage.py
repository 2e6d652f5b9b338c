"""How often do 95 % intervals of a knot, of slopes and of f hold the truth, its number known and selected?

One knot at 0.4; n = 50, 200, 1000; noise 5 and 20 %; white and AR(0.5); clear and weak kinks: 24 cells, as
Markdown tables (those of docs/concepts/kink_statistics.md):

* known: the number of knots is given; beside piecewise-regression, its number given too, on the first of the
  same data sets, as many as its time allows;
* selected: the number is chosen by the criterion. Where it is right, as above; and of all data sets alike:
  whether the set of some knot holds 0.4 (never without a knot), whether the interval of the piece that lies
  over 0.2, and over 0.7, holds the slope there, and whether that of f(0.7) does.

`python -m benchmarks.kink_coverage known 50 200` prints some of the tables for some n. The seed and the
numbers of data sets were written down before the tables were made, and nothing was chosen on them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from benchmarks.kink_statistics import PEER_RESTARTS, FloatArray, heading, installed, markdown, noise_of
from shallowflow.estimators import ANLSRegressor
from shallowflow.estimators.noise import model_of
from shallowflow.estimators.summary import Interval, knot_intervals, slope_intervals

COVERAGE_SEED = 2811
SIZES = (50, 200, 1000)
SETS, PEER_SETS = 500, 100
"""One choice of the number takes 0.02, 0.18 and 0.7 s; one fit of piecewise-regression 0.1 to 0.6 s."""
KNOT = 0.4
BEFORE, AFTER = 0.2, 0.7
TURNS = {"clear": 2.0, "weak": 0.7}
Cell = tuple[int, float, str, str]
Held = tuple[float, ...]


def cells(size: int) -> Iterator[Cell]:
    """Points, σ, noise, kink."""
    for noise, kind, name in product((0.05, 0.2), ("white", "AR 0.5"), TURNS):
        yield size, noise, kind, name


def kinked(cell: Cell, seed: int) -> tuple[FloatArray, FloatArray]:
    size, noise, kind, name = cell
    rng = np.random.default_rng([COVERAGE_SEED, seed, size])
    x = np.sort(rng.uniform(0, 1, size))
    return x, x - TURNS[name] * np.maximum(x - KNOT, 0) + noise * noise_of(kind, size, rng)


def holds(one: Interval, value: float) -> float:
    return float(one.low <= value <= one.high)


def held(model: ANLSRegressor, turn: float) -> tuple[Held, Held]:
    """Whether the intervals hold the truth.

    First of knot (set, delta interval) and slopes, NaN where K ≠ 1; then of some knot, of the slopes at 0.2
    and 0.7, and of f(0.7), for every K.
    """
    points = model._points
    inner = model_of(points, (model.pieces_.knots - points.low) / points.half)
    knots = knot_intervals(inner, 0.95, np.random.default_rng(0))
    slopes = slope_intervals(inner, 0.95, knots)
    place, before, after = ((at - points.low) / points.half for at in (KNOT, BEFORE, AFTER))
    first, second = (slope * points.half / points.scale for slope in (1.0, 1.0 - turn))
    low, high = model.predict_interval(np.array([AFTER]))[0]
    pieces = np.searchsorted(inner.knots, [before, after])
    each = (
        float(any(holds(knot, place) for knot in knots)),
        holds(slopes[pieces[0]], first),
        holds(slopes[pieces[1]], second),
        float(low <= AFTER - turn * (AFTER - KNOT) <= high),
    )
    if model.n_knots_ != 1:
        return (np.nan,) * 4, each
    delta = float(abs(knots[0].estimate - place) <= 1.96 * knots[0].error)
    return (holds(knots[0], place), delta, holds(slopes[0], first), holds(slopes[1], second)), each


def peer_held(library: Any, x: FloatArray, y: FloatArray, turn: float) -> Held:
    """Whether the intervals of piecewise-regression hold knot and slopes; NaN without a fit."""
    np.random.seed(0)  # noqa: NPY002  (the library draws from NumPy's global generator)
    found = library.Fit(x, y, n_breakpoints=1, n_boot=PEER_RESTARTS, verbose=False).get_results()
    if not found["converged"]:
        return (np.nan,) * 3
    truths = {"breakpoint1": KNOT, "alpha1": 1.0, "alpha2": 1.0 - turn}
    ends = {name: found["estimates"][name]["confidence_interval"] for name in truths}
    return tuple(float(ends[name][0] <= value <= ends[name][1]) for name, value in truths.items())


def percents(values: list[Held]) -> list[str]:
    """Return the share of every column in %, of the rows that are known."""
    table = np.array(values)
    table = table[np.isfinite(table[:, 0])]
    return [f"{100 * share:.1f}" for share in table.mean(axis=0)] if len(table) else ["–"] * table.shape[1]


def known(cell: Cell, library: Any | None) -> list[object]:
    turn = TURNS[cell[3]]
    found = [held(ANLSRegressor(1).fit(*kinked(cell, seed)), turn) for seed in range(SETS)]
    row = [SETS, *percents([one for one, _ in found]), percents([each for _, each in found])[-1]]
    if library is None:
        return row
    peer = [peer_held(library, *kinked(cell, seed), turn) for seed in range(PEER_SETS)]
    fitted = int(np.isfinite([one[0] for one in peer]).sum())
    return [*row, f"{fitted} of {len(peer)}", *percents(peer)]


def selected(cell: Cell, _: Any | None) -> list[object]:
    turn = TURNS[cell[3]]
    models = [ANLSRegressor().fit(*kinked(cell, seed)) for seed in range(SETS)]
    numbers = np.array([model.n_knots_ for model in models])
    found = [held(model, turn) for model in models]
    right, _delta, *slopes = percents([one for one, _ in found])
    shares = [f"{100 * share:.1f}" for share in (np.mean(numbers == 0), np.mean(numbers == 1))]
    return [SETS, *shares, right, *slopes, *percents([each for _, each in found])]


COLUMNS = {
    "known": ("knot", "knot by delta", "slope 1", "slope 2", "f"),
    "selected": ("K = 0", "K = 1", "knot", "slope 1", "slope 2", "some knot", "slope at 0.2", "at 0.7", "f"),
}
PEER_COLUMNS = ("p.-r. fits", "p.-r. knot", "p.-r. slope 1", "p.-r. slope 2")
TABLES = {"known": known, "selected": selected}


def main(words: list[str] | None = None) -> None:
    words = words or []
    library = installed("piecewise_regression")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for table in [word for word in words if word in TABLES] or TABLES:
            print(f"\n{table}\n")
            peer = PEER_COLUMNS if library and table == "known" else ()
            heading("points, σ, noise, kink", "data sets", *COLUMNS[table], *peer)
            for size in [int(word) for word in words if word.isdigit()] or SIZES:
                for cell in cells(size):
                    markdown(", ".join(str(part) for part in cell), *TABLES[table](cell, library))


if __name__ == "__main__":
    main(sys.argv[1:])
