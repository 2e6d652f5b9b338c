from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.data import Dataset
from shallowflow.dynamics.anls import active_neuron_least_squares
from shallowflow.estimators.base import Points, merged_points, squared_errors, values
from shallowflow.estimators.search import (
    LARGEST_VALUE,
    SEARCHES,
    best_on,
    limit_overshoot,
    paper_moves,
    relocation,
    starts,
    summary,
    useful,
)
from shallowflow.models import KnotNetwork


def noisy_points(size: int, *, free_left: bool = True) -> Points:
    rng = np.random.default_rng(0)
    x = np.linspace(-1, 1, size)
    return merged_points(
        x, np.sin(np.pi * x) + 0.1 * rng.standard_normal(size), np.ones(size), free_left=free_left
    )


def first_start(n_knots: int, points: Points) -> Floats:
    return next(starts(n_knots, points, np.random.RandomState(0)))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("free_left", [True, False])
def test_losses_fall_and_are_those_of_the_knots(search: str, free_left: bool) -> None:
    points = noisy_points(60, free_left=free_left)
    steps = list(SEARCHES[search](points, first_start(6, points), np.inf))
    losses = np.concatenate([step.losses for step in steps])
    assert len(losses) > 2
    assert np.all(np.diff(losses) < 0)
    assert steps[0].iterations == 0
    for step in steps:
        assert points.fit(step.knots)[0] == pytest.approx(step.losses[-1], rel=1e-12)
    done = summary(steps)
    np.testing.assert_array_equal(done.knots, steps[-1].knots)
    np.testing.assert_array_equal(done.losses, losses)
    assert done.iterations == len(losses) - 1


@pytest.mark.parametrize("search", SEARCHES)
def test_a_limit_on_the_iterations_is_kept(search: str) -> None:
    points = noisy_points(60)
    start = first_start(6, points)
    whole = summary(SEARCHES[search](points, start, np.inf))
    cut = summary(SEARCHES[search](points, start, 2))
    assert cut.iterations == 2 < whole.iterations
    np.testing.assert_array_equal(cut.losses, whole.losses[:3])


def test_the_moves_of_the_paper_are_those_of_the_dynamics() -> None:
    x = np.linspace(0, 2, 50)
    y = np.sin(np.pi * (x - 1))
    points = merged_points(x, y, np.ones(50), free_left=False)
    start = np.linspace(-0.1, 1.8, 8)
    done = summary(paper_moves(points, start, np.inf))
    run = active_neuron_least_squares(KnotNetwork(start, np.zeros(8)), Dataset(x[:, None], y))
    np.testing.assert_allclose(points.half_sums(done.losses), 50 * run.losses, rtol=1e-9)  # ½Σ, ½·mean
    np.testing.assert_allclose(done.knots, run.final.parameters["knots"], atol=1e-12)


def test_relocation_ends_below_the_moves_of_the_paper() -> None:
    x = np.linspace(-1, 1, 200)
    points = merged_points(x, np.exp(-50 * x**2), np.ones(200), free_left=True)
    start = first_start(12, points)
    ours = summary(relocation(points, start, np.inf)).losses[-1]
    theirs = summary(paper_moves(points, start, np.inf)).losses[-1]
    assert ours < 0.5 * theirs


def test_held_out_points_choose_among_the_steps() -> None:
    points = noisy_points(80)
    out = np.arange(80) % 4 == 1
    train, held_out = points.part(~out), points.part(out)
    steps = list(relocation(train, first_start(30, train), np.inf))
    done, errors = best_on(held_out, train, iter(steps))
    expected = [float(np.mean(squared_errors(step.knots, train, held_out))) for step in steps]
    np.testing.assert_allclose(errors, expected, rtol=1e-12)
    np.testing.assert_array_equal(done.knots, steps[int(np.argmin(expected))].knots)
    assert len(done.losses) == len(steps)


