"""How often is the number of kinks right, and how often do intervals cover? On simulated truths.

Choice: data sets with 0 to 6 knots; noise white, AR(0.5), outliers, ties, a gap, heavy tails. Right numbers
of knots and the root mean square error against the truth, in % of its range, for `ANLSRegressor` and, where
installed, pwlf (`fitfast`, 0 to 7 knots, BIC), piecewise-regression (`ModelSelection` up to 4) and ruptures
(`Pelt` of continuous lines, penalty 2σ̂² log n), which costs minutes: `peers=False` leaves them out.

Coverage: 95 % sets of one knot (its number given), the delta method beside them, slopes and f.
Seeds on which nothing was chosen. One thread, processor time.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable
from types import ModuleType

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from shallowflow.estimators import ANLSRegressor
from shallowflow.estimators.intervals import model_of

FloatArray = NDArray[np.float64]
Chooser = Callable[[FloatArray, FloatArray], tuple[int, Callable[[FloatArray], FloatArray]]]
FIRST_SEED = 5000
console = Console(width=120)
TRUTHS: dict[int, tuple[list[float], list[float]]] = {
    0: ([], [0.0, 1.0]),
    1: ([0.5], [0.0, 1.0, 0.2]),
    3: ([0.25, 0.5, 0.8], [0.0, 1.0, 0.0, 1.0, 0.4]),
    6: ([0.14, 0.28, 0.43, 0.57, 0.71, 0.86], [0.0, 1.0, 0.2, 0.9, 0.0, 0.8, 0.1, 1.0]),
}
CELLS = [
    *((0, 50, 0.05, "white"), (3, 50, 0.1, "white"), (6, 50, 0.05, "white"), (0, 200, 0.2, "white")),
    *((1, 200, 0.1, "white"), (3, 200, 0.2, "white"), (6, 200, 0.05, "white")),
    *((0, 200, 0.1, "AR 0.5"), (3, 200, 0.1, "AR 0.5"), (0, 200, 0.1, "AR 0.8")),
    *((0, 200, 0.05, "outliers"), (3, 200, 0.05, "outliers"), (3, 200, 0.1, "heavy tails")),
    *((3, 200, 0.1, "ties"), (3, 200, 0.1, "gap")),
]
"""Knots, points, noise, kind."""


def truth(knots: int, x: FloatArray) -> FloatArray:
    places, heights = TRUTHS[knots]
    return np.interp(x, [0, *places, 1], heights)


def noise_of(kind: str, size: int, rng: np.random.Generator) -> FloatArray:
    if kind == "heavy tails":
        return rng.standard_t(3, size) / np.sqrt(3)
    e = rng.standard_normal(size + 200)
    if kind.startswith("AR"):
        phi = float(kind[3:])
        for i in range(1, len(e)):
            e[i] = phi * e[i - 1] + np.sqrt(1 - phi**2) * e[i]
    return e[200:]


def sample(knots: int, size: int, noise: float, kind: str, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng([FIRST_SEED, seed, knots, size])
    x = np.sort(rng.uniform(0, 1, size))
    if kind == "ties":
        x = np.sort(rng.integers(0, 25, size) / 24)
    if kind == "gap":
        x = np.where(x < 0.5, 0.6 * x, 0.6 + 0.8 * (x - 0.5))
    y = truth(knots, x) + noise * noise_of(kind, size, rng)
    if kind == "outliers":
        far = rng.choice(size, size // 20, replace=False)
        y[far] += rng.choice([-1, 1], len(far)) * rng.uniform(0.8, 1.6, len(far))
    return x, y


def ours(selection: str) -> Chooser:
    def fit(x: FloatArray, y: FloatArray) -> tuple[int, Callable[[FloatArray], FloatArray]]:
        model = ANLSRegressor(selection=selection).fit(x, y)
        return model.n_knots_, model.predict

    return fit


def with_pwlf(pwlf: ModuleType) -> Chooser:
    def fit(x: FloatArray, y: FloatArray) -> tuple[int, Callable[[FloatArray], FloatArray]]:
        best, lowest, number = None, np.inf, 0
        for knots in range(8):
            model = pwlf.PiecewiseLinFit(x, y, seed=0)
            model.fitfast(knots + 1)
            squares = float(np.sum((model.predict(x) - y) ** 2))
            value = len(x) * np.log(squares / len(x)) + (2 * knots + 2) * np.log(len(x))
            if value < lowest:
                best, lowest, number = model, value, knots
        assert best is not None
        return number, best.predict

    return fit


def with_piecewise_regression(library: ModuleType) -> Chooser:
    def fit(x: FloatArray, y: FloatArray) -> tuple[int, Callable[[FloatArray], FloatArray]]:
        np.random.seed(0)  # noqa: NPY002  (the library draws from NumPy's global generator)
        found = library.ModelSelection(x, y, max_breakpoints=4, verbose=False)
        rows = [one for one in found.model_summaries if one["converged"]]
        number = int(min(rows, key=lambda one: one["bic"])["n_breakpoints"])
        if number == 0:
            return 0, np.poly1d(np.polyfit(x, y, 1))
        return number, next(m for m in found.models if m.n_breakpoints == number).predict

    return fit


def with_ruptures(library: ModuleType) -> Chooser:
    def fit(x: FloatArray, y: FloatArray) -> tuple[int, Callable[[FloatArray], FloatArray]]:
        size = float(np.median(np.abs(np.diff(y, 2)))) * 1.4826 / np.sqrt(6)
        found = library.Pelt(model="clinear", min_size=2, jump=1).fit(y)
        cuts = found.predict(pen=max(2 * size**2 * np.log(len(y)), 1e-12))[:-1]
        places = np.concatenate([x[:1], x[np.array(cuts, dtype=int) - 1], x[-1:]])
        basis = np.stack([np.interp(x, places, row) for row in np.eye(len(places))], axis=1)
        heights = np.linalg.lstsq(basis, y)[0]
        return len(cuts), lambda at: np.interp(at, places, heights)

    return fit


def choosers(peers: bool) -> dict[str, tuple[Chooser, int]]:
    """Methods by name, and every how many data sets each is tried."""
    found = {"ANLS": (ours("bic"), 1), "ANLS, cv": (ours("cv"), 1)}
    made = {
        "pwlf": (with_pwlf, "pwlf", 4),
        "piecewise-regr.": (with_piecewise_regression, "piecewise_regression", 4),
        "ruptures": (with_ruptures, "ruptures", 2),
    }
    for name, (make, module, every) in made.items() if peers else ():
        try:
            found[name] = make(importlib.import_module(module)), every
        except ImportError:
            console.print(f"{module} is not installed: left out")
    return found


def choice(sets: int, peers: bool) -> None:
    methods = choosers(peers)
    table = Table(title=f"right number of knots / error in %, {sets} data sets a row (peers: fewer)")
    for heading in ("knots, points, σ, noise", *methods):
        table.add_column(heading, justify="right")
    grid = np.linspace(0.02, 0.98, 500)
    for cell in CELLS:
        row = [f"{cell[0]}, {cell[1]}, {cell[2]:g}, {cell[3]}"]
        for fit, every in methods.values():
            right, errors, seconds, tried = 0, [], 0.0, 0
            for seed in range(0, sets, every):
                x, y = sample(*cell, seed)
                start = time.process_time()
                try:
                    number, predict = fit(x, y)
                except Exception as error:
                    errors.append(np.nan)
                    row_error = type(error).__name__
                    console.print(f"{row[0]}: {row_error}")
                    continue
                seconds += time.process_time() - start
                tried += 1
                right += number == cell[0]
                errors.append(100 * float(np.sqrt(np.mean((predict(grid) - truth(cell[0], grid)) ** 2))))
            row.append(f"{right}/{tried} {np.nanmedian(errors):.1f} {seconds / max(tried, 1):.2f}s")
        table.add_row(*row)
        console.print("  ".join(row), highlight=False)
    console.print(table)


def covered(size: int, turn: float, noise: float, kind: str, sets: int) -> tuple[float, ...]:
    """Share of data sets in which set and delta interval hold the knot, intervals the slope and f."""
    found = []
    for seed in range(sets):
        rng = np.random.default_rng([FIRST_SEED + 1, seed, size])
        x = np.sort(rng.uniform(0, 1, size))
        y = x - turn * np.maximum(x - 0.4, 0) + noise * noise_of(kind, size, rng)
        model = ANLSRegressor(1).fit(x, y)
        if model.n_knots_ == 0:
            continue
        low, high = model.knot_intervals()[0]
        inner = model_of(model._points, (model.pieces_.knots - x[0]) / (0.5 * np.ptp(x)))
        error = np.sqrt(max(inner.covariance[-1, -1], 0)) * 0.5 * np.ptp(x)
        reach = student.ppf(0.975, size - 4) * error
        slope = model.slope_intervals()[0]
        band = model.predict_interval(np.array([0.7]))[0]
        height = 0.7 - turn * 0.3
        found.append(
            (
                low <= 0.4 <= high,
                abs(model.knots_[0] - 0.4) <= reach,
                slope[0] <= 1 <= slope[1],
                band[0] <= height <= band[1],
            )
        )
    return tuple(100 * np.mean(found, axis=0))


def coverage(sets: int) -> None:
    table = Table(title=f"coverage in % of 95 % intervals, one knot at 0.4, {sets} data sets a row")
    for heading in ("points, σ, noise, kink", "knot", "knot, delta", "slope", "f"):
        table.add_column(heading, justify="right")
    for size in (50, 200, 1000):
        for noise in (0.05, 0.2):
            for kind in ("white", "AR 0.5"):
                for name, turn in (("clear", 2.0), ("weak", 0.7)):
                    shares = covered(size, turn, noise, kind, sets)
                    row = [f"{size}, {noise:g}, {kind}, {name}", *(f"{share:.0f}" for share in shares)]
                    table.add_row(*row)
                    console.print("  ".join(row), highlight=False)
    console.print(table)


def main(sets: int = 40, peers: bool = True) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coverage(100)
        choice(sets, peers)


if __name__ == "__main__":
    main(peers="--alone" not in sys.argv)
