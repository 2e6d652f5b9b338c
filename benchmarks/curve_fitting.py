"""How well, and how fast, are curves fitted by continuous straight pieces with a given number of knots?

Peers: pwlf (differential evolution for few knots, and its quick multi-start of quasi-Newton), Muggeo's
iteration (piecewise-regression), SciPy's least-squares spline of degree 1 with uniform knots, FITPACK's
adaptive knots (`splrep`, the smoothing chosen by bisection so that it takes as many knots), scikit-learn's
SplineTransformer with uniform and quantile knots, and the moves of the paper alone. All have a free line on
the left: K knots, K + 2 linear parameters. One thread, one run, processor time; a peer that takes more than
`PATIENCE` seconds is stopped, one that is not installed is left out.
"""

from __future__ import annotations

import importlib
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, ModuleType

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.interpolate import LSQUnivariateSpline, splev, splrep
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from shallowflow.data.generators import CURVES
from shallowflow.estimators import ANLSRegressor

FloatArray = NDArray[np.float64]
Fit = Callable[[FloatArray, FloatArray, int], FloatArray]
"""(x sorted (n,), y (n,), number of knots) → the fitted values at x (n,)."""

PATIENCE = 60.0
SHORT, REPEATS = 0.2, 1000
"""Fits are repeated for this long (in seconds of processor time), at most so often: clocks are coarse."""
FEW_KNOTS = 20
"""pwlf's differential evolution does not finish with more."""
console = Console(width=100)


class NoResultError(Exception):
    """A peer has no fit to show; the message says why."""


@dataclass(frozen=True)
class Task:
    """A curve of [plateau] §5, its inputs, how many knots, and the half sum of squares that we promise."""

    name: str
    x: FloatArray
    y: FloatArray
    knots: int
    goal: float


def tasks() -> list[Task]:
    few, many = np.linspace(-1, 1, 100), np.linspace(-1, 1, 500)
    scattered = np.sort(np.random.default_rng(0).uniform(-1, 1, 1000))
    return [
        Task("sin πx, 10 knots", few, CURVES["sin_pi"](few), 10, 2.1e-3),
        Task("sin 5πx, 100 knots", many, CURVES["sin_5pi"](many), 100, 1.0e-3),
        Task("f₂ (jump), 300 knots", scattered, CURVES["jump"](scattered), 300, 1.2e-5),
    ]


def relocation(x: FloatArray, y: FloatArray, knots: int) -> FloatArray:
    return ANLSRegressor(knots).fit(x[:, None], y).predict(x[:, None])


def several_starts(x: FloatArray, y: FloatArray, knots: int) -> FloatArray:
    return ANLSRegressor(knots, n_starts=10, random_state=0).fit(x[:, None], y).predict(x[:, None])


def paper(x: FloatArray, y: FloatArray, knots: int) -> FloatArray:
    return ANLSRegressor(knots, search="anls").fit(x[:, None], y).predict(x[:, None])


def uniform_spline(x: FloatArray, y: FloatArray, knots: int) -> FloatArray:
    inner = np.linspace(x[0], x[-1], knots + 2)[1:-1]
    try:
        return np.asarray(LSQUnivariateSpline(x, y, inner, k=1)(x))
    except ValueError as error:
        raise NoResultError("refuses knots without data") from error


def adaptive_spline(x: FloatArray, y: FloatArray, knots: int) -> FloatArray:
    """The smallest smoothing with at most `knots` inner knots: FITPACK adds knots where the error is."""
    low, high = 0.0, float(np.sum((y - y.mean()) ** 2))
    best = splrep(x, y, k=1, s=high)
    for _ in range(60):
        middle = np.sqrt(max(low, 1e-14 * high) * high)
        spline = splrep(x, y, k=1, s=middle)
        if len(spline[0]) - 4 <= knots:
            high, best = middle, spline
        else:
            low = middle
    return np.asarray(splev(x, best))


def transformed(placement: str) -> Fit:
    def fit(x: FloatArray, y: FloatArray, knots: int) -> FloatArray:
        transform = SplineTransformer(knots + 2, degree=1, knots=placement)
        model = make_pipeline(transform, LinearRegression(fit_intercept=False)).fit(x[:, None], y)
        return np.asarray(model.predict(x[:, None]))

    return fit


def with_pwlf(pwlf: ModuleType, *, thorough: bool) -> Fit:
    def fit(x: FloatArray, y: FloatArray, knots: int) -> FloatArray:
        if thorough and knots > FEW_KNOTS:
            raise NoResultError("not tried")
        model = pwlf.PiecewiseLinFit(x, y, seed=0)
        model.fit(knots + 1) if thorough else model.fitfast(knots + 1)
        return np.asarray(model.predict(x))

    return fit


def with_piecewise_regression(library: ModuleType) -> Fit:
    def fit(x: FloatArray, y: FloatArray, knots: int) -> FloatArray:
        np.random.seed(0)  # noqa: NPY002  (the library draws from NumPy's global generator)
        model = library.Fit(x, y, n_breakpoints=knots)
        if model.get_results()["estimates"] is None:
            raise NoResultError("not converged")
        return np.asarray(model.predict(x))

    return fit


def peers() -> dict[str, Fit]:
    found: dict[str, Fit] = {
        "ANLSRegressor": relocation,
        "with n_starts=10": several_starts,
        "with search='anls'": paper,
        "SciPy uniform": uniform_spline,
        "SciPy FITPACK": adaptive_spline,
        "scikit-learn uniform": transformed("uniform"),
        "scikit-learn quantile": transformed("quantile"),
    }
    pwlf, muggeo = installed("pwlf"), installed("piecewise_regression")
    if pwlf:
        found["pwlf fitfast"] = with_pwlf(pwlf, thorough=False)
        found["pwlf fit"] = with_pwlf(pwlf, thorough=True)
    if muggeo:
        found["piecewise-regression"] = with_piecewise_regression(muggeo)
    return found


def installed(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        console.print(f"{name} is not installed: left out")
        return None


def measured(fit: Fit, task: Task) -> tuple[float, float] | str:
    """Half the sum of squares and processor seconds, or why there are none."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise NoResultError(f"> {PATIENCE:.0f} s")

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = fit(task.x, task.y, task.knots)
            seconds = time.process_time() - start
            times = 0
            start = time.process_time()
            while seconds < SHORT and times < REPEATS and time.process_time() - start < SHORT:
                fit(task.x, task.y, task.knots)
                times += 1
            if times:
                seconds = (time.process_time() - start) / times
    except NoResultError as error:
        return str(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    return 0.5 * float(np.sum((values - task.y) ** 2)), seconds


def report(task: Task, fits: dict[str, Fit]) -> None:
    results = {name: measured(fit, task) for name, fit in fits.items()}
    ours = results["ANLSRegressor"]
    assert not isinstance(ours, str), ours
    table = Table(title=f"{task.name}: promised {task.goal:g}", title_justify="left")
    for heading in ("method", "½ Σ r²", "seconds", "loss ÷ ours", "time ÷ ours"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for name, result in results.items():
        if isinstance(result, str):
            table.add_row(name, result, "", "", "")
        else:
            loss, seconds = result
            ratios = f"{loss / ours[0]:.3g}", f"{seconds / ours[1]:.3g}"
            table.add_row(name, f"{loss:.3e}", f"{seconds:.2g}", *ratios)
    console.print(table)


def main() -> None:
    fits = peers()
    for task in tasks():
        relocation(task.x, task.y, task.knots)  # compilation apart
        paper(task.x, task.y, task.knots)
        report(task, fits)


if __name__ == "__main__":
    main()
