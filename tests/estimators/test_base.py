import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shallowflow.errors import InvalidInputError
from shallowflow.estimators import Pieces
from shallowflow.models import KnotNetwork
from tests.rounding import EPSILON

TENT = Pieces([1.0], [0.5, 1.5], [0.5, 0.5], [1.0, -1.0], low=0.0, high=2.0)


def test_predictions_follow_the_line_of_the_piece() -> None:
    x = np.array([-1.0, 0.0, 0.25, 1.0, 1.5, 3.0])
    np.testing.assert_array_equal(TENT.predict(x), np.where(x <= 1, x, 2 - x))
    np.testing.assert_array_equal(TENT.predict(x[:, None]), TENT.predict(x))
    assert TENT.predict([]).shape == (0,)


def test_a_knot_belongs_to_the_piece_on_its_left() -> None:
    step = Pieces([0.0], [0.0, 0.0], [1.0, 2.0], [0.0, 0.0], low=-1.0, high=1.0)
    np.testing.assert_array_equal(step.predict([-1e-300, 0.0, 1e-300]), [1.0, 1.0, 2.0])


def test_predictions_far_from_the_origin_keep_their_digits() -> None:
    """Dates in seconds: a line through its intercept at x = 0 would be off by 10⁻⁷."""
    start = 1.7e9
    pieces = Pieces([start + 1.0], [start, start + 2.0], [5.0, 5.25], [0.1, 0.3], low=start, high=start + 2)
    exact = Fraction(5.25) + Fraction(0.3) * Fraction(-0.5)
    assert pieces.predict([start + 1.5])[0] == pytest.approx(float(exact), rel=4 * EPSILON)
    by_intercept = pieces.intercepts[1] + pieces.slopes[1] * (start + 1.5)
    assert abs(by_intercept - float(exact)) > 1e-9


knot_lists = st.lists(st.integers(-40, 40), min_size=1, max_size=6, unique=True).map(
    lambda numbers: np.sort(np.array(numbers) / 8.0)
)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(knots=knot_lists, data=st.data())
def test_networks_become_pieces_and_back(knots: np.ndarray, data: st.DataObject) -> None:
    outer = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=len(knots), max_size=len(knots))), float)
    network = KnotNetwork(np.append(knots, knots[:1]), np.append(outer, 1.0))  # the first knot comes twice
    pieces = Pieces.of_network(network, low=-1.0, high=1.0)
    x = np.linspace(-6, 6, 97)
    expected = np.maximum(x[:, None] - network.knots, 0.0) @ network.outer
    np.testing.assert_allclose(pieces.predict(x), expected, atol=1e-12)
    np.testing.assert_allclose(pieces.to_network()(x), expected, atol=1e-12)
    assert len(pieces.knots) == len(knots)


def test_a_free_line_on_the_left_takes_two_more_knots() -> None:
    pieces = Pieces([1.0], [0.0, 1.0], [3.0, 2.0], [-1.0, 2.0], low=-2.0, high=2.0)
    network = pieces.to_network()
    np.testing.assert_array_equal(network.knots, [-10.0, -6.0, 1.0])  # one and two ranges left of the data
    x = np.linspace(-6, 9, 61)
    np.testing.assert_allclose(network(x), pieces.predict(x), atol=1e-12)
    assert network([-10.0, -20.0]).tolist() == [0.0, 0.0]


def test_a_function_without_knots_is_a_network_too() -> None:
    line = Pieces([], [2.0], [1.0], [0.5], low=2.0, high=2.0)
    np.testing.assert_allclose(line.to_network()([1.5, 2.0, 7.0]), [0.75, 1.0, 3.5])
    zero = Pieces([], [2.0], [0.0], [0.0], low=2.0, high=2.0)
    np.testing.assert_array_equal(zero.to_network()([1.0, 3.0]), [0.0, 0.0])


def test_the_table_says_where_each_line_holds() -> None:
    rows = TENT.table()
    assert rows == [
        {"piece": 1, "left": -np.inf, "right": 1.0, "slope": 1.0, "intercept": 0.0},
        {"piece": 2, "left": 1.0, "right": np.inf, "slope": -1.0, "intercept": 2.0},
    ]


def test_pieces_are_values() -> None:
    for twin in (copy.deepcopy(TENT), pickle.loads(pickle.dumps(TENT))):
        assert twin == TENT
        assert not twin.knots.flags.writeable
    assert Pieces([1.0], [0.5, 1.5], [0.5, 0.5], [1.0, -2.0], low=0.0, high=2.0) != TENT
    with pytest.raises(ValueError, match="read-only"):
        TENT.slopes[0] = 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 1.0], [0.0] * 3, [0.0] * 3, [0.0] * 3, 0, 1), "knots: must be strictly increasing"),
        (([1.0], [0.0], [0.0] * 2, [0.0] * 2, 0, 1), "centres: must be one more than the knots"),
        (([1.0], [0.0] * 2, [0.0] * 2, [0.0] * 3, 0, 1), "slopes: must be one more"),
        (([1.0], [0.0] * 2, [0.0, np.nan], [0.0] * 2, 0, 1), "heights: entries must be finite"),
        (([1.0], [0.0] * 2, [0.0] * 2, [0.0] * 2, 0, np.inf), "high: must be finite"),
    ],
)
def test_bad_pieces_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Pieces(*arguments)  # type: ignore[arg-type]
