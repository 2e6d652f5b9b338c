"""What happens to a knot on a data point: the differential inclusion, and the bookkeeping it requires.

The velocity of a knot jumps where the knot meets a data point x_k, so the flow (3.1) of Ainsworth & Shin
2020 [plateau] is understood as a Filippov solution. Let v_L, v_R be the knot's velocities just left and just
right of x_k (``stage.one_sided_velocities``):

===================  =============================================================================
v_L ≥ 0, v_R > 0     the knot goes to the right
v_L < 0, v_R ≤ 0     the knot goes to the left
v_L ≥ 0 ≥ v_R        the knot is held on x_k (it slides: c moves, b does not) until a sign changes
v_L < 0 < v_R        a ridge: leaving to either side is a solution; the caller's choice is taken
x_k the last datum   right of it nothing acts on the neuron: it is dead, and stays where it is
===================  =============================================================================

Since f is continuous in every knot, the decision on one knot does not depend on the sides of the others:
meetings at the same instant are decided together.

A knot that arrives from one side has shown the sign of its velocity there, so the other side decides: cross
or hold. The generic way onto a ridge is a held neuron whose outer weight changes its sign; the flow is
two-valued there, and the event says so.

A knot that leaves x_k is put onto the neighbouring floating-point number, so that knots and what holds
them alone determine the state: what a caller gets back is enough to go on from.
"""

import numpy as np
from numba import njit

from shallowflow.kernels.knots.stage import FIRST, HELD, KNOT, NEURON, FloatArray, IntArray, Stage
from shallowflow.kernels.shared.compilation import INTERNAL

CROSS_LEFT, CROSS_RIGHT, PIN, RELEASE_LEFT, RELEASE_RIGHT, DEATH, RIDGE_LEFT, RIDGE_RIGHT = range(8)
NO_EVENT = -1
LEFT, HOLD, RIGHT = -1, 0, 1
# How a knot came to be where it is: not on a data point; held there, to stay or to be let go; free, but put
# there by the caller; arrived from one side.
ABSENT, STAYING, LET_GO, PUT_THERE, FROM_LEFT, FROM_RIGHT = range(6)


@njit(cache=True, **INTERNAL)
def sort_layout(state: FloatArray, layout: IntArray, live: int) -> None:
    """Insertion sort of the first ``live`` columns by ``FIRST``: O(live) when few neurons changed places.

    Ties go by the caller's index, so that all that follows is a function of the state alone, to the last bit.
    """
    for i in range(1, live):
        j = i
        while j > 0 and (
            layout[FIRST, j - 1] > layout[FIRST, j]
            or (layout[FIRST, j - 1] == layout[FIRST, j] and layout[NEURON, j - 1] > layout[NEURON, j])
        ):
            for row in range(2):
                state[row, j - 1], state[row, j] = state[row, j], state[row, j - 1]
            for row in range(3):
                layout[row, j - 1], layout[row, j] = layout[row, j], layout[row, j - 1]
            j -= 1


@njit(cache=True, **INTERNAL)
def seat_arrivals(state: FloatArray, stage: Stage, let_go: int, arrivals: IntArray) -> bool:
    """Put every knot that has reached or passed the end of its gap onto that data point; returns if any has.

    It is held there until ``settle``. Never before it has reached it: a knot that follows a moving
    equilibrium would be pushed past it, and be let go at once. Knots that were held before stay, except that
    those on the location ``let_go`` may leave.
    """
    layout, places, found = stage.layout, stage.places, False
    for j in range(stage.live):
        neuron, place = layout[NEURON, j], layout[FIRST, j]
        if layout[HELD, j] >= 0:
            arrivals[neuron] = LET_GO if place == let_go else STAYING
            continue
        if state[KNOT, j] >= places[place]:
            arrivals[neuron] = FROM_LEFT
        elif place > 0 and state[KNOT, j] <= places[place - 1]:
            place -= 1
            arrivals[neuron] = FROM_RIGHT
        else:
            arrivals[neuron] = ABSENT
            continue
        found = True
        layout[FIRST, j], layout[HELD, j] = place, place
        state[KNOT, j] = places[place]
    return found


@njit(cache=True, **INTERNAL)
def decide(left: float, right: float, arrival: int, last: bool, ridge_side: int) -> tuple[int, int]:
    """Side taken by a knot on a data point (``LEFT``, ``HOLD``, ``RIGHT``), and the event or ``NO_EVENT``.

    ``left``, ``right``: one-sided velocities; ``last``: is it the last location? A knot put there by the
    caller that leaves makes no event.
    """
    if arrival == STAYING:
        return HOLD, NO_EVENT
    if arrival == FROM_LEFT:
        if last:
            return RIGHT, DEATH
        return (RIGHT, CROSS_RIGHT) if right > 0.0 else (HOLD, PIN)
    if arrival == FROM_RIGHT:
        return (LEFT, CROSS_LEFT) if left < 0.0 else (HOLD, PIN)
    if left < 0.0 and right > 0.0:
        return (RIGHT, RIDGE_RIGHT) if ridge_side > 0 else (LEFT, RIDGE_LEFT)
    if left < 0.0:
        return LEFT, RELEASE_LEFT if arrival == LET_GO else NO_EVENT
    if right > 0.0:
        return RIGHT, RELEASE_RIGHT if arrival == LET_GO else NO_EVENT
    return HOLD, NO_EVENT if arrival == LET_GO else PIN


@njit(cache=True, **INTERNAL)
def settle(
    state: FloatArray,
    stage: Stage,
    sides: FloatArray,
    arrivals: IntArray,
    ridge_side: int,
    events: IntArray,
    recorded: int,
) -> tuple[int, bool, int]:
    """Decide on every knot that is on a data point: (neurons still alive, has any left?, events so far).

    ``sides`` (2, n): one-sided velocities. Events (kind, caller's neuron, location) go into ``events`` (·,
    3) from row ``recorded`` on. If a knot left its data point the columns have to be sorted, over the old
    ``live`` so that the newly dead go last.
    """
    layout, live, places = stage.layout, stage.live, stage.places
    alive, changed = live, False
    for j in range(live):
        place, neuron = layout[HELD, j], layout[NEURON, j]
        if place < 0:
            continue
        last = place == places.size - 1
        side, kind = decide(sides[0, j], sides[1, j], arrivals[neuron], last, ridge_side)
        if kind != NO_EVENT:
            events[recorded, 0], events[recorded, 1], events[recorded, 2] = kind, neuron, place
            recorded += 1
        if side == HOLD:
            continue
        changed = True
        layout[HELD, j] = -1
        if side == LEFT:
            state[KNOT, j] = np.nextafter(places[place], -np.inf)
        else:
            layout[FIRST, j] = place + 1
            if last:
                alive -= 1
            else:
                state[KNOT, j] = np.nextafter(places[place], np.inf)
    return alive, changed, recorded
