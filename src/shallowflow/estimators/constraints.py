"""Fits that must obey: known knots, given points, a direction, a curvature, flat ends.

With nodes t_0 < b_1 < … < b_K < t_{K+1} (the knots and the ends of the data) f is its values v at the nodes,
(K + 2,). All constraints are linear in v: through (p, q) is E v = q; slopes ≥ 0 and turns ≥ 0 are G v ≥ 0; a
flat end is one slope = 0. The data of each piece enter by two rows, W and S_xx of `kernels.fitting.chain`, so
that for given knots

    min ‖J v − r‖²  subject to  E v = e,  G v ≥ 0,     J: (2K + 2, K + 2).

E is eliminated by its null space, v = v_0 + Z u. With J Z = U S Vᵀ and z = S Vᵀ u − Uᵀ(r − J v_0) the rest is
a least-distance problem, min ‖z‖ subject to H z ≥ h, which non-negative least squares solves (Lawson and
Hanson 1974, ch. 23); if its residual is zero, the constraints contradict each other.

The knots are placed by this loss alone (`search.Losses`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from shallowflow.arrays import Floats, Ints
from shallowflow.errors import InvalidInputError
from shallowflow.estimators.base import Points
from shallowflow.estimators.search import LARGEST_VALUE

DIRECTIONS = {None: 0, "increasing": 1, "decreasing": -1}
SHAPES = {None: 0, "convex": 1, "concave": -1}
FLAT = (None, "left", "right", "both")
CLOSEST = 1e-7
"""Neighbouring knots, and knots and ends, are so far apart, of a range of 2."""
FLOOR = 1e-5
"""Singular values below this share of the largest belong to values that no datum determines."""
FEASIBLE, ROUNDING = 1e-9, 1e-12
"""How well what must be equal is, and what is no more than rounding (of targets in [−1, 1])."""


@dataclass(frozen=True, eq=False)
class Constraints:
    """What f must obey, x and y on the scale of `Points`.

    knots: (k,) known places; through: (p, 2) points (x, y); direction and curvature: 1, −1 or 0 (any);
    flat_left, flat_right: whether the outer slopes vanish.
    """

    knots: Floats
    through: Floats
    direction: int = 0
    curvature: int = 0
    flat_left: bool = False
    flat_right: bool = False

    def __bool__(self) -> bool:
        own = self.direction or self.curvature or self.flat_left or self.flat_right
        return bool(own or len(self.knots) or len(self.through))


def checked(
    known: Floats, through: Floats, monotone: str | None, shape: str | None, flat: str | None
) -> Constraints:
    """Return constraints in the units of x and y; refuse those that contradict each other.

    A convex function with a flat left end rises; so the direction may follow from the others.
    """
    left, right = flat in ("left", "both"), flat in ("right", "both")
    direction, curvature = DIRECTIONS[monotone], SHAPES[shape]
    implied = {curvature} if left else set[int]()
    implied |= {-curvature} if right else set()
    implied -= {0}
    if len(implied | ({direction} - {0})) > 1:
        parts = [f"{name}={value!r}" for name, value in _named(monotone, shape, flat)]
        raise InvalidInputError(f"{', '.join(parts)}: contradict each other, only a constant obeys them")
    direction = direction or next(iter(implied), 0)
    through = through[np.argsort(through[:, 0], kind="stable")]
    x, y = through.T
    if np.any(np.diff(x) == 0):
        raise InvalidInputError("through: must have different x, got two points at the same place")
    slopes = np.diff(y) / np.diff(x) if len(x) > 1 else np.empty(0)
    if direction and np.any(direction * slopes < 0):
        raise InvalidInputError(
            f"through: contradicts {_words(monotone, shape, flat)}, got {_points(through)}"
        )
    if curvature and np.any(curvature * np.diff(slopes) < 0):
        raise InvalidInputError(f"through: contradicts shape={shape!r}, got {_points(through)}")
    return Constraints(np.unique(known), through, direction, curvature, left, right)


def _named(monotone: str | None, shape: str | None, flat: str | None) -> list[tuple[str, str]]:
    given = (("monotone", monotone), ("shape", shape), ("flat", flat))
    return [(name, value) for name, value in given if value is not None]


def _words(monotone: str | None, shape: str | None, flat: str | None) -> str:
    return " with ".join(f"{name}={value!r}" for name, value in _named(monotone, shape, flat))


def _points(through: Floats) -> str:
    return ", ".join(f"({x:g}, {y:g})" for x, y in through.tolist())


def scaled(own: Constraints, points: Points) -> Constraints:
    """Return constraints on the scale of some points; known knots must lie among these."""
    knots = (own.knots - points.low) / points.half
    if np.any((knots <= points.x[0] + CLOSEST) | (knots >= points.x[-1] - CLOSEST)):
        low, high = points.low, points.low + 2 * points.half
        raise InvalidInputError(f"known_knots: must lie between the data, {low:g} to {high:g}")
    if np.any(np.diff(knots) < CLOSEST):
        raise InvalidInputError("known_knots: must be apart, got two at nearly the same place")
    x, y = own.through.T
    through = np.stack([(x - points.low) / points.half, (y - points.centre) / points.scale], axis=1)
    return Constraints(knots, through, own.direction, own.curvature, own.flat_left, own.flat_right)


class ConstrainedFit:
    """The best values at given knots, and the search for the knots."""

    def __init__(self, points: Points, constraints: Constraints, least: int = 1) -> None:
        from shallowflow.kernels.fitting.chain import Data

        self.points, self.own, self._least = points, constraints, least
        self._data = Data(points.x, points.y, points.w, 1)
        places = [points.x[0], points.x[-1], *constraints.through[:, 0]]
        self._ends = min(places), max(places) if len(points.x) > 1 else max(places) + 1.0
        self.fixed = np.array([*constraints.knots, *self._ends])
        self._bound = max(LARGEST_VALUE, 1.0 + float(np.abs(constraints.through[:, 1]).max(initial=0.0)))

    def loss(self, free: Floats, below: float = np.inf) -> float:
        """Return the least loss with the known knots and these; ∞ if nothing obeys, or f overshoots.

        Without constraints it would be lower: where that is not below `below`, ∞ is the answer, too.
        """
        knots = np.sort(np.concatenate([self.own.knots, free]))
        nodes = np.concatenate([self._ends[:1], knots, self._ends[1:]])
        if (nodes[1:] - nodes[:-1]).min() < CLOSEST:
            return np.inf
        if self._least > 1:
            edges = np.searchsorted(self.points.x, nodes[1:-1], side="right")
            if np.any(np.diff(edges, prepend=0, append=len(self.points.x)) < self._least):
                return np.inf
        free_loss, blocks = self._chain(nodes)
        if free_loss >= below:
            return np.inf
        loss, values = self._solved(nodes, blocks)
        inside = np.searchsorted(knots, free)
        return loss if np.abs(values[1:-1][inside]).max(initial=0.0) <= self._bound else np.inf

    def _chain(self, nodes: Floats) -> tuple[float, Floats]:
        """Return the loss without constraints and the statistics of the data in every piece."""
        from shallowflow.kernels.fitting.chain import new_chain

        loss, chain = new_chain(nodes[1:-1], self._data)
        blocks = np.zeros((len(nodes) - 1, 6))
        blocks[: len(chain.blocks)] = chain.blocks
        return loss, blocks

    def lines(self, free: Floats) -> tuple[float, Floats, Floats]:
        """Return loss, knots (n,) and lines (n + 1, 3) as in `chain.fit`; slopes obey to the last bit."""
        knots = np.sort(np.concatenate([self.own.knots, free]))
        nodes = np.concatenate([self._ends[:1], knots, self._ends[1:]])
        loss, values = self._solved(nodes, self._chain(nodes)[1], exactly=True)
        slopes = self._obedient(np.diff(values) / np.diff(nodes))
        rises = np.concatenate([[0.0], np.cumsum(slopes * np.diff(nodes))])
        if len(self.own.through):
            anchor, height = self.own.through[0]
            rises += height - np.interp(anchor, nodes, rises)
        else:
            p = self.points
            rises += np.average(p.y - np.interp(p.x, nodes, rises), weights=p.w)
        return loss, knots, np.stack([nodes[:-1], rises[:-1], slopes], axis=1)

    def _obedient(self, slopes: Floats) -> Floats:
        """Return slopes (n + 1,) with what rounding has left of violations taken out."""
        own = self.own
        if own.curvature:
            turned = np.maximum.accumulate(own.curvature * slopes)
            slopes = own.curvature * turned
        if own.direction:
            slopes = own.direction * np.maximum(own.direction * slopes, 0.0)
        slopes[:1] = 0.0 if own.flat_left else slopes[:1]
        slopes[-1:] = 0.0 if own.flat_right else slopes[-1:]
        return slopes + 0.0

    def _solved(self, nodes: Floats, blocks: Floats, *, exactly: bool = False) -> tuple[float, Floats]:
        """Return the least loss and the values at the nodes (n + 2,); ∞ if nothing obeys."""
        J, r, rest = _rows(nodes, blocks)
        E, e = self._equalities(nodes)
        start, Z = np.zeros(len(nodes)), np.eye(len(nodes))
        if len(E):
            U, S, Vt = np.linalg.svd(E)
            rank = int(np.sum(1e-12 * S[0] < S))
            start = Vt[:rank].T @ ((U.T @ e)[:rank] / S[:rank])
            Z = Vt[rank:].T
            if np.abs(E @ start - e).max() > FEASIBLE * (1 + np.abs(e).max()):
                return np.inf, start
        U, S, Vt = np.linalg.svd(J @ Z, full_matrices=False)
        S = np.maximum(S, FLOOR * max(float(S.max(initial=0.0)), 1e-300))
        aim = U.T @ (r - J @ start)
        back = Z @ (Vt.T / S)
        values = start + back @ aim
        G = self._inequalities(nodes)
        if len(G):
            short = -(G @ values)
            if np.any(short > ROUNDING):
                found = least_distance(G @ back, short)
                if found is None:
                    return np.inf, values
                values = values + back @ found[0]
                if exactly:
                    A = np.concatenate([E, G[found[1]]])
                    values = _refined(values, J, r, A, np.append(e, np.zeros(len(A) - len(e))))
        misfit = J @ values - r
        return float(misfit @ misfit) + rest, values

    def _equalities(self, nodes: Floats) -> tuple[Floats, Floats]:
        """Return E (k, n + 2) and e (k,) of points and flat ends."""
        x, y = self.own.through.T
        if not len(x) and not self.own.flat_left and not self.own.flat_right:
            return np.empty((0, len(nodes))), y
        E = np.zeros((len(x), len(nodes)))
        k = np.clip(np.searchsorted(nodes, x) - 1, 0, len(nodes) - 2)
        share = (x - nodes[k]) / (nodes[k + 1] - nodes[k])
        E[np.arange(len(x)), k], E[np.arange(len(x)), k + 1] = 1 - share, share
        flat = np.zeros((2, len(nodes)))
        flat[0, :2], flat[1, -2:] = (-1, 1), (-1, 1)
        flat = flat[[self.own.flat_left, self.own.flat_right]]
        return np.concatenate([E, flat]), np.concatenate([y, np.zeros(len(flat))])

    def _inequalities(self, nodes: Floats) -> Floats:
        """Return G (k, n + 2), rows of norm 1: slopes and turns of the right sign."""
        if not self.own.direction and not self.own.curvature:
            return np.empty((0, len(nodes)))
        k, weights = np.arange(len(nodes) - 1), 1 / (nodes[1:] - nodes[:-1])
        slopes, parts = np.zeros((len(k), len(nodes))), []
        slopes[k, k], slopes[k, k + 1] = -weights, weights
        if self.own.direction:
            inner = slice(int(self.own.flat_left), len(slopes) - int(self.own.flat_right))
            parts.append(self.own.direction * slopes[inner])
        if self.own.curvature:
            parts.append(self.own.curvature * (slopes[1:] - slopes[:-1]))
        G = np.concatenate(parts)
        return np.asarray(G / np.sqrt(np.sum(G * G, axis=1, keepdims=True)))

    def seed(self) -> Floats:
        """Return knots with which there is a function through all points: at these."""
        x, low, high = self.own.through[:, 0], *self._ends
        x = x[int(not self.own.flat_left) : len(x) - int(not self.own.flat_right)]
        apart = [np.abs(self.own.knots - place).min(initial=np.inf) >= CLOSEST for place in x]
        return np.asarray(x[np.array(apart, dtype=bool) & (x > low + CLOSEST) & (x < high - CLOSEST)])


def _rows(nodes: Floats, blocks: Floats) -> tuple[Floats, Floats, float]:
    """Return J (2n + 2, n + 2), r (2n + 2,), and the loss that no line can avoid."""
    pieces = len(nodes) - 1
    W, x, y, sxx, sxy, rest = blocks.T
    lengths, root, spread = np.diff(nodes), np.sqrt(W), np.sqrt(sxx)
    share = np.where(W > 0, (x - nodes[:-1]) / lengths, 0.0)
    J, k = np.zeros((2 * pieces, pieces + 1)), np.arange(pieces)
    J[k, k], J[k, k + 1] = root * (1 - share), root * share
    J[pieces + k, k], J[pieces + k, k + 1] = -spread / lengths, spread / lengths
    slope = np.divide(sxy, spread, out=np.zeros(pieces), where=spread > 0)
    return J, np.concatenate([root * y, slope]), float(rest.sum())


def _refined(values: Floats, J: Floats, r: Floats, A: Floats, a: Floats) -> Floats:
    """Return the least squares with A v = a, nearest to `values` where the data say nothing."""
    U, S, Vt = np.linalg.svd(A)
    rank = int(np.sum(ROUNDING * S[0] < S))
    values = values - Vt[:rank].T @ ((U.T @ (A @ values - a))[:rank] / S[:rank])
    Z = Vt[rank:].T
    return np.asarray(values + Z @ np.linalg.lstsq(J @ Z, r - J @ values, rcond=FLOOR)[0])


def least_distance(H: Floats, h: Floats) -> tuple[Floats, Ints] | None:
    """Return the shortest z with H z ≥ h, (n,), and which rows hold it, or None if there is none.

    With u ≥ 0 the best for ‖[H, h]ᵀ u − (0, …, 0, 1)‖ and ρ the residual, z = −ρ_{1…n}/ρ_{n+1}. H: (k, n).
    """
    able = np.flatnonzero(np.linalg.norm(H, axis=1) > ROUNDING)
    if np.delete(h, able).max(initial=0.0) > FEASIBLE:
        return None
    size = float(np.abs(h[able]).max())
    system = np.concatenate([H[able].T, h[None, able] / size])
    target = np.zeros(len(system))
    target[-1] = 1.0
    u, _ = nnls(system, target)
    rest = system @ u - target
    if -rest[-1] <= FEASIBLE:
        return None
    return np.asarray(-size * rest[:-1] / rest[-1]), able[u > 0]
