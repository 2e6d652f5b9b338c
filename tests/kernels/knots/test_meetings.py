"""The table of the differential inclusion, and the bookkeeping of knots on data points."""

import numpy as np
import pytest

from shallowflow.kernels.knots import stage as kv
from shallowflow.kernels.knots.flow import FlowState, arrange
from shallowflow.kernels.knots.stage import IntArray, Stage, summarize
from tests.kernels.knots.knot_entries import decide, seat_arrivals, settle


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
def test_decisions(left: float, right: float, arrival: int, expected: tuple[int, int]) -> None:
    assert decide(left, right, arrival, False, 1) == expected


def test_ridge_goes_where_the_caller_says_and_the_last_point_kills() -> None:
    assert decide(-1.0, 1.0, kv.LET_GO, False, -1) == (kv.LEFT, kv.RIDGE_LEFT)
    assert decide(1.0, 0.0, kv.FROM_LEFT, True, 1) == (kv.RIGHT, kv.DEATH)


def test_arrange_sorts_out_free_held_placed_and_dead_neurons() -> None:
    x = np.array([0.0, 0.0, 1.0, 2.0])
    knots, held = np.array([2.0, 0.5, 1.0, -1.0, 9.0, 1.0]), np.array([-1, -1, -1, -1, -1, 2])
    neurons, live = arrange(FlowState(knots, np.arange(6.0), held), summarize(x, x))
    state, layout = neurons.state, neurons.layout
    assert live == 4
    assert layout[2, :live].tolist() == [3, 1, 2, 5]
    assert sorted(layout[2, live:].tolist()) == [0, 4]
    assert layout[0, :live].tolist() == [0, 1, 1, 1]
    assert layout[1, :live].tolist() == [-1, -1, 1, 1]
    assert state[:, :live].tolist() == [[-1.0, 0.5, 1.0, 1.0], [3.0, 1.0, 2.0, 5.0]]
    expected = [kv.ABSENT, kv.ABSENT, kv.PUT_THERE, kv.ABSENT, kv.ABSENT, kv.STAYING]
    assert neurons.arrivals.tolist() == expected


def stage_of(layout: IntArray) -> Stage:
    """A stage with these neurons on the locations 0, 1, 2; its blocks are not looked at."""
    width, places = layout.shape[1], np.array([0.0, 1.0, 2.0])
    return Stage(layout, np.empty((6, width + 1)), width, (1.0, 1.0), np.empty((6, 6)), places)


def test_knots_are_seated_only_once_they_have_reached_the_point() -> None:
    state = np.array([[-0.1, 0.0, 1.0 - 1e-15, 1.0 + 1e-9, 1.0], np.zeros(5)])
    layout = np.array([[0, 1, 1, 1, 1], [-1, -1, -1, -1, 1], [0, 1, 2, 3, 4]])
    arrivals = np.empty(5, np.int64)
    assert seat_arrivals(state, stage_of(layout), 1, arrivals)
    assert arrivals.tolist() == [kv.ABSENT, kv.FROM_RIGHT, kv.ABSENT, kv.FROM_LEFT, kv.LET_GO]
    assert state[0].tolist() == [-0.1, 0.0, 1.0 - 1e-15, 1.0, 1.0]
    assert layout[0].tolist() == [0, 0, 1, 1, 1]
    assert layout[1].tolist() == [-1, 0, -1, 1, 1]


def test_settled_knots_leave_by_one_rounding_so_that_positions_tell_the_side() -> None:
    state = np.array([[0.0, 1.0, 1.0, 2.0], np.zeros(4)])
    layout = np.array([[0, 1, 1, 2], [0, 1, 1, 2], [3, 1, 0, 2]])
    arrivals = np.array([kv.FROM_LEFT, kv.FROM_LEFT, kv.FROM_LEFT, kv.FROM_RIGHT])
    sides = np.array([[-1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, -1.0, 0.0]])
    events = np.zeros((9, 3), np.int64)
    assert settle(state, stage_of(layout), sides, arrivals, 1, events, 2) == (3, True, 6)
    expected = [[kv.CROSS_LEFT, 3, 0], [kv.CROSS_RIGHT, 1, 1], [kv.PIN, 0, 1], [kv.DEATH, 2, 2]]
    assert events[2:6].tolist() == expected
    assert state[0].tolist() == [-5e-324, np.nextafter(1.0, 2.0), 1.0, 2.0]
    assert layout[:2].tolist() == [[0, 2, 1, 3], [-1, -1, 1, -1]]
