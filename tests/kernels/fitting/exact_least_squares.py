"""Least squares in exact rational arithmetic: floats are fractions, so nothing is rounded."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shallowflow.arrays import Floats


def fractions(values: Floats) -> list[Fraction]:
    return [Fraction(float(v)) for v in values]


def design_rows(knots: Floats, x: Floats, free_left: int) -> list[list[Fraction]]:
    """Rows relu(x_i − b_j), preceded by 1, x_i if a free line is part of the model."""
    places = fractions(knots)
    line = [[Fraction(1), point] if free_left else [] for point in fractions(x)]
    return [
        row + [max(Fraction(0), point - place) for place in places]
        for row, point in zip(line, fractions(x), strict=True)
    ]


def eliminate(matrix: list[list[Fraction]], columns: int) -> list[int]:
    """Bring `matrix` to reduced echelon form over its first `columns` in place; the pivot columns."""
    pivots: list[int] = []
    for column in range(columns):
        rank = len(pivots)
        found = next((i for i in range(rank, len(matrix)) if matrix[i][column] != 0), None)
        if found is None:
            continue
        matrix[rank], matrix[found] = matrix[found], matrix[rank]
        for i, row in enumerate(matrix):
            if i != rank and row[column] != 0:
                factor = row[column] / matrix[rank][column]
                matrix[i] = [a - factor * b for a, b in zip(row, matrix[rank], strict=True)]
        pivots.append(column)
    return pivots


def exact_rank(knots: Floats, x: Floats, free_left: int) -> int:
    rows = design_rows(knots, x, free_left)
    return len(eliminate(rows, len(rows[0])))


def exact_loss(knots: Floats, x: Floats, y: Floats, w: Floats, free_left: int) -> float:
    """min over c of Σ w_i (f(x_i) − y_i)² by the normal equations, solved without rounding."""
    rows, targets, weights = design_rows(knots, x, free_left), fractions(y), fractions(w)
    n = len(rows[0])
    normal = [
        [
            sum((q * row[a] * row[b] for row, q in zip(rows, weights, strict=True)), Fraction(0))
            for b in range(n)
        ]
        + [sum((q * row[a] * t for row, t, q in zip(rows, targets, weights, strict=True)), Fraction(0))]
        for a in range(n)
    ]
    coefficients = [Fraction(0)] * n
    for i, column in enumerate(eliminate(normal, n)):
        coefficients[column] = normal[i][n] / normal[i][column]
    loss = Fraction(0)
    for row, t, q in zip(rows, targets, weights, strict=True):
        loss += q * (sum((a * c for a, c in zip(row, coefficients, strict=True)), Fraction(0)) - t) ** 2
    return float(loss)


KINDS = ("spread", "near", "nearer", "grid")


def random_problem(kind: str, rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
    """Knots, x, y, w: few points; knots anywhere, 1e-8 or 1e-12 from a datum or on it, or on a coarse grid.

    The grid has knots on data, equal knots, and many blocks with no or one point.
    """
    m, n = int(rng.integers(1, 9)), int(rng.integers(0, 7))
    x = np.sort(rng.uniform(-1.0, 1.0, m))
    knots = rng.uniform(-1.2, 1.2, n)
    if kind == "grid":
        x = np.sort(rng.choice(np.arange(12), m, replace=False)) / 4.0
        knots = rng.choice(np.arange(-4, 26), n) / 8.0
    elif kind == "near":
        knots = rng.choice(x, n) + rng.choice([-1e-8, 0.0, 1e-8], n)
    elif kind == "nearer":
        close = rng.choice(x, n) + rng.choice([-1e-12, 1e-12], n)
        knots = np.where(rng.random(n) < 0.5, close, knots)
    w = np.ones(m) if rng.random() < 0.5 else rng.uniform(0.1, 3.0, m)
    return np.sort(knots), x, rng.normal(size=m), w
