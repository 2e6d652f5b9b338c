"""Problems for the knot search, and the projected loss by plain least squares."""

from __future__ import annotations

import numpy as np

from shallowflow.arrays import Floats
from tests.kernels.fitting.anls_reference import discontinuous

Problem = tuple[Floats, Floats, Floats, Floats]


def design(knots: Floats, x: Floats, free_left: int) -> Floats:
    columns = np.maximum(x[:, None] - knots, 0.0)
    if free_left:
        columns = np.column_stack([np.ones_like(x), x, columns])
    return columns


def projected_loss(knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int) -> float:
    """min over the coefficients of Σ w (f − y)², by lstsq in the ReLU basis: for a few knots."""
    root = np.sqrt(w)
    columns = design(knots, x, free_left) * root[:, None]
    residual = columns @ np.linalg.lstsq(columns, root * y)[0] - root * y
    return float(residual @ residual)


def random_curve(seed: int, m: int, n: int) -> Problem:
    """A noisy weighted curve on [−1, 1] and knots inside it."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-1.0, 1.0, m))
    y = np.sin(4.0 * x + rng.uniform(0.0, 6.0)) + 0.1 * rng.normal(size=m)
    return np.sort(rng.uniform(0.9 * x[0], 0.9 * x[-1], n)), x, y, rng.uniform(0.5, 2.0, m)


def any_curve(seed: int) -> Problem:
    """Few or many data and knots, some knots outside the data, dead, equal, or on data."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(1, 50)), int(rng.integers(0, 14))
    x = np.sort(rng.choice(np.arange(200), m, replace=False)) / 64.0
    y = np.round(2.0 * np.sin(3.0 * x)) if rng.random() < 0.3 else np.sin(2.0 * x) + 0.1 * rng.normal(size=m)
    knots = rng.choice(x, n) if rng.random() < 0.3 else rng.uniform(-0.5, 3.5, n)
    return np.sort(knots), x, y, rng.uniform(0.5, 2.0, m)


def degenerate_problems() -> dict[str, Problem]:
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 1.0, 9)
    w, wiggle = np.ones(9), rng.normal(size=9)
    inside = np.linspace(0.1, 0.9, 4)
    return {
        "no knots": (np.empty(0), x, wiggle, w),
        "one point": (np.array([-0.5, 0.2, 3.0]), x[:1], np.array([2.0]), w[:1]),
        "two points": (np.array([0.03, 0.05, 0.3]), x[:2], np.array([1.0, -1.0]), w[:2]),
        "more knots than points": (np.sort(rng.uniform(-0.2, 1.2, 30)), x, wiggle, w),
        "all knots dead": (np.full(4, 1.0), x, wiggle, w),
        "all knots left of the data": (np.linspace(-2.0, -1.0, 4), x, wiggle, w),
        "equal knots": (np.full(5, 0.4), x, wiggle, w),
        "equal knots on a datum": (np.full(5, 0.5), x, wiggle, w),
        "every datum a knot": (x.copy(), x, wiggle, w),
        "constant": (inside, x, np.full(9, 3.0), w),
        "zero": (inside, x, np.zeros(9), w),
        "one line": (inside, x, 2.0 * x - 1.0, w),
        "a kink to be found": (np.array([0.2, 0.3]), x, np.abs(x - 0.6), w),
        "tiny and huge weights": (inside, x, wiggle, 10.0 ** np.linspace(-12.0, 12.0, 9)),
        "tiny numbers": (inside * 1e-150, x * 1e-150, wiggle * 1e-100, w),
        "far from zero": (inside + 1e9, x + 1e9, wiggle + 1e9, w),
    }


DEGENERATE = degenerate_problems()


def task(name: str) -> tuple[Floats, Floats, Floats, int]:
    """x, y, w and the number of knots of the paper's tasks: "sine", "five sines", "jump"."""
    if name == "jump":
        x = np.sort(np.random.default_rng(0).uniform(-1.0, 1.0, 1000))
        return x, discontinuous(x), np.ones(1000), 300
    m, n, waves = (100, 10, 1.0) if name == "sine" else (500, 100, 5.0)
    x = np.linspace(-1.0, 1.0, m)
    return x, np.sin(waves * np.pi * x), np.ones(m), n
