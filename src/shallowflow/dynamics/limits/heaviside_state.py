"""Where the neurons of a Heaviside network stand: plateaus, velocities, who holds to a jump, who moves with
whom.

With η = 0 and a = a*(u) the network is c_k = mean of f* on (u_k, u_{k+1}), u_0 = 0, u_{m+1} = 1, and

    u_k' = −½[(f*(u_k) − c_{k−1})² − (f*(u_k) − c_k)²]      [two_timescale, (5) with η = 0].

A neuron is free, with the piece of the target that it lies on, or held at a jump (both one-sided velocities
point to the jump). An interval that contains no jump has c_k = f* and its ends feel nothing from it; a
stretch of intervals with jumps, linked by free neurons, moves together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shallowflow.arrays import Bools, Floats, Ints
from shallowflow.data.targets import PiecewiseConstant


@dataclass(frozen=True, eq=False)
class Standing:
    """One epoch's discrete state: for each sorted neuron its piece of the target, and its jump if held (−1).

    v: the jumps inside (0, 1); f: values, one more; piece: (m,), of a held neuron the one left of its jump.
    """

    v: Floats
    f: Floats
    piece: Ints
    held: Ints

    @property
    def left_piece(self) -> Ints:
        """The piece just left of every neuron."""
        return self.piece

    @property
    def right_piece(self) -> Ints:
        """The piece just right of every neuron."""
        return np.where(self.held >= 0, self.piece + 1, self.piece)

    @property
    def slack(self) -> float:
        """The velocity below which a held neuron is not pulled off: rounding."""
        return 1e-13 * float(np.max(np.abs(self.f), initial=1.0)) ** 2

    def ends(self) -> tuple[Ints, Ints]:
        """Return the first and the last piece of every interval k = 0, …, m."""
        first = np.concatenate([[0], self.right_piece])
        last = np.concatenate([self.left_piece, [len(self.f) - 1]])
        return first, last

    def plateaus(self, u: Floats) -> Floats:
        """Return c (m + 1,); lengths are signed, so that c continues smoothly beyond an event."""
        first, last = self.ends()
        edges = np.concatenate([[0.0], u, [1.0]])
        c = self.f[first].copy()
        for k in np.flatnonzero(last > first):
            points = np.concatenate([[edges[k]], self.v[first[k] : last[k]], [edges[k + 1]]])
            values, lengths = self.f[first[k] : last[k] + 1], np.diff(points)
            total = lengths.sum()
            # An interval that shrank to the jump itself: both ends came at once, from equal distances.
            c[k] = values @ lengths / total if total > 0 else 0.5 * (values[0] + values[-1])
        return c

    def velocities(self, c: Floats) -> Floats:
        """Return u' (m,), zero for held neurons."""
        speed = one_sided(self.f[self.piece], c)
        return np.where(self.held >= 0, 0.0, speed)

    def held_velocities(self, c: Floats) -> tuple[Floats, Floats]:
        """Return the one-sided velocities (m,) left and right of a held neuron's jump."""
        return one_sided(self.f[self.left_piece], c), one_sided(self.f[self.right_piece], c)

    def mixed(self) -> Bools:
        """Return which intervals (m + 1,) contain a jump."""
        first, last = self.ends()
        return np.asarray(last > first)

    def stretches(self) -> list[tuple[int, int]]:
        """Return (first, last) of every stretch of mixed intervals linked by free neurons."""
        mixed, found = self.mixed(), list[tuple[int, int]]()
        for k in np.flatnonzero(mixed):
            if found and found[-1][1] == k - 1 and self.held[k - 1] < 0:
                found[-1] = (found[-1][0], int(k))
            else:
                found.append((int(k), int(k)))
        return found


def one_sided(values: Floats, c: Floats) -> Floats:
    """Return −½[(f − c_{k−1})² − (f − c_k)²] for every neuron, given f there."""
    speeds: Floats = 0.5 * ((values - c[1:]) ** 2 - (values - c[:-1]) ** 2)
    return speeds


def standing(u: Floats, target: PiecewiseConstant) -> Standing:
    """Return the state of sorted positions in [0, 1]; neurons exactly at a jump are first taken as held."""
    inside = (target.breakpoints > 0) & (target.breakpoints < 1)
    v = target.breakpoints[inside]
    first = int(np.sum(target.breakpoints <= 0))
    f = target.values[first : first + len(v) + 1]
    piece = np.searchsorted(v, u, side="left")
    at_jump = (piece < len(v)) & (v[np.minimum(piece, len(v) - 1)] == u) if len(v) else np.zeros(len(u), bool)
    held = np.where(at_jump, piece, -1)
    return Standing(v, f, piece.astype(np.int64), held.astype(np.int64))
