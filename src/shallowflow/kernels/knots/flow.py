"""Event-driven gradient flow of a knot network f(x) = Σ_j c_j relu(x − b_j), in O(width) per step.

The flow (3.1) of Ainsworth & Shin 2020 [plateau] is smooth inside a *stage*, stiff, and its velocity jumps
where a knot meets a data point. So it is followed by an adaptive, stiffly accurate Rosenbrock method of
order 5 (``stiff_step``) that stops wherever a knot meets a data point (``step``), decides there what the
differential inclusion says and goes on. Summaries of the data between two knots (``stage``)
make a step's cost independent of the number of data points.

``integrate`` can be called again with the state it returned: a run may be cut into calls anywhere without
changing a bit of it.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.kernels.knots.stage import (
    ABSENT,
    HELD,
    KNOT,
    NEURON,
    OUTER,
    PUT_THERE,
    STAYING,
    FloatArray,
    IntArray,
    Locations,
    Stage,
    one_sided_velocities,
    settle,
    sort_layout,
    stage_loss,
    summarize_blocks,
    velocity,
)
from shallowflow.kernels.knots.step import NODES, advance, first_length
from shallowflow.kernels.knots.stiff_step import Start, Trial, interpolate, new_trial
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE, Signed

REACHED, STATIONARY, OUT_OF_STEPS, OUT_OF_EVENTS, STEP_TOO_SMALL, NOT_FINITE = range(6)


class FlowState(NamedTuple):
    """A moment of the flow: knots, outer weights, what holds them, time, and the next step to try.

    ``held`` (width,) int64: index of the sorted data point on which a knot is held, or −1. ``length`` 0 lets
    the kernel choose its first step.
    """

    knots: FloatArray
    outer: FloatArray
    held: IntArray
    time: float = 0.0
    length: float = 0.0


class Options(NamedTuple):
    """How to follow the flow.

    ``rates``: of the inner and the outer layer, both positive; fold in the mean's 1/size, a speed, a ratio of
    layer rates. ``tolerances``: (rtol, atol) of one step, per parameter; both at least 1e-13, atol positive.
    ``gradient_stop``: stop when the norm of the gradient of ½ Σ r² (smallest one where it is set-valued) is
    at most this. ``max_steps``, ``max_events``: room for accepted steps and for events, the latter at least
    2 · width. ``ridge_side``: +1 or −1, the side taken where the flow is two-valued. ``keep``: store the
    interpolants? Otherwise ``FlowResult.nodes`` is empty.
    """

    rates: tuple[float, float]
    tolerances: tuple[float, float]
    gradient_stop: float
    max_steps: int
    max_events: int
    ridge_side: int = 1
    keep: bool = True


class FlowResult(NamedTuple):
    """What ``integrate`` passed through.

    status
        ``REACHED`` | ``STATIONARY`` | ``OUT_OF_STEPS`` | ``OUT_OF_EVENTS`` (no room: call again with
        ``state``) | ``STEP_TOO_SMALL`` | ``NOT_FINITE``.
    times, losses
        (s + 1,): start and ends of the s accepted steps (non-decreasing) and ½ Σ r² there.
    nodes
        (s, 5, 2·width): knots, then outer weights at the Chebyshev–Lobatto fractions ``step.NODES`` of each
        step; the polynomial of degree 4 through them is the interpolant.
    event_times, events
        (e,) and (e, 3): kind (``stage``), neuron, sorted data index (the first of equal x). Events happen
        at ends of steps; the state there is the one after the event.
    counts
        (5,): steps attempted, rejected for their error, refused as unstable, shortened for an event, false
        alarms.
    """

    status: int
    state: FlowState
    times: FloatArray
    losses: FloatArray
    nodes: FloatArray
    event_times: FloatArray
    events: IntArray
    counts: IntArray


class History(NamedTuple):
    """Room for what ``FlowResult`` lists."""

    times: FloatArray
    losses: FloatArray
    nodes: FloatArray
    event_times: FloatArray
    events: IntArray
    counts: IntArray


class End(NamedTuple):
    """How a call ended: the status, the next step to try, the numbers of steps and of events."""

    status: int
    length: float
    steps: int
    events: int


class Neurons(NamedTuple):
    """State and bookkeeping between steps: velocities, G (row 0 of ``sums``), ``spans``, ``arrivals``."""

    state: FloatArray
    rate: FloatArray
    sums: FloatArray
    layout: IntArray
    blocks: FloatArray
    spans: IntArray
    arrivals: IntArray


def arrange(start: FlowState, data: Locations) -> tuple[Neurons, int]:
    """Return the neurons in stage order, from the caller's arrays, and how many of them live."""
    width, places = start.knots.size, data.places
    first = np.searchsorted(places, start.knots, side="right")
    held = np.where(start.held >= 0, np.searchsorted(data.starts, start.held, side="right") - 1, -1)
    inside = (first > 0) & (first < places.size)
    put = (start.held < 0) & inside & (places[first - 1] == start.knots)
    held[put] = first[put] - 1
    arrivals = np.where(start.held >= 0, STAYING, np.where(put, PUT_THERE, ABSENT))
    first = np.where(held >= 0, held, first)
    order = np.argsort(first, kind="stable")
    state = np.stack([np.where(held >= 0, places[held], start.knots)[order], start.outer[order]])
    layout = np.stack([first[order], held[order], order])
    zeros = np.zeros((2, 2, width))
    spans = np.full((2, width + 1), -1)
    neurons = Neurons(state, zeros[0], zeros[1], layout, np.zeros((6, width + 1)), spans, arrivals)
    return neurons, int(np.sum(first < places.size))


