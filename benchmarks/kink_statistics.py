"""How often is the number of kinks right, how often is a break found in noise? (Intervals: `kink_coverage`.)

On simulated truths, as Markdown tables (those of docs/concepts/kink_statistics.md):

* choice: data with 0 to 6 knots; noise white, AR(0.5), outliers, ties, a gap, heavy tails, few points,
  uneven. Right numbers of knots and the root mean square error against the truth in % of its range, beside
  pwlf (`fitfast`, 0 to 7 knots, BIC), piecewise-regression (`ModelSelection` up to 7), ruptures (`Pelt` of
  continuous lines, penalty 2σ̂² log n), cubic splines with ridge and a tree, both tuned by cross-validation;
* levels: of the test of a break on noise without one, and its power;
* series: what is found on elnino, sunspots, co2 and nile (statsmodels).

`python -m benchmarks.kink_statistics choice levels series`; peers that are not installed are left
out. The seeds below were written down before the tables were made, and nothing was chosen on them; methods
were chosen on others. One thread, processor time.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer
from sklearn.tree import DecisionTreeRegressor

from shallowflow.estimators import ANLSRegressor

FloatArray = NDArray[np.float64]
Predict = Callable[[FloatArray], FloatArray]
Chooser = Callable[[FloatArray, FloatArray], tuple[int | None, Predict]]
CHOICE_SEED, LEVEL_SEED = 2812, 2813
PEER_RESTARTS = 20
"""Of piecewise-regression (100 by default: 5 s for intervals at n = 1000, 8 s for a choice at n = 200)."""
CHOICE_SETS, MOST_KNOTS = 4, 7
LEVEL_SETS = 200
TRUTHS: dict[int, tuple[list[float], list[float]]] = {
    0: ([], [0.0, 1.0]),
    1: ([0.5], [0.0, 1.0, 0.2]),
    2: ([0.35, 0.7], [0.0, 1.0, 0.1, 0.8]),
    3: ([0.25, 0.5, 0.8], [0.0, 1.0, 0.0, 1.0, 0.4]),
    4: ([0.2, 0.4, 0.6, 0.8], [0.0, 1.0, 0.1, 0.9, 0.2, 1.0]),
    5: ([0.17, 0.33, 0.5, 0.67, 0.83], [0.0, 1.0, 0.1, 0.9, 0.1, 0.8, 0.0]),
    6: ([0.14, 0.28, 0.43, 0.57, 0.71, 0.86], [0.0, 1.0, 0.2, 0.9, 0.0, 0.8, 0.1, 1.0]),
}
ROWS = {
    "white": (200, 0.1),
    "AR 0.5": (200, 0.1),
    "outliers": (200, 0.05),
    "ties": (200, 0.1),
    "gap": (200, 0.1),
    "heavy tails": (200, 0.1),
    "few points": (50, 0.2),
    "uneven": (200, 0.1),
}
"""Points and noise of each row of the table of choices."""


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
    rng = np.random.default_rng([CHOICE_SEED, seed, knots, size])
    x = np.sort(rng.uniform(0, 1, size))
    if kind == "ties":
        x = np.sort(rng.integers(0, 25, size) / 24)
    if kind == "gap":
        x = np.where(x < 0.5, 0.88 * x, 0.56 + 0.88 * (x - 0.5))
    share = 0.5 + x if kind == "uneven" else 1.0
    y = truth(knots, x) + noise * share * noise_of(kind, size, rng)
    if kind == "outliers":
        far = rng.choice(size, size // 20, replace=False)
        y[far] += rng.choice([-1, 1], len(far)) * rng.uniform(0.8, 1.6, len(far))
    return x, y


def markdown(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def heading(*cells: str) -> None:
    markdown(*cells)
    markdown(*["---"] * len(cells))


def installed(name: str) -> Any | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed: left out")
        return None


def ours(selection: str) -> Chooser:
    def fit(x: FloatArray, y: FloatArray) -> tuple[int, Predict]:
        model = ANLSRegressor(selection=selection).fit(x, y)
        return model.n_knots_, model.predict

    return fit


def with_pwlf(x: FloatArray, y: FloatArray) -> tuple[int, Predict]:
    best, lowest, number = None, np.inf, 0
    for knots in range(MOST_KNOTS + 1):
        model = importlib.import_module("pwlf").PiecewiseLinFit(x, y, seed=0)
        model.fitfast(knots + 1)
        squares = float(np.sum((model.predict(x) - y) ** 2))
        value = len(x) * np.log(squares / len(x)) + (2 * knots + 2) * np.log(len(x))
        if value < lowest:
            best, lowest, number = model, value, knots
    assert best is not None
    return number, best.predict


def with_piecewise_regression(x: FloatArray, y: FloatArray) -> tuple[int, Predict]:
    np.random.seed(0)  # noqa: NPY002  (the library draws from NumPy's global generator)
    library = importlib.import_module("piecewise_regression")
    with redirect_stdout(StringIO()):
        found = library.ModelSelection(x, y, max_breakpoints=MOST_KNOTS, n_boot=PEER_RESTARTS, verbose=False)
    rows = [one for one in found.model_summaries if one["converged"]]
    number = int(min(rows, key=lambda one: one["bic"])["n_breakpoints"])
    if number == 0:
        return 0, np.poly1d(np.polyfit(x, y, 1))
    return number, next(m for m in found.models if m.n_breakpoints == number).predict


def with_ruptures(x: FloatArray, y: FloatArray) -> tuple[int, Predict]:
    size = float(np.median(np.abs(np.diff(y, 2)))) * 1.4826 / np.sqrt(6)
    found = importlib.import_module("ruptures").Pelt(model="clinear", min_size=2, jump=1).fit(y)
    cuts = found.predict(pen=max(2 * size**2 * np.log(len(y)), 1e-12))[:-1]
    places = np.unique(np.concatenate([x[:1], x[np.array(cuts, dtype=int) - 1], x[-1:]]))
    basis = np.stack([np.interp(x, places, row) for row in np.eye(len(places))], axis=1)
    heights = np.linalg.lstsq(basis, y)[0]
    return len(cuts), lambda at: np.interp(at, places, heights)


def with_spline(x: FloatArray, y: FloatArray) -> tuple[None, Predict]:
    model = make_pipeline(SplineTransformer(12), RidgeCV(np.logspace(-4, 2, 13))).fit(x[:, None], y)
    return None, lambda at: model.predict(at[:, None])


def with_tree(x: FloatArray, y: FloatArray) -> tuple[None, Predict]:
    folds = KFold(5, shuffle=True, random_state=0)
    leaves = {"max_leaf_nodes": [2, 3, 4, 6, 8, 12, 16, 24]}
    model = GridSearchCV(DecisionTreeRegressor(random_state=0), leaves, cv=folds).fit(x[:, None], y)
    return None, lambda at: model.predict(at[:, None])


def choosers() -> dict[str, tuple[Chooser, int]]:
    """Methods by name, and on how many data sets of a number of knots each is tried."""
    found = {"ANLS": (ours("bic"), CHOICE_SETS), "ANLS, cv": (ours("cv"), CHOICE_SETS)}
    peers: tuple[tuple[str, Chooser, str, int], ...] = (
        ("pwlf", with_pwlf, "pwlf", 2),
        ("piecewise-regression", with_piecewise_regression, "piecewise_regression", 1),
        ("ruptures", with_ruptures, "ruptures", CHOICE_SETS),
        ("spline", with_spline, "sklearn", CHOICE_SETS),
        ("tree", with_tree, "sklearn", CHOICE_SETS),
    )
    return found | {name: (fit, sets) for name, fit, module, sets in peers if installed(module)}


def judged(fit: Chooser, kind: str, knots: int, seed: int) -> tuple[float, float, float]:
    """Whether the number is right (NaN: no number), the error in %, and seconds."""
    size, noise = ROWS[kind]
    grid = np.linspace(0.02, 0.98, 500)
    x, y = sample(knots, size, noise, kind, seed)
    start = time.process_time()
    number, predict = fit(x, y)
    seconds = time.process_time() - start
    error = 100 * float(np.sqrt(np.mean((predict(grid) - truth(knots, grid)) ** 2)))
    return np.nan if number is None else float(number == knots), error, seconds


def choice() -> None:
    """Cells: right / tried, median and mean error, and in brackets ours on the same data sets."""
    methods = choosers()
    details = list[str]()
    heading("noise", *methods)
    for kind in ROWS:
        results: dict[str, FloatArray] = {}
        cells = []
        for name, (fit, sets) in methods.items():
            made = [judged(fit, kind, knots, seed) for seed in range(sets) for knots in TRUTHS]
            results[name] = np.array(made)
            right, errors = results[name][:, 0], results[name][:, 1]
            same = results["ANLS"][: len(made)]
            text = f"{np.median(errors):.2f}, {np.mean(errors):.2f}"
            if np.isfinite(right).all():
                text = f"{int(right.sum())}/{len(made)}; " + text
            if name != "ANLS" and len(made) < len(results["ANLS"]):
                text += f" ({int(same[:, 0].sum())}; {np.median(same[:, 1]):.2f}, {np.mean(same[:, 1]):.2f})"
            cells.append(f"{text}; {results[name][:, 2].mean():.2g} s")
        markdown(f"{kind}, n = {ROWS[kind][0]}, σ = {ROWS[kind][1]:g}", *cells)
        right = results["ANLS"][:, 0].reshape(-1, len(TRUTHS)).sum(axis=0)
        details.append(
            f"ANLS, {kind}, right of {CHOICE_SETS} with 0 to 6 knots: {right.astype(int).tolist()}"
        )
    print("", *details, sep="\n")
    numbers = []
    for seed in range(100):
        rng = np.random.default_rng([CHOICE_SEED, seed])
        numbers.append(ANLSRegressor().fit(np.arange(200.0), noise_of("AR 0.8", 200, rng)).n_knots_)
    print(f"AR(0.8) without a kink, n = 200: at most two knots in {np.sum(np.array(numbers) <= 2)} of 100")
    smooth()


def smooth() -> None:
    """Errors on a smooth curve, where there is no kink to find."""
    grid, errors = np.linspace(0.02, 0.98, 500), dict[str, list[float]]()
    for name, fit in (("ANLS", ours("bic")), ("ANLS, cv", ours("cv")), ("spline", with_spline)):
        for seed in range(40):
            rng = np.random.default_rng([CHOICE_SEED, 1, seed])
            x = np.sort(rng.uniform(0, 1, 200))
            predict = fit(x, 0.5 + 0.5 * np.sin(6 * x) + 0.1 * rng.standard_normal(200))[1]
            rest = predict(grid) - 0.5 - 0.5 * np.sin(6 * grid)
            errors.setdefault(name, []).append(100 * float(np.sqrt(np.mean(rest**2))))
    found = ", ".join(f"{name} {np.median(one):.2f}" for name, one in errors.items())
    print(f"sin 6x, n = 200, σ = 0.1, median error in %: {found}")


def levels() -> None:
    heading("n, noise", "level at 5 %", "power (kink of 2, σ = 0.2)")
    for size, kind in product((20, 50, 200), ("white", "AR 0.5", "AR 0.8", "heavy tails")):
        null, bent = [], []
        for seed in range(LEVEL_SETS):
            rng = np.random.default_rng([LEVEL_SEED, seed, size])
            x, e = np.sort(rng.uniform(0, 1, size)), noise_of(kind, size, rng)
            null.append(ANLSRegressor(0).fit(x, x + 0.2 * e).break_test() <= 0.05)
            y = x - 2 * np.maximum(x - 0.4, 0) + 0.2 * e
            bent.append(ANLSRegressor(0).fit(x, y).break_test() <= 0.05)
        markdown(f"{size}, {kind}", f"{100 * np.mean(null):.1f}", f"{100 * np.mean(bent):.1f}")


def series() -> None:
    """Number of knots, ρ, and the error on the last tenth beside a straight line's."""
    data = importlib.import_module("statsmodels.api").datasets
    frames = {name: getattr(data, name).load_pandas().data for name in ("elnino", "sunspots", "co2", "nile")}
    co2 = frames["co2"]["co2"].dropna()
    months = frames["elnino"].set_index("YEAR").to_numpy().ravel()
    columns = {
        "nile": (frames["nile"]["year"].to_numpy(float), frames["nile"]["volume"].to_numpy(float)),
        "sunspots": (
            frames["sunspots"]["YEAR"].to_numpy(float),
            frames["sunspots"]["SUNACTIVITY"].to_numpy(float),
        ),
        "co2": (np.asarray(co2.index.to_julian_date()), co2.to_numpy(float)),
        "elnino": (np.arange(len(months), dtype=float), months.astype(float)),
    }
    heading("series", "points", "knots", "ρ", "p of one more", "last tenth: ANLS", "straight line", "CPU s")
    for name, (x, y) in columns.items():
        start = time.process_time()
        model = ANLSRegressor().fit(x, y)
        seconds, cut = time.process_time() - start, round(0.9 * len(x))
        short = ANLSRegressor().fit(x[:cut], y[:cut])
        line = np.poly1d(np.polyfit(x[:cut], y[:cut], 1))
        errors = [np.sqrt(np.mean((f(x[cut:]) - y[cut:]) ** 2)) for f in (short.predict, line)]
        p = f"{model.break_test():.2g}"
        shown = (f"{model.noise_.rho:.2f}", p, *(f"{error:.3g}" for error in errors), f"{seconds:.2f}")
        markdown(name, len(x), model.n_knots_, *shown)


PARTS = {"choice": choice, "levels": levels, "series": series}


def main(names: list[str] | None = None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names or ["choice", "levels"]:
            print(f"\n{name}\n")
            PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
