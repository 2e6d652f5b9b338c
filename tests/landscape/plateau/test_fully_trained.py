import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.arrays import Floats
from shallowflow.data.dataset import Dataset
from shallowflow.errors import InvalidInputError
from shallowflow.landscape.plateau.stationary import fully_trained, to_knots
from shallowflow.models.networks import KnotNetwork
from tests.landscape.geometry.test_blocks import problem


def gradient_and_scale(network: KnotNetwork, dataset: Dataset) -> tuple[Floats, Floats]:
    """The gradient of ½Σ, and the size of the terms that cancel in it."""
    residual = network.predict(dataset.inputs) - dataset.targets
    terms = np.maximum(dataset.inputs - network.knots, 0) @ np.abs(network.outer) + np.abs(dataset.targets)
    exact = network.pullback(dataset.inputs, residual)
    arms = np.maximum(dataset.inputs[:, 0] - network.knots[:, None], 0)
    scale = np.concatenate([np.abs(network.outer) * terms.sum(), arms @ terms])
    return np.concatenate(list(exact.values())), scale


def pieces(cuts: Floats, dataset: Dataset) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    groups = np.searchsorted(np.sort(cuts), dataset.inputs[:, 0], side="left")
    return [np.flatnonzero(groups == group) for group in range(len(cuts) + 1)]


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.integers(0, 10_000))
def test_the_gradient_is_zero_and_pieces_are_regression_lines(seed: int) -> None:
    network, dataset = problem(seed)
    trained = fully_trained(network.knots, dataset)
    gradient, scale = gradient_and_scale(trained, dataset)
    assert np.all(np.abs(gradient) <= 1e-13 * scale + 1e-300)
    filled = [members for members in pieces(network.knots, dataset) if len(members)]
    assert trained.width <= 2 * len(filled)
    slack = 1e-13 * float(np.sum(np.abs(trained.outer))) + 1e-10
    for members in filled:
        x, y = dataset.inputs[members, 0], dataset.targets[members]
        columns = np.stack([x, np.ones_like(x)], axis=1)
        line = columns @ np.linalg.lstsq(columns, y, rcond=1e-13)[0]
        np.testing.assert_allclose(trained(x), line, atol=slack)


def test_fig_5_random_knots_on_sin_5_pi_x() -> None:
    """[plateau] Fig. 5: blocks of biases from N(0, 2), n = 100, 500 equidistant points."""
    x = np.linspace(-1, 1, 500)
    dataset = Dataset(x[:, None], np.sin(5 * np.pi * x))
    knots = np.sqrt(2.0) * np.random.default_rng(0).standard_normal(100)
    trained = fully_trained(knots, dataset)
    gradient, scale = gradient_and_scale(trained, dataset)
    assert np.max(np.abs(gradient) / scale) < 1e-13
    residual = trained.predict(dataset.inputs) - dataset.targets
    squares = [
        np.polyfit(x[members], dataset.targets[members], 1, full=True)[1].sum()
        for members in pieces(knots, dataset)
        if len(members) > 2
    ]
    assert residual @ residual == pytest.approx(sum(squares), rel=1e-9)


def test_the_printed_knot_on_the_data_point_is_not_stationary() -> None:
    """Lemma F.2 puts the second knot on z itself; under (3.1), x > b, its gradient is the residual at z."""
    dataset = Dataset([[0.0], [1.0], [2.0]], [1.0, 3.0, 1.0])
    slope, intercept = np.polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 1.0], 1)
    z, gap = 0.0, 0.5
    printed = KnotNetwork(
        [z - gap, z], [(slope * z + intercept) / gap, -(slope * (z - gap) + intercept) / gap]
    )
    ours = fully_trained([], dataset)
    np.testing.assert_allclose(printed(dataset.inputs), ours(dataset.inputs), atol=1e-12)
    assert np.max(np.abs(gradient_and_scale(printed, dataset)[0])) > 0.5
    assert np.max(np.abs(gradient_and_scale(ours, dataset)[0])) < 1e-12