@njit(cache=True, **ONCE)
def _gradient_norm(stage: Stage, rate: FloatArray, sides: FloatArray) -> float:
    """Norm of the gradient of ½ Σ r², with the smallest one-sided derivative for knots on a data point."""
    total = 0.0
    for j in range(stage.live):
        inner = rate[KNOT, j]
        if stage.layout[HELD, j] >= 0:
            inner = max(0.0, -sides[0, j], sides[1, j])
        total += (inner / stage.rates[0]) ** 2 + (rate[OUTER, j] / stage.rates[1]) ** 2
    return float(np.sqrt(total))


@njit(cache=True, **INTERNAL)
def _unsort(state: FloatArray, layout: IntArray, out: FloatArray) -> None:
    """Write knots, then outer weights, in the caller's order into ``out`` (2n,)."""
    width = layout.shape[1]
    for j in range(width):
        out[layout[NEURON, j]] = state[KNOT, j]
        out[width + layout[NEURON, j]] = state[OUTER, j]


@njit(cache=True, **ONCE)
def _store_nodes(state: FloatArray, trial: Trial, stage: Stage, nodes: FloatArray) -> None:
    """Write the interpolant of a step at all nodes but the last into ``nodes`` (5, 2n)."""
    between = trial.scratch[0]
    for node in range(NODES.size - 1):
        for j in range(stage.live, stage.layout.shape[1]):
            between[KNOT, j], between[OUTER, j] = state[KNOT, j], state[OUTER, j]
        interpolate(state, trial, stage.live, NODES[node], between)
        _unsort(between, stage.layout, nodes[node])


@njit(cache=True, **ONCE)
def _reason_to_stop(
    norm: float, time_left: float, steps_left: int, events_left: int, width: int, options: Options
) -> int:
    """Return the status with which the run ends here, or −1 if it goes on."""
    if not norm < np.inf:
        return NOT_FINITE
    if norm <= options.gradient_stop:
        return STATIONARY
    if time_left <= 0.0:
        return REACHED
    if steps_left == 0:
        return OUT_OF_STEPS
    if events_left < width:
        return OUT_OF_EVENTS
    return -1


@njit(cache=True, **ONCE)
def _settled(
    neurons: Neurons, stage: Stage, ridge_side: int, sides: FloatArray, events: IntArray, recorded: int
) -> tuple[Stage, int]:
    """Decide on all knots on data points, update layout and blocks: (the stage, events recorded)."""
    state, rate, sums = neurons.state, neurons.rate, neurons.sums
    sort_layout(state, stage.layout, stage.live)
    summarize_blocks(stage, neurons.spans)
    velocity(state, stage, sums, rate)
    one_sided_velocities(state, stage, sums[0], sides)
    alive, changed, recorded = settle(state, stage, sides, neurons.arrivals, ridge_side, events, recorded)
    if changed:
        sort_layout(state, stage.layout, stage.live)
        stage = Stage(stage.layout, stage.blocks, alive, stage.rates, stage.tree, stage.places)
        summarize_blocks(stage, neurons.spans)
        velocity(state, stage, sums, rate)
        one_sided_velocities(state, stage, sums[0], sides)
    return stage, recorded


