import numpy as np
import pytest

from shallowflow.arrays import Floats
from shallowflow.estimators.anls import Growth, between, default_largest, geometric_numbers, select
from shallowflow.estimators.points import Points, merged_points
from tests.estimators.least_squares import half_loss


def kinked(x: Floats) -> Floats:
    return np.interp(x, [0, 3, 4, 8, 10], [1, 2, 0, 0.5, 3])


def sample(size: int, noise: float, seed: int) -> Points:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, size)
    return merged_points(x, kinked(x) + noise * rng.standard_normal(size), np.ones(size), free_left=True)


def test_numbers_grow_by_the_root_of_two_up_to_the_largest() -> None:
    assert geometric_numbers(0) == [0]
    assert geometric_numbers(1) == [0, 1]
    assert geometric_numbers(20) == [0, 1, 2, 3, 4, 6, 8, 11, 16, 20]
    numbers = geometric_numbers(5000)
    ratios = np.array(numbers[5:]) / np.array(numbers[4:-1])
    assert ratios.max() < 1.51
    assert numbers[-1] == 5000


def test_numbers_around_the_chosen_one_are_tried() -> None:
    assert between([0, 1, 2, 3, 4, 6, 8], 4) == [5]
    assert between([0, 1, 2, 3], 0) == []
    refined = between([64, 91, 128], 91)
    assert len(refined) == 12
    assert refined[0] > 64
    assert refined[-1] < 128


def test_growing_fits_never_get_worse() -> None:
    growth = Growth(sample(120, 0.1, 0), "relocation")
    for number in (0, 2, 3, 5, 9):
        knots = growth.knots(number)
        assert len(knots) == number
        assert growth.losses[number] == pytest.approx(growth.points.fit(knots)[0])
        assert growth.knots(number) is knots
    losses = [growth.losses[number] for number in (0, 2, 3, 5, 9)]
    assert np.all(np.diff(losses) < 0)


@pytest.mark.parametrize("selection", ["cv", "bic"])
@pytest.mark.parametrize("search", ["relocation", "anls"])
@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_the_number_of_kinks_is_found(selection: str, search: str, noise: float) -> None:
    points = sample(300, noise, seed=1)
    knots = select(points, search, selection, default_largest(points))
    live = knots[knots < points.x[-1]]
    if search == "relocation":
        assert len(live) == 3
        np.testing.assert_allclose(points.low + points.half * live, [3, 4, 8], atol=0.2)
    else:
        assert 3 <= len(live) <= 12  # knots that only pass one point at a time need company


def test_bic_is_the_least_of_its_formula() -> None:
    """Written out here with plain least squares; all numbers of knots are compared."""
    points = sample(80, 0.15, seed=2)
    n, largest = 80, 8
    chosen = select(points, "relocation", "bic", largest)
    growth = Growth(points, "relocation")
    criteria = []
    for number in geometric_numbers(largest):
        knots = growth.knots(number)
        squares = 2 * half_loss(points.x, points.y, knots[knots < points.x[-1]])
        criteria.append(n * np.log(squares / n) + (2 * number + 2) * np.log(n))
    number = len(chosen)
    squares = 2 * half_loss(points.x, points.y, chosen[chosen < points.x[-1]])
    assert n * np.log(squares / n) + (2 * number + 2) * np.log(n) <= min(criteria) + 1e-6


@pytest.mark.parametrize("selection", ["cv", "bic"])
def test_noise_alone_gets_hardly_any_knots(selection: str) -> None:
    numbers = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        points = merged_points(rng.uniform(0, 1, 150), rng.standard_normal(150), np.ones(150), free_left=True)
        numbers.append(len(select(points, "relocation", selection, default_largest(points))))
    assert np.median(numbers) == 0
    assert max(numbers) <= 1


def test_cross_validation_does_not_chase_outliers_where_bic_does() -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 10, 300)
    y = kinked(x) + 0.1 * rng.standard_normal(300)
    y[rng.choice(300, 9, replace=False)] += 4.0
    points = merged_points(x, y, np.ones(300), free_left=True)
    largest = default_largest(points)
    assert len(select(points, "relocation", "cv", largest)) <= 5
    assert len(select(points, "relocation", "bic", largest)) > 10


def test_many_points_are_merged_for_the_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    points = sample(5000, 0.1, seed=3)
    monkeypatch.setattr("shallowflow.estimators.anls.MERGED", 500)
    knots = select(points, "relocation", "bic", 16)
    np.testing.assert_allclose(points.low + points.half * knots, [3, 4, 8], atol=0.1)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("selection", ["cv", "bic"])
@pytest.mark.parametrize("free_left", [True, False])
def test_few_points_are_enough(size: int, selection: str, free_left: bool) -> None:
    x = np.arange(float(size))
    points = merged_points(x, x**2 + 1, np.ones(size), free_left=free_left)
    knots = select(points, "relocation", selection, default_largest(points))
    assert len(knots) <= size
