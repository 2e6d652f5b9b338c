"""The table of the differential inclusion, and the bookkeeping of knots on data points."""

import numpy as np
import pytest

from shallowflow.kernels.knots import meetings as kv


@pytest.mark.parametrize(
    ("left", "right", "arrival", "expected"),
    [
        (1.0, 2.0, kv.FROM_LEFT, (kv.RIGHT, kv.CROSS_RIGHT)),
        (1.0, -2.0, kv.FROM_LEFT, (kv.HOLD, kv.PIN)),
        (1.0, 0.0, kv.FROM_LEFT, (kv.HOLD, kv.PIN)),
        (-1.0, -2.0, kv.FROM_RIGHT, (kv.LEFT, kv.CROSS_LEFT)),
        (1.0, -2.0, kv.FROM_RIGHT, (kv.HOLD, kv.PIN)),
        # The side it came from has shown its sign: rounding there does not make a ridge.
        (-1e-18, 2.0, kv.FROM_LEFT, (kv.RIGHT, kv.CROSS_RIGHT)),
        (-1.0, 1e-18, kv.FROM_RIGHT, (kv.LEFT, kv.CROSS_LEFT)),
        (1.0, -1.0, kv.LET_GO, (kv.HOLD, kv.NO_EVENT)),
        (-1.0, -1.0, kv.LET_GO, (kv.LEFT, kv.RELEASE_LEFT)),
        (1.0, 1.0, kv.LET_GO, (kv.RIGHT, kv.RELEASE_RIGHT)),
        (-1.0, 1.0, kv.LET_GO, (kv.RIGHT, kv.RIDGE_RIGHT)),
        (-1.0, 1.0, kv.STAYING, (kv.HOLD, kv.NO_EVENT)),
        (0.0, 0.0, kv.PUT_THERE, (kv.HOLD, kv.PIN)),
        (1.0, 1.0, kv.PUT_THERE, (kv.RIGHT, kv.NO_EVENT)),
        (-1.0, -1.0, kv.PUT_THERE, (kv.LEFT, kv.NO_EVENT)),
        (-1.0, 1.0, kv.PUT_THERE, (kv.RIGHT, kv.RIDGE_RIGHT)),
    ],
)
def test_verdicts(left: float, right: float, arrival: int, expected: tuple[int, int]) -> None:
    assert kv.verdict(left, right, arrival, False, 1) == expected


def test_ridge_goes_where_the_caller_says_and_the_last_point_kills() -> None:
    assert kv.verdict(-1.0, 1.0, kv.LET_GO, False, -1) == (kv.LEFT, kv.RIDGE_LEFT)
    assert kv.verdict(1.0, 0.0, kv.FROM_LEFT, True, 1) == (kv.RIGHT, kv.DEATH)


def test_arrange_sorts_out_free_held_placed_and_dead_neurons() -> None:
    places, starts = np.array([0.0, 1.0, 2.0]), np.array([0, 2, 3])
    knots = np.array([2.0, 0.5, 1.0, -1.0, 9.0, 1.0])
    pinned = np.array([-1, -1, -1, -1, -1, 2])
    state, layout = np.empty((2, 6)), np.empty((3, 6), np.int64)
    arrivals = np.empty(6, np.int64)
    live = kv.arrange(knots, np.arange(6.0), pinned, starts, places, state, layout, arrivals)
    kv.sort_layout(state, layout, live)
    assert live == 4
    assert layout[2, :live].tolist() == [3, 1, 2, 5]
    assert sorted(layout[2, live:].tolist()) == [0, 4]
    assert layout[0, :live].tolist() == [0, 1, 1, 1]
    assert layout[1, :live].tolist() == [-1, -1, 1, 1]
    assert state[:, :live].tolist() == [[-1.0, 0.5, 1.0, 1.0], [3.0, 1.0, 2.0, 5.0]]
    assert arrivals.tolist() == [kv.ABSENT, kv.ABSENT, kv.PUT_THERE, kv.ABSENT, kv.ABSENT, kv.STAYING]


def test_knots_are_seated_only_once_they_have_reached_the_point() -> None:
    places = np.array([0.0, 1.0, 2.0])
    state = np.array([[-0.1, 0.0, 1.0 - 1e-15, 1.0 + 1e-9, 1.0], np.zeros(5)])
    layout = np.array([[0, 1, 1, 1, 1], [-1, -1, -1, -1, 1], [0, 1, 2, 3, 4]])
    arrivals = np.empty(5, np.int64)
    assert kv.seat_arrivals(state, layout, 5, places, 1, arrivals)
    assert arrivals.tolist() == [kv.ABSENT, kv.FROM_RIGHT, kv.ABSENT, kv.FROM_LEFT, kv.LET_GO]
    assert state[0].tolist() == [-0.1, 0.0, 1.0 - 1e-15, 1.0, 1.0]
    assert layout[0].tolist() == [0, 0, 1, 1, 1]
    assert layout[1].tolist() == [-1, 0, -1, 1, 1]


def test_settled_knots_leave_by_one_rounding_so_that_positions_tell_the_side() -> None:
    places = np.array([0.0, 1.0, 2.0])
    state = np.array([[0.0, 1.0, 1.0, 2.0], np.zeros(4)])
    layout = np.array([[0, 1, 1, 2], [0, 1, 1, 2], [3, 1, 0, 2]])
    arrivals = np.array([kv.FROM_LEFT, kv.FROM_LEFT, kv.FROM_LEFT, kv.FROM_RIGHT])
    sides = np.array([[-1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, -1.0, 0.0]])
    events, recorded = np.zeros((9, 3), np.int64), np.array([2])
    assert kv.settle(state, layout, 4, places, sides, arrivals, 1, events, recorded) == (3, True)
    assert recorded[0] == 6
    expected = [[kv.CROSS_LEFT, 3, 0], [kv.CROSS_RIGHT, 1, 1], [kv.PIN, 0, 1], [kv.DEATH, 2, 2]]
    assert events[2:6].tolist() == expected
    assert state[0].tolist() == [-5e-324, np.nextafter(1.0, 2.0), 1.0, 2.0]
    assert layout[:2].tolist() == [[0, 2, 1, 3], [-1, -1, 1, -1]]
