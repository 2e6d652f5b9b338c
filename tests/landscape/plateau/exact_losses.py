"""Least squares in exact rational arithmetic: the judge of every floating-point method on small problems."""

from __future__ import annotations

from fractions import Fraction

from shallowflow.arrays import Floats

Vector = list[Fraction]


def relu_columns(knots: Floats, x: Floats) -> list[Vector]:
    """Return the columns relu(x − b_j), exactly."""
    return [[max(Fraction(float(p)) - Fraction(float(b)), Fraction(0)) for p in x] for b in knots]


def exact_loss(columns: list[Vector], y: Floats) -> Fraction:
    """Return min_c ‖Σ_j c_j columns_j − y‖² by Gram–Schmidt without square roots; any rank."""
    basis: list[Vector] = []
    residual = [Fraction(float(value)) for value in y]
    for column in columns:
        rest = column
        for direction in basis:
            rest = _without(rest, direction)
        if any(rest):
            basis.append(rest)
            residual = _without(residual, rest)
    return _dot(residual, residual)


def exact_losses_after(moves: list[tuple[int, float]], knots: Floats, x: Floats, y: Floats) -> list[float]:
    """Return the loss after each of the moves (knot, new place)."""
    losses = []
    for neuron, position in moves:
        changed = knots.copy()
        changed[neuron] = position
        losses.append(float(exact_loss(relu_columns(changed, x), y)))
    return losses


def _dot(first: Vector, second: Vector) -> Fraction:
    return sum((a * b for a, b in zip(first, second, strict=True)), Fraction(0))


def _without(vector: Vector, direction: Vector) -> Vector:
    share = _dot(vector, direction) / _dot(direction, direction)
    return [a - share * b for a, b in zip(vector, direction, strict=True)]
