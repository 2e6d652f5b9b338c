"""The exact optimum beside brute force: all pairs of blocks and all joints, and many local searches."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

from shallowflow.arrays import Floats
from shallowflow.estimators.base import merged_points
from shallowflow.estimators.search import certified
from shallowflow.kernels.fitting.exact import divisions, prove


def squares(x: Floats, y: Floats, w: Floats, knots: Floats) -> float:
    matrix = np.stack([np.ones_like(x), x, *(np.maximum(x - b, 0) for b in knots)], axis=1)
    root = np.sqrt(w)
    best = np.linalg.lstsq(matrix * root[:, None], y * root)[0]
    return float(np.sum(w * (matrix @ best - y) ** 2))


def problem(seed: int, size: int, knots: int) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 1, size))
    y = np.interp(x, np.linspace(0, 1, knots + 2), rng.normal(size=knots + 2))
    return x, y + rng.choice([0.05, 0.2, 0.6]) * rng.normal(size=size), rng.uniform(0.5, 2, size)


def one_knot(x: Floats, y: Floats, w: Floats) -> float:
    """The best place of one knot: every gap by itself, where f is smooth in the place, and its ends."""
    best = min(squares(x, y, w, np.array([place])) for place in x[1:-1])
    for lo, hi in pairwise(x):
        grid = np.linspace(lo, hi, 41)[1:-1]
        place = min(grid, key=lambda b: squares(x, y, w, np.array([b])))
        found = minimize(
            lambda b: squares(x, y, w, b),
            [place],
            method="Nelder-Mead",
            options={"xatol": 1e-12, "fatol": 1e-14},
        )
        best = min(best, float(found.fun))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_one_knot_is_the_best_of_all_gaps(seed: int) -> None:
    x, y, w = problem(seed, 14, 1)
    proof = prove(x, y, w, 1, squares(x, y, w, np.empty(0)))
    assert proof.complete
    assert proof.loss == pytest.approx(one_knot(x, y, w), rel=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_below_the_optimum_and_many_starts_reach_it(seed: int) -> None:
    x, y, w = problem(seed, 12, 2)
    proof = prove(x, y, w, 2, squares(x, y, w, np.empty(0)))
    assert proof.loss is not None
    middles = 0.5 * (x[1:] + x[:-1])
    places = np.sort(np.concatenate([x[1:-1], middles]))
    found = [
        float(
            minimize(
                lambda b: squares(x, y, w, np.sort(b)),
                pair,
                method="Nelder-Mead",
                options={"xatol": 1e-9, "fatol": 1e-12, "maxfev": 300},
            ).fun
        )
        for pair in list(combinations(places, 2))[::6]
    ]
    assert proof.loss <= min(found) * (1 + 1e-7)
    assert min(found) <= proof.loss * (1 + 0.02)


def crossing_lines(x: Floats, y: Floats, w: Floats, cuts: list[int], signs: list[int]) -> float:
    """The least Σ w r² of a line per block, two neighbours crossing in their gap where the sign is not 0.

    With d the left line minus the right one: sign · d ≥ 0 at the last datum before, ≤ 0 at the first behind.
    A quadratic program, by its dual: non-negative least squares.
    """
    edges, count = [0, *cuts, len(x)], 2 * (len(cuts) + 1)
    design = np.zeros((len(x), count))
    for j, (begin, stop) in enumerate(pairwise(edges)):
        design[begin:stop, 2 * j : 2 * j + 2] = np.stack(
            [np.ones(stop - begin), x[begin:stop] - x[begin]], axis=1
        )
    rows = []
    for j, (cut, sign) in enumerate(zip(cuts, signs, strict=True)):
        for place, way in ((x[cut - 1], 1), (x[cut], -1)):
            row = np.zeros(count)
            row[2 * j : 2 * j + 4] = 1.0, place - x[edges[j]], -1.0, -(place - x[cut])
            rows += [sign * way * row] if sign else []
    root = np.sqrt(w)
    upper = np.linalg.cholesky(design.T @ (w[:, None] * design) + 1e-11 * np.eye(count)).T
    free = np.linalg.solve(upper.T, design.T @ (w * y))
    if rows:
        push = np.linalg.solve(upper.T, np.array(rows).T)
        free = free + push @ nnls(push, -free)[0]
    return float(np.sum((root * (design @ np.linalg.solve(upper, free) - y)) ** 2))


def brute_force(x: Floats, y: Floats, w: Floats, knots: int) -> float:
    """The least loss over all gaps for the knots, one (lines that cross in it) or two (a jump) in each."""
    best = np.inf
    for number in range(knots + 1):
        for cuts in combinations(range(1, len(x)), number):
            for signs in product((1, -1, 0), repeat=number):
                if sum(1 if sign else 2 for sign in signs) <= knots:
                    best = min(best, crossing_lines(x, y, w, list(cuts), list(signs)))
    return best


def equals_brute_force(seed: int) -> None:
    """A knot at a datum is the end of a crossing: all there is are gaps and signs."""
    x, y, w = problem(1000 + seed, 7 + seed % 3, 1 + seed % 3)
    knots = 1 + seed % 3
    proof = prove(x, y, w, knots, squares(x, y, w, np.empty(0)) * (1 + 1e-6))
    assert proof.complete
    assert proof.loss == pytest.approx(brute_force(x, y, w, knots), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("seed", range(9))
def test_the_optimum_is_that_of_all_patterns(seed: int) -> None:
    equals_brute_force(seed)


@pytest.mark.slow
def test_the_optimum_is_that_of_all_patterns_of_300_problems() -> None:
    for seed in range(300):
        equals_brute_force(seed)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("knots", [1, 2, 3])
def test_the_knots_of_the_pattern_have_the_loss_of_the_proof(seed: int, knots: int) -> None:
    x, y, w = problem(seed, 30, knots)
    points = merged_points(x, y, w)
    found = certified(points, np.full(knots, points.x[-1]))
    assert found.optimal is not None
    if found.optimal:
        original = points.low + points.half * found.knots
        live = original[original < x[-1]]
        assert found.loss * points.unit == pytest.approx(squares(x, y, w, live), rel=1e-6)
        again = prove(points.x, points.y, points.w, knots, found.loss)
        assert again.complete
        assert again.loss is None


def test_what_is_optimal_is_left_and_a_small_budget_gives_up() -> None:
    x, y, w = problem(3, 60, 3)
    points = merged_points(x, y, w)
    assert not prove(points.x, points.y, points.w, 3, points.fit(np.empty(0))[0], budget=50).complete
    best = certified(points, np.full(3, points.x[-1]))
    same = certified(points, best.knots)
    assert same.optimal
    np.testing.assert_array_equal(same.knots, best.knots)


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("least", [1, 3])
def test_divisions_are_the_best_of_all(lines: bool, least: int) -> None:
    rng = np.random.default_rng(0)
    x, y, w = np.sort(rng.uniform(0, 1, 13)), rng.normal(size=13), rng.uniform(0.5, 2, 13)

    def cost(first: int, stop: int) -> float:
        part = slice(first, stop)
        if lines and stop - first <= 2:
            return 0.0
        root = np.sqrt(w[part])
        fitted = np.polyval(np.polyfit(x[part], y[part], int(lines), w=root), x[part])
        return float(np.sum(w[part] * (fitted - y[part]) ** 2))

    costs, cuts = divisions(x, y, w, 3, lines=lines, least=least)
    for number in range(4):
        every = [
            sum(cost(a, b) for a, b in zip([0, *inner], [*inner, 13], strict=True))
            for inner in combinations(range(1, 13), number)
            if np.diff([0, *inner, 13]).min() >= least
        ]
        assert costs[number] == pytest.approx(min(every), abs=1e-12)
        edges = [0, *cuts[number], 13]
        assert sum(map(cost, edges[:-1], edges[1:])) == pytest.approx(costs[number], abs=1e-12)