@njit(cache=True, **LEAN)
def _follow(
    neurons: Neurons,
    stage: Stage,
    t: float,
    h: float,
    until: float,
    options: Options,
    trial: Trial,
    history: History,
) -> End:
    """Integrate in place."""
    state, rate, sums, width = neurons.state, neurons.rate, neurons.sums, neurons.state.shape[1]
    steps, recorded, sides = Signed(0), Signed(0), trial.scratch[2]
    while True:
        settled = recorded
        stage, recorded = _settled(neurons, stage, options.ridge_side, sides, history.events, recorded)
        for i in range(settled, recorded):
            history.event_times[i] = t
        if options.keep and steps > 0:
            _unsort(state, stage.layout, history.nodes[steps - 1, NODES.size - 1])
        history.times[steps], history.losses[steps] = t, stage_loss(state, stage)
        norm = _gradient_norm(stage, rate, sides)
        steps_left, events_left = options.max_steps - steps, options.max_events - recorded
        status = _reason_to_stop(norm, until - t, steps_left, events_left, width, options)
        if status >= 0:
            return End(status, h, steps, recorded)
        if h <= 0.0:
            h = first_length(state, rate, stage.live, options.tolerances)
        # A last step hardly longer than planned is better than one more, tiny, step.
        allowed = until - t if t + 1.01 * h >= until else h
        start, smallest = Start(state, rate, sums[0]), 4e-16 * abs(t) + 1e-200
        length, suggested = advance(
            start, stage, options.tolerances, allowed, smallest, trial, neurons.arrivals, history.counts
        )
        if length == 0.0:
            return End(STEP_TOO_SMALL, h, steps, recorded)
        if options.keep:
            _store_nodes(state, trial, stage, history.nodes[steps])
        h = max(suggested, h) if length == allowed < h else suggested
        t = until if length == until - t else t + length
        for j in range(stage.live):
            state[KNOT, j], state[OUTER, j] = trial.end[KNOT, j], trial.end[OUTER, j]
        steps += 1


def integrate(start: FlowState, data: Locations, until: float, options: Options) -> FlowResult:
    """Follow b' = −rate_inner ∂L/∂b, c' = −rate_outer ∂L/∂c for L = ½ Σ r² from ``start`` to ``until``.

    ``data``: what ``stage.summarize`` returns for the sorted data (repeated x allowed). ``until`` may be
    infinite if ``gradient_stop`` is positive.
    """
    width, most = start.knots.size, options.max_steps
    neurons, live = arrange(start, data)
    history = History(
        np.empty(most + 1),
        np.empty(most + 1),
        np.empty((most if options.keep else 0, NODES.size, 2 * width)),
        np.empty(options.max_events),
        np.empty((options.max_events, 3), dtype=np.int64),
        np.zeros(5, dtype=np.int64),
    )
    layout = neurons.layout
    stage = Stage(layout, neurons.blocks, live, options.rates, data.tree, data.places)
    status, h, steps, recorded = _follow(
        neurons, stage, start.time, start.length, float(until), options, new_trial(width), history
    )
    end, held = np.empty((2, width)), np.full(width, -1)
    end[:, layout[NEURON]] = neurons.state
    on = layout[HELD] >= 0
    held[layout[NEURON, on]] = data.starts[layout[HELD, on]]
    events = history.events[:recorded]
    events[:, 2] = data.starts[events[:, 2]]
    times = history.times[: steps + 1]
    return FlowResult(
        status,
        FlowState(end[0], end[1], held, float(times[-1]), h),
        times,
        history.losses[: steps + 1],
        history.nodes[:steps],
        history.event_times[:recorded],
        events,
        history.counts,
    )
