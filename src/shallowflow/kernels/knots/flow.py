"""Event-driven gradient flow of a knot network f(x) = Σ_j c_j relu(x − b_j), in O(width) per step.

The flow (3.1) of Ainsworth & Shin 2020 [plateau] is smooth inside a *stage*, stiff, and its velocity jumps
where a knot meets a data point. So it is followed by an adaptive, stiffly accurate Rosenbrock method of
order 5 (``knot_step``, ``knot_rosenbrock``, linear algebra in ``knot_riccati``) that stops wherever a knot
meets a data point (``knot_passages``), decides there what the differential inclusion says
(``knot_verdicts``) and goes on. Summaries of the data between two knots (``knot_blocks``) make a step's cost
independent of the number of data points.

``integrate`` can be called again with what it returned: the state is (knots, outer, pinned, t, h),
and a run may be cut into calls anywhere without changing a bit of it.
"""

import numpy as np
from numba import njit

from shallowflow.kernels.knots.meetings import arrange, settle, sort_layout
from shallowflow.kernels.knots.stage import (
    CENTRE,
    HELD,
    KNOT,
    NEURON,
    OUTER,
    FloatArray,
    IntArray,
    one_sided_velocities,
    stage_loss,
    summarize_blocks,
    velocity,
)
from shallowflow.kernels.knots.step import NODES, advance, first_length
from shallowflow.kernels.knots.stiff_step import STAGES, interpolate

REACHED, STATIONARY, OUT_OF_STEPS, OUT_OF_EVENTS, STEP_TOO_SMALL, NOT_FINITE = range(6)


@njit(cache=True, error_model="numpy")
def _gradient_norm(
    layout: IntArray, live: int, rates: tuple[float, float], rate: FloatArray, sides: FloatArray
) -> float:
    """Norm of the gradient of ½ Σ r², with the smallest one-sided derivative for knots on a data point."""
    total = 0.0
    for j in range(live):
        inner = rate[KNOT, j]
        if layout[HELD, j] >= 0:
            inner = max(0.0, -sides[0, j], sides[1, j])
        total += (inner / rates[0]) ** 2 + (rate[OUTER, j] / rates[1]) ** 2
    return float(np.sqrt(total))


@njit(cache=True, error_model="numpy")
def _settle_all(
    state: FloatArray,
    layout: IntArray,
    live: int,
    tree: FloatArray,
    places: FloatArray,
    rates: tuple[float, float],
    ridge_side: int,
    arrivals: IntArray,
    spans: IntArray,
    blocks: FloatArray,
    scratch: FloatArray,
    events: IntArray,
    recorded: IntArray,
) -> int:
    """Decide on all knots on data points, update layout and blocks; returns how many neurons live."""
    sort_layout(state, layout, live)
    summarize_blocks(layout, live, tree, spans, blocks)
    velocity(state, layout, blocks, live, rates, scratch[0], scratch[1])
    one_sided_velocities(state, layout, blocks, live, rates[0], tree, scratch[0, 0], scratch[2])
    alive, changed = settle(state, layout, live, places, scratch[2], arrivals, ridge_side, events, recorded)
    if changed:
        sort_layout(state, layout, live)
        summarize_blocks(layout, alive, tree, spans, blocks)
    return int(alive)


@njit(cache=True, error_model="numpy")
def _unsort(state: FloatArray, layout: IntArray, out: FloatArray) -> None:
    """Write knots, then outer weights, in the caller's order into ``out`` (2n,)."""
    width = layout.shape[1]
    for j in range(width):
        out[layout[NEURON, j]] = state[KNOT, j]
        out[width + layout[NEURON, j]] = state[OUTER, j]


@njit(cache=True, error_model="numpy")
def _store_nodes(
    state: FloatArray,
    new: FloatArray,
    dense: FloatArray,
    layout: IntArray,
    live: int,
    between: FloatArray,
    nodes: FloatArray,
) -> None:
    """Write the interpolant of a step at all nodes but the last into ``nodes`` (5, 2n)."""
    for node in range(NODES.size - 1):
        for j in range(live, layout.shape[1]):
            between[KNOT, j], between[OUTER, j] = state[KNOT, j], state[OUTER, j]
        interpolate(state, new, dense, live, NODES[node], between)
        _unsort(between, layout, nodes[node])


@njit(cache=True, error_model="numpy")
def _reason_to_stop(
    norm: float, gradient_stop: float, time_left: float, steps_left: int, events_left: int, width: int
) -> int:
    """Return the status with which the run ends here, or −1 if it goes on."""
    if not norm < np.inf:
        return NOT_FINITE
    if norm <= gradient_stop:
        return STATIONARY
    if time_left <= 0.0:
        return REACHED
    if steps_left == 0:
        return OUT_OF_STEPS
    if events_left < width:
        return OUT_OF_EVENTS
    return -1


@njit(cache=True, error_model="numpy")
def _places_held(layout: IntArray, live: int, starts: IntArray) -> IntArray:
    """Return the data points on which the neurons are held, or −1, in the caller's order."""
    held = np.full(layout.shape[1], -1)
    for j in range(live):
        if layout[HELD, j] >= 0:
            held[layout[NEURON, j]] = starts[layout[HELD, j]]
    return held


