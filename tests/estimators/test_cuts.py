"""Straight pieces that jump, against all cuts there are."""

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.errors import InvalidInputError
from shallowflow.estimators import ANLSRegressor
from shallowflow.estimators.base import merged_points
from shallowflow.estimators.cuts import line_sums, lines_between, refined


def jumpy(size: int, seed: int, noise: float = 0.2) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, size))
    return x, np.where(x < 4, 1 + 0.5 * x, 6 - 0.3 * x) + 2 * (x > 7) + noise * rng.standard_normal(size)


def least(x: Floats, y: Floats, jumps: int) -> float:
    """The least ½ Σ r² over all cuts with two points or more in every piece, by NumPy's polynomials."""

    def cost(begin: int, end: int) -> float:
        return float(
            np.sum((np.polyval(np.polyfit(x[begin:end], y[begin:end], 1), x[begin:end]) - y[begin:end]) ** 2)
        )

    costs = []
    for cuts in combinations(range(2, len(x) - 1), jumps):
        edges = [0, *cuts, len(x)]
        if min(np.diff(edges)) >= 2:
            costs.append(sum(cost(*pair) for pair in pairwise(edges)))
    return 0.5 * min(costs)


@pytest.mark.parametrize("jumps", [0, 1, 2])
def test_no_other_jumps_are_better(jumps: int) -> None:
    for seed in range(3):
        x, y = jumpy(16, seed, noise=1.0)
        model = ANLSRegressor(jumps, continuous=False).fit(x, y)
        assert model.loss_history_[-1] == pytest.approx(least(x, y, jumps), rel=1e-9)
        assert model.loss_history_[-1] == pytest.approx(0.5 * np.sum((model.predict(x) - y) ** 2), rel=1e-9)
        assert model.optimal_
        assert (model.n_knots_, len(model.slopes_)) == (jumps, jumps + 1)


def test_jumps_are_found_and_said() -> None:
    x, y = jumpy(200, 0)
    model = ANLSRegressor(continuous=False).fit(x, y)
    np.testing.assert_allclose(model.knots_, [4, 7], atol=0.1)
    np.testing.assert_allclose(model.jumps_, [1.8, 2.0], atol=0.4)
    np.testing.assert_allclose(model.slopes_, [0.5, -0.3, -0.3], atol=0.2)
    assert not model.pieces_.continuous
    assert model.network_ is None
    with pytest.raises(InvalidInputError, match="must meet at the knots"):
        model.pieces_.to_network()
    best = min(model.path_, key=lambda row: row.criterion)
    assert best.n_knots == 2
    text = str(model.summary())
    assert "3 straight pieces, 2 jumps" in text
    assert "No other jumps, as many as these, have a lower loss (proved)." in text
    np.testing.assert_allclose(eval(model.formula("python"), {"np": np, "x": x}), model.predict(x), atol=1e-9)
    assert "(x > " in model.formula()
    assert "\\mathbf{1}(x > " in model.formula("latex")


def test_noise_and_a_kink_have_hardly_any_jumps() -> None:
    rng = np.random.default_rng(1)
    x, found = np.linspace(0, 1, 100), []
    for _ in range(20):
        found.append(ANLSRegressor(continuous=False).fit(x, rng.standard_normal(100)).n_knots_)
    assert sum(number > 0 for number in found) <= 2


def test_weights_are_rows_and_many_points_are_merged() -> None:
    x, y = jumpy(60, 2)
    weighted = ANLSRegressor(continuous=False).fit(x, y, np.full(60, 3.0))
    repeated = ANLSRegressor(continuous=False).fit(np.repeat(x, 3), np.repeat(y, 3))
    np.testing.assert_allclose(weighted.predict(x), repeated.predict(x), atol=1e-12)
    x, y = jumpy(20_000, 3)
    model = ANLSRegressor(continuous=False).fit(x, y)
    np.testing.assert_allclose(model.knots_, [4, 7], atol=2e-3)
    assert model.optimal_ is None


def test_sums_give_the_misfit_of_lines() -> None:
    x, y = jumpy(30, 4)
    points = merged_points(x, y, np.linspace(0.5, 1.5, 30))
    sums = line_sums(points)
    for begin, end in ((0, 30), (3, 9), (7, 9), (11, 12)):
        part = slice(begin, end)
        if end - begin > 1:
            line = np.polyfit(points.x[part], points.y[part], 1, w=np.sqrt(points.w[part]))
            expected = float(points.w[part] @ (np.polyval(line, points.x[part]) - points.y[part]) ** 2)
        else:
            expected = 0.0
        assert sums.misfit(begin, end) == pytest.approx(expected, abs=1e-12)
    cuts = refined(np.array([14, 18]), sums, 30)
    for k in range(2):
        for place in range(1, 30):
            other = np.sort(np.append(np.delete(cuts, k), place))
            if np.diff([0, *other, 30]).min() >= 1:
                assert lines_between(points, cuts)[2] <= lines_between(points, other)[2] + 1e-12


def test_a_sentence_says_where_other_pieces_are_better() -> None:
    x, y = jumpy(100, 5)
    better = "continuous=False"
    assert any(better in note for note in ANLSRegressor().fit(x, y).notes_)
    rng, false_alarms = np.random.default_rng(6), 0
    for _ in range(10):
        bent = np.interp(x, [0, 3, 6, 10], [0, 1, 0, 2]) + 0.1 * rng.standard_normal(100)
        false_alarms += any(better in note for note in ANLSRegressor().fit(x, bent).notes_)
    assert false_alarms <= 1
    steps = np.where(x < 4, 1.0, 3.0) + 0.2 * rng.standard_normal(100)
    assert "StepRegressor" in ANLSRegressor(continuous=False).fit(x, steps).notes_[-1]
    assert not any("StepRegressor" in note for note in ANLSRegressor(continuous=False).fit(x, y).notes_)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "options", [{"continuous": False}, {"shape": "convex"}, {"flat": "both"}, {"through": [(0, 1)]}]
)
def test_few_points_are_enough(size: int, options: dict[str, Any]) -> None:
    x, y = np.arange(float(size)), np.arange(float(size)) ** 2
    for n_knots in ("auto", 0, 3):
        model = ANLSRegressor(n_knots, **options).fit(x, y)
        assert np.isfinite(model.predict(x)).all()
        str(model.summary())
    tied = ANLSRegressor(**options).fit(np.zeros(4), np.arange(4.0))
    assert np.isfinite(tied.predict([0.0])).all()
