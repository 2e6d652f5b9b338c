"""The flow of a knot network inside one stage, in O(width) whatever the number of data points, and its end.

Ainsworth & Shin 2020 [plateau], (3.1), with a rate per layer: for f(x) = Σ_j c_j relu(x − b_j), r_i = f(x_i)
− y_i and L = ½ Σ r_i²,

    b_j' = −rate_inner ∂L/∂b_j = rate_inner c_j G_j,      G_j = Σ_{x_i > b_j} r_i,
    c_j' = −rate_outer ∂L/∂c_j = −rate_outer M_j,         M_j = Σ_{x_i > b_j} r_i (x_i − b_j).

A *stage* is a time span in which no knot meets a data point. Neurons are listed by the first location they
act on; the order of neurons between the same two locations is immaterial, no data lie between them. Block l
holds the locations from that of neuron l to that of neuron l + 1 (the set U_l of (3.2)); f is one line on it,
v_l + A_l (x − μ_l), and all that the dynamics needs to know about its points is six numbers, the *summary*:

===========  =================================================================
``COUNT``    u, the number of points
``CENTRE``   μ, the mean of x (3.3)
``MEAN``     ȳ, the mean of y (3.3)
``SPREAD``   S = Σ (x − μ)²
``SLOPE``    a, the slope of the block's regression line (0 if S = 0)
``SCATTER``  Q, the residual sum of squares of the block's regression line
===========  =================================================================

    Σ r = u (v − ȳ),     Σ r (x − μ) = S (A − a),     Σ r² = u (v − ȳ)² + S (A − a)² + Q.

So the sweeps need differences of neighbouring positions only:

    v_l = v_{l−1} + A_{l−1} (μ_l − μ_{l−1}) + c_l (μ_l − b_l),    A_l = A_{l−1} + c_l,
    W_l = W_{l+1} + G_{l+1} (μ_{l+1} − μ_l) + S_l (A_l − a_l),    G_l = G_{l+1} + u_l (v_l − ȳ_l),
    M_l = W_l + G_l (μ_l − b_l).

An empty block has u = S = 0 and any centre; it is given the location at which it would start.

**Summaries without cancellation.** Differences of prefix sums would lose these numbers, since a block is
narrow beside its distance from the origin. So they are merged pairwise, in a segment tree, in O(log size) for
any run of data. With w = u₁u₂/u, δ = μ₂ − μ₁, η = ȳ₂ − ȳ₁,

    S = S₁ + S₂ + w δ²,     S a = S₁ a₁ + S₂ a₂ + w δ η,
    Q = Q₁ + Q₂ + S₁ (a − a₁)² + S₂ (a − a₂)² + w (a δ − η)².

Points with equal x form one *location*, a leaf of the tree: a knot meets all of them at once.

``state`` (2, n) in all functions: rows ``KNOT``, ``OUTER``, that is b and c in stage order, the neurons that
live first.

**Meetings.** The velocity of a knot jumps where the knot meets a data point x_k, so the flow (3.1) is
understood as a Filippov solution. Let v_L, v_R be the knot's velocities just left and just right of x_k:

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

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shallowflow.kernels.shared.compilation import INTERNAL, LEAN

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

COUNT, CENTRE, MEAN, SPREAD, SLOPE, SCATTER = range(6)
KNOT, OUTER = 0, 1
FIRST, HELD, NEURON = 0, 1, 2


class Locations(NamedTuple):
    """The data: index of the first of equal x (places,), tree of summaries (2·places, 6), the x (places,).

    Row ``places + k`` of the tree summarizes location k, row i merges rows 2i and 2i + 1, row 0 is unused.
    """

    starts: IntArray
    tree: FloatArray
    places: FloatArray


class Stage(NamedTuple):
    """What the flow keeps fixed inside a stage.

    ``layout`` (3, n): rows ``FIRST``, the first location acted on; ``HELD``, the location on which the knot
    is held, so that b does not move, or −1; ``NEURON``, the caller's index. ``blocks`` (6, n + 1): summaries
    of the blocks, the last column U_0, on which no neuron acts. ``live``: so many neurons take part; the dead
    follow them. ``rates``: of the inner and the outer layer.
    """

    layout: IntArray
    blocks: FloatArray
    live: int
    rates: tuple[float, float]
    tree: FloatArray
    places: FloatArray


@njit(cache=True, **INTERNAL)
def absorb(summary: FloatArray, other: FloatArray) -> None:
    """Merge the summary ``other`` (6,) into ``summary`` (6,) in place (formulas in the module docstring)."""
    if other[COUNT] == 0.0:
        return
    if summary[COUNT] == 0.0:
        for row in range(6):
            summary[row] = other[row]
        return
    total = summary[COUNT] + other[COUNT]
    share = other[COUNT] / total
    weight = summary[COUNT] * share
    gap_x = other[CENTRE] - summary[CENTRE]
    gap_y = other[MEAN] - summary[MEAN]
    spread = summary[SPREAD] + other[SPREAD] + weight * gap_x * gap_x
    moment = summary[SPREAD] * summary[SLOPE] + other[SPREAD] * other[SLOPE] + weight * gap_x * gap_y
    slope = moment / spread if spread > 0.0 else 0.0
    turn, other_turn, jump = slope - summary[SLOPE], slope - other[SLOPE], slope * gap_x - gap_y
    summary[SCATTER] += (
        other[SCATTER]
        + summary[SPREAD] * turn * turn
        + other[SPREAD] * other_turn * other_turn
        + weight * jump * jump
    )
    summary[COUNT] = total
    summary[CENTRE] += share * gap_x
    summary[MEAN] += share * gap_y
    summary[SPREAD] = spread
    summary[SLOPE] = slope


@njit(cache=True, **LEAN)
def _fill_tree(x_sorted: FloatArray, y_sorted: FloatArray, tree: FloatArray) -> None:
    places, place, point = tree.shape[0] // 2, -1, tree[0]
    for i in range(x_sorted.size):
        if i == 0 or x_sorted[i] != x_sorted[i - 1]:
            place += 1
        point[COUNT], point[CENTRE], point[MEAN] = 1.0, x_sorted[i], y_sorted[i]
        absorb(tree[places + place], point)
    for node in range(places - 1, 0, -1):
        absorb(tree[node], tree[2 * node])
        absorb(tree[node], tree[2 * node + 1])


def summarize(x_sorted: FloatArray, y_sorted: FloatArray) -> Locations:
    """Return the locations of the data (size,), sorted by x, and the segment tree of their summaries."""
    starts = np.flatnonzero(np.diff(x_sorted, prepend=-np.inf))
    tree = np.zeros((2 * starts.size, 6))
    _fill_tree(x_sorted, y_sorted, tree)
    return Locations(starts, tree, x_sorted[starts])


@njit(cache=True, **INTERNAL)
def block_statistics(tree: FloatArray, first: int, last: int, summary: FloatArray) -> None:
    """Write into ``summary`` (6,) the summary of the locations first ≤ k < last; an empty run gives zeros."""
    places = tree.shape[0] // 2
    for row in range(6):
        summary[row] = 0.0
    left, right = first + places, last + places
    while left < right:
        if left & 1:
            absorb(summary, tree[left])
            left += 1
        if right & 1:
            right -= 1
            absorb(summary, tree[right])
        left >>= 1
        right >>= 1


@njit(cache=True, **INTERNAL)
def summarize_blocks(stage: Stage, spans: IntArray) -> None:
    """Bring the blocks up to date with the layout: O(live), plus O(log places) for every block that changed.

    ``spans`` (2, n + 1) remembers the first and last location of each column of ``blocks``; start it with −1.
    """
    layout, blocks, live, tree = stage.layout, stage.blocks, stage.live, stage.tree
    places = tree.shape[0] // 2
    width = layout.shape[1]
    summary = tree[0]
    for column in range(live + 1):
        position = column if column < live else width
        if position < width:
            start = layout[FIRST, position]
            stop = layout[FIRST, position + 1] if position + 1 < live else places
        else:
            start, stop = 0, layout[FIRST, 0] if live > 0 else places
        if spans[0, position] == start and spans[1, position] == stop:
            continue
        spans[0, position], spans[1, position] = start, stop
        block_statistics(tree, start, stop, summary)
        if start == stop and start < places:
            summary[CENTRE] = tree[places + start, CENTRE]
        for row in range(6):
            blocks[row, position] = summary[row]


@njit(cache=True, **INTERNAL)
def velocity(state: FloatArray, stage: Stage, sums: FloatArray, out: FloatArray) -> None:
    """Velocity (b', c') of (3.1) into ``out`` (2, n) and G into ``sums[0]``; held knots do not move."""
    layout, blocks, live, rates = stage.layout, stage.blocks, stage.live, stage.rates
    slope, value, previous = 0.0, 0.0, blocks[CENTRE, 0]
    for j in range(live):
        centre, outer = blocks[CENTRE, j], state[OUTER, j]
        value += slope * (centre - previous) + outer * (centre - state[KNOT, j])
        slope += outer
        sums[0, j] = blocks[COUNT, j] * (value - blocks[MEAN, j])
        sums[1, j] = blocks[SPREAD, j] * (slope - blocks[SLOPE, j])
        previous = centre
    force, moment = 0.0, 0.0
    for j in range(live - 1, -1, -1):
        centre = blocks[CENTRE, j]
        moment += force * (previous - centre) + sums[1, j]
        force += sums[0, j]
        sums[0, j] = force
        out[KNOT, j] = rates[0] * state[OUTER, j] * force if layout[HELD, j] < 0 else 0.0
        out[OUTER, j] = -rates[1] * (moment + force * (centre - state[KNOT, j]))
        previous = centre


@njit(cache=True, **INTERNAL)
def stage_loss(state: FloatArray, stage: Stage) -> float:
    """L = ½ Σ r² from the block summaries: ½ Σ_l [u (v − ȳ)² + S (A − a)² + Q], with f = 0 on U_0."""
    blocks, live = stage.blocks, stage.live
    head = blocks.shape[1] - 1
    total = blocks[COUNT, head] * blocks[MEAN, head] ** 2 + blocks[SCATTER, head]
    total += blocks[SPREAD, head] * blocks[SLOPE, head] ** 2
    slope, value, previous = 0.0, 0.0, blocks[CENTRE, 0]
    for j in range(live):
        centre, outer = blocks[CENTRE, j], state[OUTER, j]
        value += slope * (centre - previous) + outer * (centre - state[KNOT, j])
        slope += outer
        total += blocks[COUNT, j] * (value - blocks[MEAN, j]) ** 2
        total += blocks[SPREAD, j] * (slope - blocks[SLOPE, j]) ** 2 + blocks[SCATTER, j]
        previous = centre
    return float(0.5 * total)


@njit(cache=True, **INTERNAL)
def one_sided_velocities(state: FloatArray, stage: Stage, force: FloatArray, out: FloatArray) -> None:
    """Velocities of a knot held on location k just left and just right of it, into ``out`` (2, n).

    out[0] = rate_inner c G_L (the data at k act on the neuron), out[1] = rate_inner c G_R (they do not),
    where G_L = ``force`` (n,) and G_R = G_L − u_k (f(x_k) − ȳ_k). A held neuron is listed with ``FIRST`` =
    k, so that the last neuron with the same ``FIRST`` has the line that gives f(x_k). Right of the last
    location no data are left: out[1] = 0. f is continuous in every knot: the velocities of one do not depend
    on the side on which another is.
    """
    layout, blocks, live, tree = stage.layout, stage.blocks, stage.live, stage.tree
    places = tree.shape[0] // 2
    slope, value, previous = 0.0, 0.0, blocks[CENTRE, 0]
    group = 0
    for j in range(live):
        centre, outer = blocks[CENTRE, j], state[OUTER, j]
        value += slope * (centre - previous) + outer * (centre - state[KNOT, j])
        slope += outer
        previous = centre
        place = layout[FIRST, j]
        if j + 1 < live and layout[FIRST, j + 1] == place:
            continue
        leaf = tree[places + place]
        residual = leaf[COUNT] * (value + slope * (leaf[CENTRE] - centre) - leaf[MEAN])
        for i in range(group, j + 1):
            if layout[HELD, i] >= 0:
                speed = stage.rates[0] * state[OUTER, i]
                out[0, i] = speed * force[i]
                out[1, i] = speed * (force[i] - residual) if place < places - 1 else 0.0
        group = j + 1


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
