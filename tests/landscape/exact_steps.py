"""Loss, Gram matrix and moments of step networks in exact rational arithmetic, written for clearness.

Between neighbours of {0, 1, jumps of f*, u_j, u_j ± η/2} every feature is a cubic in y = x − left with
rational coefficients, so integrals of products are rational numbers: no rounding anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import shallowflow as sf
from shallowflow.arrays import Floats

Cubic = tuple[Fraction, Fraction, Fraction, Fraction]
HALF = Fraction(1, 2)
ZERO: Cubic = (Fraction(0),) * 4
ONE: Cubic = (Fraction(1), *ZERO[1:])


@dataclass(frozen=True)
class ExactSteps:
    """A step network and its target; doubles are rational numbers, so nothing is lost."""

    positions: tuple[Fraction, ...]
    outer: tuple[Fraction, ...]
    offset: Fraction
    sharpness: Fraction
    breaks: tuple[Fraction, ...]
    values: tuple[Fraction, ...]

    @property
    def loss(self) -> Fraction:
        """½∫(f − f*)²."""
        total = Fraction(0)
        for left, right in self._pieces():
            residual = _scaled(ONE, self.offset - self._target(left))
            for u, a in zip(self.positions, self.outer, strict=True):
                residual = _sum(residual, _scaled(self._feature(u, left, right), a))
            total += _integral(residual, residual, right - left)
        return HALF * total

    def gram(self) -> list[list[Fraction]]:
        """∫σ_i σ_j, the constant feature first."""
        size = len(self.positions) + 1
        H = [[Fraction(0)] * size for _ in range(size)]
        for left, right in self._pieces():
            phi = [ONE, *(self._feature(u, left, right) for u in self.positions)]
            for i in range(size):
                for j in range(i + 1):
                    H[i][j] += _integral(phi[i], phi[j], right - left)
                    H[j][i] = H[i][j]
        return H

    def moments(self) -> list[Fraction]:
        """∫f* σ_j, the constant feature first."""
        b = [Fraction(0)] * (len(self.positions) + 1)
        for left, right in self._pieces():
            phi = [ONE, *(self._feature(u, left, right) for u in self.positions)]
            for j, feature in enumerate(phi):
                b[j] += self._target(left) * _integral(ONE, feature, right - left)
        return b

    def slope(self, name: str, j: int, step: Fraction = Fraction(1, 10**30)) -> Fraction:
        """The central difference of the loss in entry j of "positions" or "outer"; j = 0 of "offset"."""

        def moved(by: Fraction) -> ExactSteps:
            if name == "offset":
                return replace(self, offset=self.offset + by)
            entries = list(self.positions if name == "positions" else self.outer)
            entries[j] += by
            changed = tuple(entries)
            return replace(self, positions=changed) if name == "positions" else replace(self, outer=changed)

        return (moved(step).loss - moved(-step).loss) / (2 * step)

    def _pieces(self) -> Iterator[tuple[Fraction, Fraction]]:
        reach = HALF * self.sharpness
        kinks = {u + by for u in self.positions for by in (-reach, Fraction(0), reach)} | set(self.breaks)
        edges = sorted({Fraction(0), Fraction(1)} | {x for x in kinks if 0 < x < 1})
        return pairwise(edges)

    def _target(self, left: Fraction) -> Fraction:
        return self.values[sum(v <= left for v in self.breaks)]

    def _feature(self, u: Fraction, left: Fraction, right: Fraction) -> Cubic:
        """σ((left + y − u)/η) on a piece without a kink inside."""
        reach = HALF * self.sharpness
        if right <= u - reach:
            return ZERO
        if left >= u + reach:
            return ONE
        if right <= u:
            return _scaled(_cube(left - u + reach), 4 / self.sharpness**3)
        # ½ − z = (u + η/2 − left − y)/η: an odd power of y − s changes its sign.
        return _sum(ONE, _scaled(_cube(left - u - reach), 4 / self.sharpness**3))


def exact(network: sf.StepNetwork, target: sf.PiecewiseConstant) -> ExactSteps:
    """Return a network of sharpness > 0 and its target as rational numbers."""

    def rational(numbers: Floats) -> tuple[Fraction, ...]:
        return tuple(Fraction(float(x)) for x in numbers)

    return ExactSteps(
        rational(network.positions),
        rational(network.outer),
        Fraction(float(network.offset)),
        Fraction(network.sharpness),
        rational(target.breakpoints),
        rational(target.values),
    )


def _cube(s: Fraction) -> Cubic:
    """(y + s)³."""
    return s**3, 3 * s**2, 3 * s, Fraction(1)


def _scaled(p: Cubic, by: Fraction) -> Cubic:
    return p[0] * by, p[1] * by, p[2] * by, p[3] * by


def _sum(p: Cubic, q: Cubic) -> Cubic:
    return p[0] + q[0], p[1] + q[1], p[2] + q[2], p[3] + q[3]


def _integral(p: Cubic, q: Cubic, width: Fraction) -> Fraction:
    """∫ p(y) q(y) dy from 0 to `width`."""
    product = [Fraction(0)] * 7
    for i, first in enumerate(p):
        for j, second in enumerate(q):
            product[i + j] += first * second
    return sum((c * width ** (k + 1) / (k + 1) for k, c in enumerate(product)), Fraction(0))
