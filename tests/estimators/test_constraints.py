"""Fits that must obey, against SciPy's solvers at given knots, grids of knots, and isotonic regression."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear, minimize
from sklearn.isotonic import IsotonicRegression

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.estimators import ANLSRegressor
from shallowflow.estimators.base import Points, merged_points
from shallowflow.estimators.constraints import ConstrainedFit, Constraints, checked, least_distance

EPS = float(np.finfo(np.float64).eps)

MONOTONE = (None, "increasing", "decreasing")
SHAPES = (None, "convex", "concave")
FLAT = (None, "left", "right", "both")


def bent(size: int, seed: int, noise: float = 0.3) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, size))
    return x, np.interp(x, [0, 3, 6, 10], [0, 1, 5, 5.5]) + noise * rng.standard_normal(size)


def hats(points: Points, nodes: Floats) -> tuple[Floats, Floats]:
    """The hat functions of the nodes at the data, times √w, and √w y."""
    columns = [np.interp(points.x, nodes, one) for one in np.eye(len(nodes))]
    return np.sqrt(points.w)[:, None] * np.stack(columns, axis=1), np.sqrt(points.w) * points.y


def random_problem(seed: int) -> tuple[Points, Constraints] | None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(8, 60))
    x, y = np.sort(rng.uniform(0, 1, size)), np.cumsum(rng.standard_normal(size)) + rng.standard_normal(size)
    points = merged_points(x, y, rng.uniform(0.2, 1.0, size))
    knots = np.sort(rng.uniform(0.05, 1.95, int(rng.integers(0, 6))))
    words = [str_or_none[rng.integers(len(str_or_none))] for str_or_none in (MONOTONE, SHAPES, FLAT)]
    point = np.array([[0.5, 0.1]]) if rng.random() < 0.4 else np.empty((0, 2))
    try:
        return points, checked(knots, point, *words)
    except InvalidInputError:
        return None


def reference(problem: ConstrainedFit, nodes: Floats) -> tuple[float, bool]:
    """SciPy's SLSQP over the values at the nodes, slopes and turns written out once more."""
    H, r = hats(problem.points, nodes)
    own, rise = problem.own, np.diff(np.eye(len(nodes)), axis=0) / np.diff(nodes)[:, None]
    equal, signs = [], []
    for place, height in own.through:
        row = np.array([np.interp(place, nodes, one) for one in np.eye(len(nodes))])
        equal.append((row, height))
    equal += [(rise[0], 0.0)] if own.flat_left else []
    equal += [(rise[-1], 0.0)] if own.flat_right else []
    signs += list(own.direction * rise) if own.direction else []
    signs += list(own.curvature * np.diff(rise, axis=0)) if own.curvature else []
    constraints: list[dict[str, Any]] = [
        {"type": "eq", "fun": lambda v, row=row, b=b: row @ v - b, "jac": lambda v, row=row: row}
        for row, b in equal
    ]
    constraints += [
        {"type": "ineq", "fun": lambda v, row=row: row @ v, "jac": lambda v, row=row: row} for row in signs
    ]
    found = minimize(
        lambda v: np.sum((H @ v - r) ** 2),
        np.zeros(len(nodes)),
        jac=lambda v: 2 * H.T @ (H @ v - r),
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return float(found.fun), bool(found.success)


def test_at_given_knots_it_is_scipys_constrained_least_squares() -> None:
    compared = 0
    for seed in range(160):
        problem = random_problem(seed)
        if problem is None:
            continue
        fit = ConstrainedFit(*problem)
        loss, knots, lines = fit.lines(np.empty(0))
        nodes = np.concatenate([[0.0], knots, [2.0]])
        expected, success = reference(fit, nodes)
        if not np.isfinite(loss):
            continue
        points = fit.points
        piece = np.searchsorted(knots, points.x)
        values = lines[piece, 1] + lines[piece, 2] * (points.x - lines[piece, 0])
        assert float(points.w @ (values - points.y) ** 2) == pytest.approx(loss, rel=1e-9)
        # SLSQP stops early now and then; it must never be better.
        assert loss <= expected * (1 + 1e-6)
        if success and expected <= loss * (1 + 1e-6):
            compared += 1
    assert compared >= 60


def test_rising_slopes_are_those_of_bounded_least_squares() -> None:
    """In the basis of slopes a direction is a bound for each: `scipy.optimize.lsq_linear`."""
    for seed in range(20):
        x, y = bent(40, seed, noise=2.0)
        points = merged_points(x, y, np.ones(40))
        knots = np.array([0.3, 0.7, 1.1, 1.6])
        loss, _, lines = ConstrainedFit(
            points, checked(knots, np.empty((0, 2)), "increasing", None, None)
        ).lines(np.empty(0))
        nodes = np.concatenate([[0.0], knots, [2.0]])
        lengths = np.clip(points.x[:, None] - nodes[:-1], 0.0, np.diff(nodes))
        A = np.column_stack([np.ones(40), lengths]) * np.sqrt(points.w)[:, None]
        lower = np.array([-np.inf, *[0.0] * 5])
        found = lsq_linear(A, np.sqrt(points.w) * points.y, (lower, np.inf), tol=1e-14)
        assert loss == pytest.approx(2 * found.cost, rel=1e-9)
        np.testing.assert_allclose(lines[:, 2], found.x[1:], atol=1e-6)


def test_the_shortest_vector_with_linear_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        H, h = rng.standard_normal((4, 6)), rng.standard_normal(4)
        h[0] = abs(h[0])
        found = least_distance(H, h)
        assert found is not None
        z, rows = found
        assert np.all(H @ z >= h - 1e-9)
        # z = Hᵀu with u ≥ 0 on the rows that hold it: the conditions of Kuhn and Tucker.
        u, _rest, *_ = np.linalg.lstsq(H[rows].T, z, rcond=None)
        assert np.all(u >= -1e-9)
        np.testing.assert_allclose(H[rows].T @ u, z, atol=1e-9)
        np.testing.assert_allclose(H[rows] @ z, h[rows], atol=1e-9)
    assert least_distance(np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])) is None


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    words=st.tuples(st.sampled_from(MONOTONE), st.sampled_from(SHAPES), st.sampled_from(FLAT)),
    size=st.integers(3, 25),
    n_knots=st.integers(0, 2),
)
def test_constraints_hold_to_rounding(
    seed: int, words: tuple[str | None, str | None, str | None], size: int, n_knots: int
) -> None:
    x, y = bent(size, seed, noise=1.0)
    monotone, shape, flat = words
    model = ANLSRegressor(n_knots, monotone=monotone, shape=shape, flat=flat)
    try:
        checked(np.empty(0), np.empty((0, 2)), *words)
    except InvalidInputError:
        with pytest.raises(InvalidInputError, match="contradict"):
            model.fit(x, y)
        return
    if any(words):
        model.fit(x, y)
        sign = {None: 0, "increasing": 1, "convex": 1}
        assert np.all(sign.get(monotone, -1) * model.slopes_ >= 0)
        assert np.all(sign.get(shape, -1) * np.diff(model.slopes_) >= 0)
        assert model.slopes_[0] == 0 or flat not in ("left", "both")
        assert model.slopes_[-1] == 0 or flat not in ("right", "both")
        assert model.pieces_.continuous
        assert model.loss_history_[-1] == pytest.approx(0.5 * np.sum((model.predict(x) - y) ** 2), rel=1e-8)