def test_one_knot_is_enough_where_lines_meet() -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0])
    trained = fully_trained([1.5], Dataset(x[:, None], np.array([0.0, 1.0, 1.8, 2.4])))
    bent = KnotNetwork([-1.0, 1.5], [0.5, 1.0])
    again = fully_trained([1.25], Dataset(np.array([0.0, 1.0, 2.0, 3.0])[:, None], bent(x)))
    assert trained.width <= 4
    assert again.width == 3  # two for the first piece, whose line starts outside its gap; one for the second
    np.testing.assert_allclose(again(x), bent(x), atol=1e-12)
    assert again.knots[-1] == pytest.approx(1.5)


def test_nothing_to_fit_and_a_single_point() -> None:
    nothing = fully_trained([], Dataset([[0.0], [1.0]], [0.0, 0.0]))
    np.testing.assert_array_equal(nothing.outer, [0.0])
    single = fully_trained([], Dataset([[2.0]], [5.0]))
    assert single([2.0]) == pytest.approx([5.0])
    # the least-norm line through (2, 5): slope xy/(1 + x²)
    assert single([3.0]) - single([2.0]) == pytest.approx([2.0])


def test_no_room_for_a_knot_is_said() -> None:
    near = np.nextafter(1.0, 2.0)
    with pytest.raises(InvalidInputError, match=r"cuts: no room for knots between the inputs 1\.0 and"):
        fully_trained([1.0], Dataset([[1.0], [near]], [0.0, 1.0]))
    with pytest.raises(InvalidInputError, match="dataset: must have one input coordinate"):
        fully_trained([0.0], Dataset([[0.0, 1.0]], [1.0]))


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from([0.0, -3.0, 40.0]))
def test_to_knots_equals_the_network_on_the_interval(seed: int, width: int, left: float) -> None:
    rng = np.random.default_rng(seed)
    inner = rng.standard_normal(width) * rng.choice([0.0, 1.0, 1.0, 1.0], width)
    bias, outer = rng.standard_normal(width) - inner * left, rng.standard_normal(width)
    right = left + float(rng.uniform(0.1, 5.0))
    reduced = to_knots(inner, bias, outer, (left, right))
    x = np.linspace(left, right, 401)
    expected = np.maximum(inner * x[:, None] + bias, 0) @ outer
    scale = float(np.abs(reduced.outer) @ (1 + np.abs(reduced.knots) + abs(left) + abs(right)))
    np.testing.assert_allclose(reduced(x), expected, atol=1e-14 * (1 + scale))
    negative = int(np.sum((inner < 0) & (inner * left + bias > 0)))
    flat = int(np.sum((inner == 0) & (bias > 0)))
    assert reduced.width <= int(np.sum(inner > 0)) + 2 * negative + flat + 1


def test_to_knots_the_three_cases_of_the_proof() -> None:
    down = to_knots([-1.0], [0.5], [1.0], (0.0, 1.0))  # φ(−x + ½) = φ(x − ½) − 2φ(x) + φ(x + ½)
    order = np.argsort(down.knots)
    np.testing.assert_array_equal(down.knots[order], [-0.5, 0.0, 0.5])
    np.testing.assert_array_equal(down.outer[order], [1.0, -2.0, 1.0])
    level = to_knots([0.0], [2.0], [3.0], (0.0, 1.0))  # φ(b) = φ(x + b) − φ(x)
    np.testing.assert_array_equal(np.sort(level.knots), [-2.0, 0.0])
    nothing = to_knots([-1.0, 0.0], [-0.5, -1.0], [1.0, 1.0], (0.0, 1.0))
    np.testing.assert_array_equal(nothing([0.0, 0.5, 1.0]), [0.0, 0.0, 0.0])
    assert down([-0.5]) != pytest.approx([1.0])  # left of the interval the two differ


def test_to_knots_refuses_bad_input() -> None:
    with pytest.raises(InvalidInputError, match="inner, bias: must have equal lengths, got 1 and 2"):
        to_knots([1.0], [0.0, 1.0], [1.0], (0.0, 1.0))
    with pytest.raises(InvalidInputError, match="interval: must be strictly increasing"):
        to_knots([1.0], [0.0], [1.0], (1.0, 0.0))
    with pytest.raises(InvalidInputError, match=r"interval: must be \(left, right\), got 3 numbers"):
        to_knots([1.0], [0.0], [1.0], (0.0, 0.5, 1.0))