def test_starts_lie_where_they_should() -> None:
    points = merged_points(np.array([0.0, 1, 2, 3, 4, 8]), np.arange(6.0), np.ones(6), free_left=True)
    x = points.x
    four = list(islice(starts(4, points, np.random.RandomState(1)), 4))
    np.testing.assert_array_equal(four[0], x[1:5])  # as many knots as inner points: one on each
    np.testing.assert_array_equal(four[1], np.full(4, x[-1]))
    for random in four[2:]:
        assert np.all((random >= x[0]) & (random <= x[-1]))
        assert np.all(np.diff(random) > 0)
    assert not np.array_equal(four[2], four[3])
    zero = first_start(3, replace(points, free_left=False))
    assert zero[0] == pytest.approx(x[0] - 1e-8, abs=1e-12)
    assert np.all(np.diff(zero) > 0)


@pytest.mark.parametrize(("free_left", "expected"), [(True, 3), (False, 5)])
def test_more_knots_than_interpolate_are_of_no_use(free_left: bool, expected: int) -> None:
    points = merged_points(np.arange(5.0), np.array([1.0, -1, 2, -2, 3]), np.ones(5), free_left=free_left)
    assert useful(100, points) == expected
    assert useful(2, points) == 2
    start = first_start(expected, points)
    assert summary(relocation(points, start, np.inf)).losses[-1] < 1e-20
    single = points.part(np.arange(5) == 2)
    assert useful(100, single) == (0 if free_left else 1)


def test_a_spike_around_an_outlier_is_cut() -> None:
    """Between data, knots 10⁻⁹ beyond an outlier make a spike a million times as high as the data."""
    x = np.linspace(0, 2, 21)
    y = np.where(np.arange(21) == 10, 1.0, 0.0)
    points = merged_points(x, y, np.ones(21), free_left=True)
    knots = np.array([0.92, 0.95, 1.0 + 1e-9])
    _, lines = points.fit(knots)
    assert np.abs(values(knots, lines, knots)).max() > 1e6
    kept, loss = limit_overshoot(knots, points)
    assert len(kept) == 3
    assert np.all(np.diff(kept) >= 0)
    expected, lines = points.fit(kept)
    assert loss == expected
    assert np.abs(values(kept, lines, kept)).max() <= LARGEST_VALUE


def test_sane_knots_stay_and_so_does_a_zero_line_far_below_the_data() -> None:
    x = np.linspace(0, 2, 21)
    knots = np.array([-0.5, -0.1, 1.0])
    points = merged_points(x, 100.0 + np.abs(x - 1), np.ones(21), free_left=False)
    kept, _ = limit_overshoot(knots, points)
    np.testing.assert_array_equal(kept, knots)
    assert limit_overshoot(np.empty(0), points)[0].size == 0


X = np.concatenate([np.linspace(0, 0.5, 20), np.linspace(1.5, 2, 20)])


def test_a_gap_is_bridged_by_two_knots_instead_of_one_far_outside() -> None:
    """The two lines meet at x = 1, as far below the data as these reach."""
    knots = np.array([1.0, 2.0])
    steep = merged_points(X, np.where(X < 1, -X, X - 2), np.ones(40), free_left=True)
    _, lines = steep.fit(knots)
    assert abs(values(knots, lines, knots)[0]) > LARGEST_VALUE
    kept, loss = limit_overshoot(knots, steep)
    np.testing.assert_array_equal(kept, [0.5, 1.5])
    assert loss < 1e-25


def test_without_a_spare_knot_the_one_of_least_worth_goes() -> None:
    bent = np.where(X < 1, np.where(X < 0.3, 0.0, -5 * (X - 0.3)), 10 * X - 15)
    points = merged_points(X, bent, np.ones(40), free_left=True)
    knots = np.array([0.1, 0.3, 0.9])  # at 0.1 nothing happens
    kept, loss = limit_overshoot(knots, points)
    np.testing.assert_array_equal(kept, [0.3, 0.5, 1.5])
    assert loss < 1e-25