def test_the_search_is_no_worse_than_a_grid_of_all_pairs() -> None:
    grid = np.linspace(0.02, 1.98, 40)
    for seed, words in enumerate(
        [
            ("increasing", None, None),
            (None, "concave", None),
            ("increasing", None, "left"),
            (None, None, "right"),
            ("increasing", "convex", None),
            (None, "convex", "left"),
        ]
    ):
        x, y = bent(25, seed, noise=0.8)
        points = merged_points(x, y, np.ones(25))
        problem = ConstrainedFit(points, checked(np.empty(0), np.empty((0, 2)), *words))
        best = min(problem.loss(np.array([a, b])) for i, a in enumerate(grid) for b in grid[i + 1 :])
        monotone, shape, flat = words
        model = ANLSRegressor(2, monotone=monotone, shape=shape, flat=flat, loss="squared").fit(x, y)
        assert model.loss_history_[-1] <= points.half_sums(np.array([best]))[0] * (1 + 1e-9)


def test_rising_fits_tend_to_isotonic_regression() -> None:
    x, y = bent(30, 3, noise=1.0)
    least = 0.5 * np.sum((IsotonicRegression().fit_transform(x, y) - y) ** 2)
    losses = [
        ANLSRegressor(n, monotone="increasing", loss="squared").fit(x, y).loss_history_[-1]
        for n in (0, 1, 2, 4)
    ]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(losses))
    assert losses[-1] >= least
    everywhere = ANLSRegressor(28, known_knots=x[1:-1], monotone="increasing", loss="squared").fit(x, y)
    assert everywhere.loss_history_[-1] == pytest.approx(least, rel=1e-9)
    np.testing.assert_allclose(everywhere.predict(x), IsotonicRegression().fit_transform(x, y), atol=1e-7)