@njit(cache=True, error_model="numpy")
def integrate(
    knots: FloatArray,
    outer: FloatArray,
    pinned: IntArray,
    starts: IntArray,
    tree: FloatArray,
    rates: tuple[float, float],
    t: float,
    until: float,
    h: float,
    tolerances: tuple[float, float],
    gradient_stop: float,
    max_steps: int,
    max_events: int,
    ridge_side: int,
    keep: bool,
) -> tuple[
    int,
    float,
    float,
    FloatArray,
    FloatArray,
    IntArray,
    FloatArray,
    FloatArray,
    FloatArray,
    FloatArray,
    IntArray,
    IntArray,
]:
    """Follow b' = −rate_inner ∂L/∂b, c' = −rate_outer ∂L/∂c for L = ½ Σ r² from time t to ``until``.

    Parameters
    ----------
    knots, outer
        b and c, (width,), in any order.
    pinned
        (width,) int64: index of the sorted data point on which a knot is held, or −1.
    starts, tree
        what ``knot_blocks.summarize`` returns for the sorted data (repeated x allowed).
    rates
        (rate_inner, rate_outer), both positive; fold in the mean's 1/size, a speed, a ratio of layer rates.
    t, until
        times; ``until`` may be infinite if ``gradient_stop`` is positive.
    h
        length of the first step to try; 0 lets the kernel choose.
    tolerances
        (rtol, atol) of one step, per parameter; both at least 1e-13, atol positive.
    gradient_stop
        stop when the norm of the gradient of ½ Σ r² (smallest one where it is set-valued) is at most this.
    max_steps, max_events
        room for accepted steps and for events; ``max_events`` must be at least 2 · width.
    ridge_side
        +1 or −1: side taken where the flow is two-valued.
    keep
        store the interpolants? Otherwise ``nodes`` is empty.

    Returns
    -------
    status
        ``REACHED`` | ``STATIONARY`` | ``OUT_OF_STEPS`` | ``OUT_OF_EVENTS`` (no room: call again with the
        returned state) | ``STEP_TOO_SMALL`` | ``NOT_FINITE``.
    t, h, knots, outer, pinned
        time, suggested next step and state at the end, in the caller's order.
    times, losses
        (s + 1,): start and ends of the s accepted steps (non-decreasing) and ½ Σ r² there.
    nodes
        (s, 5, 2·width): parameters (knots, then outer weights, caller's order) at the Chebyshev–Lobatto
        fractions ``knot_passages.NODES`` of each step; the polynomial of degree 4 through them is the
        interpolant.
    event_times, events
        (e,) and (e, 3): kind (``knot_verdicts``), neuron, sorted data index (the first of equal x). Events
        happen at ends of steps; the state there is the one after the event.
    counts
        (5,): steps attempted, rejected for their error, refused as unstable, shortened for an event, false
        alarms.
    """
    width, places = knots.size, tree[starts.size :, CENTRE].copy()
    state, new, rate, sums = (
        np.empty((2, width)), np.empty((2, width)), np.zeros((2, width)), np.zeros((2, width))
    )  # fmt: skip
    layout, arrivals = np.empty((3, width), np.int64), np.empty(width, np.int64)
    spans, blocks = np.full((2, width + 1), -1), np.zeros((6, width + 1))
    dense, scratch = np.zeros((3, 2, width)), np.zeros((4, 2, width))
    tools = (np.zeros((width, 11)), np.zeros((STAGES, 2, width)), dense, scratch)
    counts, recorded = np.zeros(5, np.int64), np.zeros(1, np.int64)
    events, event_times = np.empty((max_events, 3), np.int64), np.empty(max_events)
    times, losses = np.empty(max_steps + 1), np.empty(max_steps + 1)
    nodes = np.empty((max_steps if keep else 0, NODES.size, 2 * width))

    live = arrange(knots, outer, pinned, starts, places, state, layout, arrivals)
    steps = 0
    while True:
        settled = recorded[0]
        live = _settle_all(
            state, layout, live, tree, places, rates, ridge_side,
            arrivals, spans, blocks, scratch, events, recorded,
        )  # fmt: skip
        for i in range(settled, recorded[0]):
            event_times[i] = t
            events[i, 2] = starts[events[i, 2]]
        if keep and steps > 0:
            _unsort(state, layout, nodes[steps - 1, NODES.size - 1])
        times[steps], losses[steps] = t, stage_loss(state, blocks, live)
        velocity(state, layout, blocks, live, rates, sums, rate)
        one_sided_velocities(state, layout, blocks, live, rates[0], tree, sums[0], scratch[2])
        norm = _gradient_norm(layout, live, rates, rate, scratch[2])
        status = _reason_to_stop(
            norm, gradient_stop, until - t, max_steps - steps, max_events - recorded[0], width
        )
        if status >= 0:
            break
        if h <= 0.0:
            h = first_length(state, rate, live, tolerances)
        # A last step hardly longer than planned is better than one more, tiny, step.
        allowed = until - t if t + 1.01 * h >= until else h
        length, suggested = advance(
            state, rate, sums[0], layout, blocks, live, rates, tree, places, tolerances,
            allowed, 4e-16 * abs(t) + 1e-200, new, tools, arrivals, counts,
        )  # fmt: skip
        if length == 0.0:
            status = STEP_TOO_SMALL
            break
        if keep:
            _store_nodes(state, new, dense, layout, live, scratch[0], nodes[steps])
        h = max(suggested, h) if length == allowed < h else suggested
        t = until if length == until - t else t + length
        for j in range(live):
            state[KNOT, j], state[OUTER, j] = new[KNOT, j], new[OUTER, j]
        steps += 1
    end = np.empty(2 * width)
    _unsort(state, layout, end)
    held = _places_held(layout, live, starts)
    return (
        status, t, h, end[:width].copy(), end[width:].copy(), held, times[: steps + 1], losses[: steps + 1],
        nodes[:steps], event_times[: recorded[0]], events[: recorded[0]], counts,
    )  # fmt: skip
