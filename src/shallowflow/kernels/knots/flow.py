"""Event-driven gradient flow of a knot network f(x) = Σ_j c_j relu(x − b_j), in O(width) per step.

The flow (3.1) of Ainsworth & Shin 2020 [plateau] is smooth inside a *stage*, stiff, and its velocity jumps
where a knot meets a data point. So it is followed by an adaptive, stiffly accurate Rosenbrock method of
order 5 (``stiff_step``) that stops wherever a knot meets a data point, decides there what the
differential inclusion says and goes on. Summaries of the data between two knots (``stage``)
make a step's cost independent of the number of data points.

``integrate`` can be called again with the state it returned: a run may be cut into calls anywhere without
changing a bit of it.

**A step** is tried with the suggested
length. It is repeated shorter if its error is above the tolerances (standard control for an estimate of order
5), if it would step over an unstable direction, or if an event happens before its end; then it ends there. An
event is a free knot that leaves the gap between its two neighbouring data points, or a knot held on a data
point that is drawn away (``stage`` says what happens then). Both are read off the step's interpolant, within
fractions of the knot's error tolerance; the tolerance is what the step itself may be wrong by.

**Exits.** A step may end with a knot up to a *window* (``WINDOW`` × tolerance) beyond a data point.
Otherwise it is to be repeated, shortened to where the interpolant is half a window beyond. Passages are
found from the Bernstein form of the interpolant, whose convex hull proves of every knot that it did not
leave its gap and come back undetected. A knot that has just left a data point and is back on it at the end of
the step (``RETURNING``) has more likely been misplaced by the step's error: a shorter step decides.

**Releases.** The pull is looked at in the interpolant's nodes. It counts as soon as the held knot would have
moved by more than its tolerance, and is located just *after* its change of sign, by so little that the knot
would have moved by less than a window. Were it located before, or released while too weak to be distinguished
from the error of a step, the knot would be held again at once, and so on for ever.

**False alarms.** The interpolant is only a polynomial: in stiff directions it may see an event that does not
happen. The step that was shortened for it then shows nothing at its end; the long step is tried again,
looking at its end only, where the method is most accurate. If there, too, the place found for the event
proves empty, lengths in between are tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from shallowflow.kernels.knots.stage import (
    ABSENT,
    FIRST,
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
    seat_arrivals,
    settle,
    sort_layout,
    stage_loss,
    summarize_blocks,
    velocity,
)
from shallowflow.kernels.knots.stiff_step import (
    Start,
    Trial,
    attempt_step,
    error_norm,
    first_length,
    interpolate,
    new_trial,
    set_interpolant,
    tolerance_at,
)
from shallowflow.kernels.shared.compilation import INTERNAL, LEAN, ONCE, Signed

WINDOW = 0.01
NEVER, RETURNING = 2.0, -1.0
# Chebyshev-Lobatto points of [0, 1]: values there determine the interpolant, a polynomial of degree 4.
NODES = (1.0 - np.cos(np.pi * np.arange(5) / 4.0)) / 2.0


@njit(cache=True, **INTERNAL)
def first_passage(control: FloatArray, sign: float, level: float, limit: float, stack: FloatArray) -> float:
    """Smallest s in [0, limit) where sign · (quartic in Bernstein form (5,)) reaches ``level``, or ``NEVER``.

    Depth-first bisection (de Casteljau): where all control points are below the level there is no passage.
    Rows of ``stack`` (64, 7): control points, begin and width of a part.
    """
    points, begins, widths = stack[:, :5], stack[:, 5], stack[:, 6]
    for i in range(5):
        points[0, i] = sign * control[i]
    begins[0], widths[0] = 0.0, 1.0
    top = 0
    while top >= 0:
        highest = points[top, 0]
        for i in range(1, 5):
            highest = max(highest, points[top, i])
        if highest < level or begins[top] >= limit:
            top -= 1
            continue
        if points[top, 0] >= level or widths[top] < 1e-14:
            return float(begins[top])
        # The right half stays in place, the left half goes on top of it and is looked at first.
        widths[top] *= 0.5
        begins[top + 1], widths[top + 1] = begins[top], widths[top]
        begins[top] += widths[top]
        for degree in range(5):
            points[top + 1, degree] = points[top, 0]
            for i in range(4 - degree):
                points[top, i] = 0.5 * (points[top, i] + points[top, i + 1])
        top += 1
    return NEVER


@njit(cache=True, **INTERNAL)
def exit_through(
    sign: float,
    place: float,
    tolerance: float,
    limit: float,
    ends_only: bool,
    patient: bool,
    stack: FloatArray,
) -> float:
    """Fraction (< limit) of the step at which a knot leaves its gap at x = ``place``, otherwise ``limit``.

    ``stack``: its last row starts with the knot's interpolant in Bernstein form; sign = 1 for the upper end
    of the gap, −1 for the lower one. See ``exit_fraction`` for the two flags.
    """
    control = stack[-1]
    beyond, level = sign * (control[4] - place), sign * place
    if patient and abs(control[0] - place) <= 1e-15 * abs(place) + 1e-300:
        if beyond >= 0.0 or (
            not ends_only and first_passage(control, sign, level + tolerance, limit, stack) < limit
        ):
            return RETURNING
        return limit
    window = WINDOW * tolerance
    if beyond > window or (
        not ends_only and first_passage(control, sign, level + window, limit, stack) < limit
    ):
        return float(min(limit, first_passage(control, sign, level + 0.5 * window, limit, stack)))
    return limit


@njit(cache=True, **INTERNAL)
def exit_fraction(
    state: FloatArray,
    trial: Trial,
    stage: Stage,
    tolerances: tuple[float, float],
    ends_only: bool,
    patient: bool,
) -> float:
    """Fraction of the step at which the first free knot is half a window outside its gap, or 1.

    Knots that stay within a window of their gap do not count, nor, with ``ends_only``, those that are back
    in it at the end. If ``patient``, a knot that has just left a data point and comes back to it gives
    ``RETURNING``.
    """
    layout, places, dense, stack = stage.layout, stage.places, trial.dense, trial.stack
    earliest, control = 1.0, stack[-1]
    for j in range(stage.live):
        if layout[HELD, j] >= 0:
            continue
        start, end = state[KNOT, j], trial.end[KNOT, j]
        k1, k2, k3 = dense[0, KNOT, j], dense[1, KNOT, j], dense[2, KNOT, j]
        second = 0.75 * start + 0.25 * (end + k1)
        third = 0.5 * (start + end) + (k1 + 0.5 * k2) / 3.0
        fourth = 0.25 * (start + k1 + k2 + k3) + 0.75 * end
        highest = max(max(second, third), max(fourth, end))
        lowest = min(min(second, third), min(fourth, end))
        place = layout[FIRST, j]
        upper, lower = places[place], places[place - 1] if place > 0 else -np.inf
        if lowest > lower and highest < upper:
            continue
        control[0], control[1], control[2], control[3], control[4] = start, second, third, fourth, end
        for sign in (1.0, -1.0):
            bound = upper if sign > 0.0 else lower
            if earliest != RETURNING and (highest >= bound if sign > 0.0 else lowest <= bound):
                tolerance = tolerance_at(bound, tolerances)
                earliest = exit_through(sign, bound, tolerance, earliest, ends_only, patient, stack)
        if earliest == RETURNING:
            break
    return earliest


@njit(cache=True, **INTERNAL)
def strongest_pull(
    state: FloatArray, stage: Stage, tolerances: tuple[float, float], scratch: FloatArray
) -> tuple[float, int]:
    """Largest velocity at which a held knot is drawn off its data point, and the location of that point.

    The velocity is in tolerances per unit of time; if it is not positive, all knots stay. ``scratch[1:4]``
    (·, 2, n) is overwritten.
    """
    velocity(state, stage, scratch[1], scratch[3])
    one_sided_velocities(state, stage, scratch[1, 0], scratch[2])
    largest, place = -np.inf, -1
    for j in range(stage.live):
        if stage.layout[HELD, j] >= 0:
            pull = max(-scratch[2, 0, j], scratch[2, 1, j]) / tolerance_at(state[KNOT, j], tolerances)
            if pull > largest:
                largest, place = pull, stage.layout[HELD, j]
    return largest, place


@njit(cache=True, **INTERNAL)
def pull_at(
    fraction: float, state: FloatArray, trial: Trial, stage: Stage, tolerances: tuple[float, float]
) -> float:
    """The strongest pull at a fraction of the step."""
    interpolate(state, trial, stage.live, fraction, trial.scratch[0])
    return float(strongest_pull(trial.scratch[0], stage, tolerances, trial.scratch)[0])


@njit(cache=True, **INTERNAL)
def release_fraction(
    state: FloatArray,
    trial: Trial,
    stage: Stage,
    h: float,
    limit: float,
    tolerances: tuple[float, float],
    ends_only: bool,
) -> tuple[float, bool]:
    """Fraction (≤ ``limit``) of the step just after the first release of a held knot; second: is there one?

    h is the length of the step. With ``ends_only`` the pull is looked at in the last node only.
    """
    before = 0.0
    for node in range(NODES.size - 1 if ends_only else 1, NODES.size):
        after = min(NODES[node], limit)
        pull = pull_at(after, state, trial, stage, tolerances)
        if pull * h * (after - before) > 1.0:
            while pull * h * (after - before) > WINDOW and after - before > 1e-14:
                middle = 0.5 * (before + after)
                closer = pull_at(middle, state, trial, stage, tolerances)
                if closer > 0.0:
                    after, pull = middle, closer
                else:
                    before = middle
            return after, True
        before = after
        if before >= limit:
            break
    return limit, False


ATTEMPTS, REJECTED, UNSTABLE, SHORTENED, FALSE_ALARMS = range(5)
# After so many repetitions the place of an event is known to rounding, and the step is taken as it is.
MAX_SHORTENINGS = 40
# A knot that has just left a data point and comes back in ever shorter steps does come back.
MAX_RETURNS = 3
# False alarms in one step after which it is taken as short as they made it.
MAX_FALSE_ALARMS = 8


@njit(cache=True, **INTERNAL)
def advance(
    start: Start,
    stage: Stage,
    tolerances: tuple[float, float],
    h: float,
    smallest: float,
    trial: Trial,
    arrivals: IntArray,
    counts: IntArray,
) -> tuple[float, float]:
    """Find the next step: the longest, of at most h, that meets the tolerances and ends at the first event.

    Returns its length (0 if it would be below ``smallest``) and the length suggested for the step after it.
    End and interpolant are in ``trial``, knots that reached a data point put onto it (``seat_arrivals``).
    """
    state, live = start.state, stage.live
    suggested, alarmed, shortenings, returns, false_alarms = 0.0, 0.0, 0, 0, 0
    any_held, releasing = False, False
    for j in range(live):
        any_held = any_held or stage.layout[HELD, j] >= 0
    while h >= smallest or (shortenings > 0 and h > 0.0):
        counts[ATTEMPTS] += 1
        if not attempt_step(start, stage, h, trial):
            counts[UNSTABLE] += 1
            h *= 0.5
            continue
        error = error_norm(state, trial, live, tolerances)
        if not error <= 1.0:
            counts[REJECTED] += 1
            h *= max(0.2, 0.9 * error**-0.2) if error < np.inf else 0.1
            continue
        if shortenings == 0:
            suggested, alarmed = h * min(5.0, 0.9 * max(error, 1e-10) ** -0.2), h
        set_interpolant(trial, live)
        ends_only, patient = false_alarms > 0, returns < MAX_RETURNS
        part = exit_fraction(state, trial, stage, tolerances, ends_only, patient)
        if part == RETURNING:
            counts[REJECTED] += 1
            returns += 1
            h *= 0.25
            continue
        if any_held:
            earlier, found = release_fraction(state, trial, stage, h, part, tolerances, ends_only)
            releasing = found or (releasing and part == 1.0)
            part = earlier
        if part < 1.0 and shortenings < MAX_SHORTENINGS:
            counts[SHORTENED] += 1
            shortenings += 1
            suggested = alarmed
            h *= part
            continue
        let_go = -1
        if releasing:
            pull, place = strongest_pull(trial.end, stage, tolerances, trial.scratch)
            let_go = place if pull > 0.0 else -1
        arrived = seat_arrivals(trial.end, stage, let_go, arrivals)
        if shortenings == 0 or arrived or let_go >= 0:
            return h, suggested
        if ends_only and (2.0 * h > alarmed or false_alarms == MAX_FALSE_ALARMS):
            return h, suggested
        # Nothing happens here: the interpolant erred between its ends, as it may in stiff directions.
        counts[FALSE_ALARMS] += 1
        h = np.sqrt(h * alarmed) if ends_only else alarmed
        false_alarms += 1
        shortenings, releasing = 0, False
    return 0.0, h


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
        (s, 5, 2·width): knots, then outer weights at the Chebyshev–Lobatto fractions ``NODES`` of each
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