def test_points_are_met_and_knots_stay() -> None:
    x, y = bent(80, 1)
    model = ANLSRegressor(through=[(0, 0), (10, 6)], known_knots=[3.0]).fit(x, y)
    np.testing.assert_allclose(model.predict([0.0, 10.0]), [0.0, 6.0], atol=100 * EPS * 6)
    assert 3.0 in model.knots_
    assert ANLSRegressor(1, known_knots=[4.0]).fit(x, y).knots_ == pytest.approx([4.0], rel=4 * EPS)
    outside = ANLSRegressor(1, through=[(-2, 1), (-1, 0.5), (12, 7)]).fit(x, y)
    np.testing.assert_allclose(outside.predict([-2.0, -1.0, 12.0]), [1, 0.5, 7], atol=1000 * EPS * 7)
    many = [(0, 0), (4, 3), (5, -1), (10, 5)]
    np.testing.assert_allclose(
        ANLSRegressor(4, through=many).fit(x, y).predict([0.0, 4.0, 5.0, 10.0]), [0, 3, -1, 5], atol=1e-9
    )


def test_without_force_the_plain_fit_comes_out() -> None:
    """Data that rise by themselves: the constraint changes nothing, also in the choice of the number."""
    x, y = bent(150, 2, noise=0.1)
    plain, rising = ANLSRegressor().fit(x, y), ANLSRegressor(monotone="increasing").fit(x, y)
    np.testing.assert_allclose(rising.knots_, plain.knots_, atol=1e-3)
    assert rising.loss_history_[-1] == pytest.approx(plain.loss_history_[-1], rel=1e-6)
    assert [row.n_knots for row in rising.path_][:3] == [0, 1, 2]


def test_units_weights_and_dates() -> None:
    x, y = bent(40, 4)
    model = ANLSRegressor(1, monotone="increasing", through=[(5, 3)]).fit(x, y)
    scaled = ANLSRegressor(1, monotone="increasing", through=[(-495, 7)]).fit(100 * x - 995, 2 * y + 1)
    np.testing.assert_allclose(scaled.predict(100 * x - 995), 2 * model.predict(x) + 1, atol=1e-6)
    twice = ANLSRegressor(1, monotone="increasing", through=[(5, 3)]).fit(np.repeat(x, 2), np.repeat(y, 2))
    weighted = ANLSRegressor(1, monotone="increasing", through=[(5, 3)]).fit(x, y, np.full(40, 2.0))
    np.testing.assert_allclose(weighted.predict(x), twice.predict(x), atol=1e-9)
    days = np.datetime64("2024-01-01") + np.arange(60)
    level = np.maximum(np.arange(60) - 30.0, 0.0)
    known = np.datetime64("2024-01-31")
    dated = ANLSRegressor(1, known_knots=[known], through=[(known, 1.0)], flat="left").fit(days, level)
    assert dated.knots_[0] == known
    assert dated.predict(np.array([known])) == pytest.approx([1.0])
    with pytest.raises(InvalidInputError, match="known_knots: must be dates"):
        ANLSRegressor(known_knots=[3.0]).fit(days, level)


def test_an_outlier_counts_for_little_under_constraints_too() -> None:
    x, y = bent(100, 5, noise=0.05)
    y[40] += 30
    model = ANLSRegressor(monotone="increasing").fit(x, y)
    assert model.loss_ == "bisquare"
    assert np.flatnonzero(model.outliers_).tolist() == [40]
    assert np.abs(model.predict(x) - np.interp(x, [0, 3, 6, 10], [0, 1, 5, 5.5])).max() < 0.1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"monotone": "increasing", "shape": "convex", "flat": "right"}, "only a constant"),
        ({"shape": "convex", "flat": "both"}, "only a constant"),
        ({"monotone": "decreasing", "shape": "convex", "flat": "left"}, "only a constant"),
        ({"monotone": "increasing", "through": [(0, 1), (1, 0)]}, r"through: contradicts monotone"),
        ({"shape": "convex", "flat": "left", "through": [(0, 1), (1, 0)]}, r"through: contradicts shape"),
        ({"shape": "convex", "through": [(0, 0), (1, 2), (2, 2)]}, r"through: contradicts shape='convex'"),
        ({"through": [(0, 1), (0, 2)]}, "different x"),
        ({"through": [1, 2]}, r"points \(x, y\)"),
        ({"through": [(0, "a")]}, "through"),
        ({"n_knots": 1, "through": [(0, 0), (4, 3), (5, -1), (10, 5)]}, "n_knots: 2 are needed"),
        ({"n_knots": 1, "known_knots": [3, 4]}, "n_knots: must count the 2 known"),
        ({"known_knots": [11]}, "known_knots: must lie between the data"),
        ({"known_knots": [3, 3 + 1e-9]}, "known_knots: must be apart"),
        ({"monotone": "up"}, "monotone: must be one of increasing, decreasing"),
        ({"flat": "right", "left": "zero"}, "left: must be 'line' under constraints"),
        ({"shape": "convex", "selection": "cv"}, "selection: must be 'bic'"),
        ({"continuous": False, "flat": "left"}, "continuous: must be True"),
        ({"continuous": "no"}, "continuous: must be True or False"),
    ],
)
def test_contradictions_are_refused(options: dict[str, Any], words: str) -> None:
    x, y = bent(30, 6)
    with pytest.raises(InvalidInputError, match=words):
        ANLSRegressor(**options).fit(x, y)


def test_no_intervals_are_claimed() -> None:
    x, y = bent(40, 7)
    model = ANLSRegressor(1, monotone="increasing").fit(x, y)
    text = str(model.summary())
    assert "Intervals and tests are for continuous fits without constraints" in text
    assert "%" not in text
    assert list(model.to_frame().columns) == ["piece", "left", "right", "slope", "intercept"]
    with pytest.raises(InvalidInputError, match="intervals: are for continuous fits without constraints"):
        model.knot_intervals()


def test_what_a_constraint_keeps_from_fitting_is_no_correlated_noise() -> None:
    rng = np.random.default_rng(8)
    x = np.linspace(0, 10, 120)
    y = np.interp(x, [0, 2, 5.5, 10], [0, 5, 1, 9]) + 0.3 * rng.standard_normal(120)
    model = ANLSRegressor(monotone="increasing").fit(x, y)
    assert model.n_knots_ >= 2
    assert model.noise_.tau == 1
    assert not any("correlated" in note for note in model.notes_)
